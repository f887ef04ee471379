"""Offsets of consumer groups (KIP-848), and how such groups are listed, deleted, and kept apart from classic ones."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.broker import patterns
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.delete_groups import DeleteGroupsRequest
from ottla.protocol.messages.describe_groups import DescribeGroupsRequest
from ottla.protocol.messages.list_groups import ListGroupsRequest
from ottla.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from ottla.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from ottla.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)

from .consumer_world import Consumer, described, settle
from .group_world import GROUP, Client, asked_for, commit, committed, find_coordinator
from .world import TOPIC, World


@pytest.fixture
def shared() -> World:
    """One broker with a topic of four partitions."""
    world = World(1)
    world.create_topic(partitions=4)
    return world


def commit_of(member: Consumer, offset: int, **more: Any) -> Any:
    fields = {"member_id": member.member_id, "generation_id_or_member_epoch": member.epoch, **more}
    return commit(member.world, offset, node=member.node, **fields)


def fetch_error(world: World, member_id: str | None, epoch: int) -> int:
    group = OffsetFetchRequestGroup(
        group_id=GROUP, member_id=member_id, member_epoch=epoch, topics=[asked_for(TOPIC, 0)]
    )
    return int(world.ask(find_coordinator(world), OffsetFetchRequest(groups=[group]), version=9).groups[0].error_code)


def test_a_member_commits_and_reads_with_its_epoch(shared: World) -> None:
    member = Consumer(shared, "one")
    member.join()
    assert commit_of(member, 7) == 0
    assert committed(shared)[TOPIC, 0][0] == 7
    assert commit_of(member, 8, generation_id_or_member_epoch=member.epoch + 1) == ErrorCode.STALE_MEMBER_EPOCH
    assert commit_of(member, 8, member_id="nobody") == ErrorCode.UNKNOWN_MEMBER_ID
    assert commit(shared, 8) == ErrorCode.UNKNOWN_MEMBER_ID
    assert fetch_error(shared, "one", member.epoch) == 0
    assert fetch_error(shared, "one", member.epoch - 1) == ErrorCode.STALE_MEMBER_EPOCH
    assert fetch_error(shared, "nobody", member.epoch) == ErrorCode.UNKNOWN_MEMBER_ID
    assert fetch_error(shared, None, -1) == 0
    assert committed(shared)[TOPIC, 0][0] == 7


def test_an_older_epoch_commits_what_the_member_owned_then_already(shared: World) -> None:
    first, second = Consumer(shared, "first"), Consumer(shared, "second")
    first.join()
    second.join()
    first.beat(1)
    first.beat(1)
    second.beat(1)
    assert (first.indexes, second.indexes, first.epoch) == ([0, 1], [2, 3], 3)
    assert commit_of(first, 5, generation_id_or_member_epoch=2, partition=0) == 0
    assert commit_of(first, 5, generation_id_or_member_epoch=2, partition=2) == ErrorCode.STALE_MEMBER_EPOCH, (
        "it does not own that one any more"
    )
    assert commit_of(second, 5, generation_id_or_member_epoch=2, partition=2) == ErrorCode.STALE_MEMBER_EPOCH
    assert commit_of(second, 6, partition=2) == 0


def test_what_is_being_given_up_may_still_be_committed(shared: World) -> None:
    first, second = Consumer(shared, "first"), Consumer(shared, "second")
    first.join()
    second.join()
    first.busy = True
    first.beat(1)
    assert described(shared).group_state == "Reconciling"
    assert commit_of(first, 9, partition=3) == 0


def test_offsets_in_a_transaction_carry_the_members_epoch(shared: World) -> None:
    member = Consumer(shared, "one")
    member.join()

    def code(member_id: str, epoch: int) -> int:
        place = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=4)
        message = TxnOffsetCommitRequest(
            transactional_id="t",
            group_id=GROUP,
            producer_id=1,
            producer_epoch=0,
            generation_id=epoch,
            member_id=member_id,
            topics=[TxnOffsetCommitRequestTopic(name=TOPIC, partitions=[place])],
        )
        answer = shared.ask(member.node, message, version=3)
        return int(answer.topics[0].partitions[0].error_code)

    assert code("one", member.epoch + 1) == ErrorCode.STALE_MEMBER_EPOCH
    assert code("nobody", member.epoch) == ErrorCode.UNKNOWN_MEMBER_ID
    # The group lets these pass; there is no such transaction.
    passed = [code("one", member.epoch), code("", -1)]
    assert not {ErrorCode.STALE_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID, 0} & {*passed}


def test_groups_are_listed_by_type_and_state(shared: World) -> None:
    Consumer(shared, "one").join()
    classic = Client(shared, group_id="classic")
    classic.join()
    node = find_coordinator(shared)

    def listed(**filters: Any) -> list[tuple[str, str, str, str]]:
        groups = shared.ask(node, ListGroupsRequest(**filters), version=5).groups
        return sorted((each.group_id, each.group_type, each.group_state, each.protocol_type) for each in groups)

    ours = (GROUP, "consumer", "Stable", "consumer")
    theirs = ("classic", "classic", "CompletingRebalance", "consumer")
    assert listed() == [theirs, ours]
    assert listed(types_filter=["Consumer"]) == listed(states_filter=["stable"]) == [ours]
    assert listed(types_filter=["classic"]) == [theirs]


def test_describe_groups_does_not_know_consumer_groups(shared: World) -> None:
    Consumer(shared, "one").join()
    node = find_coordinator(shared)
    told = shared.ask(node, DescribeGroupsRequest(groups=[GROUP]), version=6).groups[0]
    assert (told.error_code, told.group_state) == (ErrorCode.GROUP_ID_NOT_FOUND, "Dead")
    told = shared.ask(node, DescribeGroupsRequest(groups=[GROUP]), version=5).groups[0]
    assert (told.error_code, told.group_state) == (0, "Dead")


def delete(world: World) -> int:
    answer = world.ask(find_coordinator(world), DeleteGroupsRequest(groups_names=[GROUP]), version=2)
    return int(answer.results[0].error_code)


def test_a_group_is_deleted_when_nobody_is_in_it(shared: World) -> None:
    member = Consumer(shared, "one")
    member.join()
    commit_of(member, 3)
    assert delete(shared) == ErrorCode.NON_EMPTY_GROUP
    member.leave()
    assert described(shared).group_state == "Empty"
    assert delete(shared) == 0
    assert described(shared).error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert committed(shared) == {}
    shared.kill(1)
    shared.start(1)
    shared.pass_time(3000)
    assert described(shared).error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert member.join() == 0
    assert member.epoch == 2


def test_offsets_of_topics_that_members_read_are_not_deleted(shared: World) -> None:
    shared.create_topic("other")
    shared.create_topic("third")
    member = Consumer(shared, "one", subscribed_topic_regex="oth.*")
    member.join()
    for topic in (TOPIC, "other", "third"):
        commit_of(member, 3, topic=topic)
    asked = [
        OffsetDeleteRequestTopic(name=topic, partitions=[OffsetDeleteRequestPartition(partition_index=0)])
        for topic in (TOPIC, "other", "third")
    ]
    answer = shared.ask(member.node, OffsetDeleteRequest(group_id=GROUP, topics=asked), version=0)
    read = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
    assert [each.partitions[0].error_code for each in answer.topics] == [read, read, 0]
    assert sorted(committed(shared)) == [(TOPIC, 0), ("other", 0)]


def test_a_group_with_members_is_not_taken_over_by_the_other_protocol(shared: World) -> None:
    classic, consumer = Client(shared), Consumer(shared, "one")
    classic.join()
    assert consumer.join() == ErrorCode.GROUP_ID_NOT_FOUND
    classic.sync({classic: b"all"})
    assert classic.commit(5) == 0
    classic.leave()
    assert consumer.join() == 0
    assert committed(shared)[TOPIC, 0][0] == 5
    assert classic.join().error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert classic.heartbeat() == classic.leave() == ErrorCode.UNKNOWN_MEMBER_ID
    assert classic.sync().error_code == ErrorCode.UNKNOWN_MEMBER_ID
    newcomer = Client(shared)
    assert newcomer.join().error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert commit_of(consumer, 6) == 0
    consumer.leave()
    assert newcomer.join().error_code == 0
    assert consumer.heartbeat() == consumer.join() == ErrorCode.GROUP_ID_NOT_FOUND
    assert committed(shared)[TOPIC, 0][0] == 6


@pytest.mark.parametrize("last", ["classic", "consumer"])
def test_a_group_is_what_it_was_last_after_a_restart(shared: World, last: str) -> None:
    classic, consumer = Client(shared), Consumer(shared, "one")
    for kind in ["classic", "consumer", "classic", "consumer", "classic"][: 5 if last == "classic" else 4]:
        if kind == "classic":
            consumer.leave()
            classic = Client(shared)
            assert classic.join().error_code == 0
            classic.sync({classic: b"all"})
            assert classic.commit(5) == 0
        else:
            classic.leave()
            assert consumer.join() == 0
    shared.kill(1)
    shared.start(1)
    shared.pass_time(3000)
    (listed,) = shared.ask(find_coordinator(shared), ListGroupsRequest(), version=5).groups
    assert (listed.group_type, listed.group_state) == (last, "Stable")
    assert committed(shared)[TOPIC, 0][0] == 5
    if last == "classic":
        assert classic.heartbeat() == 0
    else:
        settle(consumer)


def test_a_stored_pattern_that_is_refused_now_matches_nothing(shared: World, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = Consumer(shared, "one")
    assert plain.join() == 0
    with monkeypatch.context() as older:
        # As a broker did that refused less.
        older.setattr(patterns, "_WAYS_MAX", 1 << 40)
        patterns.compile_pattern.cache_clear()
        stored = Consumer(shared, "two", topics=[], subscribed_topic_regex=".*.*.*.*.?.?")
        assert stored.join() == 0
        settle(plain, stored)
        assert stored.owned
    patterns.compile_pattern.cache_clear()
    shared.kill(1)
    shared.start(1)
    shared.pass_time(3000)
    settle(plain, stored)
    assert (sorted(plain.indexes), stored.owned) == ([0, 1, 2, 3], [])
    assert stored.join() == ErrorCode.INVALID_REGULAR_EXPRESSION
