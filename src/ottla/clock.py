"""The clock that clients and embedded clusters go by: the machine's, or one that a test moves.

Clients and clusters read the time for all their waits (linger, timeouts, backoff, sessions) from their clock. A thread
that sleeps until a time has the clock call it by `watch`. `Clock` can be stopped and set ahead; all who sleep are then
woken, and read the time again. So a test lets a timeout pass by one call, and no timeout passes while the clock is
stopped, however slow the machine is.

Invariants: a clock never goes back. What is measured for metrics (time spent working or waiting) is real time.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from ottla.errors import ConfigError
from ottla.shown import shown

# How long a thread sleeps at most; looking once a day costs nothing, and no poller takes Java's largest long.
SLEEP_MAX_S = 86_400.0
# How long a thread sleeps at most before it checks for signals: one that comes just before a sleep does not end it.
SIGNAL_CHECK_S = 0.5
_ADVANCE_MAX_S = 1_000_000_000
# Python has no later dates.
_WALL_MAX_US = 253_402_300_799_000_000


class MachineClock:
    """The machine's own clock."""

    @property
    def is_stopped(self) -> bool:
        """Whether time does not pass by itself."""
        return False

    def now_us(self) -> int:
        """Microseconds since some beginning; never goes back."""
        return time.monotonic_ns() // 1000

    def wall_us(self) -> int:
        """Microseconds since 1970."""
        return time.time_ns() // 1000

    def wall_ms(self) -> int:
        """Milliseconds since 1970."""
        return self.wall_us() // 1000

    def sleep_s(self, timeout_s: float) -> float:
        """How long to sleep, in real seconds, for somebody who wants to wait until `timeout_s` have passed."""
        return timeout_s

    def watch(self, moved: Callable[[], None], *, is_call: bool = False) -> None:
        """Call `moved` whenever the clock was set ahead, stopped or started, on the thread that did it.

        `is_call`: somebody waits inside a call, such as `send` or `flush`, until it is forgotten again.
        """

    def forget(self, moved: Callable[[], None], *, is_call: bool = False) -> None:
        """Call it no longer."""


MACHINE = MachineClock()


