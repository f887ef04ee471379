"""The upstream cluster: what it is asked before clients come, and how connections to it are opened.

Before a proxy listens it asks the bootstrap servers for their API versions. So an upstream that is not Kafka, that
wants TLS, or that does not answer, is reported at once, in one sentence. A listener without SASL is asked for its
brokers, too: then each has its port before the first client comes.
"""

from __future__ import annotations

import errno
import os
import socket
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from ottla.addresses import address_of
from ottla.client.resolve import UNRESOLVABLE, resolve
from ottla.client.resolve import Address as SocketAddress
from ottla.errors import NotKafka, OttlaError, Unreachable
from ottla.protocol.errors import ProtocolError
from ottla.protocol.frames import decode_response, encode_request
from ottla.protocol.message import ApiMessage
from ottla.protocol.messages.api_versions import ApiVersionsRequest
from ottla.protocol.messages.metadata import MetadataRequest
from ottla.proxy.addresses import Address
from ottla.sockets.event_loop import EventLoop, Timer

if TYPE_CHECKING:
    import ssl

_PATIENCE_S = 5.0
_CONNECT_S = 10.0
_ANSWER_BYTES_MAX = 16 << 20
_METADATA_VERSION = 1  # of every Kafka since 0.10, and with the controller's id


class Broker(NamedTuple):
    """A broker as the upstream cluster names it."""

    node_id: int
    host: str
    port: int


def shown(address: Address) -> str:
    """A broker's address, "host:9092" or "[::1]:9092"."""
    return address_of(*address)


def look_at_upstream(addresses: list[Address], tls: ssl.SSLContext | None) -> list[Broker]:
    """The brokers that the first bootstrap server that answers names: none where it wants SASL first.

    Raises Unreachable or NotKafka, with what each of them did.
    """
    faults: list[OttlaError] = []
    for address in addresses:
        try:
            return _ask_one(address, tls)
        except OttlaError as error:
            faults.append(error)
    not_kafka = next((error for error in faults if isinstance(error, NotKafka)), None)
    if not_kafka is not None:
        raise not_kafka
    raise faults[0] if len(faults) == 1 else Unreachable("; ".join(map(str, faults)))


def _ask_one(address: Address, tls: ssl.SSLContext | None) -> list[Broker]:
    where = f"upstream {shown(address)}"
    try:
        plain = socket.create_connection(address, timeout=_PATIENCE_S)
    except UnicodeError:
        raise Unreachable(f"{where} cannot be reached ({UNRESOLVABLE}): check --upstream") from None
    except OSError as error:
        reason = "no answer" if isinstance(error, TimeoutError) else (error.strerror or str(error)).lower()
        raise Unreachable(f"{where} cannot be reached ({reason}): is Kafka running there?") from None
    with plain:
        try:
            sock = plain if tls is None else tls.wrap_socket(plain, server_hostname=address[0])
        except OSError as error:
            from ottla.client.tls import explain

            told = explain(error).detail if type(error).__module__ == "ssl" else str(error)  # type: ignore[arg-type]
            raise Unreachable(f"{where}: {told}") from None
        with sock:
            try:
                answer = _exchange(sock, ApiVersionsRequest(), 0)
            except _NoAnswer as error:
                raise NotKafka(f"{where} {error}: is it a Kafka broker?{_hint(error, tls)}") from None
            except (ProtocolError, OSError) as error:
                raise NotKafka(f"{where} does not answer as Kafka does ({error}): is it a Kafka broker?") from None
            if answer.error_code:
                raise NotKafka(f"{where} refuses to say which versions it speaks (error {answer.error_code})")
            try:
                brokers = _exchange(sock, MetadataRequest(topics=[]), _METADATA_VERSION).brokers
            except (_NoAnswer, ProtocolError, OSError):
                return []  # It wants SASL first: clients' own answers will name the brokers.
    return [Broker(each.node_id, each.host, each.port) for each in brokers]


class _NoAnswer(OttlaError):
    """Bytes that are no answer of Kafka's."""

    def __init__(self, what: str, beginning: bytes = b"") -> None:
        super().__init__(what)
        self.beginning = beginning


def _hint(error: _NoAnswer, tls: Any) -> str:
    # A TLS alert, or silence and then the end: so listeners with TLS answer to plaintext.
    if tls is None and (error.beginning[:2] == b"\x15\x03" or not error.beginning):
        return " If it wants TLS, give --upstream-tls (upstream_settings with security.protocol=SSL)."
    return ""


