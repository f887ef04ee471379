"""One connection to one broker: a non-blocking socket, frames going out, frames coming in.

Frames go out by `sendmsg` from the buffers they were made of: a batch that was sealed by another thread is never
copied on its way to the kernel. Several frames may leave in one call. Answers come back in the order of the
requests, so the queue `awaited` says what the next frame is; an answer out of turn ends the connection.

With TLS (`client/tls.py`) a channel counts as connected once the handshake is done.

A channel finds out what broke its connection, and raises that once as `Lost` (`pull` returns it). What follows from it,
the core decides.
"""

from __future__ import annotations

import errno
import os
import socket
from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ottla.client.held_calls import HELD_BYTES_MAX, receive_held, send_held
from ottla.client.other_protocols import other_protocol
from ottla.client.poller import READABLE, WRITABLE
from ottla.client.resolve import Address
from ottla.connection.loss import CLOSED_BY_BROKER, REFUSED, Loss, LossKind, Lost, failed, not_kafka, tls_failed
from ottla.connection.settings import ConnectionSettings
from ottla.connection.traffic import NodeMeter
from ottla.protocol.errors import FrameTooLarge, MalformedMessage
from ottla.protocol.frames import FrameBuffer, decode_response, encode_request
from ottla.protocol.messages import API_VERSIONS, SASL_AUTHENTICATE, SASL_HANDSHAKE

if TYPE_CHECKING:
    from ottla.client.security import Security
    from ottla.client.tls import TlsSocket

# More than an answer has with the defaults (fetch.max.bytes is 50 MiB, one larger batch may come on top). The first
# four bytes of a server of another protocol, read as a length, are more than this.
FRAME_BYTES_MAX = 256 * 1024 * 1024
# sendmsg takes 1,024 buffers at most on Linux and macOS.
_BUFFERS_MAX = 1024

_OTHER_PROTOCOL = "does the listener want another security.protocol?"
_CLOSED_UNANSWERED = Loss(
    LossKind.CLOSED, f"it accepted the connection and closed it without an answer; {_OTHER_PROTOCOL}"
)
_CLOSED_EARLY = Loss(
    LossKind.CLOSED_EARLY, f"{CLOSED_BY_BROKER.detail} before it answered a request; {_OTHER_PROTOCOL}"
)
# The requests that come before all others on a connection.
_OPENING_API_KEYS = (API_VERSIONS, SASL_HANDSHAKE, SASL_AUTHENTICATE)


class SocketBuffers:
    """The sizes of a socket's buffers; -1 leaves one to the operating system."""

    __slots__ = ("receive_bytes", "send_bytes")

    def __init__(self, send_bytes: int = -1, receive_bytes: int = -1) -> None:
        self.send_bytes = send_bytes
        self.receive_bytes = receive_bytes

    @classmethod
    def of(cls, settings: ConnectionSettings, given: Iterable[str]) -> SocketBuffers:
        """The sizes that the user gave; others are left to the operating system.

        Linux then lets a busy socket's buffers grow to megabytes: batches of 1 MB are sent 1.4 times as fast as with
        Kafka's default of 128 KiB.
        """
        names = {name.replace(".", "_") for name in given}
        return cls(
            settings.send_buffer_bytes if "send_buffer_bytes" in names else -1,
            settings.receive_buffer_bytes if "receive_buffer_bytes" in names else -1,
        )


