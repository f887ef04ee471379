"""Disks that fail in a whole cluster: what was synced and acknowledged stays, and a broker that cannot sync ends."""

from __future__ import annotations

import pytest

from ottla.errors import KafkaError, OttlaError
from ottla.faults.fields import SYNC
from ottla.records.plain import decode_batches
from ottla.simulation.world import World

COUNT = 20


def leader_of(world: World) -> int:
    image = world.controller.core.image  # type: ignore[attr-defined]
    return int(image.topics["t"].partitions[0].leader)


def stored(world: World, broker_id: int) -> list[bytes | None]:
    content = world.disks[broker_id].log_content("t-0")
    return [record.value for _, records in decode_batches(content) for record in records]


@pytest.mark.parametrize("evicts", [False, True])
@pytest.mark.parametrize("seed", range(5))
def test_acknowledged_records_outlive_a_sync_that_failed_and_the_power_of_all(seed: int, evicts: bool) -> None:
    world = World(seed)
    world.create_topic("t", flush_messages=1, min_insync_replicas=2)
    producer = world.producer(linger_ms=0)
    acked = []
    for number in range(COUNT):
        if number == COUNT // 2:
            affected = leader_of(world)
            failing = world.disks[affected].faults.fail(SYNC, 1, evicts=evicts)
        value = b"%d" % number
        try:
            producer.send("t", value, partition=0).result()
            acked.append(value)
        except KafkaError:
            continue
    assert world.brokers[affected].is_dead, "it has ended"
    assert len(acked) > COUNT // 2
    failing.end()
    world.start(affected)
    assert world.run_until(world.is_whole, limit_us=60_000_000)
    for broker_id in range(3):
        world.power_off(broker_id)
    for broker_id in range(3):
        world.start(broker_id)
    assert world.run_until(world.is_whole, limit_us=60_000_000)
    found = {tuple(stored(world, broker_id)) for broker_id in range(3)}
    assert len(found) == 1
    assert [value for value in found.pop() if value in acked] == acked


def test_a_broker_that_goes_on_after_a_failed_sync_would_serve_pages_that_are_gone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The control: without the end of the broker, a log has a hole below its recovery point."""
    monkeypatch.setattr("ottla.broker.log.directory.LogDirectory.sync_failed", lambda *_: None)
    world = World(1, brokers=1)
    world.create_topic("t", replication_factor=1, flush_messages=1)
    producer = world.producer(linger_ms=0, retries=0, enable_idempotence=False)
    producer.send("t", b"0", partition=0).result()
    failing = world.disks[0].faults.fail(SYNC, 1)
    with pytest.raises(OttlaError):
        producer.send("t", b"1", partition=0).result()
    failing.end()
    producer.send("t", b"2", partition=0).result()
    assert not world.brokers[0].is_dead
    world.power_off(0)
    assert b"2" in world.disks[0].log_content("t-0"), "what was synced after the hole"
    assert world.disks[0].log_content("t-0").count(bytes(40)) > 0
