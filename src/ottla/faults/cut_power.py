"""`cut_power`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Self

from ottla.faults.broker_fault import MOMENT, BrokerFault
from ottla.faults.fields import NOW, WITH_CONTROLLER
from ottla.faults.power_off import SEEDS_DRAWN, seed_of
from ottla.faults.request_fault import WHICH

if TYPE_CHECKING:
    from ottla.faults.effect import Effect
    from ottla.faults.site import Drawing, Site, Span


class CutPower(BrokerFault):
    """All brokers lose power at once, also those that are down already, and with them the controller."""

    kind = "cut_power"
    told = "all brokers lose power"
    optional = (*WHICH, MOMENT, WITH_CONTROLLER)
    defaults: ClassVar[dict[str, Any]] = {**BrokerFault.defaults, "controller": True}

    controller: bool

    @property
    def draws_bytes(self) -> bool:
        """It does."""
        return True

    @property
    def needs_broker(self) -> bool:
        """It is about all of them."""
        return False

    def begin(self, site: Site, effect: Effect) -> None:
        """Now, unless it waits for a request."""
        if not self.applies_to_requests:
            self.carry_out(site, effect, -1)
            if all(map(site.is_down, site.broker_ids)):
                effect.fire()

    def carry_out(self, site: Site, effect: Effect, broker_id: int) -> None:
        """The power of all is cut; when the fault is healed, all run again."""
        effect.when_healed(site.mend_all)
        if self.controller:
            effect.when_healed(site.stop_controller(until_started=True).end)
        for each in site.broker_ids:
            site.power_off(each, seed_of(self))

    @classmethod
    def draw_fields(cls, drawing: Drawing) -> dict[str, Any]:
        """With a seed for what is left."""
        return super().draw_fields(drawing) | {"seed": drawing.chance.randrange(SEEDS_DRAWN)}

    @classmethod
    def draw(cls, drawing: Drawing, span: Span) -> Self | None:
        """With the controller or without it."""
        return cls(moment=NOW, controller=drawing.chance.random() < 0.5)
