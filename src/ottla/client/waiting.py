"""Threads that wait for what only the I/O thread can do: get an answer, free memory, end.

Every waiter has a function (`done`) and a lock of its own. At the end of its turns the I/O thread calls the functions
and releases the locks of exactly those that return True, so no thread is woken in vain. There is no lock that threads
share: a wait that is interrupted (Ctrl+C), or copied by a fork, leaves none held.

Coroutines wait in the same list, with a function to be called in place of the lock (`watch`); it must not block.

No waiter is missed: it is in the list before it calls `done` for the last time, and the I/O thread acts before it looks
through the list. So at least one of the two sees the other.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from ottla.client.held_calls import run_signal_handlers
from ottla.clock import MACHINE, SIGNAL_CHECK_S, MachineClock

_log = logging.getLogger("ottla.client")

# How long a call may wait by a stopped clock, in real time, before that is logged: a test that hangs says why.
STOPPED_S = 1.0

# (done, let_go): `let_go` is called again in later turns while `done()` stays true.
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
            # `time.monotonic`, not the clock, whose methods are interpreted: waiting for one record must stay compiled.
            due_s = None if timeout_s is None else time.monotonic() + min(max(timeout_s, 0), threading.TIMEOUT_MAX)
            while True:
                run_signal_handlers()
                left_s = SIGNAL_CHECK_S if due_s is None else due_s - time.monotonic()
                if lock.acquire(timeout=max(0, min(left_s, SIGNAL_CHECK_S))):
                    return True
                if left_s < SIGNAL_CHECK_S:
                    return done()
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
        tell_us: int | None = MACHINE.now_us() + int(STOPPED_S * 1_000_000)
        try:
            while not done():
                left_us = None if due_us is None else due_us - clock.now_us()
                if left_us is not None and left_us <= 0:
                    return False
                sleep_s = SIGNAL_CHECK_S if left_us is None else min(clock.sleep_s(left_us / 1_000_000), SIGNAL_CHECK_S)
                if tell_us is not None and clock.is_stopped:
                    if (quiet_us := tell_us - MACHINE.now_us()) > 0:
                        sleep_s = min(sleep_s, quiet_us / 1_000_000)
                    else:
                        tell_us = None
                        tell_if_stopped(clock)
                stirred.wait(sleep_s)
                stirred.clear()
            return True
        finally:
            clock.forget(stirred.set, is_call=True)
            self.forget(waiter)

    @property
    def has_waiters(self) -> bool:
        """Whether a thread or coroutine waits."""
        return bool(self._waiters)

    def watch(self, done: Callable[[], bool], let_go: Callable[[], None]) -> Waiter:
        """Call `let_go` on the I/O thread once `done()` is true; the caller must check `done()` after this."""
        waiter = (done, let_go)
        self._waiters.append(waiter)
        return waiter

    def forget(self, waiter: Waiter) -> None:
        """Remove a waiter from the list."""
        self._waiters.remove(waiter)

    def look(self) -> None:
        """On the I/O thread, after something has changed: call `let_go` of all waiters whose `done()` is true."""
        if self._waiters:
            for done, let_go in self._waiters[:]:
                if done():
                    let_go()


def tell_if_stopped(clock: MachineClock) -> None:
    """Log why a call still waits, if no time passes for it."""
    if clock.is_stopped:
        _log.warning("a call waits, and its clock is stopped: time passes by clock.advance(...) or clock.go_on()")
