"""KIP-392: a leader names a replica nearby, and the position is read from there for as long as that is of use."""

from __future__ import annotations

from typing import Any

import pytest
from tests.reader.conftest import World
from tests.reader.fetched import values

from ottla.connection.events import Disconnected
from ottla.connection.loss import CLOSED_BY_BROKER
from ottla.protocol.messages.fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from ottla.reader.events import Assign, Finished, ReadFailed

OFFSET_OUT_OF_RANGE, NOT_LEADER_OR_FOLLOWER, UNKNOWN_SERVER_ERROR = 1, 6, -1


class Racks(World):
    """Broker 1 leads; broker 2 is in rack "b" and has the same log. `refusal`: what broker 2 answers with next."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**{"client_rack": "b", "metadata_max_age_ms": 60_000, **settings})
        self.leaders = [1]
        self.named = 2
        self.refusal: list[PartitionData | None] = []
        self.asked: list[tuple[str, str]] = []
        self.unreachable: set[str] = set()

    def _respond(self, request: Any) -> Any:
        if not isinstance(request, FetchRequest):
            assert self.asked_at == "one" or not self.is_about_records(request)
            return super()._respond(request)
        self.asked.append((self.asked_at, request.rack_id))
        if self.asked_at == "one" and request.rack_id == "b":
            return told(PartitionData(partition_index=0, preferred_read_replica=self.named, high_watermark=9))
        if self.asked_at == "two" and self.refusal:
            refusal = self.refusal.pop(0)
            return None if refusal is None else told(refusal)
        return super()._respond(request)

    @staticmethod
    def is_about_records(request: Any) -> bool:
        return type(request).__name__ in ("ListOffsetsRequest", "OffsetForLeaderEpochRequest")


def told(data: PartitionData) -> FetchResponse:
    return FetchResponse(responses=[FetchableTopicResponse(topic="flights", partitions=[data])])


def read(world: Racks, end: int | None = -1) -> list[Any]:
    world.core.receive(Assign("flights", 0, -2, end), world.now_us)
    return world.run()


def test_records_come_from_the_replica_that_the_leader_names() -> None:
    world = Racks()
    world.store(0, b"a", b"b")
    said = read(world)
    assert values(said) == [b"a", b"b"]
    assert any(isinstance(output, Finished) for output in said)
    assert world.asked == [("one", "b"), ("two", "b")]


def test_without_a_rack_no_replica_is_asked_for() -> None:
    world = Racks(client_rack="")
    world.store(0, b"a")
    assert values(read(world)) == [b"a"]
    assert world.asked == [("one", "")]


@pytest.mark.parametrize(
    "refusal",
    [
        PartitionData(partition_index=0, error_code=OFFSET_OUT_OF_RANGE),
        PartitionData(partition_index=0, error_code=NOT_LEADER_OR_FOLLOWER),
        PartitionData(partition_index=0, error_code=UNKNOWN_SERVER_ERROR),
        PartitionData(partition_index=0, diverging_epoch=EpochEndOffset(epoch=0, end_offset=0)),
    ],
)
def test_a_replica_that_refuses_is_left_and_the_leader_gives_the_records(refusal: PartitionData) -> None:
    world = Racks()
    world.store(0, b"a", b"b")
    world.refusal = [refusal]
    assert values(read(world)) == [b"a", b"b"]
    assert world.asked == [("one", "b"), ("two", "b"), ("one", "")]


def test_a_replica_that_is_lost_is_left_and_nothing_is_lost_or_repeated() -> None:
    world = Racks()
    world.store(0, b"a")
    assert values(read(world, None)) == [b"a"]
    world.store(0, b"b")
    # The Fetch that waits there for more is lost with its connection.
    connection_id = next(number for number, host in reversed(world.hosts.items()) if host == "two")
    world.held.clear()
    world.core.receive(Disconnected(connection_id, CLOSED_BY_BROKER), world.now_us)
    assert values(world.run() + world.later(1000)) == [b"b"]
    assert world.asked[-2:] == [("one", ""), ("one", "")]


def test_a_replica_that_nobody_knows_is_not_waited_for() -> None:
    world = Racks()
    world.named = 7
    world.store(0, b"a")
    assert values(read(world)) == [b"a"]
    assert world.asked == [("one", "b"), ("one", "")]


def test_the_leader_is_asked_again_after_a_while_which_replica_is_near() -> None:
    world = Racks()
    world.store(0, b"a")
    read(world, None)
    world.store(0, b"b")
    world.now_us += 61_000_000
    world.wake(0)
    said = world.run()
    assert values(said) == [b"b"]
    assert world.asked[-2:] == [("one", "b"), ("two", "b")]


def test_a_new_leader_is_asked_before_its_replicas_are() -> None:
    world = Racks()
    world.store(0, b"a")
    read(world, None)
    world.elect(0, 1)
    world.store(0, b"b")
    world.wake(0, NOT_LEADER_OR_FOLLOWER)
    said = world.run() + world.later(1000) + world.later(1000)
    assert values(said) == [b"b"]
    assert not any(isinstance(output, ReadFailed) for output in said)
    assert world.checks
