"""One client's socket: frames in, typed requests to the core, responses out.

Large frames are read straight into their own memory. Responses are sent without being joined: pieces of bytes by
`sendmsg`, slices of segment files by `sendfile`. asyncio's transports join what is written (up to Python 3.11) and
cannot mix bytes with files, so there is an event loop of our own (`sockets/event_loop.py`).

Invariants:
- The core has one request of a connection at a time. It gets the next one when the whole response was written to the
  socket. While a further request waits, the socket is not read. So a client that sends faster than it is answered, or
  does not read its answers, fills its own socket buffers and no memory of ours.
- Memory is allocated for bytes that arrived, never for what a length field says. Bytes that are not the Kafka protocol
  close this connection only.
- On a SASL listener no request reaches the core before authentication has succeeded. After a failed one the socket is
  not read for `connection.failed.authentication.delay.ms`; then the error is sent and the connection closed.
- A connection reads or writes about a mebibyte at a time; then the others get their turn.
"""

from __future__ import annotations

import logging
import os
import socket
from collections import deque
from typing import TYPE_CHECKING, Any

from ottla.broker.events import ClientContext, ConnectionLost, HangUp, RequestReceived, Respond
from ottla.broker.spoken_versions import unsupported_version_response
from ottla.cluster.request_stages import RequestStages
from ottla.protocol.errors import FrameTooLarge, ProtocolError, UnsupportedVersion
from ottla.protocol.frames import FrameBuffer, decode_request, encode_response
from ottla.protocol.messages import API_VERSIONS

if TYPE_CHECKING:
    from ottla.broker.authentication import Authenticator, Reply
    from ottla.cluster.server import Acceptor, BrokerServer
    from ottla.sockets.tls import TlsSocket

logger = logging.getLogger("ottla.cluster")

FRAME_BYTES_MAX = 104_857_600  # as socket.request.max.bytes of Apache Kafka
FRAME_BYTES_MAX_UNPROVED = 524_288  # as sasl.server.max.receive.size
_TLS_RECORD = 0x1603  # the first two bytes of a TLS handshake, read as the upper half of a frame's length
_BYTES_PER_TURN = 1 << 20
_PIECES_PER_WRITE = 256
_SLICE_BYTES_READ = 16_384  # a smaller slice is read and sent with its neighbours: one system call less
_MORE = getattr(socket, "MSG_MORE", 0)
_PIECES = (bytes, bytearray, memoryview)


class _Sending:
    """A slice of a file that is being sent; holding the slice keeps its file open."""

    __slots__ = ("_slice", "fd", "left", "position")

    def __init__(self, item: Any, source: tuple[int, int]) -> None:
        self._slice = item
        self.fd, self.position = source
        self.left: int = item.size


