"""`corrupt_unsynced`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from ottla.faults.fault import Fault, named
from ottla.faults.fields import BROKER, PARTITION, TOPIC

if TYPE_CHECKING:
    from ottla.faults.effect import Effect
    from ottla.faults.site import Drawing, Site, Span


class CorruptUnsynced(Fault):
    """A broker ends, and one byte is wrong in the part of that log that was not synced; healed, the broker starts."""

    kind = "corrupt_unsynced"
    wanted = (TOPIC, PARTITION, BROKER)

    topic: str
    partition: int
    broker_id: int

    def begin(self, site: Site, effect: Effect) -> None:
        """At once, where there is something unsynced."""
        broker_id = self.broker_id
        if site.is_down(broker_id):
            effect.miss("its broker was down")
        elif not site.spoil_unsynced(broker_id, self.topic, self.partition):
            effect.miss("nothing of that log was unsynced")
        else:
            effect.when_healed(lambda: site.mend(broker_id))
            effect.fire()

    @classmethod
    def draw(cls, drawing: Drawing, span: Span) -> Self | None:
        """What has just been written, to a log that is not synced at once."""
        chance = drawing.chance
        lazy = {each.name: each for each in drawing.topics if "flush_messages" not in each.settings}
        sending = drawing.timetable.next_sending(span.at_us, chance, topics=tuple(lazy))
        if sending is None:
            return None
        topic, partition = lazy[sending.topic], sending.partition
        span.at_us = sending.at_us + chance.choice((5_000, 50_000, 300_000))
        if partition is None:
            partition = chance.randrange(topic.partitions)
        first = drawing.timetable.leader(topic.name, partition)
        replicas = [(first + number) % len(drawing.brokers) for number in range(topic.replication_factor)]
        up = drawing.up(span.at_us, "pause", "isolate")
        affected = [each for each in replicas if each in up]
        return cls(broker_id=chance.choice(affected), topic=topic.name, partition=partition) if affected else None

    def tell(self) -> str:
        """ "broker 2 dies, and a byte is wrong in what it had not synced of t0-1"."""
        place = f"{self.topic}-{self.partition}"
        return f"{named(self.broker_id)} dies, and a byte is wrong in what it had not synced of {place}"
