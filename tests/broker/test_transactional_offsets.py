"""Offsets of a group committed in a transaction: pending until the marker, then there or gone."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.broker.events import AskPeer, PeerAnswered
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnResponse
from ottla.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup

from .group_world import GROUP, asked_for, commit, committed, find_coordinator, stable_pair
from .transaction_world import Producer
from .world import TOPIC, World

both = pytest.mark.parametrize("version", [1, 2])


@pytest.fixture
def world() -> World:
    world = World(3)
    assert world.create_topic(replicas=3) == 0
    find_coordinator(world)
    return world


def fetched(world: World, *, require_stable: bool) -> Any:
    asked = OffsetFetchRequestGroup(group_id=GROUP, topics=[asked_for(TOPIC, 0)])
    message = OffsetFetchRequest(groups=[asked], require_stable=require_stable)
    found = world.ask(find_coordinator(world), message, version=9).groups[0].topics[0].partitions[0]
    return found.error_code, found.committed_offset


@both
def test_offsets_count_when_the_transaction_is_committed(world: World, version: int) -> None:
    producer = Producer(world, version=version)
    producer.init()
    assert producer.commit_offset(GROUP, 7) == 0
    assert fetched(world, require_stable=True) == (ErrorCode.UNSTABLE_OFFSET_COMMIT, -1)
    assert fetched(world, require_stable=False) == (0, -1)
    assert producer.commit() == 0
    assert fetched(world, require_stable=True) == (0, 7)


@both
def test_offsets_of_an_aborted_transaction_are_forgotten(world: World, version: int) -> None:
    commit(world, 3)
    producer = Producer(world, version=version)
    producer.init()
    producer.commit_offset(GROUP, 7)
    assert producer.abort() == 0
    assert fetched(world, require_stable=True) == (0, 3)


@both
@pytest.mark.parametrize("ending", ["commit", "abort", "open"])
def test_a_coordinator_that_reads_the_log_knows_what_was_decided(version: int, ending: str) -> None:
    world = World(1)
    world.create_topic()
    commit(world, 3)
    producer = Producer(world, version=version)
    producer.init()
    producer.commit_offset(GROUP, 7)
    if ending != "open":
        producer.end(ending == "commit")
    again = World(1, world.storages)
    assert committed(again)[TOPIC, 0][0] == (7 if ending == "commit" else 3)
    assert (fetched(again, require_stable=True)[0] == ErrorCode.UNSTABLE_OFFSET_COMMIT) == (ending == "open")
    producer.world = again
    if ending == "open":
        producer.commit()
        assert fetched(again, require_stable=True) == (0, 7)


def test_a_member_of_an_older_generation_cannot_commit(world: World) -> None:
    first, _ = stable_pair(world)
    producer = Producer(world)
    producer.init()
    member = {"member_id": first.member_id, "generation_id": first.generation}
    assert producer.commit_offset(GROUP, 1, **member) == 0
    old = {**member, "generation_id": first.generation - 1}
    assert producer.commit_offset(GROUP, 2, **old) == ErrorCode.ILLEGAL_GENERATION
    assert producer.commit_offset(GROUP, 2, **{**member, "member_id": "x"}) == ErrorCode.UNKNOWN_MEMBER_ID
    assert producer.commit_offset(GROUP, 2) == 0  # producers that do not say whose they are
    assert producer.commit_offset("nobody", 2, generation_id=4, member_id="x") == ErrorCode.ILLEGAL_GENERATION


def test_a_fenced_producer_commits_no_offsets(world: World) -> None:
    old, new = Producer(world), Producer(world)
    old.init()
    new.init()
    assert old.commit_offset(GROUP, 1) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert fetched(world, require_stable=True) == (0, -1)


def test_offsets_that_were_not_added_to_the_transaction_are_refused(world: World) -> None:
    producer = Producer(world, version=2)
    producer.init()
    producer.versions = {**producer.versions, "offsets": 4}
    assert producer.commit_offset(GROUP, 1) == ErrorCode.TRANSACTION_ABORTABLE
    producer.versions = {**producer.versions, "offsets": 3}
    assert producer.commit_offset(GROUP, 1) == ErrorCode.INVALID_TXN_STATE


@both
def test_a_coordinator_that_answers_after_the_transaction_has_ended_opens_none(
    world: World, version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Offsets that were asked about before the marker and would be stored behind it: nobody would ever end that."""
    held: list[tuple[int, Any]] = []
    deliver = world._deliver

    def slowly(broker_id: int, event: Any) -> None:
        if isinstance(event, PeerAnswered) and isinstance(event.message, AddPartitionsToTxnResponse):
            held.append((broker_id, event))
        else:
            deliver(broker_id, event)

    producer = Producer(world, version=version)
    producer.init()
    with monkeypatch.context() as patch:
        patch.setattr(world, "_deliver", slowly)
        assert producer.commit_offset(GROUP, 7) == "waiting"
        late = world.last_connection
        [about_it] = held
        held.clear()
    assert producer.commit() == 0
    assert producer.state == "CompleteCommit"
    deliver(*about_it)
    world.drain()
    [answer] = world.answers[late]
    assert answer.topics[0].partitions[0].error_code == ErrorCode.INVALID_TXN_STATE
    assert fetched(world, require_stable=True) == (0, -1)


@both
def test_a_transaction_is_asked_about_once(world: World, version: int, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    carry = world._from_broker

    def watched(broker_id: int, output: Any) -> None:
        if isinstance(output, AskPeer) and isinstance(output.message, AddPartitionsToTxnRequest):
            asked.append(output.message)
        carry(broker_id, output)

    monkeypatch.setattr(world, "_from_broker", watched)
    producer = Producer(world, version=version)
    producer.init()
    assert [producer.commit_offset(GROUP, offset) for offset in (7, 8)] == [0, 0]
    assert len(asked) == 1
    assert producer.commit() == 0
    assert fetched(world, require_stable=True) == (0, 8)
    assert producer.commit_offset(GROUP, 9) == 0
    assert len(asked) == 2


@both
def test_an_older_offset_of_a_transaction_does_not_win_over_a_newer_plain_one(world: World, version: int) -> None:
    producer = Producer(world, version=version)
    producer.init()
    assert producer.commit_offset(GROUP, 7) == 0
    commit(world, 9)
    assert producer.commit() == 0
    assert fetched(world, require_stable=True) == (0, 9)
    other = Producer(world, "other", version=version)
    other.init()
    assert other.commit_offset(GROUP, 11) == 0
    assert other.commit() == 0
    assert fetched(world, require_stable=True) == (0, 11)


@both
def test_a_coordinator_that_reads_the_log_takes_the_newer_offset_too(version: int) -> None:
    world = World(1)
    assert world.create_topic() == 0
    find_coordinator(world)
    producer = Producer(world, version=version)
    producer.init()
    assert producer.commit_offset(GROUP, 7) == 0
    commit(world, 9)
    assert producer.commit() == 0
    world.kill(1)
    world.start(1)
    world.pass_time(20_000)
    assert fetched(world, require_stable=True) == (0, 9)
