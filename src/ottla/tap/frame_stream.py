"""Cuts the bytes of one way of a connection into frames, also where some of them were not seen.

`ottla.protocol.frames.FrameBuffer` reads from a socket that loses nothing. Here bytes may be missing: a recording that
began late, packets that were dropped or cut off. A frame with missing bytes is still given, as far as it was seen, when
its length says where the next one begins; otherwise the stream is out of step, until its reader finds a frame's
beginning again. The size in a length field is never allocated: memory grows with the bytes that came.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

# No request is larger than socket.request.max.bytes (100 MiB), and answers are not by much. The first bytes of TLS
# and of HTTP, read as a length, are beyond it.
FRAME_BYTES_MAX = 0x0FFFFFFF
LENGTH_BYTES = 4


class Frame(NamedTuple):
    """A frame without its length field; `missing_bytes` of its `size_bytes` (length field included) were not seen."""

    seen: memoryview
    size_bytes: int
    missing_bytes: int


class FrameStream:
    """`take` bytes, `skip` those that are missing; both give the frames that end with them.

    `broken` holds the bytes that stand where a length should, once they cannot be one; nothing is read behind them.
    `is_in_step` is False while it is not known where the next frame begins; bytes are then passed over.
    """

    def __init__(self, *, is_in_step: bool = True) -> None:
        self.is_in_step = is_in_step
        self.broken: bytes | None = None
        # Since the last whole frame: what was seen of the next one, its length field first.
        self._seen = bytearray()
        self._missing = 0
        # With the length field; None until that was seen.
        self._size: int | None = None

    @property
    def begun_bytes(self) -> int:
        """Bytes of a frame that has not ended, missing ones included."""
        return len(self._seen) + self._missing

    @property
    def promised_bytes(self) -> int | None:
        """The whole size of that frame; None where its length was not seen either."""
        return self._size

    def take(self, data: memoryview) -> Iterator[Frame]:
        """The frames that these bytes complete, in order."""
        position = 0
        while position < len(data) and self.is_in_step and self.broken is None:
            if self._size is None:
                part = data[position : position + LENGTH_BYTES - len(self._seen)]
                self._seen += part
                position += len(part)
                if len(self._seen) == LENGTH_BYTES:
                    self._read_length()
            else:
                part = data[position : position + self._size - self.begun_bytes]
                position += len(part)
                if self._missing:
                    # What was seen behind a hole is of no use.
                    self._missing += len(part)
                else:
                    self._seen += part
            if self._size == self.begun_bytes and self.broken is None:
                yield self._cut()

    def skip(self, count: int) -> Iterator[Frame]:
        """`count` bytes are missing here."""
        if not self.is_in_step or self.broken is not None or count == 0:
            return
        if self._size is None or count > self._size - self.begun_bytes:
            self.leave_step()
            return
        self._missing += count
        if self._size == self.begun_bytes:
            yield self._cut()

    def leave_step(self) -> None:
        """It is not known any more where the next frame begins."""
        self.is_in_step = False
        self._forget()

    def _read_length(self) -> None:
        length = int.from_bytes(self._seen, "big", signed=True)
        if 0 <= length <= FRAME_BYTES_MAX:
            self._size = length + LENGTH_BYTES
        else:
            self.broken = bytes(self._seen)

    def _cut(self) -> Frame:
        size = self._size or 0
        frame = Frame(memoryview(self._seen)[LENGTH_BYTES:], size, self._missing)
        self._forget()
        return frame

    def _forget(self) -> None:
        self._seen = bytearray()
        self._missing = 0
        self._size = None
