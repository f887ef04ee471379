"""The time since 1970 on a broker's own clock: computed from the core's `now_us`, as a core has no clock."""

from __future__ import annotations


class WallClock:
    """`offset_us` is what must be added to `now_us` for the time since 1970; a driver may change it (a clock jump)."""

    __slots__ = ("offset_us",)

    def __init__(self, offset_us: int) -> None:
        self.offset_us = offset_us

    def ms(self, now_us: int) -> int:
        """The time since 1970 in milliseconds."""
        return (now_us + self.offset_us) // 1000
