"""`stall` at a network, real or simulated: a share of the messages is delayed."""

from __future__ import annotations

from random import Random


class Stall:
    """Delays a share of all messages; `fired` counts them. It is one of `stalls` until it ends."""

    __slots__ = ("_stalls", "delay_max_us", "fired", "probability")

    def __init__(self, stalls: list[Stall], probability: float, delay_max_us: int) -> None:
        self._stalls = stalls
        self.probability = probability
        self.delay_max_us = delay_max_us
        self.fired = 0
        stalls.append(self)

    def end(self) -> None:
        """Delay no further messages; ending twice is allowed."""
        if self in self._stalls:
            self._stalls.remove(self)


def stalled_us(stalls: list[Stall], rng: Random) -> int:
    """How long these delay the next message."""
    delay_us = 0
    for stall in stalls:
        if rng.random() < stall.probability:
            stall.fired += 1
            delay_us += rng.randint(0, stall.delay_max_us)
    return delay_us
