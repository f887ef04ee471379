"""HTTP/1.1 as a registry needs it: connections that stay, requests with a body of a known length, JSON answers.

One thread serves all connections. A request for a schema by its id, which is most of what is asked of a registry, is
recognized by its first bytes and answered from memory; everything else is taken apart. What comes from outside is
bounded: the head, the body, the time a request may take, the number of connections.
"""

from __future__ import annotations

import contextlib
import logging
import socket
import time
from collections.abc import Callable
from functools import partial
from http import HTTPStatus
from typing import Any, Protocol
from urllib.parse import urlsplit

logger = logging.getLogger("ottla.registry")

CONTENT_TYPE = "application/vnd.schemaregistry.v1+json"
MEDIA_TYPES = (CONTENT_TYPE, "application/vnd.schemaregistry+json", "application/json")
HEAD_BYTES_MAX = 32_768
BODY_BYTES_MAX = 20 << 20
REQUEST_S = 30.0
IDLE_S = 600.0
_READ_BYTES = 65_536
_REASONS = {status.value: status.phrase for status in HTTPStatus}
_METHODS = ("GET", "POST", "PUT", "DELETE", "HEAD")
_END = b"\r\n\r\n"
_NOT_ACCEPTABLE = (
    b'{"error_code":406,"message":"HTTP 406 Not Acceptable: answers are %s."}' % ", ".join(MEDIA_TYPES).encode()
)

# What a body may be said to be; without a word it is taken for JSON, too.
_BODY_TYPES = (*MEDIA_TYPES, "application/octet-stream")
_UNSUPPORTED_MEDIA_TYPE = (
    b'{"error_code":415,"message":"HTTP 415 Unsupported Media Type: send the header Content-Type: %s."}'
    % CONTENT_TYPE.encode()
)

# Status and body of an answer.
Respond = Callable[[int, bytes], None]


class Handler(Protocol):
    """What answers requests."""

    def quick(self, head: bytes) -> bytes | None:
        """The whole response to a request whose head is all of it; None where it must be taken apart."""

    def is_let_in(self, headers: dict[str, str]) -> bool:
        """Whether the body of a request with this head is waited for."""

    def handle_request(
        self, method: str, path: str, query: str, headers: dict[str, str], body: bytes, respond: Respond
    ) -> None:
        """Call `respond` once, now or later, in the loop's thread."""


class Loop(Protocol):
    """Of the event loop, what a connection needs."""

    def add_reader(self, sock: Any, callback: Callable[..., object], *arguments: Any) -> None: ...
    def remove_reader(self, sock: Any) -> None: ...
    def add_writer(self, sock: Any, callback: Callable[..., object], *arguments: Any) -> None: ...
    def remove_writer(self, sock: Any) -> None: ...


def media_type(accept: str) -> str | None:
    """The media type to answer with, by the request's header Accept; None where there is none that it takes."""
    best, most = None, 0.0
    for each in (accept or "*").split(","):
        wanted, *parameters = (part.strip().lower() for part in each.split(";"))
        weight = next((_weight(part[2:]) for part in parameters if part.startswith("q=")), 1.0)
        found = CONTENT_TYPE if wanted == "application/*" or wanted.partition("/")[0] == "*" else wanted
        if found in MEDIA_TYPES and weight > most:
            best, most = found, weight
    return best


def is_body_type(content_type: str) -> bool:
    """Whether a body of this type is read."""
    return content_type.partition(";")[0].strip().lower() in ("", *_BODY_TYPES)


