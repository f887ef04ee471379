"""`failing_disk`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from ottla.faults.disk_fault import DiskFault
from ottla.faults.fault import named
from ottla.faults.fields import BROKER, EVERY, EVICTS, OPERATION, OPERATIONS, SYNC, WRITE

if TYPE_CHECKING:
    from ottla.faults.effect import Effect
    from ottla.faults.site import Drawing, Site, Span

_LASTS_US, _LASTS_US_OF_RARE = 2_000_000, 6_000_000


class FailingDisk(DiskFault):
    """Each `every`-th `read`, `write` or `sync` of a broker fails with EIO.

    A write that fails is refused with KAFKA_STORAGE_ERROR, and the broker goes on. A broker whose sync failed ends by
    itself. Data whose sync failed is gone with the next loss of power, or with `evicts` at once.
    """

    kind = "failing_disk"
    wanted = (BROKER, OPERATION)
    optional = (EVERY, EVICTS)
    defaults: ClassVar[dict[str, Any]] = {"every": 1, "evicts": False}

    operation: str
    every: int
    evicts: bool

    def check(self) -> None:
        """ConfigError where fields do not go together."""
        if self.evicts and self.operation != SYNC:
            raise self.wrong(f"evicts goes with the operation {SYNC!r}, not with {self.operation!r}")

    def begin(self, site: Site, effect: Effect) -> None:
        """It fails from now on; a broker that has ended for it is started when it works again."""
        broker_id = self.broker_id
        if site.is_down(broker_id):
            effect.miss("its broker was down")
            return
        effect.when_healed(lambda: site.mend(broker_id))
        effect.add(site.fail_disk(broker_id, self.operation, self.every, evicts=self.evicts))

    @classmethod
    def draw_fields(cls, drawing: Drawing, span: Span) -> dict[str, Any]:
        """Few reads come by the disk, as what is new is in memory, and few syncs."""
        chance = drawing.chance
        operation = chance.choice(OPERATIONS)
        is_rare = operation != WRITE
        span.lasts_us = max(span.lasts_us, _LASTS_US_OF_RARE if is_rare else _LASTS_US)
        every = 1 if is_rare else chance.choice((1, 1, 2, 5))
        # Data is lost as by a power cut, and a mild plan promises that no acknowledged record is lost.
        evicts = drawing.is_severe and operation == SYNC and chance.random() < 0.5
        return {"operation": operation, "every": every, "evicts": evicts}

    def tell(self) -> str:
        """ "the disk of broker 2 fails each 3. write"."""
        which = f"each {self.every}. {self.operation}" if self.every > 1 else f"every {self.operation}"
        lost = ", and loses at once what it cannot sync" if self.evicts else ""
        return f"the disk of {named(self.broker_id)} fails {which}{lost}"
