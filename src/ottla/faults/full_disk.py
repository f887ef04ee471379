"""`full_disk`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.faults.disk_fault import DiskFault
from ottla.faults.fault import named

if TYPE_CHECKING:
    from ottla.faults.effect import Effect
    from ottla.faults.site import Site


class FullDisk(DiskFault):
    """Every append of a broker fails with ENOSPC; it is refused with KAFKA_STORAGE_ERROR, and the broker goes on."""

    kind = "full_disk"

    def begin(self, site: Site, effect: Effect) -> None:
        """Appends fail from now on."""
        effect.add(site.fill_disk(self.broker_id))

    def tell(self) -> str:
        """ "the disk of broker 2 is full"."""
        return f"the disk of {named(self.broker_id)} is full"
