"""`lose_messages`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from ottla.faults.fault import Fault
from ottla.faults.fields import SHARE

if TYPE_CHECKING:
    from ottla.faults.effect import Effect
    from ottla.faults.site import Drawing, Site, Span


class LoseMessages(Fault):
    """A share of the messages between brokers, and between brokers and controller, is lost without an error."""

    kind = "lose_messages"
    wanted = (SHARE,)

    probability: float

    @property
    def waits(self) -> bool:
        """It fires for what comes while it is in force."""
        return True

    @property
    def may_cost_a_broker(self) -> bool:
        """Its heartbeats may be lost."""
        return True

    def begin(self, site: Site, effect: Effect) -> None:
        """Messages are lost from now on."""
        effect.add(site.lose_messages(self.probability))

    @classmethod
    def draw(cls, drawing: Drawing, span: Span) -> Self | None:
        """Many for a short while, or few for a long one."""
        share, least_us = drawing.chance.choice(((0.01, 6_000_000), (0.1, 2_000_000), (0.3, 200_000)))
        drawing.await_sending(span)
        span.lasts_us = max(span.lasts_us, least_us)
        return cls(probability=share)

    def tell(self) -> str:
        """ "10 % of the messages between brokers and controller are lost"."""
        return f"{100 * self.probability:g} % of the messages between brokers and controller are lost"
