"""`cut_link`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Self

from ottla.faults.fault import Fault, named
from ottla.faults.fields import BROKER, CONTROLLER, OTHER, SILENTLY

if TYPE_CHECKING:
    from ottla.faults.effect import Effect
    from ottla.faults.site import Drawing, Site, Span

_LASTS_US = 2_000_000


class CutLink(Fault):
    """Two brokers, or a broker and the controller (-2), cannot reach each other.

    A leader takes a follower that cannot reach it out of the ISR after 1 to 1.5 times `replica.lag.time.max.ms` (30 s).
    Until then sends with `acks=all` wait; a lower value of this broker setting makes the wait shorter.
    """

    kind = "cut_link"
    wanted = (BROKER, OTHER)
    optional = (SILENTLY,)
    defaults: ClassVar[dict[str, Any]] = {"silently": False}

    broker_id: int
    other_id: int
    silently: bool

    def check(self) -> None:
        """ConfigError for a link that there is not."""
        if self.broker_id == self.other_id:
            raise self.wrong(f"broker {self.broker_id} has no link to itself; name two brokers")

    @property
    def waits(self) -> bool:
        """It fires for what comes while it is in force."""
        return True

    @property
    def may_cost_a_broker(self) -> bool:
        """A follower falls out of sync, or a broker is given up."""
        return True

    def begin(self, site: Site, effect: Effect) -> None:
        """Nothing passes from now on."""
        effect.add(site.cut_link(self.broker_id, self.other_id, silently=self.silently))

    @classmethod
    def draw(cls, drawing: Drawing, span: Span) -> Self | None:
        """Followers hear of what the leader is sent; the controller hears of brokers once in a while."""
        chance = drawing.chance
        sending = drawing.await_sending(span)
        up = drawing.up(span.at_us, "pause")
        one = chance.choice(list(drawing.brokers)) if sending is None else drawing.timetable.leader_of(sending, chance)
        if one not in up:
            return None
        other = chance.choice([each for each in (*up, CONTROLLER) if each != one])
        if other == CONTROLLER:
            span.lasts_us = max(span.lasts_us, _LASTS_US)
        return cls(broker_id=one, other_id=other, silently=chance.random() < 0.5)

    def tell(self) -> str:
        """ "broker 1 and broker 2 cannot reach each other"."""
        silently = ", and are not told" if self.silently else ""
        return f"{named(self.broker_id)} and {named(self.other_id)} cannot reach each other{silently}"
