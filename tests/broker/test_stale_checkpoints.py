"""What a checkpoint says of a log that was replaced, or cut, since it was written must not be believed of what came."""

from __future__ import annotations

from random import Random

from ottla.broker.log.log import Log
from ottla.protocol.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from ottla.protocol.messages.delete_topics import DeleteTopicsRequest

from .log_world import FOLDER, TOPIC_ID, LogWorld
from .world import TOPIC, World, batch_of


def test_a_topic_made_anew_does_not_begin_where_the_deleted_one_of_its_name_did() -> None:
    world = World(1)
    world.create_topic()
    for _ in range(8):
        world.produce(batch_of(b"old"))
    wanted = DeleteRecordsTopic(name=TOPIC, partitions=[DeleteRecordsPartition(partition_index=0, offset=5)])
    world.ask(1, DeleteRecordsRequest(topics=[wanted], timeout_ms=1000), version=2)
    world.pass_time(70_000)
    world.ask(1, DeleteTopicsRequest(topic_names=[TOPIC]))
    world.create_topic()
    for number in range(8):
        assert world.produce(batch_of(b"%d" % number)).error_code == 0
    world.kill(1)
    world.start(1)
    world.pass_time(20_000)
    assert world.end_offset(timestamp=-2).offset == 0
    assert [record.value for record in world.stored()] == [b"%d" % number for number in range(8)]


def torn(world: LogWorld, seed: int) -> bool:
    """Fill the log, cut the power in the middle of it, and tell whether what is left of it has a hole."""
    for _ in range(40):
        world.append(size=100)
    world.disk.power_off(Random(seed))
    world.open()
    read = [each.header.base_offset for each in world.batches()]
    return read != list(range(world.log.log_end_offset))


def synced_and_noted() -> LogWorld:
    """A log of 40 records in several segments, all of them synced, and noted to be."""
    world = LogWorld(segment_bytes=1024)
    for _ in range(40):
        world.append(size=100)
    world.log.flush()
    world.checkpoint()
    return world


def test_what_was_written_behind_a_cut_is_checked_though_more_was_synced_before_it() -> None:
    for seed in range(20):
        world = synced_and_noted()
        world.log.truncate(1)
        assert not torn(world, seed), seed


def test_a_log_begun_anew_is_checked_from_its_beginning() -> None:
    for seed in range(20):
        world = synced_and_noted()
        world.log.start_anew(0)
        assert not torn(world, seed), seed


def test_the_log_of_another_topic_is_checked_from_its_beginning() -> None:
    for seed in range(20):
        world = synced_and_noted()
        world.log.remove()
        world.log = Log(world.directory, FOLDER, world.log.settings)
        world.log.open(TOPIC_ID)
        assert not torn(world, seed), seed
