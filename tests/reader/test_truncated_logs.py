"""A new leader may lack records that were read: the reader checks its log and names the lost offsets (KIP-320)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.reader.fetched import values

from ottla.errors import LogTruncated
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.fetch import FetchRequest
from ottla.protocol.messages.offset_for_leader_epoch import OffsetForLeaderEpochRequest
from ottla.reader.events import Assign, Finished, Positioned, ReadFailed

FETCH, EPOCH_ENDS = FetchRequest.API_KEY, OffsetForLeaderEpochRequest.API_KEY


def failures(said: list[Any]) -> list[Any]:
    return [output.error for output in said if isinstance(output, ReadFailed)]


def read_on(world: Any) -> list[Any]:
    """What is said once the leader that is asked next has refused, and metadata has been asked for."""
    said: list[Any] = []
    for _ in range(6):
        said += world.later(1200)
    return said


def follow(world: Any, *stored: bytes) -> None:
    """Read partition 0, which holds these records, and wait for more."""
    for value in stored:
        world.store(0, value)
    world.core.receive(Assign("flights", 0, -2, None), 0)
    assert values(world.run()) == list(stored)


def hear_of_the_leader(world: Any) -> None:
    """The broker that was asked for more says that another one leads now."""
    world.wake(0, ErrorCode.NOT_LEADER_OR_FOLLOWER)


def test_a_leader_with_the_same_log_is_asked_once_and_read_on(world: Any) -> None:
    follow(world, b"a", b"b")
    world.elect(0, 2)
    hear_of_the_leader(world)
    world.store(0, b"c")
    said = read_on(world)
    assert failures(said) == []
    assert values(said) == [b"c"]
    assert [
        (place.leader_epoch, place.current_leader_epoch)
        for check in world.checks
        for topic in check.topics
        for place in topic.partitions
    ] == [(0, 1)]
    assert {check.replica_id for check in world.checks} == {-1}
    fetched = world.fetches[-1].topics[0].partitions[0]
    assert (fetched.current_leader_epoch, fetched.last_fetched_epoch, fetched.fetch_offset) == (1, 1, 3)


def test_what_was_read_and_is_cut_off_is_told_and_nothing_else_is_read(world: Any) -> None:
    follow(world, b"a", b"b", b"c")
    world.elect(0, 2, keeps=1)
    hear_of_the_leader(world)
    for value in (b"B", b"C", b"D"):
        world.store(0, value)
    said = read_on(world)
    assert values(said) == []
    (error,) = failures(said)
    assert isinstance(error, LogTruncated)
    assert (error.offset, error.leader_epoch, error.truncated_from) == (3, 0, 1)
    assert (error.topic, error.partition, error.broker_id) == ("flights", 0, 2)
    assert "offsets 1 to 2 of leader epoch 0, which were read, are not in the log of the leader of epoch 1" in str(
        error
    )


def test_records_of_another_epoch_in_the_place_of_those_read_are_told(world: Any) -> None:
    """Both logs have the same length, so the offsets alone do not show it."""
    world.store(0, b"a")
    world.core.receive(Assign("flights", 0, -2, None), 0)
    world.run()
    world.epochs[0] = 1
    hear_of_the_leader(world)
    world.store(0, b"b")
    assert values(read_on(world)) == [b"b"]
    world.elect(0, 2, keeps=1)
    world.epochs[0] = 0
    world.store(0, b"B")
    world.epochs[0] = 2
    hear_of_the_leader(world)
    (error,) = failures(read_on(world))
    assert (error.offset, error.leader_epoch) == (2, 1)
    assert "records before offset 2 of leader epoch 1, which were read" in str(error)


def test_a_fetch_that_is_told_of_another_log_fails_as_well(world: Any) -> None:
    follow(world, b"a", b"b")
    # Its own leader has lost the end of its log and leads on in the same epoch: nothing in the metadata says so.
    world.logs[0], world.end[0] = world.logs[0][:1], 1
    world.wake(0)
    (error,) = failures(read_on(world))
    assert isinstance(error, LogTruncated)
    assert (error.offset, error.truncated_from) == (2, 1)
    assert world.checks == []


def test_a_place_to_begin_at_that_is_cut_off_is_told(world: Any) -> None:
    world.store(0, b"a")
    world.store(0, b"b")
    world.core.receive(Assign("flights", 0, -1, None), 0)
    assert world.run() == [Positioned("flights", 0, 2, None)]
    world.elect(0, 2, keeps=1)
    hear_of_the_leader(world)
    for value in (b"B", b"C"):
        world.store(0, value)
    said = read_on(world)
    assert values(said) == []
    assert "offsets 1 to 1 of leader epoch 0, which come before those to be read" in str(failures(said)[0])


def test_an_epoch_without_records_is_no_alarm(world: Any) -> None:
    """The reader has the epoch of a leader that appended nothing; its followers need not know this epoch."""
    world.store(0, b"a")
    world.epochs[0] = 5
    world.core.receive(Assign("flights", 0, -1, None), 0)
    world.run()
    world.elect(0, 2)
    hear_of_the_leader(world)
    world.store(0, b"b")
    said = read_on(world)
    assert failures(said) == []
    assert values(said) == [b"b"]
    assert len(world.checks) == 1


def test_an_end_that_is_cut_off_is_told_in_place_of_waiting_for_it(make_world: Callable[..., Any]) -> None:
    world = make_world(max_partition_fetch_bytes=1)
    for value in (b"a", b"b", b"c"):
        world.store(0, value)
    world.fetch_errors[0] = [ErrorCode.NOT_LEADER_OR_FOLLOWER]
    world.core.receive(Assign("flights", 0, -2, -1), 0)
    assert world.run() == [Positioned("flights", 0, 0, 3)]
    world.elect(0, 2, keeps=2)
    (error,) = failures(read_on(world))
    assert isinstance(error, LogTruncated)
    assert (error.offset, error.truncated_from) == (3, 2)
    assert "offsets 2 to 2 of leader epoch 0, which were to be read" in str(error)


def test_an_end_that_the_new_leader_has_is_read_to(world: Any) -> None:
    for value in (b"a", b"b", b"c"):
        world.store(0, value)
    world.fetch_errors[0] = [ErrorCode.NOT_LEADER_OR_FOLLOWER]
    world.core.receive(Assign("flights", 0, -2, -1), 0)
    world.run()
    world.elect(0, 2)
    said = read_on(world)
    assert values(said) == [b"a", b"b", b"c"]
    assert said[-1] == Finished("flights", 0, 3)
    # The place to begin at, and the end.
    assert len(world.checks) == 2


@pytest.mark.parametrize("version", [0, 2])
def test_a_broker_that_cannot_be_asked_is_believed(world: Any, version: int) -> None:
    world.versions[EPOCH_ENDS] = version
    world.versions[FETCH] = 11
    follow(world, b"a", b"b")
    world.elect(0, 2)
    hear_of_the_leader(world)
    world.store(0, b"c")
    said = read_on(world)
    assert failures(said) == []
    assert values(said) == [b"c"]
    assert world.checks == []
    assert {
        place.last_fetched_epoch for fetch in world.fetches for topic in fetch.topics for place in topic.partitions
    } == {-1}


@pytest.mark.parametrize("code", [ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.UNKNOWN_LEADER_EPOCH])
def test_a_broker_of_another_epoch_is_asked_again(world: Any, code: int) -> None:
    follow(world, b"a")
    world.elect(0, 2)
    hear_of_the_leader(world)
    refused: list[int] = []

    def refuse(answer: Any) -> Any:
        for topic in getattr(answer, "topics", ()):
            for told in topic.partitions:
                if type(told).__name__ == "EpochEndOffset" and len(refused) < 2:
                    refused.append(code)
                    told.error_code, told.leader_epoch, told.end_offset = code, -1, -1
        return answer

    world.alter = refuse
    world.store(0, b"b")
    said = read_on(world)
    assert refused == [code] * 2
    assert failures(said) == []
    assert values(said) == [b"b"]


def test_a_fetch_that_is_fenced_is_checked_before_the_next(world: Any) -> None:
    follow(world, b"a", b"b")
    world.elect(0, 1, keeps=1)
    world.store(0, b"B")
    world.store(0, b"C")
    world.wake(0)
    said = read_on(world)
    assert values(said) == []
    assert [type(error) for error in failures(said)] == [LogTruncated]
    assert len(world.checks) == 1


def test_a_leader_that_says_nothing_of_the_epoch_is_not_believed(world: Any) -> None:
    follow(world, b"a", b"b")
    world.elect(0, 2, keeps=0)
    hear_of_the_leader(world)
    world._epoch_end = lambda partition, epoch: (-1, -1)
    (error,) = failures(read_on(world))
    assert isinstance(error, LogTruncated)
    assert error.truncated_from is None
