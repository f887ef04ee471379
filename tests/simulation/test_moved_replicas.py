"""Replicas move (KIP-455) while brokers and controllers are killed: what was acknowledged is there once."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from tests.drawn import fixed_seeds

from ottla.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from ottla.simulation.world import World

TOPIC = "moves"
BROKERS, RECORDS, ROUNDS = 4, 120, 12
# Kills take nothing: what is in the page cache stays.
SEEDS = fixed_seeds(12, soak=500)


def move(world: World, target: list[int] | None) -> None:
    """Ask the controller to move the partition, or to stop moving it; it may say no, or be dead."""
    partition = ReassignablePartition(partition_index=0, replicas=target)
    topic = ReassignableTopic(name=TOPIC, partitions=[partition])
    world.links.order(AlterPartitionReassignmentsRequest(timeout_ms=1000, topics=[topic]), lambda _: None)


def image(world: World) -> Any:
    core: Any = world.controller.core
    return core.image.topics[TOPIC].partitions[0]


@pytest.mark.parametrize("seed", SEEDS)
def test_what_was_acknowledged_moves_along(seed: int) -> None:
    rng = Random(seed)
    world = World(seed, brokers=BROKERS, broker_session_timeout_ms=1500, replica_lag_time_max_ms=2500)
    world.create_topic(TOPIC, partitions=1, replication_factor=2)
    producer = world.producer(batch_size=300, linger_ms=0, delivery_timeout_ms=120_000)
    deliveries = []
    moved = set()
    for _ in range(ROUNDS):
        first = len(deliveries)
        deliveries += [producer.send(TOPIC, b"%d" % number) for number in range(first, first + RECORDS // ROUNDS)]
        world.run_until(lambda: False, limit_us=rng.randrange(2_000_000))
        size = rng.randint(1, 3)
        move(world, None if rng.random() < 0.1 else rng.sample(range(BROKERS), size))
        world.run_until(lambda: False, limit_us=rng.randrange(3_000_000))
        moved.add(image(world).replicas)
        victim = rng.randrange(BROKERS)
        world.kill(victim)
        stops_controller = rng.random() < 0.3
        if stops_controller:
            world.kill_controller()
        world.run_until(lambda: False, limit_us=rng.randrange(4_000_000))
        if stops_controller:
            world.start_controller()
        world.start(victim)
    producer.flush()
    assert world.run_until(lambda: world.is_whole() and not image(world).is_moving)
    assert len(moved) > 2, "replicas that never moved void the run"
    holders = image(world).replicas
    assert [each for each, disk in enumerate(world.disks) if disk.files(f"{TOPIC}-0")] == sorted(holders)
    stored = [int(record.value or b"-1") for record in world.reader().read(TOPIC, 0)]
    assert [delivery.exception() for delivery in deliveries] == [None] * RECORDS
    assert stored == list(range(RECORDS))
