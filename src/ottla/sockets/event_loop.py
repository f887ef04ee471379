"""The event loop of servers: it calls back for sockets that are ready, for timers, and by `call_soon`.

One thread runs it, and everything of a server happens in that thread; only a signal can reach it from outside. A
callback that raises is logged, and the loop goes on with the others. It is not asyncio's: there are no coroutines here,
and importing asyncio (with `ssl`) took a quarter of the time in which brokers start.

Timers use the loop's clock, which a test may stop or set ahead. Those of `call_after` use the machine's clock, for
limits of how long a caller waits in real time.

Invariants: callbacks of `call_soon` run in the order of the calls; a timer never runs before its time; nothing is
called for a socket after its `remove_reader` or `remove_writer`.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
from collections import deque
from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count
from selectors import EVENT_READ, EVENT_WRITE, DefaultSelector
from typing import Any, Protocol

from ottla.clock import MACHINE, MachineClock

logger = logging.getLogger("ottla.sockets")

Callback = Callable[..., object]
_Watch = tuple[Callback, tuple[Any, ...]]


class HasFileno(Protocol):
    """A socket, or another object with a file descriptor."""

    def fileno(self) -> int: ...


class Timer:
    """A call at a later time; `cancel()` prevents it."""

    __slots__ = ("arguments", "callback")

    def __init__(self, callback: Callback, arguments: tuple[Any, ...]) -> None:
        self.callback: Callback | None = callback
        self.arguments = arguments

    def cancel(self) -> None:
        """Prevent the call; cancelling twice is allowed."""
        self.callback = None
        self.arguments = ()


class EventLoop:
    """An event loop: `run_forever` until `stop`, then `close`; times are in seconds of `time()`, the loop's clock."""

    def __init__(self) -> None:
        self._selector = DefaultSelector()
        self._soon: deque[tuple[Callback, tuple[Any, ...]]] = deque()
        self._timers: list[tuple[float, int, Timer]] = []
        self._real_timers: list[tuple[float, int, Timer]] = []
        self._order = count()
        self._stopping = False
        self._signals: dict[int, Callback] = {}
        self._bell: tuple[int, int] | None = None
        self.clock: MachineClock = MACHINE
        self.now_us = MACHINE.now_us

    def go_by(self, clock: MachineClock) -> None:
        """Use this clock from now on."""
        self.clock, self.now_us = clock, clock.now_us

    def time(self) -> float:
        """What the clock shows, in seconds."""
        return self.now_us() / 1_000_000

    def run_forever(self) -> None:
        """Run callbacks until `stop` is called; return at once if it was called before."""
        while not self._stopping:
            self._turn()
        self._stopping = False

    def stop(self) -> None:
        """Leave `run_forever` after this turn."""
        self._stopping = True

    def close(self) -> None:
        """Drop all callbacks and timers; the sockets are not closed."""
        self._soon.clear()
        self._timers.clear()
        self._real_timers.clear()
        self._selector.close()
        if self._bell is not None:
            signal.set_wakeup_fd(-1)
            for fd in self._bell:
                os.close(fd)
            self._bell = None

    def call_soon(self, callback: Callback, *arguments: Any) -> None:
        """Call this in the next turn."""
        self._soon.append((callback, arguments))

    def call_later(self, delay_s: float, callback: Callback, *arguments: Any) -> Timer:
        """Call this after a while."""
        return self.call_at(self.time() + delay_s, callback, *arguments)

    def call_at(self, due_s: float, callback: Callback, *arguments: Any) -> Timer:
        """Call this when `time()` is `due_s`, or as soon after that as possible."""
        timer = Timer(callback, arguments)
        heappush(self._timers, (due_s, next(self._order), timer))
        return timer

    def call_after(self, delay_s: float, callback: Callback, *arguments: Any) -> Timer:
        """Call this after a while of real time, whatever the loop's clock shows."""
        timer = Timer(callback, arguments)
        heappush(self._real_timers, (_real_time() + delay_s, next(self._order), timer))
        return timer

    def add_reader(self, sock: HasFileno, callback: Callback, *arguments: Any) -> None:
        """Call this whenever there is something to read; it replaces an earlier callback."""
        self._watch(sock.fileno(), 0, (callback, arguments))

    def remove_reader(self, sock: HasFileno) -> None:
        """Call nothing for reading any more."""
        self._watch(sock.fileno(), 0, None)

    def add_writer(self, sock: HasFileno, callback: Callback, *arguments: Any) -> None:
        """Call this whenever there is room to write; it replaces an earlier callback."""
        self._watch(sock.fileno(), 1, (callback, arguments))

    def remove_writer(self, sock: HasFileno) -> None:
        """Call nothing for writing any more."""
        self._watch(sock.fileno(), 1, None)

    def add_signal_handler(self, number: int, callback: Callback) -> None:
        """Call this in the loop when the process gets that signal; for a loop in the main thread."""
        if self._bell is None:
            self._bell = os.pipe()
            for fd in self._bell:
                os.set_blocking(fd, False)
            signal.set_wakeup_fd(self._bell[1], warn_on_full_buffer=False)
            self._watch(self._bell[0], 0, (self._hear_signals, ()))
        self._signals[number] = callback
        signal.signal(number, _nothing)

    def _hear_signals(self) -> None:
        assert self._bell is not None
        with contextlib.suppress(BlockingIOError):
            for number in os.read(self._bell[0], 4096):
                callback = self._signals.get(number)
                if callback is not None:
                    callback()

    def _watch(self, fd: int, side: int, watch: _Watch | None) -> None:
        """Change what is called when the descriptor can be read (side 0) or written (side 1)."""
        selector = self._selector
        key = selector.get_map().get(fd) if fd >= 0 else None
        if key is None:
            if watch is not None:
                data: list[_Watch | None] = [None, None]
                data[side] = watch
                selector.register(fd, EVENT_WRITE if side else EVENT_READ, data)
            return
        data = key.data
        data[side] = watch
        events = (EVENT_READ if data[0] is not None else 0) | (EVENT_WRITE if data[1] is not None else 0)
        if not events:
            selector.unregister(fd)
        elif events != key.events:
            selector.modify(fd, events, data)

    def _turn(self) -> None:
        patience_s = 0.0 if self._soon else self._patience_s()
        ready = self._selector.select(patience_s)
        if not ready and patience_s:
            # If the process was stopped meanwhile, `select` reports a timeout though sockets may be ready. They are
            # handled before timers: a heartbeat before its session times out.
            ready = self._selector.select(0.0)
        for key, events in ready:
            data = key.data
            # An earlier callback may have removed this one, so it is looked up only now.
            if events & EVENT_READ and data[0] is not None:
                self._call(*data[0])
            if events & EVENT_WRITE and data[1] is not None:
                self._call(*data[1])
        # Only timers that are due now: one that sets itself again for a past time must not delay the sockets.
        due: list[Timer] = []
        if self._timers:
            _take_due(self._timers, self.time(), due)
        if self._real_timers:
            _take_due(self._real_timers, _real_time(), due)
        for timer in due:
            if timer.callback is not None:
                self._call(timer.callback, timer.arguments)
        soon = self._soon
        for _ in range(len(soon)):
            self._call(*soon.popleft())

    def _patience_s(self) -> float | None:
        """How long to wait for sockets: until the first timer is due."""
        patience_s = None
        if _has_next(self._timers):
            patience_s = self.clock.sleep_s(max(0.0, self._timers[0][0] - self.time()))
        if _has_next(self._real_timers):
            real_s = max(0.0, self._real_timers[0][0] - _real_time())
            patience_s = real_s if patience_s is None else min(patience_s, real_s)
        return patience_s

    def _call(self, callback: Callback, arguments: tuple[Any, ...]) -> None:
        try:
            callback(*arguments)
        except Exception:
            logger.exception("a callback of a socket or a timer failed")


def _real_time() -> float:
    return MACHINE.now_us() / 1_000_000


def _has_next(timers: list[tuple[float, int, Timer]]) -> bool:
    while timers and timers[0][2].callback is None:
        heappop(timers)
    return bool(timers)


def _take_due(timers: list[tuple[float, int, Timer]], now_s: float, due: list[Timer]) -> None:
    while timers and timers[0][0] <= now_s:
        due.append(heappop(timers)[2])


def _nothing(*_: object) -> None:
    """The Python handler of signals: the wakeup descriptor (`_bell`) does all the work."""
