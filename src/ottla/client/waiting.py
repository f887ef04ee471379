"""Threads that wait for what only the I/O thread can bring about: an answer, room in the buffer, an end.

Every waiter brings a question (`done`) and a lock of its own. The I/O thread asks the questions at the end of its
turns and lets go exactly those whose answer has become yes, so that nobody is woken up in vain. No lock is ever held
by anybody while something happens: an interrupted wait (Ctrl+C) leaves nothing behind, and neither does a fork.

Coroutines wait in the same list, with a function to be called in place of the lock (`watch`); it must not block.

No answer is missed: a waiter is listed before it asks for the last time, the I/O thread acts before it looks through
the list, and one of the two comes second.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from ottla.clock import MACHINE, SLEEP_MAX_S, MachineClock

# The question, and what lets go whoever asked it; called again in later turns if the answer stays yes.
Waiter = tuple[Callable[[], bool], Callable[[], None]]


class Waiting:
    """The list of waiters of one I/O thread."""

    __slots__ = ("_clock", "_waiters")

    def __init__(self, clock: MachineClock = MACHINE) -> None:
        self._clock = clock
        self._waiters: list[Waiter] = []

    def wait(self, done: Callable[[], bool], timeout_s: float | None) -> bool:
        """Return True once `done()` is true, False after `timeout_s` (None: wait on)."""
        if done():
            return True
        if self._clock is not MACHINE:
            return self._wait_by_clock(done, timeout_s)
        lock = threading.Lock()
        lock.acquire()

        def let_go() -> None:
            if lock.locked():
                lock.release()

        waiter = self.watch(done, let_go)
        try:
            if done():
                return True
            longest_s = threading.TIMEOUT_MAX
            wait_s = longest_s if timeout_s is None else min(max(timeout_s, 0), longest_s)
            return lock.acquire(timeout=wait_s) or done()
        finally:
            self.forget(waiter)

    def _wait_by_clock(self, done: Callable[[], bool], timeout_s: float | None) -> bool:
        """`wait` by a clock that may stop and be moved."""
        clock, due_us = self._clock, None
        if timeout_s is not None:
            due_us = clock.now_us() + int(max(timeout_s, 0) * 1_000_000)
        stirred = threading.Event()
        waiter = self.watch(done, stirred.set)
        clock.watch(stirred.set, is_call=True)
        try:
            while not done():
                left_us = None if due_us is None else due_us - clock.now_us()
                if left_us is not None and left_us <= 0:
                    return False
                stirred.wait(None if left_us is None else min(clock.sleep_s(left_us / 1_000_000), SLEEP_MAX_S))
                stirred.clear()
            return True
        finally:
            clock.forget(stirred.set, is_call=True)
            self.forget(waiter)

    @property
    def has_waiters(self) -> bool:
        """Whether anybody waits."""
        return bool(self._waiters)

    def watch(self, done: Callable[[], bool], let_go: Callable[[], None]) -> Waiter:
        """Have `let_go` called on the I/O thread once `done()` is true; ask `done()` yourself after this."""
        waiter = (done, let_go)
        self._waiters.append(waiter)
        return waiter

    def forget(self, waiter: Waiter) -> None:
        """Watch no longer."""
        self._waiters.remove(waiter)

    def look(self) -> None:
        """On the I/O thread, after something has changed: let go those who have what they waited for."""
        if self._waiters:
            for done, let_go in self._waiters[:]:
                if done():
                    let_go()
