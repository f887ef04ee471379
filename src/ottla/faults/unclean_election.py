"""`unclean_election`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.faults.fault import Fault
from ottla.faults.fields import PARTITION, TOPIC

if TYPE_CHECKING:
    from ottla.faults.effect import Effect
    from ottla.faults.site import Site


class UncleanElection(Fault):
    """If no replica in sync can lead a partition, one that is not in sync does: records that it lacks are lost."""

    kind = "unclean_election"
    wanted = (TOPIC, PARTITION)

    topic: str
    partition: int

    @property
    def waits(self) -> bool:
        """It fires for what comes while it is in force."""
        return True

    def begin(self, site: Site, effect: Effect) -> None:
        """Whenever the cluster's metadata have changed, it looks whether nobody leads."""
        topic, partition = self.topic, self.partition
        is_electing = False

        def look() -> None:
            nonlocal is_electing
            if not is_electing and not site.is_led(topic, partition):
                is_electing = True
                site.elect_unclean(topic, partition, elected)

        def elected(there_is_one: bool) -> None:
            nonlocal is_electing
            is_electing = False
            if there_is_one:
                effect.fire()

        effect.when_healed(site.watch_images(look))
        look()

    def tell(self) -> str:
        """ "t0-1 may be led by a replica that is not in sync"."""
        return f"{self.topic}-{self.partition} may be led by a replica that is not in sync"