class Channel:
    """A socket that is connecting or connected."""

    __slots__ = (
        "_addresses",
        "_buffers",
        "_frames",
        "_outgoing",
        "_outgoing_bytes",
        "_security",
        "_tls",
        "_unanswered",
        "address",
        "answered",
        "awaited",
        "borrowed",
        "connected",
        "connection_id",
        "fd",
        "host",
        "meter",
        "port",
        "received_bytes",
        "sent_bytes",
        "served",
        "sock",
        "waits_to_write",
    )

    def __init__(
        self,
        connection_id: int,
        host: str,
        port: int,
        buffers: SocketBuffers,
        meter: NodeMeter | None = None,
        security: Security | None = None,
    ) -> None:
        """`meter` is the node's; the I/O loop counts the bytes in it."""
        self.connection_id = connection_id
        self.host = host
        self.port = port
        self.sock: socket.socket | None = None
        self.fd = -1
        self.connected = False
        self.answered = False
        # Whether a request other than the opening ones was answered.
        self.served = False
        self.waits_to_write = False
        # Its answers are left to a caller (`callers_turn.py`).
        self.borrowed = False
        self.awaited: deque[tuple[int, type[Any], int]] = deque()
        # The address that is being tried, or is connected.
        self.address: Address | None = None
        self._addresses: list[Address] = []
        self._outgoing: list[Any] = []
        self._outgoing_bytes = 0
        self.meter = NodeMeter() if meter is None else meter
        self.sent_bytes = 0
        self.received_bytes = 0
        # Requests that expect no answer: (value of sent_bytes at which they are out, correlation id).
        self._unanswered: deque[tuple[int, int]] = deque()
        self._frames = FrameBuffer(FRAME_BYTES_MAX)
        self._buffers = buffers
        self._security = security
        self._tls: TlsSocket | None = None

    def connect(self, addresses: list[Address]) -> None:
        """Begin with the first of these addresses; the next one is tried when connecting fails."""
        self._addresses = list(addresses)
        self._next_address(failed("the name has no address"))

    def _next_address(self, loss: Loss) -> None:
        self.close()
        while self._addresses:
            self.address = family, address = self._addresses.pop(0)
            try:
                self.sock = sock = socket.socket(family, socket.SOCK_STREAM)
                self.fd = sock.fileno()
                sock.setblocking(False)
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                if self._buffers.send_bytes > 0:
                    sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, self._buffers.send_bytes)
                if self._buffers.receive_bytes > 0:
                    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, self._buffers.receive_bytes)
                error_number = sock.connect_ex(address)
                if error_number in (0, errno.EINPROGRESS):
                    return
                loss = _loss(error_number)
            except OSError as error:
                loss = _loss_of(error)
            self.close()
        raise Lost(loss)

    def finish_connecting(self) -> bool:
        """After the socket became writable: True when there is a connection, False when the next address is tried."""
        assert self.sock is not None
        try:
            error_number = self.sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            # If no process listens on a port of the ephemeral range, a socket can connect to itself.
            if error_number == 0 and self.sock.getsockname() == self.sock.getpeername():
                error_number = errno.ECONNREFUSED
        except OSError as error:
            error_number = error.errno or errno.ECONNREFUSED
        if error_number == 0:
            self._begin_tls()
            return True
        self._next_address(_loss(error_number))
        return False

    def _begin_tls(self) -> None:
        """Wrap the socket in TLS before it is watched: an error here closes it."""
        tls = self._security.tls if self._security is not None else None
        if tls is None:
            return
        from ottla.client.tls import TlsSocket

        assert self.sock is not None
        try:
            self._tls = TlsSocket(self.sock, tls, self.host)
        except OSError as error:
            raise Lost(_loss_of(error)) from None
        except ValueError as error:
            raise Lost(tls_failed(f": the host name {self.host!r} cannot be asked for ({error})")) from None
        # `TlsSocket` owns the descriptor now.
        self.sock = None

    def shake_hands(self) -> int:
        """Once there is a connection: 0 when it can be used, else the events to wait for until this is called again."""
        if self._tls is not None:
            try:
                wanted = self._tls.shake_hands()
            except OSError as error:
                raise Lost(_loss_of(error)) from None
            if wanted:
                return wanted
        self.connected = True
        return 0

    @property
    def shaking_hands(self) -> bool:
        """Whether a TLS handshake is under way."""
        return self._tls is not None and not self.connected

    @property
    def is_idle(self) -> bool:
        """Whether it has `served` and no request is in flight on it: then its end is no failure."""
        return self.served and not (self.awaited or self._outgoing_bytes or self._unanswered)

    @property
    def events(self) -> int:
        """The events that the I/O thread watches once it is connected."""
        return (0 if self.borrowed else READABLE) | (WRITABLE if self.waits_to_write else 0)

    def enqueue(self, correlation_id: int, client_id: str, message: Any, version: int, answered: bool) -> int:
        """Put a request behind what waits to be sent; return its size in bytes."""
        chunks = encode_request(correlation_id, client_id, message, version)
        size_bytes = 4 + int.from_bytes(chunks[0][:4], "big")
        self._outgoing_bytes += size_bytes
        self._outgoing += chunks
        if answered:
            self.awaited.append((correlation_id, type(message), version))
        else:
            self._unanswered.append((self.sent_bytes + self._outgoing_bytes, correlation_id))
        return size_bytes

    def push(self) -> bool:
        """Send what the socket takes; True when nothing is left."""
        outgoing = self._outgoing
        sock = self._tls or self.sock
        assert sock is not None
        while self._outgoing_bytes:
            sent = -1
            try:
                if self._tls is None and self._outgoing_bytes <= HELD_BYTES_MAX:
                    sent = send_held(self.fd, outgoing)
                if sent < 0:
                    sent = sock.sendmsg(outgoing if len(outgoing) <= _BUFFERS_MAX else outgoing[:_BUFFERS_MAX])
            except BlockingIOError:
                return False
            except OSError as error:
                raise Lost(_loss_of(error)) from None
            self.sent_bytes += sent
            self._outgoing_bytes -= sent
            if self._outgoing_bytes:
                _drop_sent(outgoing, sent)
        outgoing.clear()
        return True

    def take_transmitted(self) -> list[int]:
        """The correlation ids of requests that expect no answer and were sent completely since the last call."""
        gone = []
        unanswered = self._unanswered
        while unanswered and unanswered[0][0] <= self.sent_bytes:
            gone.append(unanswered.popleft()[1])
        return gone

    def pull(self) -> tuple[list[tuple[int, Any]], Loss | None]:
        """Read what has arrived: (correlation id, message) of each complete answer, and why the connection is lost."""
        answers: list[tuple[int, Any]] = []
        try:
            self._pull_into(answers)
        except Lost as lost:
            return answers, lost.loss
        return answers, None

    def _pull_into(self, answers: list[tuple[int, Any]]) -> None:
        sock = self._tls or self.sock
        assert sock is not None
        while True:
            buffer = self._frames.get_buffer()
            room = len(buffer)
            received = -1
            try:
                if self._tls is None and room <= HELD_BYTES_MAX:
                    received = receive_held(self.fd, buffer)
                if received < 0:
                    received = sock.recv_into(buffer)
            except BlockingIOError:
                return
            except OSError as error:
                if isinstance(error, ConnectionResetError) and not self.served:
                    raise Lost(self._ended()) from None
                raise Lost(_loss_of(error)) from None
            if received == 0:
                raise Lost(self._ended())
            self.received_bytes += received
            try:
                frames = self._frames.advance(received)
            except FrameTooLarge as error:
                raise Lost(self._unreadable(error)) from None
            for frame in frames:
                answers.append(self._decode(frame))
            if self._frames.broken is not None:
                raise Lost(self._unreadable(self._frames.broken))
            if received < room:
                return

    def _ended(self) -> Loss:
        if self.served:
            return CLOSED_BY_BROKER
        return _CLOSED_EARLY if self.answered else _CLOSED_UNANSWERED

    def _decode(self, frame: memoryview) -> tuple[int, Any]:
        if not self.awaited:
            raise Lost(not_kafka(": it answered what was not asked"))
        correlation_id, request_class, version = self.awaited.popleft()
        try:
            answered_id, message = decode_response(frame, request_class, version)
        except MalformedMessage as error:
            raise Lost(not_kafka(f" ({error})")) from None
        if answered_id != correlation_id:
            raise Lost(not_kafka(f": it answered request {answered_id} when {correlation_id} was due"))
        self.answered = True
        if not self.served and request_class.API_KEY not in _OPENING_API_KEYS:
            self.served = True
        return correlation_id, message

    def _unreadable(self, error: FrameTooLarge) -> Loss:
        if self.answered:
            return failed(f"sent a frame that cannot be ({error})")
        return other_protocol((error.size & 0xFFFFFFFF).to_bytes(4, "big"))

    def close(self) -> None:
        """Close the socket; what was queued is not sent."""
        if self._tls is not None:
            self._tls.close()
            self._tls, self.fd = None, -1
        if self.sock is not None:
            self.sock.close()
            self.sock, self.fd = None, -1
        self.connected = False


def _drop_sent(buffers: list[Any], size: int) -> None:
    """Take the first `size` bytes off a list of buffers."""
    whole = 0
    for buffer in buffers:
        length = memoryview(buffer).nbytes
        if length > size:
            break
        size -= length
        whole += 1
    del buffers[:whole]
    if size:
        buffers[0] = memoryview(buffers[0]).cast("B")[size:]


def _loss(error_number: int) -> Loss:
    return _loss_of(OSError(error_number, os.strerror(error_number)))


def _loss_of(error: OSError) -> Loss:
    """The loss for an operating system's error, recognized by number: its text may be in any language."""
    if error.errno == errno.ECONNREFUSED:
        return REFUSED
    said = error.strerror or str(error)
    return failed(said[:1].lower() + said[1:])
