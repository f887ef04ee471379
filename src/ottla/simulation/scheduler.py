"""The simulated clock: what happens next, in an order that one seed decides.

Actions due at the same microsecond run in the order in which they were asked for, so a run depends on nothing but
its seed.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any

# Stands for "no argument was given".
_NONE: Any = object()


class Scheduler:
    """Time that moves only from one action to the next; `now_us` begins at one simulated second."""

    def __init__(self) -> None:
        self.now_us = 1_000_000
        self._actions: list[tuple[int, int, Callable[..., object], Any]] = []
        self._asked = 0

    def at(self, time_us: int, action: Callable[..., object], argument: Any = _NONE) -> None:
        """Run `action()`, or `action(argument)`, at `time_us`, or now where that has passed."""
        self._asked += 1
        now_us = self.now_us
        heappush(self._actions, (time_us if time_us > now_us else now_us, self._asked, action, argument))

    def after(self, delay_us: int, action: Callable[..., object], argument: Any = _NONE) -> None:
        """Run `action()`, or `action(argument)`, in `delay_us` microseconds."""
        self.at(self.now_us + delay_us, action, argument)

    def run_until(
        self,
        reached: Callable[[], bool] | None,
        *,
        limit_us: int,
        limit_actions: int = 1_000_000,
        stirred: dict[Any, None] | None = None,
        poll: Callable[[], None] | None = None,
    ) -> bool:
        """Run actions until `reached()`; False where the simulated time or the number of actions ran out first.

        Whenever there is anything in `stirred`, `poll()` is called first; it must take everything out.
        """
        end_us = self.now_us + limit_us
        actions = self._actions
        for _ in range(limit_actions):
            if stirred and poll is not None:
                poll()
            if reached is not None and reached():
                return True
            if not actions or actions[0][0] > end_us:
                self.now_us = max(self.now_us, end_us)
                return False
            self.now_us, _, action, argument = heappop(actions)
            if argument is _NONE:
                action()
            else:
                action(argument)
        return False
