"""`jump_clock`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from ottla.faults.fault import Fault, named
from ottla.faults.fields import BROKER, JUMP

if TYPE_CHECKING:
    from ottla.faults.effect import Effect
    from ottla.faults.site import Drawing, Site, Span


class JumpClock(Fault):
    """A broker's clock jumps `jump_ms` ahead, or back if that is negative; healed, it is right again.

    A broker refuses records from more than an hour in its future with INVALID_TIMESTAMP.
    """

    kind = "jump_clock"
    wanted = (BROKER, JUMP)

    broker_id: int
    jump_ms: int

    def begin(self, site: Site, effect: Effect) -> None:
        """It jumps at once, and back when it is healed."""
        broker_id, jump_us = self.broker_id, self.jump_ms * 1000
        site.jump_clock(broker_id, jump_us)
        effect.when_healed(lambda: site.jump_clock(broker_id, -jump_us))
        effect.fire()

    @classmethod
    def draw(cls, drawing: Drawing, span: Span) -> Self | None:
        """By a second, a minute, hours or a day."""
        jump_ms = drawing.chance.choice((-86_400_000, -60_000, 1_000, 60_000, 7_200_000))
        return cls(broker_id=drawing.chance.choice(list(drawing.brokers)), jump_ms=jump_ms)

    def tell(self) -> str:
        """ "the date of broker 2 is 60000 ms ahead"."""
        side = "ahead" if self.jump_ms >= 0 else "behind"
        return f"the date of {named(self.broker_id)} is {abs(self.jump_ms)} ms {side}"
