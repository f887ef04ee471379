"""`kill`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.faults.broker_fault import BrokerFault

if TYPE_CHECKING:
    from ottla.faults.site import Site


class Kill(BrokerFault):
    """A broker ends as by `kill -9`; what it wrote is still in the page cache."""

    kind = "kill"
    told = "is killed"

    def end(self, site: Site, broker_id: int) -> None:
        """It ends."""
        site.kill(broker_id)
