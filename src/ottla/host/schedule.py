"""What happens next to the brokers of one cluster: actions in the order of their times.

Who drives it sets `now_us` and calls `run_next`: the simulation jumps from one time to the next, a cluster follows the
machine's clock. Actions due at the same microsecond run in the order in which they were asked for, and never one
within another: so no core is entered while another one is at work.
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
        # What is due now, and what later. Whatever is due in `_later` was asked for earlier than all of `_soon`.
        self._soon: deque[tuple[Callable[..., object], Any]] = deque()
        self._later: list[tuple[int, int, Callable[..., object], Any]] = []
        self._asked = 0

    def at(self, time_us: int, action: Callable[..., object], argument: Any = NONE) -> None:
        """Run `action()`, or `action(argument)`, at `time_us`, or now where that has passed."""
        if time_us <= self.now_us:
            self._soon.append((action, argument))
        else:
            self._asked += 1
            heappush(self._later, (time_us, self._asked, action, argument))

    def after(self, delay_us: int, action: Callable[..., object], argument: Any = NONE) -> None:
        """Run `action()`, or `action(argument)`, in `delay_us` microseconds."""
        self.at(self.now_us + delay_us, action, argument)

    def next_us(self) -> int | None:
        """When the next action is due; None where there is none."""
        if self._soon:
            return self.now_us
        return self._later[0][0] if self._later else None

    def run_next(self) -> None:
        """Run the next action; where it is due later, it is that time now."""
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
