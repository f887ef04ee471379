"""`stop`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from ottla.faults.fault import Fault, named
from ottla.faults.fields import BROKER

if TYPE_CHECKING:
    from ottla.faults.effect import Effect
    from ottla.faults.site import Drawing, Site, Span


class Stop(Fault):
    """A broker shuts down in order: others lead first, then it closes its logs; healed, it starts again."""

    kind = "stop"
    wanted = (BROKER,)

    broker_id: int

    @property
    def may_cost_a_broker(self) -> bool:
        """It is the broker's end."""
        return True

    def begin(self, site: Site, effect: Effect) -> None:
        """It is asked to end, and takes its time; one that has not ended by then is killed."""
        broker_id = self.broker_id
        if site.is_down(broker_id) or site.is_frozen(broker_id):
            effect.miss(f"its broker was {'down' if site.is_down(broker_id) else 'frozen'}")
            return
        effect.fire()

        def mend() -> None:
            if site.is_shutting_down(broker_id):
                # The controller has not moved its leaders away yet, and may never do so.
                site.kill(broker_id)
            site.mend(broker_id)

        effect.when_healed(mend)
        site.shut_down(broker_id)

    @classmethod
    def draw(cls, drawing: Drawing, span: Span) -> Self | None:
        """At a broker that is up."""
        up = drawing.up(span.at_us, "pause")
        return cls(broker_id=drawing.chance.choice(up)) if up else None

    def tell(self) -> str:
        """ "broker 2 is shut down in order"."""
        return f"{named(self.broker_id)} is shut down in order"
