"""Gets tokens by OAuth's client credentials (RFC 6749, 4.4) from an endpoint, as Kafka's own clients do (KIP-768).

The request is a POST with the client's id and secret as HTTP's basic authorization; the answer is JSON with an
`access_token`. The token ends by `expires_in` or by its own claim `exp`, whichever is sooner. An endpoint that cannot
be reached, or answers 408, 429 or 5xx, is asked again until `sasl.login.retry.backoff.max.ms` are over. Redirections
are not followed: the secret would be sent to another address. Proxies are those of the environment (`https_proxy`).

Invariant: no error's text has the secret, a token, or a part of the URL that may be a secret.

Imported when a client has an endpoint.
"""

from __future__ import annotations

import binascii
import http.client
import json
import re
import ssl
import time
from base64 import b64encode, urlsafe_b64decode
from collections.abc import Callable
from functools import partial
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import quote_plus, urlencode
from urllib.request import HTTPHandler, HTTPRedirectHandler, HTTPSHandler, Request, build_opener

from ottla.clock import MachineClock
from ottla.connection.oauth_settings import (
    CLIENT_ID,
    CLIENT_SECRET,
    ENDPOINT,
    SCOPE,
    ClientCredentials,
    OAuthBearerToken,
)
from ottla.errors import OttlaError

# Far more than a token needs: a larger answer is not read to its end.
_ANSWER_BYTES_MAX = 1_000_000
_RETRIED = (408, 429)
_TOLD_MAX = 200

# What RFC 6749 calls the error -> what to do.
_ADVICE = {
    "invalid_client": f"check {CLIENT_ID} and {CLIENT_SECRET}",
    "unauthorized_client": "have this client allowed to get tokens by its own credentials",
    "unsupported_grant_type": "have this client allowed to get tokens by its own credentials",
    "invalid_scope": f"check {SCOPE}",
    "invalid_request": f"check {SCOPE} and {ENDPOINT}",
}


class TokenEndpointError(OttlaError):
    """There is no token; the text has the endpoint, its error, and what to do."""


class _Passing(Exception):
    """An error that may pass; its text is for the TokenEndpointError if it does not."""


class TokenEndpoint:
    """One client's token endpoint; calling it gets a token. ConfigError for TLS settings that cannot be used."""

    def __init__(self, credentials: ClientCredentials, clock: MachineClock) -> None:
        self._credentials = credentials
        self._clock = clock
        self._shown_url = credentials.shown_url
        handlers: list[Any] = [_NoRedirection()]
        read_timeout_s = credentials.read_timeout_ms / 1000
        if credentials.url.startswith("https"):
            handlers.append(_Https(read_timeout_s, _tls_context(credentials)))
        else:
            handlers.append(_Http(read_timeout_s))
        self._opener = build_opener(*handlers)

    def __call__(self) -> OAuthBearerToken:
        """A new token; TokenEndpointError where there is none."""
        until_s = time.monotonic() + self._credentials.retry_backoff_max_ms / 1000
        pause_s = self._credentials.retry_backoff_ms / 1000
        while True:
            try:
                return self._token(self._ask())
            except _Passing as passing:
                left_s = until_s - time.monotonic()
                if left_s <= 0:
                    raise TokenEndpointError(str(passing)) from None
            time.sleep(min(pause_s, left_s))
            pause_s *= 2

    def _ask(self) -> bytes:
        try:
            with self._opener.open(self._request(), timeout=self._credentials.connect_timeout_ms / 1000) as response:
                content: bytes = response.read(_ANSWER_BYTES_MAX + 1)
        except HTTPError as error:
            with error:
                raise self._refused(error.code, error.read(_ANSWER_BYTES_MAX)) from None
        except URLError as error:
            raise self._unreachable(error.reason) from None
        except (OSError, http.client.HTTPException) as error:
            raise self._unreachable(error) from None
        if len(content) > _ANSWER_BYTES_MAX:
            raise TokenEndpointError(self._told("answered with more than a token", f"check {ENDPOINT}"))
        return content

    def _request(self) -> Request:
        credentials = self._credentials
        encoded: Callable[[str], str] = quote_plus if credentials.urlencode else str
        pair = f"{encoded(credentials.client_id)}:{encoded(credentials.client_secret)}"
        form = {"grant_type": "client_credentials"}
        if credentials.scope:
            form["scope"] = credentials.scope
        return Request(
            credentials.url,
            data=urlencode(form).encode(),
            headers={
                "Accept": "application/json",
                "Authorization": f"Basic {b64encode(pair.encode()).decode()}",
                "Content-Type": "application/x-www-form-urlencoded",
                "Cache-Control": "no-cache",
            },
            method="POST",
        )

    def _token(self, content: bytes) -> OAuthBearerToken:
        answer = _object(content)
        value = answer.get("access_token")
        if not isinstance(value, str) or not value.strip():
            raise TokenEndpointError(self._told("answered without an access_token", f"check {ENDPOINT}"))
        value = value.strip()
        ends_s = [_number(_claims(value).get("exp"))]
        lifetime_s = _number(answer.get("expires_in"))
        if lifetime_s is not None:
            ends_s.append(self._clock.wall_ms() / 1000 + lifetime_s)
        known = [end_s for end_s in ends_s if end_s is not None]
        return OAuthBearerToken(value, min(known) if known else None, self._credentials.extensions)

    # ---- what goes wrong ----------------------------------------------------------------------------------------

    def _told(self, what: str, advice: str) -> str:
        return f"the token endpoint {self._shown_url} {what}; {advice}"

    def _refused(self, status: int, content: bytes) -> Exception:
        answer = _object(content)
        kind = answer.get("error")
        kind = kind if isinstance(kind, str) and re.fullmatch(r"[\w.-]{1,60}", kind) else ""
        said = self._harmless(answer.get("error_description"))
        words = " ".join(word for word in (str(status), kind, f"({said})" if said else "") if word)
        passes = status >= 500 or status in _RETRIED
        if 300 <= status < 400:
            advice = f"it refers to another address, which is not followed: give that one as {ENDPOINT}"
        elif passes:
            advice = "try again later, or ask who runs it"
        else:
            advice = _ADVICE.get(kind) or f"check {CLIENT_ID if status in (401, 403) else ENDPOINT}"
        told = self._told(f"answered {words}", advice)
        return _Passing(told) if passes else TokenEndpointError(told)

    def _harmless(self, said: Any) -> str:
        """The endpoint's own description of an error, cut if it is long; "" if it has the secret in it."""
        if not isinstance(said, str) or self._credentials.client_secret in said:
            return ""
        words = " ".join(said.split())
        words = words if len(words) <= _TOLD_MAX else words[:_TOLD_MAX] + "..."
        return words.rstrip(".") if words.isprintable() else ""

    def _unreachable(self, reason: Any) -> Exception:
        if isinstance(reason, ssl.SSLCertVerificationError):
            told = f"has a certificate that is not trusted ({reason.verify_message or 'certificate verify failed'})"
            advice = "name who issued its certificate as ssl.truststore.location in sasl.jaas.config"
            return TokenEndpointError(self._told(told, advice))
        if isinstance(reason, TimeoutError):
            why = "no answer in time: sasl.login.connect.timeout.ms, sasl.login.read.timeout.ms"
        elif isinstance(reason, OSError):
            why = (reason.strerror or type(reason).__name__).lower()
        else:
            why = type(reason).__name__
        advice = f"check {ENDPOINT}, and whether this machine may connect to it"
        return _Passing(self._told(f"could not be reached ({why})", advice))