class ClientConnection:
    """One connection of a client to a broker; `client_id` is None until the first request."""

    __slots__ = (
        "_authenticator",
        "_busy",
        "_client",
        "_closed",
        "_deaf",
        "_ending",
        "_frames",
        "_loop",
        "_out",
        "_reading",
        "_server",
        "_silent",
        "_socket",
        "_tls",
        "_waiting",
        "_writing",
        "active_s",
        "client_id",
        "connection_id",
        "listener",
        "peer",
        "stages",
    )

    def __init__(
        self, server: BrokerServer, connection_id: int, sock: socket.socket, peer: str, acceptor: Acceptor
    ) -> None:
        self.connection_id = connection_id
        self.peer = peer
        self.client_id: str | None = None
        self.listener = acceptor.name
        host, _, port = peer.rpartition(":")
        self._client = ClientContext(host=host, port=int(port) if port.isdecimal() else 0)
        self._server = server
        self._loop = server.loop
        self._tls: TlsSocket | None = None
        self._authenticator: Authenticator | None = None
        entrance = acceptor.entrance
        if entrance.tls is not None:
            from ottla.sockets.tls import TlsSocket

            self._tls = TlsSocket(sock, entrance.tls)
        if entrance.users is not None:
            from ottla.broker.authentication import Authenticator

            self._authenticator = Authenticator(
                entrance.users,
                entrance.listener.session_lifetime_ms,
                server.failed_authentication_delay_ms,
                wall_s=server.wall_s,
            )
        self._socket: socket.socket | TlsSocket = self._tls or sock
        max_frame_bytes = FRAME_BYTES_MAX if self._authenticator is None else FRAME_BYTES_MAX_UNPROVED
        self._frames = FrameBuffer(max_frame_bytes, server.stage)
        self.active_s = self._loop.time()
        # Complete frames that wait, each with the time of its arrival.
        self._waiting: deque[tuple[memoryview, int]] = deque()
        self._out: deque[Any] = deque()
        self.stages = RequestStages(self._loop.now_us)
        self._busy = False
        self._closed = False
        self._ending = False
        self._writing = False
        self._reading = True
        self._silent = False
        self._deaf = False
        self._loop.add_reader(self._socket, self._readable)

    def respond(self, response: Respond) -> None:
        """Send a response; the next request is handed over once it has left."""
        if self._closed:
            return
        self.stages.answered()
        if response.message is not None:
            try:
                for chunk in encode_response(response.correlation_id, response.message, response.version):
                    is_short_slice = type(chunk) not in _PIECES and chunk.size < _SLICE_BYTES_READ
                    self._out.append(chunk.read() if is_short_slice else chunk)
            except (ProtocolError, OSError):
                # Not the client's fault: the core made something that cannot be encoded, or the disk failed.
                logger.exception("broker %d cannot send its answer", self._server.broker_id)
                self._end()
                return
        self.stages.sending()
        if self._out and not self._flush():
            return
        self._answered()

    def hang_up(self, reason: str) -> None:
        """Close without sending anything more."""
        logger.info("broker %d closes the connection of %s: %s", self._server.broker_id, self.peer, reason)
        self._end()

    def idle_since_s(self) -> float | None:
        """When bytes were last read or written, by the loop's clock; None while the broker works on an answer."""
        return None if self._busy and not self._out else self.active_s

    @property
    def queued(self) -> int:
        """How many complete requests wait."""
        return len(self._waiting)

    def fall_silent(self, *, for_good: bool) -> None:
        """Leave the socket open, but do not read or write it until `speak`, or (`for_good`) ever again."""
        self._silent = True
        self._deaf = self._deaf or for_good
        self._writing = False
        self._loop.remove_reader(self._socket)
        self._loop.remove_writer(self._socket)

    def speak(self) -> None:
        """End the silence: read and write again, unless it is for good."""
        if self._closed or not self._silent or self._deaf:
            return
        self._silent = False
        if self._waiting and not self._busy:
            self._server.post(_proceed, self)
        if self._reading:
            self._loop.add_reader(self._socket, self._readable)
            self._read_on_if_decrypted()
        if self._out and self._flush():
            self._answered()

    def close(self) -> None:
        """Close the socket and drop what was not handled or sent. Closing twice is allowed."""
        if self._closed:
            return
        self._closed = True
        self._loop.remove_reader(self._socket)
        self._loop.remove_writer(self._socket)
        self._socket.close()
        self._waiting.clear()
        self._out.clear()
        self._server.forget(self)

    def proceed(self) -> None:
        """Go on with the requests that waited until the last response was sent."""
        if self._closed:
            return
        self._hand_over()
        broken = self._frames.broken
        if broken is not None:
            # Complete requests that came before the broken one are answered first.
            if not self._closed and not self._busy and not self._waiting and not self._out:
                self._refuse(broken)
        elif self._ending:
            self._end_if_done()
        elif not self._reading and not self._closed and not (self._busy and self._waiting):
            self._reading = True
            self._loop.add_reader(self._socket, self._readable)
            self._read_on_if_decrypted()

    def _read_on_if_decrypted(self) -> None:
        """Read again soon if TLS holds decrypted bytes: no selector reports those."""
        if self._tls is not None and self._reading and not self._closed and self._tls.pending():
            self._loop.call_soon(self._readable)

    def _read_off(self) -> None:
        self._reading = False
        self._loop.remove_reader(self._socket)

    def _end_if_done(self) -> None:
        """Close a connection whose client sends no more, once all its requests are handled and the answers sent."""
        if not self._busy and not self._waiting and not self._out:
            self._lose("closed by the client")

    def _readable(self) -> None:
        if self._silent:
            self._loop.remove_reader(self._socket)
            return
        frames = self._frames
        self.active_s = self._loop.time()
        budget = _BYTES_PER_TURN
        while self._reading and not self._closed and budget > 0:
            buffer = frames.get_buffer()
            room = len(buffer)
            try:
                size = self._socket.recv_into(buffer)
            except (BlockingIOError, InterruptedError):
                return
            except OSError as error:
                self._lose(error.strerror or "connection lost")
                return
            except Exception as error:
                # HandshakeFailed: its module is only imported where there is TLS.
                if self._tls is None or self._tls.established:
                    raise
                self._refuse(error)
                return
            if not size:
                self._ending = True
                self._read_off()
                self._end_if_done()
                return
            now_us = self._loop.now_us()
            try:
                # No variable for the frames: it would keep their memory while the broker works.
                self._waiting.extend([(frame, now_us) for frame in frames.advance(size)])
            except ProtocolError as error:
                self._refuse(error)
                return
            self._hand_over()
            if frames.broken is not None and not self._closed:
                self._read_off()
                self.proceed()
                return
            if self._busy and self._waiting and not self._closed:
                self._read_off()
            if size < room:
                return
            budget -= size
        self._read_on_if_decrypted()

    def _hand_over(self) -> None:
        """Give the core the next request, and further ones as long as each is answered at once."""
        waiting = self._waiting
        while waiting and not self._busy and not self._silent:
            frame, arrived_us = waiting.popleft()
            if self._authenticator is not None and self._authenticator.takes_tokens:
                self._take_token(bytes(frame))
                continue
            try:
                header, message = decode_request(frame, lenient=True)
            except ProtocolError as error:
                if not self._answer_unknown_version(error):
                    self._refuse(error)
                    return
                continue
            if self.client_id is None:
                self.client_id = header.client_id or ""
                if self._server.silence(self):
                    waiting.appendleft((frame, arrived_us))
                    return
            if self._authenticator is not None and self._authenticate(header, message):
                continue
            # Also for acks=0: the core gives an empty response when it has handled the request.
            self._busy = True
            request = RequestReceived(
                self.connection_id,
                header.correlation_id,
                header.request_api_version,
                header.client_id,
                message,
                len(frame),
                self.listener,
                self._client,
            )
            self.stages.begin(header.request_api_key, arrived_us)
            # Nothing here may hold the frame's memory while the core works or waits.
            del frame, message
            self._server.receive(request)
            del request

    def _authenticate(self, header: Any, message: Any) -> bool:
        """Whether the authenticator answers this request; if not, the core does."""
        authenticator = self._authenticator
        assert authenticator is not None
        version = header.request_api_version
        reply = authenticator.receive(version, message, self._loop.now_us())
        if reply is None:
            return False
        self._carry_out(reply, Respond(self.connection_id, header.correlation_id, version, reply.answer))
        return True

    def _take_token(self, token: bytes) -> None:
        assert self._authenticator is not None
        reply = self._authenticator.receive_token(token, self._loop.now_us())
        if reply.answer is not None:
            self._out.append(len(reply.answer).to_bytes(4) + reply.answer)
        self._carry_out(reply, Respond(self.connection_id, 0, 0, None))

    def _carry_out(self, reply: Reply, response: Respond) -> None:
        """Send the authenticator's answer; close the connection if it refuses the client."""
        self._busy = True
        if reply.refusal is not None:
            self._warn(reply.refusal)
            self._waiting.clear()
            self._read_off()
            if reply.due_us > self._loop.now_us():
                self._loop.call_at(reply.due_us / 1_000_000, self._turn_away, response)
            else:
                self._turn_away(response)
            return
        if self._authenticator is not None and self._authenticator.user is not None:
            self._frames.max_frame_bytes = FRAME_BYTES_MAX
            self._client.user = self._authenticator.user
            if self._authenticator.finished:
                self._authenticator = None
        self.respond(response)

    def _turn_away(self, response: Respond) -> None:
        """Send the authenticator's refusal, if it has a message, and close."""
        if response.message is None:
            self._end()
            return
        self._ending = True
        self.respond(response)

    def _answer_unknown_version(self, error: ProtocolError) -> bool:
        """KIP-511: a newer ApiVersions than ours is answered in version 0, with the versions supported here."""
        if not isinstance(error, UnsupportedVersion) or error.header.request_api_key != API_VERSIONS:
            return False
        self._busy = True
        self.respond(Respond(self.connection_id, error.header.correlation_id, 0, unsupported_version_response()))
        return True

    def _answered(self) -> None:
        self._busy = False
        if self.stages.api_key >= 0:
            self._server.metrics.answered(self.stages.api_key, self.stages.end())
        if self._waiting or not self._reading:
            self._server.post(_proceed, self)

    def _flush(self) -> bool:
        """Write what the socket takes: True if all was written, False if more is left or the client is gone."""
        out = self._out
        if self._silent:
            return not out
        budget = _BYTES_PER_TURN
        try:
            while out and budget > 0:
                if type(out[0]) in _PIECES:
                    budget -= self._send_pieces()
                    continue
                sent = self._send_slice(out[0])
                if not sent:
                    self._lose("a log file was cut while it was being sent")
                    return False
                budget -= sent
        except (BlockingIOError, InterruptedError):
            pass
        except OSError as error:
            self._lose(error.strerror or "connection lost")
            return False
        if bool(out) != self._writing:
            self._writing = bool(out)
            if out:
                self._loop.add_writer(self._socket, self._writable)
            else:
                self._loop.remove_writer(self._socket)
        return not out

    def _writable(self) -> None:
        self.active_s = self._loop.time()
        if self._flush():
            self._answered()

    def _send_pieces(self) -> int:
        """Send the bytes at the head of the queue, up to the next slice of a file."""
        out = self._out
        pieces: list[Any] = []
        flags = 0
        for item in out:
            if type(item) not in _PIECES:
                flags = _MORE
                break
            pieces.append(item)
            if len(pieces) == _PIECES_PER_WRITE:
                break
        sent = left = self._socket.sendmsg(pieces, (), flags)
        for piece in pieces:
            size = len(piece)
            if left < size:
                out[0] = memoryview(piece)[left:]
                break
            left -= size
            out.popleft()
        return sent

    def _send_slice(self, item: Any) -> int:
        """Send from the slice of a file at the head of the queue; 0 where the file has become too short."""
        if type(item) is not _Sending:
            source = item.source()
            if source is None:
                content = self._out[0] = item.read()
                return len(content)
            item = self._out[0] = _Sending(item, source)
        if self._tls is None:
            sent = os.sendfile(self._socket.fileno(), item.fd, item.position, item.left)
            self._server.metrics.sendfile_bytes += sent
        else:
            sent = self._tls.send_file(item.fd, item.position, item.left)
        item.position += sent
        item.left -= sent
        if not item.left:
            self._out.popleft()
        return sent

    def _lose(self, reason: str) -> None:
        logger.debug("broker %d lost %s: %s", self._server.broker_id, self.peer, reason)
        self._end()

    def _refuse(self, error: Exception) -> None:
        if isinstance(error, FrameTooLarge) and error.size >> 16 == _TLS_RECORD and self._tls is None:
            self._warn("the client begins with TLS, which this listener does not speak")
        else:
            self._warn(str(error))
        self._end()

    def _warn(self, text: str) -> None:
        self._server.refused(self, text)

    def _end(self) -> None:
        if not self._closed:
            self.close()
            self._server.receive(ConnectionLost(self.connection_id))


def _proceed(connection: ClientConnection) -> None:
    connection.proceed()


class Clients:
    """The connections of one broker, by their numbers."""

    def __init__(self) -> None:
        self.by_id: dict[int, ClientConnection] = {}

    def respond(self, response: Respond) -> None:
        """Send a response on its connection, if that is still open."""
        client = self.by_id.get(response.connection_id)
        if client is not None:
            client.respond(response)

    def hang_up(self, output: HangUp) -> None:
        """Close a client's connection without sending anything more."""
        client = self.by_id.get(output.connection_id)
        if client is not None:
            client.hang_up(output.reason)