def _weight(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 1.0


def response(
    status: int,
    body: bytes,
    *,
    kind: str = CONTENT_TYPE,
    head_only: bool = False,
    close: bool = False,
    more: str = "",
) -> bytes:
    """A whole response; `kind` is its media type."""
    head = (
        f"HTTP/1.1 {status} {_REASONS.get(status, 'Error')}\r\nContent-Type: {kind}\r\n"
        f"Content-Length: {len(body)}\r\n{more}{'Connection: close' + chr(13) + chr(10) if close else ''}\r\n"
    ).encode()
    return head if head_only else head + body


class _Malformed(Exception):
    """A request that cannot be understood; status and sentence."""

    def __init__(self, status: int, told: str) -> None:
        super().__init__(told)
        self.status = status


class HttpConnection:
    """One client: its requests are answered one after the other; `is_brief`: its first one, and no other."""

    __slots__ = ("_body_size", "_handler", "_head", "_in", "_is_brief", "_is_busy", "_is_ending", "_is_proceeding",
                 "_loop", "_on_close", "_out", "_socket", "since_s")  # fmt: skip

    def __init__(
        self,
        loop: Loop,
        sock: Any,
        handler: Handler,
        on_close: Callable[[HttpConnection], None],
        *,
        is_brief: bool = False,
    ) -> None:
        self._loop, self._socket, self._handler, self._on_close = loop, sock, handler, on_close
        self._in = bytearray()
        self._out = bytearray()
        self._is_busy = self._is_ending = self._is_proceeding = False
        self._is_brief = is_brief
        self._head: tuple[str, str, str, dict[str, str]] | None = None
        self._body_size = 0
        # When the last answer went out, or the first byte of a request came in.
        self.since_s = time.monotonic()
        loop.add_reader(sock, self._readable)

    def is_late(self, now_s: float) -> bool:
        """Whether it has waited too long: for the rest of a request, or for a request."""
        is_awaited = self._in or self._out or self._is_brief
        return not self._is_busy and now_s - self.since_s > (REQUEST_S if is_awaited else IDLE_S)

    def close(self) -> None:
        """Hang up. Closing twice is allowed."""
        sock = self._socket
        if sock is None:
            return
        self._loop.remove_reader(sock)
        self._loop.remove_writer(sock)
        self._socket = None
        sock.close()
        self._on_close(self)

    def _readable(self) -> None:
        try:
            content = self._socket.recv(_READ_BYTES)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            content = b""
        if not content:
            self.close()
            return
        if not self._in and not self._is_busy:
            if content.endswith(_END):
                quick = self._handler.quick(content)
                if quick is not None:
                    self._send(quick)
                    return
            self.since_s = time.monotonic()
        self._in += content
        self._proceed()
        if len(self._in) > BODY_BYTES_MAX + HEAD_BYTES_MAX and self._socket is not None:
            # The client goes on sending while its last request is answered: memory must stay bounded.
            self.close()

    def _proceed(self) -> None:
        # An answer that is given at once comes back here by `_respond`.
        if self._is_proceeding:
            return
        self._is_proceeding = True
        try:
            self._answer_in_order()
        finally:
            self._is_proceeding = False

    def _answer_in_order(self) -> None:
        # As long as the client has not taken the last answer (`_out`), no further request is answered.
        while self._in and not (self._is_busy or self._is_ending or self._out) and self._socket is not None:
            try:
                if self._head is None and not self._take_head():
                    return
                assert self._head is not None
                if len(self._in) < self._body_size:
                    if self._handler.is_let_in(self._head[3]):
                        return
                    # Its body is not waited for.
                    self._is_ending = True
                    self._body_size = len(self._in)
                (method, path, query, headers), self._head = self._head, None
                body = bytes(self._in[: self._body_size])
                del self._in[: self._body_size]
            except _Malformed as error:
                self._is_ending = True
                told = str(error).replace('"', "'")
                self._send(
                    response(error.status, f'{{"error_code":{error.status},"message":"{told}"}}'.encode(), close=True)
                )
                return
            self._is_busy = True
            self._is_ending |= self._is_brief or headers.get("connection", "").lower() == "close"
            kind = media_type(headers.get("accept", ""))
            respond = partial(self._respond, method, kind or CONTENT_TYPE)
            if kind is None:
                respond(406, _NOT_ACCEPTABLE)
            elif body and not is_body_type(headers.get("content-type", "")):
                respond(415, _UNSUPPORTED_MEDIA_TYPE)
            else:
                self._handler.handle_request(method, path, query, headers, body, respond)

    def _take_head(self) -> bool:
        """Whether there is a whole head."""
        end = self._in.find(_END, 0, HEAD_BYTES_MAX)
        if end < 0:
            if not self._in[:1].isalpha():
                # A client that begins a TLS handshake sends nothing more until it is answered: refuse it at once.
                raise _Malformed(400, "the request does not begin with a method of HTTP; there is no TLS here.")
            if len(self._in) >= HEAD_BYTES_MAX:
                raise _Malformed(431, f"the head of the request has more than {HEAD_BYTES_MAX} bytes.")
            return False
        lines = self._in[:end].decode("latin-1").split("\r\n")
        del self._in[: end + len(_END)]
        words = lines[0].split(" ")
        if len(words) != 3 or not words[2].startswith("HTTP/1."):
            raise _Malformed(400, "the request does not begin with METHOD PATH HTTP/1.1.")
        method, target, version = words
        if method not in _METHODS:
            raise _Malformed(405, f"the methods are {', '.join(_METHODS)}.")
        headers: dict[str, str] = {}
        for line in lines[1:]:
            name, colon, value = line.partition(":")
            name = name.lower()
            # A proxy in front may read such a header in another way, and see another body (request smuggling).
            is_one = colon and name == name.strip() and not {"\r", "\n", "\0"} & {*line}
            if not is_one or (name == "content-length" and name in headers):
                raise _Malformed(400, "a header of the request is not NAME: VALUE, or is there twice.")
            headers[name] = value.strip()
        if version == "HTTP/1.0":
            headers.setdefault("connection", "close")
        self._body_size = self._size(headers)
        try:
            url = urlsplit(target)
        except ValueError:
            raise _Malformed(400, "the request has no valid path.") from None
        self._head = method, url.path, url.query, headers
        is_asking = headers.get("expect", "").lower() == "100-continue"
        if is_asking and self._body_size > len(self._in) and self._handler.is_let_in(headers):
            self._send(b"HTTP/1.1 100 Continue\r\n\r\n")
        return True

    def _size(self, headers: dict[str, str]) -> int:
        if "transfer-encoding" in headers:
            raise _Malformed(411, "a body needs the header Content-Length, and no Transfer-Encoding.")
        text = headers.get("content-length", "0")
        if not (text.isascii() and text.isdecimal()):
            raise _Malformed(400, "the header Content-Length must be a number.")
        if len(text) > 12 or int(text) > BODY_BYTES_MAX:
            raise _Malformed(413, f"the body has more than {BODY_BYTES_MAX} bytes.")
        return int(text)

    def _respond(self, method: str, kind: str, status: int, body: bytes) -> None:
        if self._socket is None:
            return
        more = 'WWW-Authenticate: Basic realm="schema registry"\r\n' if status == 401 else ""
        self._is_busy = False
        self.since_s = time.monotonic()
        self._send(response(status, body, kind=kind, head_only=method == "HEAD", close=self._is_ending, more=more))
        if self._in:
            self._proceed()

    def _send(self, content: bytes) -> None:
        if self._out:
            self._out += content
            return
        try:
            sent = self._socket.send(content)
        except (BlockingIOError, InterruptedError):
            sent = 0
        except OSError:
            self.close()
            return
        if sent < len(content):
            self._out += content[sent:]
            self._loop.add_writer(self._socket, self._writable)
            # As long as the client does not take its answer, nothing more is read from it.
            self._loop.remove_reader(self._socket)
        elif self._is_ending and not self._is_busy:
            self._finish()

    def _writable(self) -> None:
        try:
            del self._out[: self._socket.send(self._out)]
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            self.close()
            return
        if self._out:
            return
        self._loop.remove_writer(self._socket)
        if self._is_ending and not self._is_busy:
            self._finish()
        else:
            self._loop.add_reader(self._socket, self._readable)
            self._proceed()

    def _finish(self) -> None:
        """Close so that the last answer is read: what the client still sends is not answered by a reset."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_WR)
            self._socket.recv(_READ_BYTES)
        self.close()


class TlsConnection:
    """A socket through TLS with `recv` and `send` of a plain one; imported with its listener's context."""

    __slots__ = ("_tls",)

    def __init__(self, tls: Any) -> None:
        self._tls = tls

    def fileno(self) -> int:
        """The descriptor to wait on."""
        found: int = self._tls.fileno()
        return found

    def recv(self, size: int) -> bytes:
        """As a plain socket's; all that is decrypted, since no selector sees it."""
        # Imported here: most registries have no TLS.
        from ottla.sockets.tls import HandshakeFailed

        buffer = memoryview(bytearray(size))
        try:
            content = bytes(buffer[: self._tls.recv_into(buffer)])
            while content and self._tls.pending():
                content += buffer[: self._tls.recv_into(buffer)]
        except HandshakeFailed as error:
            logger.info("a client cannot connect to the registry: %s", error)
            raise ConnectionResetError from None
        return content

    def send(self, content: bytes | bytearray) -> int:
        """As a plain socket's."""
        sent: int = self._tls.sendmsg([bytes(content)])
        return sent

    def shutdown(self, _how: int) -> None:
        """Does nothing: TLS is not ended in one direction alone."""

    def close(self) -> None:
        """Say goodbye and close."""
        self._tls.close()
