"""ListOffsets: begin, end, the largest timestamp, and the first record at or after a time."""

from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from ottla.records.plain import Record, encode_batch

from .world import TOPIC, World, batch_of


def ask(
    world: World,
    timestamp: int,
    *,
    topic: str = TOPIC,
    version: int = 8,
    broker_id: int = 1,
    replica_id: int = -1,
    **more: int,
) -> tuple[int, int, int]:
    """(error code, offset, timestamp)"""
    asked = ListOffsetsPartition(partition_index=0, timestamp=timestamp, **more)
    request = ListOffsetsRequest(replica_id=replica_id, topics=[ListOffsetsTopic(name=topic, partitions=[asked])])
    answer = world.ask(broker_id, request, version=version).topics[0].partitions[0]
    return answer.error_code, answer.offset, answer.timestamp


def test_an_empty_log_begins_and_ends_at_zero(world: World) -> None:
    assert ask(world, -1) == (0, 0, -1)
    assert ask(world, -2) == (0, 0, -1)
    assert ask(world, -3) == (0, -1, -1)
    assert ask(world, 0) == (0, -1, -1)


def test_an_empty_log_begins_in_the_epoch_of_its_leader(world: World) -> None:
    asked = ListOffsetsPartition(partition_index=0, timestamp=-2)
    request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=TOPIC, partitions=[asked])])
    assert world.ask(1, request, version=8).topics[0].partitions[0].leader_epoch == 0


def test_begin_end_and_times(world: World) -> None:
    world.produce(batch_of(b"a", b"b", b"c", timestamp_ms=1000))
    world.produce(batch_of(b"d", b"e", timestamp_ms=5000, codec="lz4"))
    world.produce(batch_of(b"late", timestamp_ms=2000))
    assert ask(world, -1) == (0, 6, -1)
    assert ask(world, -2) == (0, 0, -1)
    assert ask(world, -4) == (0, 0, -1)
    assert ask(world, -3) == (0, 4, 5001)
    assert ask(world, 0) == (0, 0, 1000)
    assert ask(world, 1001) == (0, 1, 1001)
    assert ask(world, 1003) == (0, 3, 5000)
    assert ask(world, 5001) == (0, 4, 5001)
    assert ask(world, 5002) == (0, -1, -1)


