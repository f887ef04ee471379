"""The actions to come of one cluster's brokers, in the order of their times.

The driver sets `now_us` and calls `run_next`: the simulation jumps from one time to the next, a cluster follows the
machine's clock. Actions of the same microsecond run in the order in which they were scheduled. One action never runs
within another, so no core is called while another one is running.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any

# Stands for "no argument was given".
NONE: Any = object()


class Schedule:
    """Actions to come; `now_us` never goes back."""

    def __init__(self, now_us: int = 0) -> None:
        self.now_us = now_us
        # What is due now, and what later. What becomes due in `_later` goes first: in the simulation, where time moves
        # only when `_soon` is empty, it was scheduled earlier than all of `_soon`. (In a cluster the clock moves on
        # meanwhile: there the order of actions that are a few microseconds apart may differ.)
        self._soon: deque[tuple[Callable[..., object], Any]] = deque()
        self._later: list[tuple[int, int, Callable[..., object], Any]] = []
        self._asked = 0

    def at(self, time_us: int, action: Callable[..., object], argument: Any = NONE) -> None:
        """Run `action()`, or `action(argument)`, at `time_us`, or as soon as possible if that has passed."""
        if time_us <= self.now_us:
            self._soon.append((action, argument))
        else:
            self._asked += 1
            heappush(self._later, (time_us, self._asked, action, argument))

    def after(self, delay_us: int, action: Callable[..., object], argument: Any = NONE) -> None:
        """Run `action()`, or `action(argument)`, in `delay_us` microseconds."""
        self.at(self.now_us + delay_us, action, argument)

    def next_us(self) -> int | None:
        """When the next action is due; None if there is none."""
        if self._soon:
            return self.now_us
        return self._later[0][0] if self._later else None

    def run_next(self) -> None:
        """Run the next action; if it is due later, set `now_us` to its time first."""
        later = self._later
        if self._soon and not (later and later[0][0] <= self.now_us):
            action, argument = self._soon.popleft()
        else:
            time_us, _, action, argument = heappop(later)
            if time_us > self.now_us:
                self.now_us = time_us
        if argument is NONE:
            action()
        else:
            action(argument)

    def clear(self) -> None:
        """Forget all actions to come."""
        self._soon.clear()
        self._later.clear()
