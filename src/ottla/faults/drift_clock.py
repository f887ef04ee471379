"""`drift_clock`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from ottla.faults.fault import Fault, named
from ottla.faults.fields import BROKER_OR_CONTROLLER, CLIENT, CONTROLLER, DRIFT

if TYPE_CHECKING:
    from ottla.faults.effect import Effect
    from ottla.faults.site import Drawing, Site, Span


class DriftClock(Fault):
    """The clock of a broker or the controller (-2) runs too fast, or too slow if `drift_ppm` is negative.

    In the simulation also that of a client (`client_id`).
    """

    kind = "drift_clock"
    wanted = (DRIFT,)
    optional = (BROKER_OR_CONTROLLER, CLIENT)

    drift_ppm: int
    broker_id: int | None
    client_id: str | None

    def check(self) -> None:
        """ConfigError unless it is about one of them."""
        if (self.broker_id is None) == (self.client_id is None):
            raise self.wrong("give a broker_id or a client_id, and not both")

    @property
    def may_cost_a_broker(self) -> bool:
        """Clocks of clients do not."""
        return self.broker_id is not None

    def begin(self, site: Site, effect: Effect) -> None:
        """It runs too fast or too slow from now on, and right when it is healed."""
        broker_id, client_id = self.broker_id, self.client_id
        if broker_id is not None:
            site.drift_clock(broker_id, self.drift_ppm)
            effect.when_healed(lambda: site.drift_clock(broker_id, 0))
        elif client_id is not None:
            site.drift_client_clock(client_id, self.drift_ppm)
            effect.when_healed(lambda: site.drift_client_clock(client_id, 0))
        effect.fire()

    @classmethod
    def draw(cls, drawing: Drawing, span: Span) -> Self | None:
        """Half as fast, twice as fast, or off by little."""
        drift_ppm = drawing.chance.choice((-500_000, -50_000, -200, 200, 50_000, 1_000_000))
        return cls(broker_id=drawing.chance.choice([CONTROLLER, *drawing.brokers]), drift_ppm=drift_ppm)

    def tell(self) -> str:
        """ "the clock of broker 2 runs too fast by 200 parts in a million"."""
        whose = self.client_id if self.broker_id is None else named(self.broker_id)
        side = "fast" if self.drift_ppm >= 0 else "slow"
        return f"the clock of {whose} runs too {side} by {abs(self.drift_ppm)} parts in a million"
