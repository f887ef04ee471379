"""Requests to registries over HTTP: connections that are kept, several addresses, retries, a timeout for each request.

The standard library's client is used: httpx takes seven times as long to import, and needs threads and locks of its own
where several threads share it. A connection is one thread's at a time; those that are idle are kept and taken again.
Redirections are not followed, since they would take the password elsewhere.
"""

from __future__ import annotations

import contextlib
import http.client
import io
import json
import random
import re
import socket
import ssl
import threading
import time
from functools import partial
from html import escape
from typing import Any
from urllib.parse import quote, quote_plus

from ottla.connection.setting import INT32_MAX
from ottla.errors import RegistryError
from ottla.printable import printable
from ottla.registry.forks import tell_of_forks
from ottla.registry.settings import RegistrySettings, ServerAddress

_IDLE_MAX = 10
_ANSWER_BYTES_MAX = 64 << 20
_PIECE_BYTES = 1 << 16
_TOLD_MAX = 1000
# How long a TLS handshake may take before the address is asked whether it speaks plain HTTP.
_SILENCE_S = 2.0
_CONTENT_TYPE = "application/vnd.schemaregistry.v1+json"
# OpenSSL's error numbers for a certificate that is for another host, mail address or IP address.
_OTHER_NAMES = (62, 63, 64)
# And for one that is not valid yet, or has expired.
_OTHER_TIMES = (9, 10)
# What servers that check clients' certificates say to a client without one: with TLS 1.3, and before.
_WANT_CERTIFICATE = ("TLSV13_ALERT_CERTIFICATE_REQUIRED", "TLSV1_ALERT_CERTIFICATE_REQUIRED")
_NAMES_MAX, _NAME_MAX = 5, 100
_RETRIED = (408, 425, 429)

_Pool = dict[ServerAddress, list[http.client.HTTPConnection]]


class _Stale(Exception):
    """A connection that was kept, and that the server had closed meanwhile: the request got no answer."""


class _TooLong(http.client.HTTPException):
    """An answer with more bytes than are read."""


class _NotConnected(Exception):
    """Nothing was sent."""

    def __init__(self, told: RegistryError) -> None:
        super().__init__()
        self.told = told


