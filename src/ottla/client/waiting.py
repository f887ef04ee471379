"""Threads that wait for what only the I/O thread can bring about: an answer, room in the buffer, an end.

Every waiter brings a question (`done`) and a lock of its own. The I/O thread asks the questions at the end of its
turns and lets go exactly those whose answer has become yes, so that nobody is woken up in vain. No lock is ever held
by anybody while something happens: an interrupted wait (Ctrl+C) leaves nothing behind, and neither does a fork.

No answer is missed: a waiter is listed before it asks for the last time, the I/O thread acts before it looks through
the list, and one of the two comes second.
"""

from __future__ import annotations

import threading
from collections.abc import Callable


class Waiting:
    """The list of waiters of one I/O thread."""

    __slots__ = ("_waiters",)

    def __init__(self) -> None:
        self._waiters: list[tuple[Callable[[], bool], threading.Lock]] = []

    def wait(self, done: Callable[[], bool], timeout_s: float | None) -> bool:
        """Return True once `done()` is true, False after `timeout_s` (None: wait on)."""
        if done():
            return True
        lock = threading.Lock()
        lock.acquire()
        waiter = (done, lock)
        self._waiters.append(waiter)
        try:
            if done():
                return True
            longest_s = threading.TIMEOUT_MAX
            wait_s = longest_s if timeout_s is None else min(max(timeout_s, 0), longest_s)
            return lock.acquire(timeout=wait_s) or done()
        finally:
            self._waiters.remove(waiter)

    def look(self) -> None:
        """On the I/O thread, after something has changed: let go those who have what they waited for."""
        if self._waiters:
            for done, lock in self._waiters[:]:
                if done() and lock.locked():
                    lock.release()
