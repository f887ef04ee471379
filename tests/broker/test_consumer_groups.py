"""Consumer groups of KIP-848 on brokers: joining, sharing, leaving, sessions, static members, what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.api_versions import ApiVersionsRequest
from ottla.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from ottla.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from ottla.protocol.messages.delete_topics import DeleteTopicsRequest

from .consumer_world import Consumer, described, settle
from .group_world import GROUP, find_coordinator
from .world import TOPIC, World


@pytest.fixture
def shared() -> World:
    """One broker with a topic of four partitions."""
    world = World(1)
    world.create_topic(partitions=4)
    return world


def test_the_first_member_gets_all_partitions_with_its_first_answer(shared: World) -> None:
    only = Consumer(shared, "only")
    assert only.join() == 0
    assert only.answer is not None
    assert (only.answer.member_id, only.epoch, only.indexes) == ("only", 2, [0, 1, 2, 3])
    assert only.answer.heartbeat_interval_ms == 500
    assert only.heartbeat() == 0
    assert only.answer.assignment is None


def test_a_partition_goes_to_its_new_owner_when_the_old_one_has_given_it_up(shared: World) -> None:
    first, second = Consumer(shared, "first"), Consumer(shared, "second")
    first.join()
    second.join()
    assert (second.epoch, second.indexes) == (3, [])
    first.busy = True
    first.beat(2)
    assert (first.epoch, first.indexes) == (2, [0, 1, 2, 3])
    second.beat(2)
    assert second.indexes == []
    first.busy = False
    first.owned = first.owned[:2]
    assert first.heartbeat() == 0
    assert first.epoch == 3
    second.beat(1)
    assert (first.indexes, second.indexes) == ([0, 1], [2, 3])
    assert described(shared).group_state == "Stable"


def test_who_leaves_is_replaced_at_once(shared: World) -> None:
    first, second = Consumer(shared, "first"), Consumer(shared, "second")
    first.join()
    second.join()
    settle(first, second)
    assert first.leave() == 0
    second.beat(1)
    assert second.indexes == [0, 1, 2, 3]
    assert first.heartbeat() == ErrorCode.UNKNOWN_MEMBER_ID


def test_who_is_silent_for_its_session_is_out(shared: World) -> None:
    first, second = Consumer(shared, "first"), Consumer(shared, "second")
    first.join()
    second.join()
    settle(first, second)
    for _ in range(46):
        shared.pass_time(1000)
        second.beat(1)
    assert second.indexes == [0, 1, 2, 3]
    assert first.heartbeat() == ErrorCode.UNKNOWN_MEMBER_ID
    assert first.join() == 0
    settle(second, first)
    assert sorted(first.indexes + second.indexes) == [0, 1, 2, 3]
    assert len(first.indexes) == len(second.indexes) == 2


def test_who_does_not_give_up_partitions_within_its_rebalance_timeout_is_out(shared: World) -> None:
    first, second = Consumer(shared, "first", rebalance_timeout_ms=10_000), Consumer(shared, "second")
    first.join()
    second.join()
    first.busy = True
    first.beat(1)
    for _ in range(9):
        shared.pass_time(1000)
        assert (first.heartbeat(), second.heartbeat()) == (0, 0)
    shared.pass_time(1100)
    assert first.heartbeat() == ErrorCode.UNKNOWN_MEMBER_ID
    second.beat(1)
    assert second.indexes == [0, 1, 2, 3]


def test_an_answer_that_was_lost_is_asked_for_again_with_the_epoch_before(shared: World) -> None:
    first, second = Consumer(shared, "first"), Consumer(shared, "second")
    first.join()
    second.join()
    first.beat(2)
    epoch, owned = second.epoch, list(second.owned)
    shared.create_topic("other")
    second.fields["subscribed_topic_names"] = [TOPIC, "other"]
    second.heartbeat(full=True)
    second.epoch, second.owned = epoch, owned
    assert second.heartbeat(full=True) == 0
    settle(first, second)
    assert ("other", 0) in second.owned


def test_epochs_that_are_not_the_members_own_are_fenced(shared: World) -> None:
    first, second, third = (Consumer(shared, name) for name in ("first", "second", "third"))
    first.join()
    second.join()
    settle(first, second)
    third.join()
    settle(first, second, third)
    first.epoch += 1
    assert first.heartbeat() == ErrorCode.FENCED_MEMBER_EPOCH
    first.epoch = 1
    assert first.heartbeat() == ErrorCode.FENCED_MEMBER_EPOCH
    assert first.join() == 0
    settle(first, second, third)
    assert sorted(first.indexes + second.indexes + third.indexes) == [0, 1, 2, 3]


def test_a_static_member_finds_its_partitions_when_it_comes_back(shared: World) -> None:
    one, other = Consumer(shared, "one", instance_id="one"), Consumer(shared, "other", instance_id="other")
    one.join()
    other.join()
    settle(one, other)
    kept, epoch = one.indexes, described(shared).group_epoch
    assert Consumer(shared, "early", instance_id="one").join() == ErrorCode.UNRELEASED_INSTANCE_ID
    assert one.leave(-2) == 0
    other.beat(2)
    assert (len(other.indexes), described(shared).group_epoch) == (2, epoch)
    again = Consumer(shared, "again", instance_id="one")
    assert again.join() == 0
    assert (again.indexes, described(shared).group_epoch) == (kept, epoch)
    assert one.heartbeat() == ErrorCode.FENCED_INSTANCE_ID
    assert again.leave(-1) == 0
    other.beat(1)
    assert other.indexes == [0, 1, 2, 3]


def test_a_static_member_that_stays_away_loses_its_partitions_with_its_session(shared: World) -> None:
    one, other = Consumer(shared, "one", instance_id="one"), Consumer(shared, "other")
    one.join()
    other.join()
    settle(one, other)
    one.leave(-2)
    for _ in range(46):
        shared.pass_time(1000)
        other.beat(1)
    assert other.indexes == [0, 1, 2, 3]


def test_new_partitions_and_new_topics_are_shared_out(shared: World) -> None:
    first = Consumer(shared, "first", topics=[TOPIC, "to-come"])
    second = Consumer(shared, "second", topics=[], subscribed_topic_regex="to-.*|flights")
    first.join()
    second.join()
    settle(first, second)
    epoch = described(shared).group_epoch
    asked = CreatePartitionsTopic(name=TOPIC, count=6, assignments=None)
    shared.ask(1, CreatePartitionsRequest(topics=[asked], timeout_ms=1000), version=3)
    settle(first, second)
    assert described(shared).group_epoch == epoch + 1
    assert sorted(first.indexes + second.indexes) == [0, 1, 2, 3, 4, 5]
    shared.create_topic("to-come", partitions=2)
    settle(first, second)
    assert sorted(first.owned + second.owned)[6:] == [("to-come", 0), ("to-come", 1)]
    shared.ask(1, DeleteTopicsRequest(topic_names=[TOPIC]))
    settle(first, second)
    assert sorted(first.owned + second.owned) == [("to-come", 0), ("to-come", 1)]
    assert len(first.owned) == len(second.owned) == 1


def test_the_assignor_that_most_members_ask_for_assigns(shared: World) -> None:
    shared.create_topic("other", partitions=3)
    topics = [TOPIC, "other"]
    members = [Consumer(shared, name, topics=topics, server_assignor="range") for name in ("a", "b")]
    for member in members:
        member.join()
    settle(*members)
    assert sorted(members[0].owned) == [(TOPIC, 0), (TOPIC, 1), ("other", 0), ("other", 1)]
    told = described(shared)
    assert (told.assignor_name, told.group_state, told.group_epoch, told.assignment_epoch) == ("range", "Stable", 3, 3)


def test_groups_are_described_with_what_members_own_and_are_to_own(shared: World) -> None:
    first = Consumer(shared, "first", instance_id="one", rack_id="here")
    first.join()
    Consumer(shared, "second").join()
    told = described(shared)
    assert (told.group_state, told.group_epoch, told.assignment_epoch) == ("Reconciling", 3, 3)
    one, two = told.members
    assert (one.member_id, one.instance_id, one.rack_id, one.member_epoch, one.client_id) == (
        "first",
        "one",
        "here",
        2,
        "test",
    )
    assert one.subscribed_topic_names == [TOPIC]
    assert (one.member_type, two.member_type) == (1, 1)
    owned = [(each.topic_name, each.partitions) for each in one.assignment.topic_partitions]
    wanted = [each.partitions for each in one.target_assignment.topic_partitions]
    assert (owned, len(wanted[0])) == ([(TOPIC, [0, 1, 2, 3])], 2)
    assert two.assignment.topic_partitions == []
    assert described(shared, "nobody").error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert described(shared, version=0).members[0].member_id == "first"


def test_a_group_may_have_so_many_members() -> None:
    world = World(1, group_consumer_max_size=2)
    world.create_topic(partitions=4)
    first, second, third = (Consumer(world, name) for name in ("first", "second", "third"))
    assert (first.join(), second.join(), third.join()) == (0, 0, ErrorCode.GROUP_MAX_SIZE_REACHED)
    assert first.join() == 0
    assert second.leave() == 0
    assert third.join() == 0


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"group_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"member_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"instance_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"rack_id": " "}, ErrorCode.INVALID_REQUEST),
        ({"rebalance_timeout_ms": -1}, ErrorCode.INVALID_REQUEST),
        ({"subscribed_topic_names": None}, ErrorCode.INVALID_REQUEST),
        ({"topic_partitions": None}, ErrorCode.INVALID_REQUEST),
        ({"member_epoch": -2}, ErrorCode.INVALID_REQUEST),
        ({"member_epoch": -3}, ErrorCode.INVALID_REQUEST),
        ({"server_assignor": "sticky"}, ErrorCode.UNSUPPORTED_ASSIGNOR),
        ({"subscribed_topic_regex": "("}, ErrorCode.INVALID_REGULAR_EXPRESSION),
        ({"subscribed_topic_regex": "(a+)+"}, ErrorCode.INVALID_REGULAR_EXPRESSION),
        ({"subscribed_topic_regex": "a?" * 30}, ErrorCode.INVALID_REGULAR_EXPRESSION),
        ({"member_epoch": 1}, ErrorCode.GROUP_ID_NOT_FOUND),
        ({"member_epoch": -1}, ErrorCode.GROUP_ID_NOT_FOUND),
    ],
)
def test_heartbeats_that_are_refused_leave_no_group_behind(shared: World, fields: dict[str, Any], code: int) -> None:
    joining = {
        "group_id": GROUP,
        "member_id": "one",
        "rebalance_timeout_ms": 1000,
        "subscribed_topic_names": [TOPIC],
        "topic_partitions": [],
    }
    message = ConsumerGroupHeartbeatRequest(**{**joining, **fields})
    answer = shared.ask(find_coordinator(shared), message, version=1)
    assert (answer.error_code, bool(answer.error_message)) == (code, True)
    assert described(shared).error_code == ErrorCode.GROUP_ID_NOT_FOUND


def test_in_version_0_a_member_without_an_id_is_given_one(shared: World) -> None:
    message = ConsumerGroupHeartbeatRequest(
        group_id=GROUP, rebalance_timeout_ms=1000, subscribed_topic_names=[TOPIC], topic_partitions=[]
    )
    answer = shared.ask(find_coordinator(shared), message, version=0)
    assert (answer.error_code, len(answer.member_id), answer.member_epoch) == (0, 36, 2)


def test_without_group_version_there_are_no_consumer_groups() -> None:
    world = World(1, group_version=0)
    world.create_topic()
    assert Consumer(world, "one").join() == ErrorCode.UNSUPPORTED_VERSION
    assert described(world).error_code == ErrorCode.UNSUPPORTED_VERSION
    request = ApiVersionsRequest(client_software_name="x", client_software_version="1")
    assert "group.version" not in [each.name for each in world.ask(1, request, version=4).finalized_features]


def test_another_broker_does_not_coordinate(replicated: World) -> None:
    member = Consumer(replicated, "one")
    assert member.join() == 0
    member.node = member.node % 3 + 1
    assert member.heartbeat() == ErrorCode.NOT_COORDINATOR
