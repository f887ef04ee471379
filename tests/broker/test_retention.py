"""What goes: by age, by size, by DeleteRecords; whole segments of what is committed, on every replica."""

from __future__ import annotations

import pytest

from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)

from .world import TOPIC, WALL_OFFSET_US, MemoryStorage, World, batch_of, records_of

WALL_MS = WALL_OFFSET_US // 1000
CHECK_MS = 1000


def delete_request(offset: int, *, topic: str = TOPIC, timeout_ms: int = 30_000) -> DeleteRecordsRequest:
    asked = DeleteRecordsPartition(partition_index=0, offset=offset)
    return DeleteRecordsRequest(topics=[DeleteRecordsTopic(name=topic, partitions=[asked])], timeout_ms=timeout_ms)


def delete_records(world: World, offset: int, **more: int) -> tuple[int, int]:
    """(error code, low watermark)"""
    answer = world.ask(world.leader(), delete_request(offset, **more), version=2)
    [result] = answer.topics[0].partitions
    return result.error_code, result.low_watermark


def retaining(brokers: int = 1, **configs: object) -> World:
    """A cluster that checks every second; its topic has segments of two batches."""
    world = World(brokers, log_retention_check_interval_ms=CHECK_MS, log_segment_delete_delay_ms=2500)
    world.create_topic(replicas=brokers, segment_bytes=1024, **configs)
    return world


def fill(world: World, count: int = 6, *, timestamp_ms: int = WALL_MS) -> None:
    for number in range(count):
        assert world.produce(batch_of(b"%d" % number * 400, timestamp_ms=timestamp_ms)).error_code == 0


def names(storage: MemoryStorage, suffix: str) -> list[str]:
    return [name for name in storage.files(f"{TOPIC}-0") if name.endswith(suffix)]


@pytest.mark.parametrize("brokers", [1, 3])
def test_segments_older_than_retention_ms_go_on_all_replicas(brokers: int) -> None:
    world = retaining(brokers, retention_ms=10_000)
    fill(world)
    fill(world, 2, timestamp_ms=WALL_MS + 8_000)
    world.pass_time(9_000)
    assert world.end_offset(timestamp=-2).offset == 0
    world.pass_time(3_000)
    assert world.end_offset(timestamp=-2).offset == 6
    assert world.fetch(5).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert [r.offset for r in records_of(world.fetch(6))] == [6, 7]
    for broker_id in world.brokers:
        assert names(world.storages[broker_id], ".log") == [f"{6:020d}.log"]


def test_the_segment_written_to_goes_when_all_its_records_are_expired() -> None:
    world = retaining(retention_ms=5_000)
    fill(world, 3)
    world.pass_time(7_000)
    assert world.end_offset(timestamp=-2).offset == 3
    assert world.end_offset().offset == 3
    assert names(world.storages[1], ".log") == [f"{3:020d}.log"]
    assert world.produce(batch_of(b"next", timestamp_ms=WALL_MS + 7_000)).base_offset == 3


def test_records_without_timestamps_are_as_old_as_they_are_known() -> None:
    world = retaining(retention_ms=5_000)
    fill(world, 3, timestamp_ms=-1)
    world.pass_time(4_000)
    assert world.end_offset(timestamp=-2).offset == 0
    world.pass_time(4_000)
    assert world.end_offset(timestamp=-2).offset == 3


def test_segments_beyond_retention_bytes_go() -> None:
    world = retaining(retention_bytes=1500, retention_ms=-1)
    fill(world, 8)
    world.pass_time(2_000)
    log = world.brokers[1].topics[TOPIC][0].log
    assert log is not None
    segment_bytes = log.segments[0].size
    assert 1500 <= log.size_bytes < 1500 + segment_bytes
    assert world.end_offset(timestamp=-2).offset == log.segments[0].base_offset > 0


def test_nothing_goes_that_is_not_committed() -> None:
    world = retaining(3, retention_ms=1)
    leader = world.leader()
    world.unreachable = {1, 2, 3} - {leader}
    world.send(leader, delete_request(0), version=2)
    partition = world.brokers[leader].topics[TOPIC][0]
    from .world import produce_request

    world.send(leader, produce_request({(TOPIC, 0): batch_of(b"x" * 900, timestamp_ms=WALL_MS)}))
    world.send(leader, produce_request({(TOPIC, 0): batch_of(b"y" * 900, timestamp_ms=WALL_MS)}))
    assert partition.high_watermark == 0
    world.pass_time(3_000)
    assert partition.log is not None
    assert partition.log.log_start_offset == 0


def test_files_stay_for_the_delay_and_no_longer() -> None:
    world = retaining(retention_ms=3_000)
    fill(world)
    world.pass_time(4_500)
    assert names(world.storages[1], ".log.deleted")
    world.pass_time(3_000)
    left = [name for name in world.storages[1].files(f"{TOPIC}-0") if not name.startswith(f"{6:020d}")]
    assert left == ["leader-epoch-checkpoint", "partition.metadata"]


