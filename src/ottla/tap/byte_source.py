"""Bytes of a file or a pipe, asked for in pieces of a known size, where the last piece may still be under way."""

from __future__ import annotations

from typing import BinaryIO


class ByteSource:
    """`take` gives so many bytes or None; what has come of them stays for the next time.

    `position` is where in the file the next piece begins. It waits for a pipe, and not for a file.
    """

    def __init__(self, file: BinaryIO, beginning: bytes = b"") -> None:
        self._file = file
        self._rest = beginning
        self.position = 0

    @property
    def rest_bytes(self) -> int:
        """Bytes of a piece that is not whole."""
        return len(self._rest)

    def take(self, size: int) -> bytes | None:
        """The next `size` bytes, once there are so many."""
        if not self._fill(size):
            return None
        data, self._rest = self._rest[:size], self._rest[size:]
        self.position += size
        return data

    def peek(self, size: int) -> bytes | None:
        """The same, and they stay."""
        return self._rest[:size] if self._fill(size) else None

    def line(self) -> bytes | None:
        """The next line with its end, once that is there."""
        while (end := self._rest.find(b"\n")) < 0:
            more = self._file.readline()
            if not more:
                return None
            self._rest += more
        return self.take(end + 1)

    def _fill(self, size: int) -> bool:
        while len(self._rest) < size:
            more = self._file.read(size - len(self._rest))
            if not more:
                return False
            self._rest += more
        return True
