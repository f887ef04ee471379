"""`stop_controller`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from ottla.faults.fault import Fault

if TYPE_CHECKING:
    from ottla.faults.effect import Effect
    from ottla.faults.site import Drawing, Site, Span


class StopController(Fault):
    """The controller loses power; brokers go on with the metadata they have. Healed, it starts from its disk."""

    kind = "stop_controller"

    @property
    def may_cost_a_broker(self) -> bool:
        """Whoever stops meanwhile is not noticed."""
        return True

    def begin(self, site: Site, effect: Effect) -> None:
        """It ends."""
        if not site.has_controller:
            effect.miss("the controller was down")
        effect.add(site.stop_controller())

    @classmethod
    def draw(cls, drawing: Drawing, span: Span) -> Self | None:
        """Where there is one."""
        return None if drawing.stops_controller(span.at_us) else cls()

    def tell(self) -> str:
        """ "the controller loses power"."""
        return "the controller loses power"
