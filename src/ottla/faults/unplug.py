"""`unplug`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.faults.client_fault import ClientFault
from ottla.faults.fault import named
from ottla.faults.fields import BROKER, CLIENT

if TYPE_CHECKING:
    from ottla.faults.effect import Effect
    from ottla.faults.site import Site


class Unplug(ClientFault):
    """All connections between a broker and its clients, or one client, stay open and silent; healed, they go on."""

    kind = "unplug"
    wanted = (BROKER,)
    optional = (CLIENT,)

    broker_id: int

    def begin(self, site: Site, effect: Effect) -> None:
        """They fall silent."""
        effect.add(site.unplug(self.broker_id, self.client_id))

    def tell(self) -> str:
        """ "broker 2 and client p0 hear nothing of each other"."""
        whom = "its clients" if self.client_id is None else self.client_id
        return f"{named(self.broker_id)} and {whom} hear nothing of each other"
