"""One HTTP connection: one request, one JSON answer.

What comes from outside is bounded: the time to send a request, its lines and headers (by `http.server`), its body. The
token is looked at before anything else. A page in a browser may send requests to this machine, too, and must not break
a cluster: browsers name the page in `Origin`, or say in `Sec-Fetch-Site` that a page asks (for an image or a script
without `Origin`), and such requests are refused. A page whose domain was made to stand for 127.0.0.1 (DNS rebinding)
may read without `Origin`, and its domain is in `Host`: at an address that only this machine reaches, requests to a
domain are refused.
"""

from __future__ import annotations

import io
import json
import logging
import socket
import time
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler
from typing import TYPE_CHECKING, Any

from ottla.printable import printable
from ottla.remote.address import names_domain
from ottla.remote.route import Refusal
from ottla.remote.token import is_allowed

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

logger = logging.getLogger("ottla.remote")

BODY_BYTES_MAX = 65_536
# For a whole request, and for a whole answer, so that a client that is very slow cannot keep a thread for ever.
_READ_S = 10.0
# How much is read of a request that was refused before it was read whole, and for how long: see `finish`.
_UNREAD_BYTES_MAX = 1 << 20
_UNREAD_S = 1.0
_READ_BYTES = 65_536

CarryOut = Callable[[str, str, Mapping[str, Any]], tuple[int, dict[str, Any]]]


class _Incoming(io.RawIOBase):
    """What a client sends; TimeoutError where that takes longer than `limit_s` in all."""

    def __init__(self, sock: socket.socket, limit_s: float) -> None:
        self._socket = sock
        self._limit_s = limit_s
        self._until = time.monotonic() + limit_s

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        left_s = self._until - time.monotonic()
        if left_s <= 0:
            raise TimeoutError
        self._socket.settimeout(left_s)
        try:
            return self._socket.recv_into(buffer)
        finally:
            # The answer has the whole time again.
            self._socket.settimeout(self._limit_s)


class HttpConnection(BaseHTTPRequestHandler):
    """Reads the request, has it carried out, and answers: `http.server` does all of it when the object is made."""

    protocol_version = "HTTP/1.1"
    timeout = _READ_S

    def __init__(
        self, sock: socket.socket, peer: str, token: str | None, carry_out: CarryOut, *, local_only: bool
    ) -> None:
        self._peer = peer
        self._token = token
        self._local_only = local_only
        self._carry_out = carry_out
        self._is_read = False
        super().__init__(sock, (peer, 0), None)  # type: ignore[arg-type]  # it asks no server for anything

    def setup(self) -> None:
        """Read from something that knows how long the whole request may take."""
        super().setup()
        self.rfile.close()
        self.rfile = io.BufferedReader(_Incoming(self.connection, self.timeout))

    def version_string(self) -> str:
        """The name in the header `Server`."""
        return "ottla"

    def log_message(self, format: str, *values: Any) -> None:
        """What `http.server` would write to stderr."""
        logger.debug("%s: " + format, self._peer, *values)

    def finish(self) -> None:
        """Let a client that still sends read the answer: it would be lost if the connection were just cut."""
        super().finish()
        if self._is_read:
            return
        self.connection.shutdown(socket.SHUT_WR)
        incoming, buffer = _Incoming(self.connection, _UNREAD_S), bytearray(_READ_BYTES)
        left = _UNREAD_BYTES_MAX
        while left > 0 and (count := incoming.readinto(buffer)):
            left -= count

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """What `http.server` itself finds wrong with a request."""
        self._answer(code, {"error": f"{message or self.responses[code][0]}."})

    def _serve(self) -> None:
        try:
            self._check()
            status, told = self._carry_out(self.command, self.path, self._body())
            self._answer(status, told)
        except Refusal as refusal:
            status = refusal.status
            self._answer(status, {"error": str(refusal)}, refusal.headers)
        if self.command != "GET":
            logger.info("%s: %s %s: %d", self._peer, self.command, printable(self.path), status)

    # A method that nobody knows is refused by `http.server`; these by the routes.
    do_GET = do_POST = do_DELETE = do_PUT = do_PATCH = do_HEAD = do_OPTIONS = _serve  # noqa: N815

    def _check(self) -> None:
        if not is_allowed(self.headers.get("Authorization"), self._token):
            what = "is not the right one" if "Authorization" in self.headers else "is missing"
            told = f"the token {what}: send the header Authorization: Bearer TOKEN."
            raise Refusal(401, told, **{"WWW-Authenticate": "Bearer"})
        # "none": the user has typed the address into the browser, so no page asks.
        by_page = self.headers.get("Sec-Fetch-Site", "none").strip().lower() != "none"
        if by_page or "Origin" in self.headers:
            what = "Sec-Fetch-Site" if by_page else "Origin"
            raise Refusal(403, f"pages in a browser may not control a cluster; programs send no header {what}.")
        if len(self.headers.get_all("Host", [])) > 1:
            raise Refusal(400, "the header Host must be there once.")
        host = self.headers.get("Host", "")
        if self._local_only and self._token is None and names_domain(host):
            raise Refusal(403, f"the header Host is {host!r:.80}: at this address it must be localhost or 127.0.0.1.")

    def _body(self) -> dict[str, Any]:
        size = self._body_bytes()
        if not size:
            self._is_read = True
            return {}
        if self.command != "POST":
            raise Refusal(400, f"{self.command} takes no body.")
        content_type = self.headers.get("Content-Type", "").partition(";")[0].strip().lower()
        if content_type != "application/json":
            raise Refusal(415, "a body must be JSON, with the header Content-Type: application/json.")
        try:
            content = self.rfile.read(size)
        except TimeoutError:
            raise Refusal(408, f"the body did not come within {_READ_S:g} s.") from None
        if len(content) < size:
            raise Refusal(400, f"the body ends after {len(content)} of {size} bytes.")
        self._is_read = True
        return _parsed(content)

    def _body_bytes(self) -> int:
        if "Transfer-Encoding" in self.headers:
            raise Refusal(411, "a body needs the header Content-Length, and no Transfer-Encoding.")
        lengths = self.headers.get_all("Content-Length", ["0"])
        length = lengths[0].strip()
        if len(lengths) > 1 or not (length.isascii() and length.isdecimal()):
            raise Refusal(400, "the header Content-Length must be one number.")
        if len(length) > 18 or int(length) > BODY_BYTES_MAX:
            raise Refusal(413, f"the body has more than {BODY_BYTES_MAX} bytes.")
        return int(length)

    def _answer(self, status: int, told: Mapping[str, Any], headers: Mapping[str, str] | None = None) -> None:
        self.close_connection = True
        # A client that names an unknown version of HTTP gets an answer with a status all the same.
        self.request_version = self.protocol_version
        content = json.dumps(told).encode() + b"\n"
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("Connection", "close")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)


def _parsed(content: bytes) -> dict[str, Any]:
    try:
        found = json.loads(content.decode(), parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        # Python's error about a number of thousands of digits would not tell the user what is wrong.
        where = f": {error.msg} at line {error.lineno}" if isinstance(error, json.JSONDecodeError) else ""
        raise Refusal(400, f"the body is not JSON{where}.") from None
    if not isinstance(found, dict):
        raise Refusal(400, 'the body must be a JSON object, such as {"kind": "lose_ack"}.')
    return found


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON")
