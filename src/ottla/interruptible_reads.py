"""Waits for something to read, in which signal handlers run within half a second; and standard input that waits so.

A signal interrupts a read only if it comes during the system call. If it comes just before, its handler does not run
until there is something to read, which for standard input may be never. So these waits block for half a second at most,
and Python runs signal handlers in between.
"""

from __future__ import annotations

import io
import os
import select
import sys
import time
from contextlib import suppress
from typing import Any, BinaryIO

from ottla.clock import SIGNAL_CHECK_S
from ottla.errors import UserMistake

_BUFFER_BYTES = 64 * 1024


def await_readable(fd: int, timeout_s: float | None = None) -> bool:
    """Wait until a read does not block (data or the end of file); False after `timeout_s` (None: no limit)."""
    due_s = None if timeout_s is None else time.monotonic() + timeout_s
    while True:
        left_s = SIGNAL_CHECK_S if due_s is None else max(0.0, due_s - time.monotonic())
        if _is_readable(fd, min(left_s, SIGNAL_CHECK_S)):
            return True
        if left_s <= 0:
            return False


def standard_input() -> BinaryIO:
    """Standard input in bytes, without what `sys.stdin` has read already."""
    try:
        fd = sys.stdin.fileno()
    except OSError:
        # Not a file: a test or another program has replaced `sys.stdin`.
        return sys.stdin.buffer
    return io.BufferedReader(_InterruptibleInput(fd), _BUFFER_BYTES)


class _InterruptibleInput(io.RawIOBase):
    """Reads from a descriptor that it does not own: closing this leaves the descriptor open."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def fileno(self) -> int:
        return self._fd

    def readable(self) -> bool:
        return True

    def readinto(self, room: Any) -> int:
        try:
            while True:
                await_readable(self._fd)
                # Another process may have read what was there.
                with suppress(BlockingIOError):
                    return os.readv(self._fd, [room])
        except OSError as error:
            raise UserMistake(
                f"standard input cannot be read ({error.strerror}): give it a file or the output of a program"
            ) from error


def _is_readable(fd: int, wait_s: float) -> bool:
    try:
        # On macOS, `select` works with terminals, and `poll` does not.
        return bool(select.select([fd], [], [], wait_s)[0])
    except ValueError:
        # `select` takes no descriptor above 1023.
        poll = select.poll()
        poll.register(fd, select.POLLIN)
        return bool(poll.poll(wait_s * 1000))
