"""A broker that answers late gets fewer of the records without a key, and a stuck one none (KIP-794), by seed."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from ottla.faults.fault import make_fault
from ottla.simulation.world import World

TOPIC = "flights"
RECORDS = 1500


def shares(seed: int, late_ms: int, **settings: Any) -> tuple[float, World]:
    """The part of the records that went to partition 0, whose acknowledgements come late; all are stored."""
    world = World(seed)
    world.create_topic(TOPIC, partitions=3)
    world.faults.add(make_fault("delay_ack", topic=TOPIC, partition=0, every=1, delay_ms=late_ms))
    # Memory for a hundred batches: sending goes on at the pace of the brokers.
    producer = world.producer(batch_size=500, linger_ms=0, buffer_memory=50_000, **settings)
    deliveries = [producer.send(TOPIC, b"x" * 100) for _ in range(RECORDS)]
    producer.flush()
    assert all(delivery.result(0).offset >= 0 for delivery in deliveries)
    return Counter(delivery.partition for delivery in deliveries)[0] / RECORDS, world


@pytest.mark.parametrize("seed", range(3))
def test_a_late_partition_gets_fewer_records(seed: int) -> None:
    evenly, _ = shares(seed, 50, partitioner_adaptive_partitioning_enable=False)
    adapted, _ = shares(seed, 50)
    assert evenly == pytest.approx(1 / 3, abs=0.06)
    assert adapted < evenly / 2


def test_a_partition_beyond_the_availability_timeout_gets_fewer_still() -> None:
    """In all: with one seed or another both may come to the same, since few records go there either way."""
    adapted = sum(shares(seed, 1000)[0] for seed in range(5))
    excluded = sum(shares(seed, 1000, partitioner_availability_timeout_ms=50)[0] for seed in range(5))
    assert excluded < adapted * 0.97


def test_the_same_seed_gives_the_same_shares() -> None:
    one, world = shares(7, 50)
    other, again = shares(7, 50)
    assert (one, world.trace.digest()) == (other, again.trace.digest())
