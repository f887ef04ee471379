"""`slow_disk`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ottla.faults.disk_fault import DiskFault
from ottla.faults.fault import named
from ottla.faults.fields import BROKER, DELAY

if TYPE_CHECKING:
    from ottla.faults.effect import Effect
    from ottla.faults.site import Drawing, Site, Span


class SlowDisk(DiskFault):
    """A broker's writes come `delay_ms` late, as leader and as follower; requests of a connection keep their order.

    Writes are what appends to its logs: records, committed offsets, members of groups, the states of transactions.
    """

    kind = "slow_disk"
    wanted = (BROKER, DELAY)

    delay_ms: int

    def begin(self, site: Site, effect: Effect) -> None:
        """Writers wait from now on."""
        effect.add(site.slow_disk(self.broker_id, self.delay_ms * 1000))

    @classmethod
    def draw_fields(cls, drawing: Drawing, span: Span) -> dict[str, Any]:
        """From hardly noticed to given up."""
        return {"delay_ms": drawing.chance.choice((5, 200, 1_500))}

    def tell(self) -> str:
        """ "the disk of broker 2 is 200 ms late"."""
        return f"the disk of {named(self.broker_id)} is {self.delay_ms} ms late"
