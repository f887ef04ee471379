"""When records reach the disk: after so many, after so long, at a clean end; the system's flusher does the rest."""

from __future__ import annotations

import pytest

from ottla.broker.log.directory import RECOVERY_POINTS
from ottla.broker.settings import NEVER
from ottla.protocol.messages.delete_topics import DeleteTopicsRequest
from ottla.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)

from .world import TOPIC, World, batch_of

NAME = f"{TOPIC}-0/{0:020d}.log"


def safe_bytes(world: World, broker_id: int = 1) -> int:
    storage = world.storages[broker_id]
    return storage.write_back.synced_bytes(NAME, len(storage.contents[NAME]))


def test_nothing_is_flushed_unless_asked_for() -> None:
    world = World(1)
    world.create_topic()
    world.produce(batch_of(b"a"))
    world.pass_time(20_000)
    assert safe_bytes(world) == 0
    world.pass_time(15_000)
    assert safe_bytes(world) == len(world.storages[1].contents[NAME]), "the system's flusher came by"
    assert world.storages[1].write_back.flush_count == 0


@pytest.mark.parametrize("of_topic", [True, False])
def test_after_so_many_messages_before_the_answer(of_topic: bool) -> None:
    world = World(1, **({} if of_topic else {"log_flush_interval_messages": 3}))
    world.create_topic(**({"flush_messages": 3} if of_topic else {}))
    world.produce(batch_of(b"a", b"b"))
    assert safe_bytes(world) == 0
    world.produce(batch_of(b"c"))
    assert safe_bytes(world) == len(world.storages[1].contents[NAME])
    world.produce(batch_of(b"d"))
    assert 0 < safe_bytes(world) < len(world.storages[1].contents[NAME])


@pytest.mark.parametrize("how", ["topic", "broker", "scheduler"])
def test_after_so_long(how: str) -> None:
    settings = {
        "topic": {},
        "broker": {"log_flush_interval_ms": 200},
        "scheduler": {"log_flush_scheduler_interval_ms": 200},
    }
    world = World(1, **settings[how])
    world.create_topic(**({"flush_ms": 200} if how == "topic" else {}))
    for _ in range(3):
        world.produce(batch_of(b"a"))
        assert safe_bytes(world) < len(world.storages[1].contents[NAME])
        world.pass_time(400)
        assert safe_bytes(world) == len(world.storages[1].contents[NAME])
    flushes = world.storages[1].write_back.flush_count
    world.pass_time(2000)
    assert world.storages[1].write_back.flush_count == flushes, "what is flushed is not flushed again"


def test_the_recovery_point_is_written_down() -> None:
    world = World(1, log_flush_offset_checkpoint_interval_ms=1000)
    world.create_topic(flush_messages=1)
    world.produce(batch_of(b"a", b"b"))
    world.pass_time(1100)
    assert world.storages[1].read_file(RECOVERY_POINTS) == f"0\n1\n{TOPIC} 0 2\n".encode()


def test_acknowledged_and_flushed_records_outlive_a_power_cut_of_the_whole_cluster() -> None:
    world = World(3)
    world.create_topic(replicas=3, flush_messages=1)
    for number in range(5):
        assert world.produce(batch_of(b"%d" % number)).error_code == 0
    for seed, broker_id in enumerate((1, 2, 3)):
        world.power_off(broker_id, seed=seed)
    for broker_id in (1, 2, 3):
        world.start(broker_id)
    world.pass_time(5000)
    assert world.end_offset().offset == 5


def set_flush_ms(world: World, topic: str, value: str | None) -> None:
    operation = 0 if value is not None else 1
    config = AlterableConfig(name="flush.ms", config_operation=operation, value=value)
    resource = AlterConfigsResource(resource_type=2, resource_name=topic, configs=[config])
    answer = world.ask(1, IncrementalAlterConfigsRequest(resources=[resource]), version=1)
    assert answer.responses[0].error_code == 0


def test_logs_are_looked_through_as_often_as_the_settings_say_now() -> None:
    """A time that was shorter once, of a topic that was changed or deleted since, counts no more."""
    world = World(1)
    directory = world.brokers[1].directory
    world.create_topic(partitions=2)
    world.create_topic("other", partitions=2)
    assert directory.flush_ms == NEVER
    set_flush_ms(world, TOPIC, "200")
    set_flush_ms(world, "other", "3000")
    assert directory.flush_ms == 200
    set_flush_ms(world, TOPIC, "5000")
    assert directory.flush_ms == 3000
    world.ask(1, DeleteTopicsRequest(topic_names=["other"]))
    assert directory.flush_ms == 5000
    set_flush_ms(world, TOPIC, None)
    assert directory.flush_ms == NEVER


def test_the_schedulers_own_interval_stays_the_longest() -> None:
    world = World(1, log_flush_scheduler_interval_ms=1000)
    world.create_topic(flush_ms=200)
    assert world.brokers[1].directory.flush_ms == 200
    set_flush_ms(world, TOPIC, "60000")
    assert world.brokers[1].directory.flush_ms == 1000
