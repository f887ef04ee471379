"""`isolate`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Self

from ottla.faults.fault import Fault, named
from ottla.faults.fields import BROKER, CONTROLLER, SILENTLY

if TYPE_CHECKING:
    from ottla.faults.effect import Effect
    from ottla.faults.site import Drawing, Site, Span


class Isolate(Fault):
    """A broker cannot reach any other broker or the controller, and they cannot reach it; clients still can.

    So it goes on as a leader for a while after another one was elected.
    """

    kind = "isolate"
    wanted = (BROKER,)
    optional = (SILENTLY,)
    defaults: ClassVar[dict[str, Any]] = {"silently": False}

    broker_id: int
    silently: bool

    @property
    def waits(self) -> bool:
        """It fires for what comes while it is in force."""
        return True

    @property
    def may_cost_a_broker(self) -> bool:
        """It is given up."""
        return True

    def begin(self, site: Site, effect: Effect) -> None:
        """Nothing passes from now on."""
        for other in (*site.broker_ids, CONTROLLER):
            if other != self.broker_id:
                effect.add(site.cut_link(self.broker_id, other, silently=self.silently))

    @classmethod
    def draw(cls, drawing: Drawing, span: Span) -> Self | None:
        """At a broker that is up, when something is sent."""
        drawing.await_sending(span)
        up = drawing.up(span.at_us, "pause")
        if not up:
            return None
        return cls(broker_id=drawing.chance.choice(up), silently=drawing.chance.random() < 0.5)

    def tell(self) -> str:
        """ "broker 2 reaches no other broker and no controller"."""
        silently = ", and is not told" if self.silently else ""
        return f"{named(self.broker_id)} reaches no other broker and no controller{silently}"