class Transport:
    """Shared by the threads of one client."""

    def __init__(self, settings: RegistrySettings) -> None:
        self._settings = settings
        self.after_fork_in_child()
        tell_of_forks(self)
        # Which address answered last.
        self._first = 0
        self._random = random.Random()

    def after_fork_in_child(self) -> None:
        """Begin without connections: those of the parent stay open, and only the parent uses them."""
        self._lock = threading.Lock()
        self._idle: _Pool = {}

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        """Return the answer's JSON; RegistryError if the request is refused, or no registry answers in time."""
        content = None if body is None else json.dumps(body).encode()
        addresses = self._settings.addresses
        wait_ms = self._settings.retries_wait_ms
        for round_number in range(self._settings.max_retries + 1):
            if round_number:
                # With jitter, so that not all clients ask at the same time.
                time.sleep(wait_ms / 1000 * self._random.uniform(0.5, 1))
                wait_ms = min(max(1, 2 * wait_ms), self._settings.retries_max_wait_ms)
            first = self._first
            for step in range(len(addresses)):
                number = (first + step) % len(addresses)
                try:
                    answer = self._ask_one(addresses[number], method, path, content)
                except _NotConnected as error:
                    failed = error.told
                except RegistryError as error:
                    # A deletion that was sent may have been carried out: asked again, it would be refused.
                    if not error.retriable or method == "DELETE":
                        raise
                    failed = error
                else:
                    self._first = number
                    return answer
        raise failed

    def close(self) -> None:
        """Close the idle connections."""
        with self._lock:
            idle, self._idle = self._idle, {}
        for connections in idle.values():
            for connection in connections:
                connection.close()

    def __del__(self) -> None:
        # A client that a serializer or a table made from an address has nobody else to close it.
        self.close()

    def _ask_one(self, address: ServerAddress, method: str, path: str, content: bytes | None) -> Any:
        until_s = time.monotonic() + self._settings.request_timeout_ms / 1000
        try:
            while True:
                connection = self._take(address)
                if connection is None:
                    return self._exchange(address, self._connect(address, until_s), method, path, content, until_s)
                with contextlib.suppress(_Stale):
                    return self._exchange(address, connection, method, path, content, until_s, was_idle=True)
        except ssl.SSLCertVerificationError as error:
            raise self._not_believed(address, error, until_s) from None
        except (OSError, http.client.HTTPException) as error:
            raise self._unreachable(address, error) from None

    def _connect(self, address: ServerAddress, until_s: float) -> http.client.HTTPConnection:
        connection = http.client.HTTPConnection(address.host, address.port, timeout=_left_s(until_s))
        try:
            connection.connect()
        except OSError as error:
            raise _NotConnected(self._unreachable(address, error)) from None
        connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if address.is_tls:
            try:
                self._encrypt(address, connection, until_s)
            except BaseException:
                connection.close()
                raise
        return connection

    def _encrypt(self, address: ServerAddress, connection: http.client.HTTPConnection, until_s: float) -> None:
        """Make the TLS handshake; a server that does not answer it for a while, or fails, is asked for plain HTTP."""
        context = self._settings.tls
        connection.sock = encrypted = context.wrap_socket(
            connection.sock, server_hostname=address.host, do_handshake_on_connect=False
        )
        try:
            encrypted.settimeout(min(_left_s(until_s), _SILENCE_S))
            try:
                encrypted.do_handshake()
                return
            except TimeoutError:
                if not _speaks_http(address, until_s):
                    encrypted.settimeout(_left_s(until_s))
                    encrypted.do_handshake()
                    return
        except ssl.SSLCertVerificationError:
            raise
        except OSError as error:
            if not _speaks_http(address, until_s):
                raise _NotConnected(self._unreachable(address, error)) from None
        plain = address.shown.replace("https", "http", 1)
        told = f"The schema registry at {address.shown} speaks no TLS; give {plain} as schema.registry.url."
        raise RegistryError(told, fatal=True)

    def _not_believed(
        self, address: ServerAddress, error: ssl.SSLCertVerificationError, until_s: float
    ) -> RegistryError:
        told = f"has a certificate that is not trusted ({error.verify_message.rstrip('.')})"
        if error.verify_code in _OTHER_TIMES:
            advice = "have its certificate renewed, or set the clock of this machine right"
        elif error.verify_code not in _OTHER_NAMES:
            advice = "name who issued its certificate as ssl.truststore.location"
        else:
            names = self._names_of(address, until_s)
            told += f"; its certificate is for {names or 'other names'}"
            advice = f"give such a name in schema.registry.url, or give the registry a certificate for {address.host}"
        return RegistryError(f"The schema registry at {address.shown} {told}: {advice}.", fatal=True)

    def _names_of(self, address: ServerAddress, until_s: float) -> str:
        """The names in the registry's certificate, by another handshake; "" where that fails."""
        with (
            contextlib.suppress(OSError),
            socket.create_connection((address.host, address.port), timeout=_left_s(until_s)) as sock,
            self._settings.tls_of_any_name().wrap_socket(sock, server_hostname=address.host) as encrypted,
        ):
            certificate = encrypted.getpeercert() or {}
            names = [str(name) for _, name in certificate.get("subjectAltName", ()) if str(name).isprintable()]
            return ", ".join(name[:_NAME_MAX] for name in names[:_NAMES_MAX]) + (", ..." * (len(names) > _NAMES_MAX))
        return ""

    def _exchange(
        self,
        address: ServerAddress,
        connection: http.client.HTTPConnection,
        method: str,
        path: str,
        content: bytes | None,
        until_s: float,
        *,
        was_idle: bool = False,
    ) -> Any:
        headers = {"Accept": f"{_CONTENT_TYPE}, application/json"}
        if content is not None:
            headers["Content-Type"] = _CONTENT_TYPE
        authorization = self._settings.authorization(address)
        if authorization is not None:
            headers["Authorization"] = authorization
        try:
            connection.sock.settimeout(_left_s(until_s))
            connection.response_class = partial(_Response, until_s)  # type: ignore[assignment]
            try:
                connection.request(method, address.path + path, content, headers)
                response = connection.getresponse()
            except (ConnectionError, http.client.BadStatusLine) as error:
                # A deletion may have been carried out: it is not sent again.
                if was_idle and method != "DELETE":
                    raise _Stale from error
                raise
            answer = _read(response)
        except BaseException:
            connection.close()
            raise
        if response.will_close:
            connection.close()
        else:
            self._keep(address, connection)
        return self._understood(address, response.status, answer)

    def _understood(self, address: ServerAddress, status: int, answer: bytes) -> Any:
        try:
            told = json.loads(answer)
        except (ValueError, RecursionError):
            told = None
        if 200 <= status < 300:
            if told is None and answer.strip() != b"null":
                raise RegistryError(
                    f"What answers at {address.shown} is no schema registry: its answer is not JSON; check "
                    "schema.registry.url.",
                    status=status,
                    fatal=True,
                )
            return told
        raise _refused(address, status, told, self._settings.secrets(address))

    def _take(self, address: ServerAddress) -> http.client.HTTPConnection | None:
        with self._lock:
            connections = self._idle.get(address)
            return connections.pop() if connections else None

    def _keep(self, address: ServerAddress, connection: http.client.HTTPConnection) -> None:
        with self._lock:
            connections = self._idle.setdefault(address, [])
            if len(connections) < _IDLE_MAX:
                connections.append(connection)
                return
        connection.close()

    def _unreachable(self, address: ServerAddress, error: Exception) -> RegistryError:
        told = "check schema.registry.url, and whether the registry is running"
        if isinstance(error, TimeoutError):
            why = f"no answer within request.timeout.ms={self._settings.request_timeout_ms}"
        elif isinstance(error, http.client.RemoteDisconnected):
            why = "the connection was closed without an answer"
        elif isinstance(error, ssl.SSLError) and error.reason in _WANT_CERTIFICATE:
            why, told = "it wants a certificate of this client", "give ssl.keystore.location"
        elif isinstance(error, OSError):
            why = (error.strerror or type(error).__name__).lower()
        elif isinstance(error, http.client.IncompleteRead):
            why = "its answer ends early"
        elif isinstance(error, _TooLong):
            why = f"it answers with more than {_ANSWER_BYTES_MAX >> 20} MiB"
        else:
            why = f"what it answers is not HTTP: {type(error).__name__}"
        said = f"The schema registry at {address.shown} cannot be reached ({why}); {told}."
        return RegistryError(said, retriable=True)


