"""`move_leader`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from ottla.faults.fault import Fault
from ottla.faults.fields import PARTITION, TOPIC

if TYPE_CHECKING:
    from ottla.faults.effect import Effect
    from ottla.faults.site import Drawing, Site, Span

# The internal topics whose leaders are coordinators, and the requests at which brokers create them.
_COORDINATING = (("__transaction_state", "InitProducerId"), ("__consumer_offsets", "TxnOffsetCommit"))
# This long after such a request the topic exists, with all replicas in sync.
_RECOVERED_US = 2_000_000


class MoveLeader(Fault):
    """Another replica in sync becomes the leader of a partition, at once and for good.

    With an internal topic (`__consumer_offsets`, `__transaction_state`) the coordinator moves.
    """

    kind = "move_leader"
    wanted = (TOPIC, PARTITION)

    topic: str
    partition: int

    def begin(self, site: Site, effect: Effect) -> None:
        """The controller is asked, and knows whether there is another one."""
        effect.is_pending = True

        def answered(why: str) -> None:
            if why:
                effect.miss("no other replica could lead", why)
            else:
                effect.fire()
            effect.begun()

        site.move_leader(self.topic, self.partition, answered)

    @classmethod
    def draw(cls, drawing: Drawing, span: Span) -> Self | None:
        """For a partition that another replica can lead, while there is a controller; None without one of these."""
        at_us, chance = span.at_us, drawing.chance
        if drawing.stops_controller(at_us):
            return None
        down = len(drawing.brokers) - len(drawing.up(at_us, "pause", "isolate"))
        movable = [each for each in drawing.topics if each.replication_factor - down > 1]
        if movable and chance.random() < 0.6:
            topic = chance.choice(movable)
            return cls(topic=topic.name, partition=chance.randrange(topic.partitions))
        name, api = chance.choice(_COORDINATING)
        exists = any(each + _RECOVERED_US <= at_us for each in drawing.timetable.requests(api))
        return cls(topic=name, partition=0) if down <= 1 and exists else None

    def tell(self) -> str:
        """ "another broker leads t0-1"."""
        return f"another broker leads {self.topic}-{self.partition}"