def _tls_context(credentials: ClientCredentials) -> ssl.SSLContext:
    """The TLS context by the settings `ssl.*` of sasl.jaas.config, as in Java; by default the system's authorities."""
    from ottla.client.tls import client_context
    from ottla.connection.security_settings import SECURITY_SETTINGS, SecuritySettings
    from ottla.connection.setting import read_settings
    from ottla.errors import ConfigError

    try:
        values, _ = read_settings(SECURITY_SETTINGS, {"security.protocol": "SSL", **credentials.tls})
        return client_context(SecuritySettings(values))
    except ConfigError as error:
        raise ConfigError(f"sasl.jaas.config, for the token endpoint: {error}") from None


def _object(content: bytes) -> dict[str, Any]:
    try:
        parsed = json.loads(content)
    except ValueError:
        return {}
    return parsed if isinstance(parsed, dict) else {}


def _claims(token: str) -> dict[str, Any]:
    """The claims of a JWT, unchecked (brokers check it); {} for other tokens."""
    parts = token.split(".")
    if len(parts) != 3:
        return {}
    try:
        return _object(urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    except (binascii.Error, ValueError):
        return {}


def _number(value: Any) -> float | None:
    """A positive number, which some endpoints write as text."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    return number if 0 < number < 1e12 else None


class _NoRedirection(HTTPRedirectHandler):
    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


class _Http(HTTPHandler):
    """With a timeout for reading that is not the one for connecting."""

    def __init__(self, read_timeout_s: float) -> None:
        super().__init__()
        self._kind = partial(_connection, http.client.HTTPConnection, read_timeout_s)

    def http_open(self, request: Request) -> Any:
        return self.do_open(self._kind, request)


class _Https(HTTPSHandler):
    """The same over TLS."""

    def __init__(self, read_timeout_s: float, context: ssl.SSLContext) -> None:
        super().__init__(context=context)
        self._kind = partial(_connection, http.client.HTTPSConnection, read_timeout_s, context=context)

    def https_open(self, request: Request) -> Any:
        return self.do_open(self._kind, request)


def _connection(kind: Any, read_timeout_s: float, host: str, **more: Any) -> Any:
    connection = kind(host, **more)
    connect = connection.connect

    def connect_then_wait_longer() -> None:
        connect()
        connection.sock.settimeout(read_timeout_s)

    connection.connect = connect_then_wait_longer
    return connection
