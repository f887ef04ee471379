"""Faults of brokers' disks: how they are drawn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Self

from ottla.faults.fault import Fault
from ottla.faults.fields import BROKER, Field

if TYPE_CHECKING:
    from ottla.faults.site import Drawing, Span


class DiskFault(Fault):
    """Something is wrong with the disk of a broker."""

    wanted: ClassVar[tuple[Field, ...]] = (BROKER,)

    broker_id: int

    @property
    def waits(self) -> bool:
        """It fires for what comes while it is in force."""
        return True

    @property
    def may_cost_a_broker(self) -> bool:
        """A follower that does not keep up is dropped; a broker that cannot sync ends."""
        return True

    @classmethod
    def draw(cls, drawing: Drawing, span: Span) -> Self | None:
        """At a broker that is up, when something is sent."""
        drawing.await_sending(span)
        up = drawing.up(span.at_us, "pause", "isolate")
        if not up:
            return None
        return cls(broker_id=drawing.chance.choice(up), **cls.draw_fields(drawing, span))

    @classmethod
    def draw_fields(cls, drawing: Drawing, span: Span) -> dict[str, Any]:
        """Its other fields."""
        return {}