class Clock(MachineClock):
    """A clock for tests: give it as `clock` to a producer, reader, admin client or `Cluster`, and move it.

    It goes as the machine's clock does until `stop`, and again from `go_on`. `advance` sets it ahead in either state.
    While it is stopped, nothing that waits for time goes on: a record waits for linger.ms, a retry for its backoff. So
    give `linger_ms=0`, or let the clock run and only set it ahead. Several clients and clusters may share one; its
    methods may be called from any thread.
    """

    def __init__(self, *, stopped: bool = False) -> None:
        self._moving = threading.Condition()
        self._calls = 0
        self._watchers: list[Callable[[], None]] = []
        now_us = MACHINE.now_us()
        self._wall_ahead_us = time.time_ns() // 1000 - now_us
        # (A time that it showed, the machine's time at that moment); None in place of the latter while it is stopped.
        # One tuple, so that a thread that reads it without the lock gets two values of the same moment.
        self._shows: tuple[int, int | None] = (now_us, None if stopped else now_us)
        self._moves = 0

    def __repr__(self) -> str:
        return f"<ottla.Clock {'stopped' if self.is_stopped else 'running'}>"

    @property
    def is_stopped(self) -> bool:
        """Whether time passes by `advance` only."""
        return self._shows[1] is None

    def now_us(self) -> int:
        """Microseconds since some beginning; never goes back."""
        shown_us, since_us = self._shows
        return shown_us if since_us is None else shown_us + MACHINE.now_us() - since_us

    def wall_us(self) -> int:
        """Microseconds since 1970, as far ahead as this clock is."""
        return self.now_us() + self._wall_ahead_us

    def advance(self, seconds: float) -> None:
        """Set the clock ahead, and wake up all who sleep until a time; it does not wait until they have acted.

        Every deadline up to the new time is then due. Brokers round theirs up to 5 ms: where the clock is stopped, set
        it ahead by a little more than the timeout. ConfigError for a negative number (a clock does not go back), and
        for a time after the year 9999.
        """
        if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 <= seconds <= _ADVANCE_MAX_S:
            raise ConfigError(
                f"advance({shown(seconds)}): give a number of seconds from 0 to {_ADVANCE_MAX_S:,}; "
                "a clock does not go back."
            )
        with self._moving:
            shown_us, since_us = self._shows
            ahead_us = round(seconds * 1_000_000)
            if self.wall_us() + ahead_us > _WALL_MAX_US:
                raise ConfigError(f"advance({shown(seconds)}): a clock goes to the end of the year 9999 at most.")
            self._shows = shown_us + ahead_us, since_us
            self._moves += 1
        self._tell()

    def stop(self) -> None:
        """From now on time passes by `advance` only. Stopping twice is allowed."""
        with self._moving:
            self._shows = self.now_us(), None
            self._moves += 1
        self._tell()

    def go_on(self) -> None:
        """Go on from the time it shows. A clock that runs goes on as it does."""
        with self._moving:
            if self.is_stopped:
                self._shows = self._shows[0], MACHINE.now_us()
                self._moves += 1
        self._tell()

    def sleep_s(self, timeout_s: float) -> float:
        """How long to sleep, in real seconds, for somebody who wants to wait until `timeout_s` have passed."""
        return SLEEP_MAX_S if self.is_stopped and timeout_s > 0 else timeout_s

    def await_calls(self, count: int = 1, *, timeout: float = 60) -> None:
        """Return once at least `count` calls (`send`, `flush`, `result`, ...) wait by this clock.

        If the clock is set ahead after this, their timeouts pass. TimeoutError after `timeout` seconds of real time.
        """
        if type(count) is not int or count < 1:
            raise ConfigError(f"count={shown(count)} must be an integer of at least 1; how long to wait is timeout=")
        if type(timeout) not in (int, float) or not 0 <= timeout <= threading.TIMEOUT_MAX:
            raise ConfigError(f"timeout={shown(timeout)} must be a number of seconds from 0 on")
        with self._moving:
            if not self._moving.wait_for(lambda: self._calls >= count, timeout):
                raise TimeoutError(f"calls that wait by this clock after {timeout:g} s: {self._calls}, and not {count}")

    def watch(self, moved: Callable[[], None], *, is_call: bool = False) -> None:
        """Call `moved` whenever the clock was set ahead, stopped or started, on the thread that did it.

        `is_call`: somebody waits inside a call, such as `send` or `flush`, until it is forgotten again.
        """
        with self._moving:
            self._watchers.append(moved)
            self._calls += is_call
            self._moving.notify_all()

    def forget(self, moved: Callable[[], None], *, is_call: bool = False) -> None:
        """Call it no longer."""
        with self._moving:
            if moved in self._watchers:
                self._watchers.remove(moved)
                self._calls -= is_call

    def state(self) -> list[int | None]:
        """What another process of this machine needs to show the same time, by `follow`."""
        with self._moving:
            return [self._moves, *self._shows, self._wall_ahead_us]

    def follow(self, state: Sequence[Any]) -> None:
        """Show what the clock shows that `state` is from; an older state than the last one changes nothing."""
        moves, shown_us, since_us, wall_ahead_us = state
        with self._moving:
            if moves >= self._moves:
                self._moves, self._shows, self._wall_ahead_us = moves, (shown_us, since_us), wall_ahead_us
        self._tell()

    def _tell(self) -> None:
        with self._moving:
            watchers = list(self._watchers)
        for moved in watchers:
            moved()


def read_clock(value: Any) -> Clock:
    """The clock given as a setting; ConfigError for what is none."""
    if isinstance(value, Clock):
        return value
    raise ConfigError(f"clock={shown(value)} is no clock; give an ottla.Clock, or leave it out for the machine's.")
