"""Waits for something to read that hear of a signal whenever it comes, and standard input that is read so.

A read that waits is ended by a signal only while it sleeps. One that comes in the moment before is heard when something
can be read, which for standard input may be never. So these waits sleep half a second at most, and Python looks for
signals in between.
"""

from __future__ import annotations

import io
import os
import select
import sys
import time
from typing import Any, BinaryIO

from ottla.clock import SIGNALS_S

_BUFFER_BYTES = 64 * 1024


def await_readable(fd: int, timeout_s: float | None = None) -> bool:
    """Wait until something can be read, be it the end; False after `timeout_s` (None: wait on)."""
    due_s = None if timeout_s is None else time.monotonic() + timeout_s
    while True:
        left_s = SIGNALS_S if due_s is None else max(0.0, due_s - time.monotonic())
        if _is_readable(fd, min(left_s, SIGNALS_S)):
            return True
        if left_s <= 0:
            return False


def standard_input() -> BinaryIO:
    """Its bytes. What was read of `sys.stdin` before is not among them."""
    try:
        fd = sys.stdin.fileno()
    except OSError:
        # What a test or another program has put in its place.
        return sys.stdin.buffer
    return io.BufferedReader(_Heard(fd), _BUFFER_BYTES)


class _Heard(io.RawIOBase):
    """A descriptor that stays somebody else's."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def fileno(self) -> int:
        return self._fd

    def readable(self) -> bool:
        return True

    def readinto(self, room: Any) -> int:
        await_readable(self._fd)
        return os.readv(self._fd, [room])


def _is_readable(fd: int, wait_s: float) -> bool:
    try:
        # It knows terminals on macOS, which `poll` does not.
        return bool(select.select([fd], [], [], wait_s)[0])
    except ValueError:
        # And it knows no descriptors above 1023.
        poll = select.poll()
        poll.register(fd, select.POLLIN)
        return bool(poll.poll(wait_s * 1000))
