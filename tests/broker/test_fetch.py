"""Fetch: whole batches from the right place, long polls, limits, and errors that say where to go."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic

from .world import TOPIC, World, batch_of, fetch_request, records_of


def test_a_fetch_gives_what_is_there_from_the_offset_on(world: World) -> None:
    for value in (b"a", b"b", b"c"):
        world.produce(batch_of(value))
    answer = world.fetch(1)
    assert (answer.error_code, answer.high_watermark, answer.last_stable_offset, answer.log_start_offset) == (
        0,
        3,
        3,
        0,
    )
    assert [(r.offset, r.value) for r in records_of(answer)] == [(1, b"b"), (2, b"c")]


def test_an_offset_inside_a_batch_gives_the_whole_batch(world: World) -> None:
    world.produce(batch_of(b"a", b"b", b"c"))
    assert [r.offset for r in records_of(world.fetch(2))] == [0, 1, 2]


def test_records_leave_as_a_slice_of_the_file(world: World) -> None:
    world.produce(batch_of(b"a"))
    reads = world.storages[1].reads
    assert world.fetch(0).records.size == len(batch_of(b"a"))
    assert world.storages[1].reads == reads


def test_at_the_end_there_is_nothing(world: World) -> None:
    world.produce(batch_of(b"a"))
    answer = world.fetch(1)
    assert (answer.error_code, len(answer.records), answer.high_watermark) == (0, 0, 1)


@pytest.mark.parametrize("offset", [-1, 2, 1 << 60])
def test_an_offset_outside_of_the_log_is_out_of_range(world: World, offset: int) -> None:
    world.produce(batch_of(b"a"))
    assert world.fetch(offset).error_code == ErrorCode.OFFSET_OUT_OF_RANGE


def test_unknown_partitions_and_sessions_are_told() -> None:
    world = World(2)
    world.create_topic()
    answer = world.ask(1, fetch_request(topic="missing", max_wait_ms=500)).responses[0].partitions[0]
    assert answer.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    other = 3 - world.leader()
    answer = world.ask(other, fetch_request()).responses[0].partitions[0]
    assert answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert answer.current_leader.leader_id == world.leader()
    before = world.ask(other, fetch_request(), version=11).responses[0].partitions[0]
    assert (before.error_code, before.current_leader) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, None)
    response = world.ask(1, fetch_request(session_id=5, session_epoch=1))
    assert response.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_a_leader_epoch_that_is_not_the_current_one_is_told(world: World) -> None:
    assert world.fetch(current_leader_epoch=0).error_code == 0
    assert world.fetch(current_leader_epoch=1).error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
    restarted = World(1, world.storages)
    assert restarted.fetch(current_leader_epoch=0).error_code == ErrorCode.FENCED_LEADER_EPOCH
    assert restarted.fetch(current_leader_epoch=1).error_code == 0


def test_a_long_poll_is_answered_when_records_come(world: World) -> None:
    poll = world.send(1, fetch_request(max_wait_ms=500))
    assert poll not in world.answers
    world.produce(batch_of(b"a"))
    answer = world.answers[poll][0].responses[0].partitions[0]
    assert [r.value for r in records_of(answer)] == [b"a"]
    world.pass_time(1000)
    assert len(world.answers[poll]) == 1


def test_a_long_poll_ends_after_max_wait(world: World) -> None:
    poll = world.send(1, fetch_request(max_wait_ms=500))
    world.pass_time(499)
    assert poll not in world.answers
    world.pass_time(10)
    assert world.answers[poll][0].responses[0].partitions[0].error_code == 0


def test_min_bytes_are_waited_for_and_max_wait_ends_it(world: World) -> None:
    size = len(batch_of(b"a"))
    poll = world.send(1, fetch_request(min_bytes=2 * size))
    short = world.send(1, fetch_request(min_bytes=3 * size))
    world.produce(batch_of(b"a"))
    assert poll not in world.answers
    world.produce(batch_of(b"b"))
    assert len(records_of(world.answers[poll][0].responses[0].partitions[0])) == 2
    assert short not in world.answers
    world.pass_time(505)
    assert len(records_of(world.answers[short][0].responses[0].partitions[0])) == 2


def test_min_bytes_zero_never_waits(world: World) -> None:
    assert world.ask(1, fetch_request(min_bytes=0)).responses[0].partitions[0].error_code == 0


def test_an_error_is_told_at_once_whatever_min_bytes_says(world: World) -> None:
    wanted = [FetchPartition(partition=index, partition_max_bytes=1000) for index in (0, 5)]
    request = FetchRequest(max_wait_ms=500, min_bytes=1, topics=[FetchTopic(topic=TOPIC, partitions=wanted)])
    answers = world.ask(1, request).responses[0].partitions
    assert [a.error_code for a in answers] == [0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]


def test_a_lost_connection_ends_its_long_poll(world: World) -> None:
    from ottla.broker.events import ConnectionLost

    poll = world.send(1, fetch_request(max_wait_ms=2_000_000_000))
    world.brokers[1].receive(ConnectionLost(poll), world.now_us)
    assert world.brokers[1].purgatory.deadline_us() is None
    world.produce(batch_of(b"a"))
    assert poll not in world.answers


def test_deleting_a_topic_ends_its_long_polls(world: World) -> None:
    from ottla.protocol.messages.delete_topics import DeleteTopicsRequest

    poll = world.send(1, fetch_request())
    world.ask(1, DeleteTopicsRequest(topic_names=[TOPIC]))
    assert world.answers[poll][0].responses[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_partition_max_bytes_cuts_between_batches(world: World) -> None:
    size = len(batch_of(b"x" * 5000))
    for _ in range(5):
        world.produce(batch_of(b"x" * 5000))
    assert [r.offset for r in records_of(world.fetch(1, partition_max_bytes=2 * size + 100))] == [1, 2]


def test_the_first_batch_comes_even_if_it_is_larger_than_asked_for(world: World) -> None:
    world.create_topic("weather")
    world.produce(batch_of(b"x" * 5000))
    world.produce(batch_of(b"y" * 5000), topic="weather")
    topics = [
        FetchTopic(topic=name, partitions=[FetchPartition(partition=0, partition_max_bytes=10)])
        for name in (TOPIC, "weather")
    ]
    response = world.ask(1, FetchRequest(max_bytes=10, min_bytes=1, topics=topics))
    sizes = [topic.partitions[0].records for topic in response.responses]
    assert [r.value for r in records_of(response.responses[0].partitions[0])] == [b"x" * 5000]
    assert sizes[1] == b""


def test_max_bytes_is_shared_by_the_partitions_of_a_request(world: World) -> None:
    world.create_topic("weather")
    size = len(batch_of(b"x" * 5000))
    for _ in range(2):
        world.produce(batch_of(b"x" * 5000))
        world.produce(batch_of(b"y" * 5000), topic="weather")
    topics = [
        FetchTopic(topic=name, partitions=[FetchPartition(partition=0, partition_max_bytes=1 << 20)])
        for name in (TOPIC, "weather")
    ]
    response = world.ask(1, FetchRequest(max_bytes=3 * size, min_bytes=1, topics=topics))
    assert [len(records_of(topic.partitions[0])) for topic in response.responses] == [2, 1]


def test_read_committed_sees_the_same_and_is_told_of_no_aborted_transactions(world: World) -> None:
    world.produce(batch_of(b"a"))
    answer = world.fetch(isolation_level=1)
    assert answer.aborted_transactions == []
    assert len(records_of(answer)) == 1
    assert world.fetch(isolation_level=0).aborted_transactions is None


@given(
    counts=st.lists(st.integers(1, 30), min_size=1, max_size=25),
    sizes=st.lists(st.integers(0, 900), min_size=1, max_size=5),
    max_bytes=st.integers(1, 9000),
)
def test_every_offset_can_be_reached_and_reading_on_misses_nothing(
    counts: list[int], sizes: list[int], max_bytes: int
) -> None:
    """Whatever the batches, the sparse index and the segments: each offset is found, each record comes once."""
    world = World(1, log_segment_bytes=8192, log_index_interval_bytes=1000)
    world.create_topic()
    values = []
    for number, count in enumerate(counts):
        batch = [b"x" * sizes[(number + i) % len(sizes)] for i in range(count)]
        values += batch
        if len(batch_of(*batch)) < 8000:
            assert world.produce(batch_of(*batch)).error_code == 0
        else:
            del values[-count:]
    for offset in range(len(values)):
        found = records_of(world.fetch(offset, partition_max_bytes=max_bytes))
        assert found[0].offset <= offset <= found[-1].offset
    position, seen = 0, []
    while position < len(values):
        found = [r for r in records_of(world.fetch(position, partition_max_bytes=max_bytes)) if r.offset >= position]
        seen += found
        position = found[-1].offset + 1
    assert [r.value for r in seen] == values
    assert [r.offset for r in seen] == list(range(len(values)))


def test_a_consumer_that_read_to_where_a_log_began_anew_has_not_parted_from_it(world: World) -> None:
    """A replica that fell behind what the leader had deleted holds no record, nor an epoch, when it leads."""
    world.produce(batch_of(b"a", b"b"))
    log = world.brokers[1].topics[TOPIC][0].log
    assert log is not None
    log.start_anew(2)
    answer = world.fetch(2, last_fetched_epoch=0)
    assert (answer.error_code, answer.diverging_epoch) == (0, None)
    parted = world.fetch(3, last_fetched_epoch=0).diverging_epoch
    assert (parted.epoch, parted.end_offset) == (0, 2)
