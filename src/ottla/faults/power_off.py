"""`power_off`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Self

from ottla.faults.broker_fault import MOMENT, BrokerFault
from ottla.faults.fields import IN_SYNC, NOW
from ottla.faults.request_fault import WHICH

if TYPE_CHECKING:
    from ottla.faults.effect import Effect
    from ottla.faults.site import Drawing, Site, Span

SEEDS_DRAWN = 1 << 16


def seed_of(fault: BrokerFault) -> int | None:
    """What the bytes that are left are drawn from; None: from the site's own chance.

    The same fault at the same request leaves the same bytes, whether it names a seed or not.
    """
    return fault.seed or 0 if fault.applies_to_requests else fault.seed


class PowerOff(BrokerFault):
    """A broker loses power: what it had not synced is lost, or a part of it; `seed` decides which."""

    kind = "power_off"
    told = "loses power"
    optional = (*WHICH, MOMENT, IN_SYNC)
    defaults: ClassVar[dict[str, Any]] = {**BrokerFault.defaults, "in_sync_only": False}

    in_sync_only: bool

    @property
    def draws_bytes(self) -> bool:
        """It does."""
        return True

    def begin(self, site: Site, effect: Effect) -> None:
        """Now, unless it waits for a request."""
        if not self.applies_to_requests and self.in_sync_only and not site.is_whole():
            effect.miss("not all replicas were in sync")
        else:
            super().begin(site, effect)

    def end(self, site: Site, broker_id: int) -> None:
        """Its power is cut."""
        site.power_off(broker_id, seed_of(self))

    @classmethod
    def draw_fields(cls, drawing: Drawing) -> dict[str, Any]:
        """With a seed for what is left."""
        return super().draw_fields(drawing) | {"seed": drawing.chance.randrange(SEEDS_DRAWN)}

    @classmethod
    def draw(cls, drawing: Drawing, span: Span) -> Self | None:
        """In mild plans only where everything is in sync: Kafka loses what was not synced anywhere else."""
        if drawing.is_severe:
            return super().draw(drawing, span)
        up = drawing.up(span.at_us)
        return cls(moment=NOW, broker_id=drawing.chance.choice(up), in_sync_only=True) if up else None
