"""A reader that can do nothing waits: its deadline lies ahead, and time passes instead of turns."""

from __future__ import annotations

from ottla.reader.events import Assign
from ottla.simulation.clients import SimulatedReader
from ottla.simulation.world import World

TOPIC = "flights"


class CountingReader(SimulatedReader):
    """Counts how often its core has done something."""

    turns = 0

    def begin(self) -> None:
        def acted() -> None:
            self.turns += 1

        self.when_acted(acted)
        for partition in range(2):
            self._fetched[TOPIC, partition] = []
            self._runner.deliver(Assign(TOPIC, partition, start=0, end=None))


def test_a_reader_whose_broker_is_gone_does_not_spin() -> None:
    world = World(3)
    world.create_topic(TOPIC, partitions=2, replication_factor=1)
    producer = world.producer(acks="all")
    for partition in range(2):
        producer.send(TOPIC, b"here", partition=partition)
    producer.flush()
    reader = world.reader(CountingReader)
    reader.begin()
    world.run_until(lambda: False, limit_us=3_000_000)
    for broker_id in range(3):
        world.kill(broker_id)
    begun = reader.turns
    world.run_until(lambda: False, limit_us=10_000_000)
    for broker_id in range(3):
        world.start(broker_id)
    world.run_until(lambda: False, limit_us=10_000_000)
    # Backoffs and long polls end a few times a second; one that spins takes a million turns in the same microsecond.
    assert reader.turns - begun < 2_000
