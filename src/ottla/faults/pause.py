"""`pause`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.faults.broker_fault import BrokerFault
from ottla.faults.request_fault import Does

if TYPE_CHECKING:
    from ottla.faults.effect import Effect
    from ottla.faults.site import Site


class Pause(BrokerFault):
    """A broker freezes: its connections stay open and silent; healed, it goes on where it was."""

    kind = "pause"
    does = Does.PAUSE_BROKER
    told = "freezes"

    def begin(self, site: Site, effect: Effect) -> None:
        """Now, unless it waits for a request."""
        if not self.applies_to_requests and self.broker_id is not None and site.is_frozen(self.broker_id):
            effect.miss("its broker was frozen")
        else:
            super().begin(site, effect)

    def end(self, site: Site, broker_id: int) -> None:
        """It freezes."""
        site.pause(broker_id)

    @classmethod
    def not_beside(cls) -> tuple[str, ...]:
        """A frozen broker cannot freeze."""
        return ("pause",)
