"""The simulated clock: it runs actions in the order of their times."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ottla.host.schedule import Schedule


class Scheduler(Schedule):
    """Time that moves only from one action to the next; `now_us` begins at one simulated second."""

    def __init__(self) -> None:
        super().__init__(1_000_000)

    def run_until(
        self,
        reached: Callable[[], bool] | None,
        *,
        limit_us: int,
        limit_actions: int = 1_000_000,
        stirred: dict[Any, None] | None = None,
        poll: Callable[[], None] | None = None,
    ) -> bool:
        """Run actions until `reached()`; False if the simulated time or the number of actions ran out first.

        If `stirred` is not empty, `poll()` is called before the next action; it must empty `stirred`.
        """
        end_us = self.now_us + limit_us
        for _ in range(limit_actions):
            if stirred and poll is not None:
                poll()
            if reached is not None and reached():
                return True
            next_us = self.next_us()
            if next_us is None or next_us > end_us:
                self.now_us = max(self.now_us, end_us)
                return False
            self.run_next()
        return False
