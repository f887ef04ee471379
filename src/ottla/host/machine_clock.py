"""The clock of one machine: it may run faster or slower than real (or simulated) time, and its date may jump.

Cores get this clock's time, and their deadlines are converted back. It never runs backwards: when its rate is right
again, it keeps the difference that it has gained or lost, as a machine's monotonic clock does.
"""

from __future__ import annotations

_MILLION = 1_000_000


class OwnClock:
    """A clock that is right until `run`; times in microseconds, `ppm`: too fast by so many parts per million."""

    __slots__ = ("_begin_us", "_own_begin_us", "is_right", "jump_us", "ppm")

    def __init__(self) -> None:
        self.ppm = 0
        self.jump_us = 0
        self.is_right = True
        self._begin_us = 0
        self._own_begin_us = 0

    def run(self, ppm: int, now_us: int) -> None:
        """From now on be too fast by `ppm` parts per million (negative: too slow)."""
        self._own_begin_us = self.own_us(now_us)
        self._begin_us = now_us
        self.ppm = ppm
        self.is_right = not ppm and self._own_begin_us == now_us

    def own_us(self, world_us: int) -> int:
        """What this clock shows at the schedule's time `world_us`."""
        if self.is_right:
            return world_us
        passed_us = world_us - self._begin_us
        return self._own_begin_us + passed_us + passed_us * self.ppm // _MILLION

    def world_us(self, own_us: int) -> int:
        """The schedule's time at which this clock first shows `own_us` or later."""
        if self.is_right:
            return own_us
        left_us = own_us - self._own_begin_us
        world_us = self._begin_us + left_us * _MILLION // (_MILLION + self.ppm)
        while self.own_us(world_us) < own_us:
            world_us += 1
        return world_us
