"""Which requests to the console are allowed, decided before anything is done.

- At a loopback address `Host` must name this machine: a web page whose domain was made to stand for it is refused.
- With a token, all but the page's own files needs `Authorization: Bearer TOKEN`, or a one-time token, which a link
  of the page carries instead and which is good for one download.
- A page of another origin is refused whatever it asks for. A request that changes something also needs the change
  token, which the page reads from `/api/session`, and a page of another origin cannot.
- With `--read-only` nothing is changed at all.

No answer may be framed, read by other origins or run as anything but what it is.
"""

from __future__ import annotations

import hmac
import json
import secrets
import time
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any
from urllib.parse import parse_qs

from ottla.remote.address import names_domain
from ottla.remote.token import is_allowed

CHANGE_HEADER = "x-ottla-change"
_ONE_TIME_S = 30.0
_ONE_TIME_MAX = 100
_READS = ("GET", "HEAD")
_OLD_PAGE = "this page is older than the console, or not its page: load it again."
_CONTENT_SECURITY_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
    )
)
_HEADERS = (
    (b"content-security-policy", _CONTENT_SECURITY_POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
)

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]


class RequestChecks:
    """ASGI: passes allowed requests on to `app`, and refuses the rest with one sentence."""

    def __init__(self, app: App, *, token: str | None, read_only: bool, local_only: bool) -> None:
        self._app = app
        self._token = token
        self._read_only = read_only
        self._local_only = local_only
        self.change_token = secrets.token_urlsafe(32)
        self._one_time_tokens: dict[str, float] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def guarded(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                headers = list(message["headers"])
                if not any(name.lower() == b"cache-control" for name, _ in headers):
                    headers.append((b"cache-control", b"no-store"))
                message = {**message, "headers": [*headers, *_HEADERS]}
            await send(message)

        refused = self._refused(scope)
        if refused is None:
            await self._app(scope, receive, guarded)
            return
        status, sentence = refused
        told: dict[str, Any] = {"error": sentence}
        if sentence == _OLD_PAGE:
            # The page asks for the change token of this console, and tries again.
            told["is_old_page"] = True
        body = json.dumps(told).encode()
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
        if status == 401:
            headers.append((b"www-authenticate", b"Bearer"))
        await guarded({"type": "http.response.start", "status": status, "headers": headers})
        await guarded({"type": "http.response.body", "body": body})

    def one_time_token(self) -> str:
        """A token that lets one download pass, for half a minute."""
        now = time.monotonic()
        self._one_time_tokens = {each: until for each, until in self._one_time_tokens.items() if until > now}
        while len(self._one_time_tokens) >= _ONE_TIME_MAX:
            del self._one_time_tokens[next(iter(self._one_time_tokens))]
        made = secrets.token_urlsafe(24)
        self._one_time_tokens[made] = now + _ONE_TIME_S
        return made

    def _refused(self, scope: Scope) -> tuple[int, str] | None:
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
        host = headers.get("host", "")
        if self._local_only and names_domain(host):
            return 403, f"the header Host is {host!r:.80}: at this address it must be localhost or 127.0.0.1."
        if not scope["path"].startswith("/api/"):
            return None if scope["method"] in _READS else (405, "this is read with GET.")
        if self._is_foreign(headers, host):
            return 403, "a page of another origin may not use the console."
        is_change = scope["method"] not in _READS
        is_known = is_allowed(headers.get("authorization"), self._token)
        if not is_known and (is_change or not self._take_one_time_token(scope)):
            return 401, "the token is missing or not the right one."
        if not is_change:
            return None
        if self._read_only:
            return 403, "this console is read-only: start it without --read-only to change something."
        if not hmac.compare_digest(headers.get(CHANGE_HEADER, "").encode(), self.change_token.encode()):
            return 403, _OLD_PAGE
        return None

    @staticmethod
    def _is_foreign(headers: dict[str, str], host: str) -> bool:
        if headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
            return True
        origin = headers.get("origin")
        return origin is not None and origin.partition("://")[2] != host

    def _take_one_time_token(self, scope: Scope) -> bool:
        given = parse_qs(scope["query_string"].decode("latin-1")).get("one_time_token", [""])[0]
        until = self._one_time_tokens.pop(given, 0.0)
        return until > time.monotonic()
