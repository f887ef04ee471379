"""`corrupt`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.faults.fault import Fault, named
from ottla.faults.fields import BROKER, OFFSET, PARTITION, TOPIC

if TYPE_CHECKING:
    from ottla.faults.effect import Effect
    from ottla.faults.site import Site


class Corrupt(Fault):
    """One byte of the batch that holds `offset` is changed in the file of that broker's replica, for good."""

    kind = "corrupt"
    wanted = (TOPIC, PARTITION, OFFSET, BROKER)

    topic: str
    partition: int
    offset: int
    broker_id: int

    def begin(self, site: Site, effect: Effect) -> None:
        """It is flipped at once."""
        why = site.flip_byte(self.broker_id, self.topic, self.partition, self.offset)
        if why:
            effect.miss("there was no such batch", why)
        else:
            effect.fire()

    def tell(self) -> str:
        """ "a byte of t0-1 at offset 7 is flipped on broker 2"."""
        return f"a byte of {self.topic}-{self.partition} at offset {self.offset} is flipped on {named(self.broker_id)}"