def test_files_put_aside_are_gone_after_a_restart() -> None:
    world = retaining(retention_ms=3_000)
    fill(world)
    world.pass_time(4_500)
    restarted = World(1, world.storages)
    assert not names(restarted.storages[1], ".deleted")
    assert restarted.end_offset(timestamp=-2).offset == 6
    assert restarted.end_offset().offset == 6


def test_compacted_topics_forget_nothing_by_age() -> None:
    world = retaining(retention_ms=1, cleanup_policy="compact")
    assert world.produce(batch_of(b"no key")).error_code == ErrorCode.INVALID_RECORD
    world.pass_time(5_000)
    assert world.end_offset(timestamp=-2).offset == 0


@pytest.mark.parametrize("brokers", [1, 3])
@pytest.mark.parametrize("clean", [True, False])
def test_deleted_records_stay_deleted_on_all_replicas(brokers: int, clean: bool) -> None:
    world = retaining(brokers)
    fill(world)
    assert delete_records(world, 3) == (0, 3)
    assert [r.offset for r in records_of(world.fetch(3, partition_max_bytes=1))] == [3]
    assert world.fetch(2).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert world.end_offset(timestamp=-2).offset == 3
    assert world.end_offset(timestamp=0).offset == 3
    for core in world.brokers.values():
        log = core.topics[TOPIC][0].log
        assert log is not None
        assert log.log_start_offset == 3
    world.pass_time(100_000)
    if clean:
        world.close()
    restarted = World(brokers, world.storages)
    restarted.pass_time(2000)
    assert restarted.end_offset(timestamp=-2).offset == 3
    assert names(restarted.storages[1], ".log") == [f"{n:020d}.log" for n in (2, 4)]


def test_minus_one_deletes_all_that_is_committed() -> None:
    world = retaining()
    fill(world)
    assert delete_records(world, -1) == (0, 6)
    assert world.end_offset(timestamp=-2).offset == world.end_offset().offset == 6
    world.pass_time(2_000)
    assert names(world.storages[1], ".log") == [f"{6:020d}.log"]


def test_deleting_less_than_before_changes_nothing() -> None:
    world = retaining()
    fill(world)
    assert delete_records(world, 4) == (0, 4)
    assert delete_records(world, 2) == (0, 4)


def test_what_cannot_be_deleted_is_refused() -> None:
    world = retaining()
    fill(world, 2)
    assert delete_records(world, 3) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)
    assert delete_records(world, -2) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)
    world.create_topic("latest", cleanup_policy="compact")
    answer = world.ask(1, delete_request(0, topic="latest"), version=2)
    assert answer.topics[0].partitions[0].error_code == ErrorCode.POLICY_VIOLATION
    answer = world.ask(1, delete_request(0, topic="nowhere"), version=2)
    assert answer.topics[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_deletion_waits_for_replicas_that_are_alive_until_its_time_is_over() -> None:
    world = retaining(3)
    fill(world)
    leader = world.leader()
    cut_off = next(broker_id for broker_id in world.brokers if broker_id != leader)
    world.unreachable = {cut_off}
    connection = world.send(leader, delete_request(4, timeout_ms=700), version=2)
    assert connection not in world.answers
    world.pass_time(800)
    [answer] = world.answers[connection]
    assert answer.topics[0].partitions[0].error_code == ErrorCode.REQUEST_TIMED_OUT
    world.unreachable = set()
    world.pass_time(2_000)
    assert delete_records(world, 4) == (0, 4)


def test_a_deletion_waits_no_more_for_a_replica_that_has_died() -> None:
    world = retaining(3)
    fill(world)
    leader = world.leader()
    cut_off = next(broker_id for broker_id in world.brokers if broker_id != leader)
    world.unreachable = {cut_off}
    connection = world.send(leader, delete_request(4), version=2)
    world.pass_time(1_000)
    assert connection not in world.answers
    world.kill(cut_off)
    world.pass_time(20_000)
    [answer] = world.answers[connection]
    deleted = answer.topics[0].partitions[0]
    assert (deleted.error_code, deleted.low_watermark) == (0, 4)


def test_a_follower_that_was_away_begins_where_its_leader_begins() -> None:
    world = retaining(3)
    fill(world, 2)
    leader = world.leader()
    away = next(broker_id for broker_id in world.brokers if broker_id != leader)
    world.kill(away)
    world.pass_time(5_000)
    fill(world, 6)
    assert delete_records(world, 7) == (0, 7)
    world.start(away)
    world.pass_time(5_000)
    log = world.brokers[away].topics[TOPIC][0].log
    assert log is not None
    assert (log.log_start_offset, log.log_end_offset) == (7, 8)
