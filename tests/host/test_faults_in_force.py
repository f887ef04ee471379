"""Faults of a host with brokers: what ends with them."""

from __future__ import annotations

import pytest

from ottla.faults.fault import make_fault
from ottla.simulation.clients import SimulatedProducer
from ottla.simulation.world import World

TOPIC = "flights"
# Long before the producer gives a request up and sends it again.
SOON_US = 1_000_000


@pytest.mark.parametrize("moment", ["request", "ack"])
def test_what_a_fault_held_goes_on_when_it_is_healed(moment: str) -> None:
    world = World(1)
    world.create_topic(TOPIC)
    producer = world.producer(SimulatedProducer, linger_ms=0)
    hold = world.faults.add(make_fault("hold", topic=TOPIC, moment=moment))
    delivery = producer.send(TOPIC, b"a")
    assert world.run_until(lambda: hold.fired == 1)
    assert not world.run_until(delivery.done, limit_us=SOON_US)
    world.faults.heal(hold.fault_id)
    assert world.run_until(delivery.done, limit_us=SOON_US)