def test_a_partition_named_twice_is_looked_up_for_neither(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.produce(batch_of(b"a", timestamp_ms=1000))
    monkeypatch.setattr("ottla.broker.apis.list_offsets._search", None)
    twice = [ListOffsetsPartition(partition_index=0, timestamp=timestamp) for timestamp in (0, 1)]
    for topics in (
        [ListOffsetsTopic(name=TOPIC, partitions=twice)],
        [ListOffsetsTopic(name=TOPIC, partitions=[each]) for each in twice],
    ):
        answer = world.ask(1, ListOffsetsRequest(replica_id=-1, topics=topics), version=8)
        found = [each for topic in answer.topics for each in topic.partitions]
        assert [(each.error_code, each.offset) for each in found] == [(ErrorCode.INVALID_REQUEST, -1)] * 2


def test_a_time_is_looked_up_without_an_object_for_each_header(world: World) -> None:
    """A batch of a kilobyte may hold millions of headers: what is taken of memory is what its bytes take."""
    headers = (("", None),) * 200_000
    world.produce(encode_batch([Record(0, 1000, b"k", None, headers)], codec="zstd"))
    tracemalloc.start()
    assert ask(world, 1000) == (0, 0, 1000)
    peak_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak_bytes < 3_000_000


def test_deleted_records_are_not_found(world: World) -> None:
    world.produce(batch_of(b"a", timestamp_ms=9000))
    world.produce(batch_of(b"b", b"c", b"d", timestamp_ms=1000))
    world.produce(batch_of(b"e", timestamp_ms=500))
    log = world.brokers[1].topics[TOPIC][0].log
    assert log is not None
    log.advance_log_start(2)
    assert ask(world, 0) == (0, 2, 1001)
    assert ask(world, -3) == (0, 3, 1002)
    log.advance_log_start(4)
    assert ask(world, 0) == (0, 4, 500)
    assert ask(world, 501) == (0, -1, -1)
    log.advance_log_start(5)
    assert ask(world, -3) == (0, -1, -1)


def test_a_header_that_promises_too_much_hides_nothing(world: World) -> None:
    from ottla.records.batch_header import stamp_crc

    batch = bytearray(batch_of(b"a", timestamp_ms=1000))
    batch[35:43] = (3000).to_bytes(8)
    stamp_crc(batch)
    world.produce(bytes(batch))
    world.produce(batch_of(b"b", timestamp_ms=2000))
    assert ask(world, 1500) == (0, 1, 2000)


@pytest.mark.parametrize("version", range(1, 9))
def test_every_version_is_answered_with_what_it_can_carry(world: World, version: int) -> None:
    world.produce(batch_of(b"a", b"b", timestamp_ms=1000))
    assert ask(world, -1, version=version) == (0, 2, -1)
    assert ask(world, -2, version=version) == (0, 0, -1)
    assert ask(world, 1001, version=version) == (0, 1, 1001)


def test_what_is_not_replicated_is_not_found() -> None:
    world = World(2)
    world.create_topic(replicas=2)
    world.produce(batch_of(b"a", timestamp_ms=1000))
    world.unreachable = {2}
    leader_is_here = world.leader() == 1
    assert leader_is_here
    world.produce(batch_of(b"b", timestamp_ms=2000), acks=1)
    assert ask(world, -1)[1] == 1
    assert ask(world, 2000) == (0, -1, -1)


def test_who_looks_at_replicas_is_told_where_each_log_ends() -> None:
    """As Apache Kafka 4.3 answers: seen with a follower that was stopped."""
    world = World(2)
    world.create_topic(replicas=2)
    world.produce(batch_of(b"a", timestamp_ms=1000))
    world.cut = {2}
    assert world.leader() == 1
    world.produce(batch_of(b"b", timestamp_ms=2000), acks=1)
    assert ask(world, -1, replica_id=-2) == (0, 2, -1)
    assert ask(world, 2000, replica_id=-2) == (0, 1, 2000)
    assert ask(world, -1, broker_id=2, replica_id=-2) == (0, 1, -1)
    assert ask(world, -1, broker_id=2)[0] == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_who_looks_at_replicas_is_told_which_epochs_each_log_has() -> None:
    world = World(2)
    world.create_topic(replicas=2)
    assert world.leader() == 1
    world.cut = {2}
    world.produce(batch_of(b"a", timestamp_ms=1000), acks=1)

    def epoch(broker_id: int, timestamp: int) -> int:
        asked = ListOffsetsPartition(partition_index=0, timestamp=timestamp)
        request = ListOffsetsRequest(replica_id=-2, topics=[ListOffsetsTopic(name=TOPIC, partitions=[asked])])
        told: int = world.ask(broker_id, request, version=8).topics[0].partitions[0].leader_epoch
        return told

    assert [epoch(1, timestamp) for timestamp in (-2, -1)] == [0, 0]
    # The follower has no batch of any epoch yet.
    assert [epoch(2, timestamp) for timestamp in (-2, -1)] == [-1, -1]


def test_leaders_and_epochs_are_checked(world: World) -> None:
    assert ask(world, -1, topic="missing")[0] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert ask(world, -1, current_leader_epoch=0)[0] == 0
    assert ask(world, -1, current_leader_epoch=3)[0] == ErrorCode.UNKNOWN_LEADER_EPOCH
    assert ask(World(1, world.storages), -1, current_leader_epoch=0)[0] == ErrorCode.FENCED_LEADER_EPOCH


@pytest.mark.parametrize(("timestamp", "version"), [(-3, 6), (-4, 7), (-5, 8), (-6, 10), (-7, 11), (-(1 << 62), 11)])
def test_negative_times_that_a_version_does_not_know_are_not_supported(
    world: World, timestamp: int, version: int
) -> None:
    assert ask(world, timestamp, version=version)[0] == ErrorCode.UNSUPPORTED_VERSION


@pytest.mark.parametrize("timestamp", [-5, -6])
def test_nothing_is_in_remote_storage(world: World, timestamp: int) -> None:
    world.produce(batch_of(b"a"))
    assert ask(world, timestamp, version=11) == (0, -1, -1)


def test_an_end_not_known_yet_has_an_error_of_its_own_in_newer_versions(replicated: World) -> None:
    replicated.produce(batch_of(b"a"))
    replicated.controller.close()  # everybody still counts as in sync
    world = World(3, replicated.storages, cut_off=(1, 2, 3))
    assert world.leader() == 1
    assert ask(world, -1, version=5)[0] == ErrorCode.OFFSET_NOT_AVAILABLE
    assert ask(world, -1, version=4)[0] == ErrorCode.LEADER_NOT_AVAILABLE
    assert ask(world, -1, replica_id=-2) == (0, 1, -1)


def test_a_batch_whose_records_are_not_records_harms_nobody(world: World) -> None:
    batch = bytearray(batch_of(b"abc", timestamp_ms=1000))
    batch[61:] = b"\xff" * (len(batch) - 61)
    from ottla.records.batch_header import stamp_crc

    stamp_crc(batch)
    assert world.produce(bytes(batch)).error_code == 0
    assert ask(world, 500)[0] == ErrorCode.CORRUPT_MESSAGE
    assert ask(world, -1) == (0, 1, -1)


@given(st.lists(st.lists(st.integers(0, 60), min_size=1, max_size=6), min_size=1, max_size=20), st.integers(0, 61))
def test_any_time_finds_the_first_record_not_before_it(times: list[list[int]], wanted: int) -> None:
    world = World(1, log_segment_bytes=1024, log_index_interval_bytes=200)
    world.create_topic()
    stored: list[tuple[int, int]] = []
    for batch in times:
        records = [Record(index, time, None, b"x" * 40) for index, time in enumerate(batch)]
        world.produce(encode_batch(records))
        stored += [(len(stored) + index, time) for index, time in enumerate(batch)]
    batches = []
    first = 0
    for batch in times:
        batches.append(stored[first : first + len(batch)])
        first += len(batch)
    expected = next(((offset, time) for batch in batches for offset, time in batch if time >= wanted), (-1, -1))
    assert ask(world, wanted) == (0, *expected)