def _exchange(sock: Any, message: ApiMessage, version: int) -> Any:
    """The answer to a request, by a socket that blocks."""
    until = time.monotonic() + _PATIENCE_S
    sock.settimeout(_PATIENCE_S)
    sock.sendall(b"".join(bytes(chunk) for chunk in encode_request(1, "ottla-proxy", message, version)))
    try:
        length = _read(sock, 4, until)
        size = int.from_bytes(length, "big", signed=True)
        if not 4 <= size <= _ANSWER_BYTES_MAX:
            raise _NoAnswer(f"answers {length!r}, which does not begin a Kafka answer", length)
        frame = _read(sock, size, until)
    except TimeoutError:
        raise _NoAnswer(f"does not answer within {_PATIENCE_S:g} s") from None
    except ConnectionError:
        raise _NoAnswer("hangs up without an answer") from None
    correlation_id, answer = decode_response(memoryview(frame), type(message), version)
    if correlation_id != 1:
        raise _NoAnswer("answers something else", length)
    return answer


def _read(sock: Any, size: int, until: float) -> bytes:
    """So many bytes; TimeoutError where they are not all there in time, however often some come."""
    found = bytearray()
    while len(found) < size:
        left = until - time.monotonic()
        if left <= 0:
            raise TimeoutError
        sock.settimeout(left)
        piece = sock.recv(min(size - len(found), 65_536))
        if not piece:
            if found:
                raise _NoAnswer(f"answers {bytes(found[:16])!r} and hangs up", bytes(found))
            raise ConnectionError
        found += piece
    return bytes(found)


class Connecting:
    """Opens one connection to a broker, without ever holding up the loop.

    `done(socket, reason)` is called once: with a connected socket (through TLS: after the handshake), or None and why.
    `soon` calls a function in the loop's thread: names may be resolved by another one.
    """

    def __init__(
        self,
        loop: EventLoop,
        soon: Callable[[Callable[[], object]], None],
        address: Address,
        tls: ssl.SSLContext | None,
        done: Callable[[Any, str], None],
    ) -> None:
        self._loop = loop
        self._soon = soon
        self._host = address[0]
        self._tls = tls
        self._done: Callable[[Any, str], None] | None = done
        self._left: list[SocketAddress] = []
        self._socket: Any = None
        self._reason = "no address"
        self._timer: Timer | None = loop.call_later(_CONNECT_S, self._late)
        resolve(
            address[0],
            address[1],
            lambda found, loss: soon(lambda: self._resolved(found, "" if loss is None else loss.detail)),
        )

    def cancel(self) -> None:
        """Give up: it is not needed any more."""
        self._done = None
        self._finish(None, "")

    def _resolved(self, found: list[SocketAddress], reason: str) -> None:
        self._left, self._reason = list(found), reason or self._reason
        self._try_next()

    def _try_next(self) -> None:
        if self._done is None:
            return
        if not self._left:
            self._finish(None, self._reason)
            return
        family, place = self._left.pop(0)
        try:
            sock = socket.socket(family, socket.SOCK_STREAM)
        except OSError as error:
            self._finish(None, (error.strerror or str(error)).lower())
            return
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket = sock
        code = sock.connect_ex(place)
        if code not in (0, errno.EINPROGRESS, errno.EWOULDBLOCK):
            self._failed(code)
            return
        self._loop.add_writer(sock, self._writable)

    def _failed(self, code: int) -> None:
        self._reason = os.strerror(code).lower()
        self._drop()
        self._try_next()

    def _writable(self) -> None:
        self._loop.remove_writer(self._socket)
        code = self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if code:
            self._failed(code)
        elif self._tls is None:
            self._finish(self._socket, "")
        else:
            from ottla.client.tls import TlsSocket

            try:
                self._socket = TlsSocket(self._socket, self._tls, self._host)
            except (OSError, ValueError) as error:
                self._finish(None, str(error))
                return
            self._shake_hands()

    def _shake_hands(self) -> None:
        from ottla.client.poller import READABLE
        from ottla.connection.loss import Lost

        sock = self._socket
        self._loop.remove_reader(sock)
        self._loop.remove_writer(sock)
        try:
            wanted = sock.shake_hands()
        except (Lost, OSError) as error:
            self._finish(None, str(error))
            return
        if not wanted:
            self._finish(sock, "")
        elif wanted == READABLE:
            self._loop.add_reader(sock, self._shake_hands)
        else:
            self._loop.add_writer(sock, self._shake_hands)

    def _late(self) -> None:
        self._timer = None
        self._finish(None, f"no connection within {_CONNECT_S:g} s")

    def _drop(self) -> None:
        sock, self._socket = self._socket, None
        if sock is not None:
            self._loop.remove_reader(sock)
            self._loop.remove_writer(sock)
            sock.close()

    def _finish(self, sock: Any, reason: str) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if sock is None:
            self._drop()
        else:
            self._socket = None
        done, self._done = self._done, None
        if done is not None:
            done(sock, reason)
        elif sock is not None:
            sock.close()
