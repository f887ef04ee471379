"""One end of a proxied connection: a socket that frames are read from and pieces of bytes are written to.

Bytes are read into the frames' own memory, and written from there: a frame that passes unchanged is never copied here.
An end that sends faster than the other end takes is not read from until the other one has caught up.
"""

from __future__ import annotations

import socket
from collections import deque
from collections.abc import Callable
from typing import Any

from ottla.protocol.errors import FrameTooLarge
from ottla.protocol.frames import FrameBuffer
from ottla.sockets.event_loop import EventLoop

# As socket.request.max.bytes of Apache Kafka; answers may be larger.
REQUEST_BYTES_MAX = 104_857_600
ANSWER_BYTES_MAX = 0x7FFFFFFF
_TLS_RECORD = 0x1603  # how a TLS handshake begins, where the length of a frame is expected
_BEGINS_TLS = "it begins with TLS, which is not spoken here"
_BYTES_PER_TURN = 1 << 20
_PIECES_PER_WRITE = 256


class ConnectionEnd:
    """Made around a socket, or what encrypts one; it owns the socket from then on.

    `received(frames)` is told of whole frames, `lost(reason, is_mistake)` once of the end, `sent()` when all has
    left that was to be sent. Nothing is read before `read_on`.
    """

    def __init__(
        self,
        loop: EventLoop,
        sock: Any,
        frames: FrameBuffer,
        received: Callable[[list[memoryview]], None],
        lost: Callable[[str, bool], None],
        sent: Callable[[], None],
    ) -> None:
        self._loop = loop
        self._socket = sock
        self._is_plain = isinstance(sock, socket.socket)
        self._frames = frames
        self._received = received
        self._lost = lost
        self._sent = sent
        self._out: deque[Any] = deque()
        self._is_reading = self._is_writing = self._is_silent = self._is_leaving = False
        self.is_closed = False
        self.queued_bytes = 0
        self.read_bytes = 0

    def read_on(self) -> None:
        """Read whenever there is something."""
        if not self._is_reading and not self.is_closed:
            self._is_reading = True
            if not self._is_silent:
                self._loop.add_reader(self._socket, self._readable)
                if not self._is_plain:
                    # What is decrypted already waits where no selector sees it.
                    self._loop.call_soon(self._readable)

    def pause(self) -> None:
        """Read nothing for now."""
        if self._is_reading:
            self._is_reading = False
            self._loop.remove_reader(self._socket)

    def send(self, pieces: list[Any]) -> None:
        """Send these after all that was sent before."""
        if self.is_closed or self._is_leaving:
            return
        self._out.extend(pieces)
        self.queued_bytes += sum(map(len, pieces))

    def flush(self) -> None:
        """Write what the socket takes now, and the rest when it takes more."""
        if self.is_closed or self._is_silent:
            return
        try:
            while self._out:
                self._write()
        except (BlockingIOError, InterruptedError):
            pass
        except OSError as error:
            self._end(error.strerror or "connection lost")
            return
        except Exception as error:
            # The class Lost cannot be named here: its module is imported only if there is TLS.
            self._end(str(error))
            return
        if bool(self._out) != self._is_writing:
            self._is_writing = bool(self._out)
            if self._is_writing:
                self._loop.add_writer(self._socket, self._writable)
            else:
                self._loop.remove_writer(self._socket)
        if not self._out and self._is_leaving:
            self.close()

    def fall_silent(self) -> None:
        """Leave the socket open, and neither read from it nor write to it."""
        self._is_silent = True
        self._is_writing = False
        self._loop.remove_reader(self._socket)
        self._loop.remove_writer(self._socket)

    def speak(self) -> None:
        """Go on where it fell silent."""
        self._is_silent = False
        if self._is_reading:
            self._is_reading = False
            self.read_on()
        self.flush()

    def leave(self) -> None:
        """Close once all has left that was to be sent."""
        self._is_leaving = True
        self.pause()
        self.flush()

    def close(self) -> None:
        """Close the socket; closing twice is allowed."""
        if self.is_closed:
            return
        self.is_closed = True
        self._loop.remove_reader(self._socket)
        self._loop.remove_writer(self._socket)
        self._socket.close()
        self._out.clear()
        self.queued_bytes = 0

    def _readable(self) -> None:
        budget = _BYTES_PER_TURN
        while self._is_reading and not self._is_silent and not self.is_closed:
            if budget <= 0:
                if not self._is_plain:
                    self._loop.call_soon(self._readable)
                return
            buffer = self._frames.get_buffer()
            room = len(buffer)
            try:
                size = self._socket.recv_into(buffer)
            except (BlockingIOError, InterruptedError):
                return
            except OSError as error:
                self._end(error.strerror or "connection lost")
                return
            except Exception as error:
                # HandshakeFailed and Lost cannot be named here: their modules are imported only if there is TLS.
                self._end(str(error), is_mistake=True)
                return
            if not size:
                self._end("")
                return
            self.read_bytes += size
            try:
                frames = self._frames.advance(size)
            except FrameTooLarge as error:
                is_tls = self._is_plain and error.size >> 16 == _TLS_RECORD
                self._end(_BEGINS_TLS if is_tls else str(error), is_mistake=True)
                return
            if frames:
                self._received(frames)
            if size < room:
                return
            budget -= size

    def _writable(self) -> None:
        self.flush()
        if not self._out and not self.is_closed:
            self._sent()

    def _write(self) -> None:
        out = self._out
        pieces = [out[place] for place in range(min(len(out), _PIECES_PER_WRITE))]
        left = self._socket.sendmsg(pieces)
        self.queued_bytes -= left
        for piece in pieces:
            size = len(piece)
            if left < size:
                if left:
                    out[0] = memoryview(piece)[left:]
                break
            left -= size
            out.popleft()

    def _end(self, reason: str, *, is_mistake: bool = False) -> None:
        """`reason`: "" where the other side has closed in order."""
        if not self.is_closed:
            self.close()
            self._lost(reason, is_mistake)