def _left_s(until_s: float) -> float:
    return max(0.001, until_s - time.monotonic())


def _speaks_http(address: ServerAddress, until_s: float) -> bool:
    """Whether the address answers a request without TLS; the request has no password in it."""
    with contextlib.suppress(OSError):
        left_s = min(_left_s(until_s), _SILENCE_S)
        with socket.create_connection((address.host, address.port), timeout=left_s) as sock:
            sock.sendall(b"GET / HTTP/1.0\r\nConnection: close\r\n\r\n")
            answer = sock.recv(12)
            # With the status 400 servers say that they expect TLS.
            return answer.startswith(b"HTTP/") and len(answer) == 12 and not answer.endswith(b" 400")
    return False


class _Response(http.client.HTTPResponse):
    """An answer that must be complete by `until_s`, also if the registry sends a byte now and then."""

    def __init__(self, until_s: float, sock: socket.socket, *arguments: Any, **more: Any) -> None:
        super().__init__(sock, *arguments, **more)
        self.fp = io.BufferedReader(_Incoming(sock, self.fp, until_s))


class _Incoming(io.RawIOBase):
    """The bytes of a socket, until `until_s`; `held` keeps the socket open until this is closed."""

    def __init__(self, sock: socket.socket, held: Any, until_s: float) -> None:
        self._socket, self._held, self._until_s = sock, held, until_s

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        left_s = self._until_s - time.monotonic()
        if left_s <= 0:
            raise TimeoutError
        self._socket.settimeout(left_s)
        return self._socket.recv_into(buffer)

    def close(self) -> None:
        self._held.close()
        super().close()


def _read(response: http.client.HTTPResponse) -> bytes:
    """All of an answer."""
    answer = bytearray()
    while piece := response.read1(_PIECE_BYTES):
        answer += piece
        if len(answer) > _ANSWER_BYTES_MAX:
            raise _TooLong
    if response.length:
        raise http.client.IncompleteRead(bytes(answer), response.length)
    # Python closes an answer by itself, but not one that is read piece by piece.
    response.close()
    return bytes(answer)


def _hidden(said: str, secrets: list[str]) -> str:
    """A server's text without the request's secrets, in every form in which an answer may repeat them."""
    for secret in secrets:
        forms = {secret, quote(secret), quote(secret, safe=""), quote_plus(secret), escape(secret)}
        forms |= {json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1]}
        for form in sorted(forms, key=len, reverse=True):
            said = re.sub(re.escape(form), "***", said, flags=re.IGNORECASE)
    return said


def _refused(address: ServerAddress, status: int, told: Any, secrets: list[str]) -> RegistryError:
    fields = told if isinstance(told, dict) else {}
    code, said = fields.get("error_code"), fields.get("message")
    code = code if type(code) is int and 0 <= code <= INT32_MAX else None
    words = " ".join(_hidden(said, secrets).split())[:_TOLD_MAX].rstrip(".") if isinstance(said, str) else ""
    words = printable(words) or "no reason was given"
    if status == 401:
        what = "does not let this client in; check basic.auth.user.info or bearer.auth.token"
    elif status == 403:
        what = "does not allow this; ask who runs it for the right to do it"
    elif 300 <= status < 400:
        what = "refers to another address, which is not followed; give that one as schema.registry.url"
    elif code is None and status == 404:
        what = "has no such path: it is no schema registry, or lacks this call; check schema.registry.url"
    elif status >= 500 or status in _RETRIED:
        what = "cannot answer now; try again later, or ask who runs it"
    else:
        what = "refused the request"
    return RegistryError(
        f"The schema registry at {address.shown} {what} ({code or status}: {words}).",
        code=code,
        status=status,
        retriable=status >= 500 or status in _RETRIED,
        fatal=status in (401, 403) or 300 <= status < 400,
    )
