"""`half_open`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.faults.client_fault import ClientFault
from ottla.faults.fault import named
from ottla.faults.fields import BROKER, CLIENT

if TYPE_CHECKING:
    from ottla.faults.effect import Effect
    from ottla.faults.site import Site


class HalfOpen(ClientFault):
    """Connections that clients have now are silent for good; new connections work.

    `broker_id` and `client_id` say which connections; without them all. `fired` counts them: 0 if there is none. In
    the simulation, if there is no such connection, the next one is affected.
    """

    kind = "half_open"
    optional = (BROKER, CLIENT)

    def begin(self, site: Site, effect: Effect) -> None:
        """They fall silent."""
        effect.add(site.half_open(self.broker_id, self.client_id))

    def tell(self) -> str:
        """ "the connections of p0 to broker 2 are half-open"."""
        whose = "all clients" if self.client_id is None else self.client_id
        to = "all brokers" if self.broker_id is None else named(self.broker_id)
        return f"the connections of {whose} to {to} are half-open"
