"""Storms by seed: faults, unreachable followers, restarts; one idempotent producer that retries until it is told."""

from __future__ import annotations

import random

import pytest

from ottla.faults.fault import make_fault

from .world import TOPIC, World, batch_of, records_of

SETTINGS = {"log_segment_bytes": 1024, "recent_batches_bytes": 2000, "log_index_interval_bytes": 300}


def change_conditions(world: World, rng: random.Random) -> World:
    roll = rng.random()
    if roll < 0.10:
        world.faults.add(make_fault(rng.choice(["lose_ack", "lose_request", "refuse_after_append", "refuse"]), times=2))
    elif roll < 0.20:
        world.unreachable = {rng.randint(1, 3)}
    elif roll < 0.30:
        world.unreachable = set()
    elif roll < 0.34:
        clean = rng.random() < 0.5
        if clean:
            world.close()
        world = World(3, world.storages, **SETTINGS)
    world.pass_time(rng.choice([0, 20, 200, 700]))
    return world


@pytest.mark.parametrize("seed", range(25))
def test_every_value_is_stored_once_in_order_on_every_replica(seed: int) -> None:
    rng = random.Random(seed)
    world = World(3, **SETTINGS)
    world.create_topic(replicas=3)
    sent: list[bytes] = []
    acked = 0
    while acked < 40:
        world = change_conditions(world, rng)
        values = [b"%d-%d" % (acked, index) + b"x" * rng.randint(0, 200) for index in range(rng.randint(1, 3))]
        batch = batch_of(*values, producer_id=1, sequence=len(sent))
        before = world.brokers[world.leader()].topics[TOPIC][0].high_watermark
        for _ in range(200):
            answer = world.produce(batch)
            if not isinstance(answer, str) and answer.error_code == 0:
                assert answer.base_offset == len(sent)
                break
            world.unreachable = world.unreachable if rng.random() < 0.7 else set()
            world.pass_time(rng.choice([10, 100, 600]))
        else:
            pytest.fail("the producer was never told")
        sent += values
        acked += 1
        partition = world.brokers[world.leader()].topics[TOPIC][0]
        assert before <= partition.high_watermark == len(sent)
        seen = records_of(world.fetch(rng.randrange(len(sent))))
        assert all(sent[record.offset] == record.value for record in seen)
    world.unreachable = set()
    world.pass_time(2000)
    for broker_id in (1, 2, 3):
        assert [(r.offset, r.value) for r in world.stored(broker_id=broker_id)] == list(enumerate(sent))
