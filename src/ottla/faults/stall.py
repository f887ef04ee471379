"""`stall`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from ottla.faults.fault import Fault
from ottla.faults.fields import MOST_DELAY, SHARE

if TYPE_CHECKING:
    from ottla.faults.effect import Effect
    from ottla.faults.site import Drawing, Site, Span


class Stall(Fault):
    """A share of what clients send, and of messages among brokers and controller, is delayed by at most `delay_max_ms`.

    What follows on a client's connection is delayed with it. So what a client sent on a connection that it gave up can
    arrive after what it sent on the next one. `fired` counts the delayed messages. It also grows when no client is
    connected, because brokers send messages to each other and to the controller.
    """

    kind = "stall"
    wanted = (SHARE, MOST_DELAY)

    probability: float
    delay_max_ms: int

    @property
    def waits(self) -> bool:
        """It fires for what comes while it is in force."""
        return True

    @property
    def may_cost_a_broker(self) -> bool:
        """Brokers' own messages are held up, too."""
        return True

    def begin(self, site: Site, effect: Effect) -> None:
        """Messages are held up from now on."""
        effect.add(site.stall(self.probability, self.delay_max_ms * 1000))

    @classmethod
    def draw(cls, drawing: Drawing, span: Span) -> Self | None:
        """Many for a short while, or few for a long one."""
        share, least_us = drawing.chance.choice(((0.02, 2_000_000), (0.1, 200_000)))
        drawing.await_sending(span)
        span.lasts_us = max(span.lasts_us, least_us)
        return cls(probability=share, delay_max_ms=drawing.chance.choice((50, 2_000)))

    def tell(self) -> str:
        """ "10 % of all messages are held up for at most 2000 ms"."""
        return f"{100 * self.probability:g} % of all messages are held up for at most {self.delay_max_ms} ms"
