"""Replicas that are moved (KIP-455): who holds a partition on the way, what ends a move, what is left of one."""

from __future__ import annotations

import errno
from typing import Any

import pytest

from ottla.broker.events import PartitionImage
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from ottla.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)

from .group_world import commit, committed, find_coordinator
from .world import TOPIC, World, batch_of, produce_request, records_of

Target = tuple[int, ...] | None


def reassign(
    world: World, target: Target, *, topic: str = TOPIC, index: int = 0, broker_id: int = 1, may_resize: bool = True
) -> int:
    """The error code for one partition."""
    partition = ReassignablePartition(partition_index=index, replicas=None if target is None else list(target))
    told = ask(world, [ReassignableTopic(name=topic, partitions=[partition])], broker_id, may_resize=may_resize)
    assert told.error_code == 0
    (answer,) = told.responses[0].partitions
    assert (answer.error_message is None) == (answer.error_code == 0)
    return int(answer.error_code)


def ask(world: World, topics: list[ReassignableTopic], broker_id: int = 1, *, may_resize: bool = True) -> Any:
    message = AlterPartitionReassignmentsRequest(
        timeout_ms=30_000, allow_replication_factor_change=may_resize, topics=topics
    )
    return world.ask(broker_id, message, version=1)


def listed(world: World, *asked: tuple[str, list[int]], broker_id: int = 2) -> list[Any]:
    """(topic, partition, replicas, adding, removing) of each move."""
    topics = [ListPartitionReassignmentsTopics(name=name, partition_indexes=indexes) for name, indexes in asked]
    told = world.ask(broker_id, ListPartitionReassignmentsRequest(topics=topics if asked else None), version=0)
    assert told.error_code == 0
    return [
        (topic.name, each.partition_index, each.replicas, each.adding_replicas, each.removing_replicas)
        for topic in told.topics
        for each in topic.partitions
    ]


def values(world: World, broker_id: int) -> list[bytes | None]:
    return [record.value for record in world.stored(broker_id=broker_id)]


def holds(world: World, broker_id: int) -> bool:
    return bool(world.storages[broker_id].files(f"{TOPIC}-0"))


@pytest.fixture
def world() -> World:
    """Five brokers, and a topic with two records whose only partition brokers 1 and 2 hold."""
    world = World(5)
    assert world.create_topic(replicas=2) == 0
    assert world.partition().replicas == (1, 2)
    assert world.produce(batch_of(b"one", b"two")).error_code == 0
    return world


def test_replicas_move_with_their_records_and_the_old_logs_are_removed(world: World) -> None:
    before = world.partition()
    assert reassign(world, (3, 4)) == 0
    world.pass_time(1000)
    after = world.partition()
    assert (after.replicas, sorted(after.isr), after.adding, after.removing) == ((3, 4), [3, 4], (), ())
    assert (after.leader, after.leader_epoch) == (3, before.leader_epoch + 1)
    assert [holds(world, each) for each in (1, 2, 3, 4)] == [False, False, True, True]
    assert values(world, 3) == values(world, 4) == [b"one", b"two"]
    assert world.produce(batch_of(b"three")).base_offset == 2
    world.pass_time(1000)
    assert values(world, 4) == [b"one", b"two", b"three"]
    assert [record.value for record in records_of(world.fetch(0))] == [b"one", b"two", b"three"]


def test_a_move_goes_on_until_all_new_replicas_are_in_sync(world: World) -> None:
    world.kill(4)
    world.pass_time(3000)
    assert reassign(world, (3, 4)) == 0
    world.pass_time(5000)
    assert listed(world) == [(TOPIC, 0, [3, 4, 1, 2], [3, 4], [1, 2])]
    assert world.partition().leader == 1
    assert 4 not in world.partition().isr
    assert 3 in world.partition().isr
    world.start(4)
    world.pass_time(5000)
    assert listed(world) == []
    assert world.partition().replicas == (3, 4)


def test_what_is_written_on_the_way_counts_on_the_new_replicas(world: World) -> None:
    world.kill(3)
    world.pass_time(3000)
    assert reassign(world, (3, 2)) == 0
    assert world.produce(batch_of(b"three")).error_code == 0
    world.start(3)
    world.pass_time(3000)
    assert world.partition().replicas == (3, 2)
    assert values(world, 3) == values(world, 2) == [b"one", b"two", b"three"]
    assert not holds(world, 1)


def test_the_leader_stays_where_it_stays_a_replica_and_begins_a_new_epoch(world: World) -> None:
    before = world.partition()
    assert reassign(world, (4, 1)) == 0
    world.pass_time(1000)
    after = world.partition()
    assert (after.replicas, after.leader, after.leader_epoch) == ((4, 1), 1, before.leader_epoch + 1)
    assert not holds(world, 2)


def test_replicas_can_be_more_and_fewer(world: World) -> None:
    assert reassign(world, (1, 2, 3)) == 0
    world.pass_time(1000)
    assert world.partition().replicas == (1, 2, 3)
    assert sorted(world.partition().isr) == [1, 2, 3]
    assert world.partition().leader_epoch == 0
    assert reassign(world, (2,)) == 0
    assert world.partition().replicas == world.partition().isr == (2,)
    assert world.partition().leader == 2
    assert [holds(world, each) for each in (1, 2, 3)] == [False, True, False]


def test_another_order_makes_another_preferred_leader_and_moves_nothing(world: World) -> None:
    assert reassign(world, (2, 1)) == 0
    assert listed(world) == []
    assert (world.partition().replicas, world.partition().leader) == ((2, 1), 1)


def test_a_move_that_is_cancelled_leaves_what_was_there_before(world: World) -> None:
    world.kill(4)
    world.pass_time(3000)
    assert reassign(world, (3, 4)) == 0
    world.pass_time(3000)
    assert holds(world, 3)
    assert reassign(world, None) == 0
    after = world.partition()
    assert (after.replicas, after.leader, after.is_moving) == ((1, 2), 1, False)
    assert sorted(after.isr) == [1, 2]
    assert not holds(world, 3)
    assert reassign(world, None) == ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
    assert world.produce(batch_of(b"three")).error_code == 0


def test_cancelling_is_refused_where_only_new_replicas_are_in_sync(world: World) -> None:
    world.kill(4)
    world.pass_time(3000)
    assert reassign(world, (3, 4)) == 0
    world.pass_time(1000)
    world.kill(2)
    world.pass_time(3000)
    world.kill(1)
    world.pass_time(3000)
    assert world.partition().isr == (3,)
    assert reassign(world, None, broker_id=3) == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert world.partition().isr == (3,)


def test_a_move_can_be_sent_elsewhere_on_its_way(world: World) -> None:
    world.kill(4)
    world.pass_time(3000)
    assert reassign(world, (3, 4)) == 0
    world.pass_time(3000)
    assert reassign(world, (5, 2)) == 0
    world.pass_time(3000)
    assert world.partition().replicas == (5, 2)
    assert [holds(world, each) for each in (1, 2, 3, 4, 5)] == [False, True, False, False, True]


def test_a_replica_that_is_on_its_way_is_so_wherever_the_others_are_sent(world: World) -> None:
    world.kill(3)
    world.pass_time(3000)
    assert reassign(world, (1, 2, 3)) == 0
    assert reassign(world, (3,)) == 0
    assert listed(world) == [(TOPIC, 0, [3, 1, 2], [3], [1, 2])]
    assert reassign(world, None) == 0
    assert world.partition().replicas == (1, 2)
    # Nobody waits for a replica that is not wanted any more.
    assert reassign(world, (1, 2, 3)) == 0
    assert reassign(world, (2, 1)) == 0
    assert listed(world) == []
    assert world.partition().replicas == (2, 1)


@pytest.mark.parametrize(
    ("target", "more", "code"),
    [
        ((1, 9), {}, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ((1, 1), {}, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ((), {}, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ((1, 2, 3), {"may_resize": False}, ErrorCode.INVALID_REPLICATION_FACTOR),
        ((3, 4), {"index": 1}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ((3, 4), {"index": -1}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ((3, 4), {"topic": "none"}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (None, {}, ErrorCode.NO_REASSIGNMENT_IN_PROGRESS),
    ],
)
def test_what_cannot_be_is_refused_and_changes_nothing(
    world: World, target: Target, more: dict[str, Any], code: int
) -> None:
    before = world.partition()
    assert reassign(world, target, **more) == code
    assert world.partition() is before


def test_replicas_that_are_on_their_way_count_for_how_many_there_are(world: World) -> None:
    world.kill(4)
    world.pass_time(3000)
    assert reassign(world, (3, 4), may_resize=False) == 0
    assert reassign(world, (3, 5), may_resize=False) == 0
    assert reassign(world, (3, 5, 1), may_resize=False) == ErrorCode.INVALID_REPLICATION_FACTOR


def test_partitions_of_one_request_succeed_or_fail_alone(world: World) -> None:
    assert world.create_topic("other", partitions=2) == 0
    good = ReassignablePartition(partition_index=0, replicas=[5])
    bad = ReassignablePartition(partition_index=7, replicas=[5])
    told = ask(world, [ReassignableTopic(name="other", partitions=[bad, good])])
    codes = [each.error_code for each in told.responses[0].partitions]
    assert codes == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 0]
    world.pass_time(1000)
    assert world.partition("other", 0).replicas == (5,)


def test_those_that_are_asked_for_are_listed_where_they_move(world: World) -> None:
    world.kill(4)
    world.pass_time(3000)
    assert world.create_topic("other") == 0
    assert reassign(world, (3, 4)) == 0
    move = (TOPIC, 0, [3, 4, 1, 2], [3, 4], [1, 2])
    assert listed(world) == [move]
    assert listed(world, (TOPIC, [0, 5]), ("other", [0]), ("none", [0])) == [move]
    assert listed(world, ("other", [0])) == []


def test_a_move_outlives_the_whole_cluster(world: World) -> None:
    world.kill(4)
    world.pass_time(3000)
    assert reassign(world, (3, 4)) == 0
    world.pass_time(1000)
    moving = world.partition()
    found = world.new_controller(list(world.controller.state.brokers)).image.topics[TOPIC].partitions[0]
    assert (found.replicas, found.adding, found.removing) == (moving.replicas, (3, 4), (1, 2))
    again = World(5, world.storages)
    again.pass_time(5000)
    assert (again.partition().replicas, again.partition().is_moving) == ((3, 4), False)
    assert [record.value for record in records_of(again.fetch(0))] == [b"one", b"two"]


def test_the_state_of_a_finished_move_is_written_as_any_other(world: World) -> None:
    assert reassign(world, (3, 4)) == 0
    world.pass_time(1000)
    world.controller.close()
    assert b"adding" not in world.storages[0].contents["controller.json"]
    assert World(5, world.storages).partition().replicas == (3, 4)


def test_a_broker_that_was_down_removes_what_was_moved_away_from_it(world: World) -> None:
    world.kill(2)
    world.pass_time(3000)
    assert reassign(world, (1, 3)) == 0
    world.pass_time(1000)
    assert world.partition().replicas == (1, 3)
    assert holds(world, 2)
    world.start(2)
    world.pass_time(1000)
    assert not holds(world, 2)


@pytest.mark.parametrize("left", [b"", b"\0" * 46, None])
def test_what_was_moved_away_goes_also_where_a_power_cut_took_whose_it_is(world: World, left: bytes | None) -> None:
    world.kill(2)
    world.pass_time(3000)
    assert reassign(world, (1, 3)) == 0
    world.pass_time(1000)
    metadata = f"{TOPIC}-0/partition.metadata"
    if left is None:
        world.storages[2].remove(metadata)
    else:
        world.storages[2].write_file(metadata, left)
    world.start(2)
    world.pass_time(1000)
    assert not holds(world, 2)


def test_a_log_that_could_not_be_opened_goes_with_its_replica(world: World) -> None:
    world.kill(2)
    world.pass_time(3000)
    # The disk is full, and what is to be written to open the log cannot be.
    world.storages[2].write_file(f"{TOPIC}-0/partition.metadata", b"")
    world.storages[2].failing, world.storages[2].failure = f"{TOPIC}-0/", errno.ENOSPC
    world.start(2)
    world.pass_time(1000)
    assert world.partition().isr == (1,)
    assert holds(world, 2)
    assert reassign(world, (1, 3)) == 0
    world.pass_time(1000)
    assert world.partition().replicas == (1, 3)
    assert not holds(world, 2)


def test_a_replica_that_comes_back_to_a_broker_begins_anew(world: World) -> None:
    assert reassign(world, (1, 3)) == 0
    world.pass_time(1000)
    assert world.produce(batch_of(b"three")).error_code == 0
    assert reassign(world, (1, 2)) == 0
    world.pass_time(1000)
    assert world.partition().replicas == (1, 2)
    assert values(world, 2) == [b"one", b"two", b"three"]
    assert not holds(world, 3)


def test_a_leader_that_goes_answers_who_waits(world: World) -> None:
    """A produce request that waits for its followers is not left waiting by a leader that leads no more."""
    for each in (3, 4):
        world.kill(each)
    world.pass_time(3000)
    assert reassign(world, (3,)) == 0
    world.cut.add(2)  # the follower in sync hears nothing
    waiting = world.send(1, produce_request({(TOPIC, 0): batch_of(b"three")}))
    assert waiting not in world.answers
    world.start(3)
    world.pass_time(31_000)
    assert world.partition().replicas == (3,)
    (answer,) = world.answers[waiting]
    code = answer.responses[0].partition_responses[0].error_code
    assert code in (0, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert values(world, 3)[:2] == [b"one", b"two"]
    if code == 0:
        assert values(world, 3) == [b"one", b"two", b"three"]


def test_nothing_moves_where_the_controller_cannot_write(world: World) -> None:
    before = world.partition()
    world.storages[0].failure = errno.ENOSPC
    partition = ReassignablePartition(partition_index=0, replicas=[3, 4])
    told = ask(world, [ReassignableTopic(name=TOPIC, partitions=[partition])])
    assert told.error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert world.partition() is before


def test_without_a_controller_it_is_to_be_asked_again(world: World) -> None:
    world.without_controller = True
    partition = ReassignablePartition(partition_index=0, replicas=[3, 4])
    told = ask(world, [ReassignableTopic(name=TOPIC, partitions=[partition])])
    assert told.error_code == ErrorCode.NOT_CONTROLLER


def test_the_coordinator_of_a_moved_partition_is_its_new_leader(world: World) -> None:
    """Offsets that were committed are found where `__consumer_offsets` was moved to."""
    assert commit(world, 2) == 0
    kept = committed(world)
    assert kept
    topic = "__consumer_offsets"
    partitions = world.controller.image.topics[topic].partitions
    asked = [ReassignablePartition(partition_index=index, replicas=[5]) for index in range(len(partitions))]
    told = ask(world, [ReassignableTopic(name=topic, partitions=asked)])
    assert {each.error_code for each in told.responses[0].partitions} == {0}
    world.pass_time(2000)
    assert {each.leader for each in world.controller.image.topics[topic].partitions} == {5}
    assert find_coordinator(world) == 5
    assert committed(world) == kept


def test_a_partition_that_moves_says_so() -> None:
    assert PartitionImage(1, 0, (1, 2), (1,), 0, (2,)).is_moving
    assert not PartitionImage(1, 0, (1, 2), (1,)).is_moving


def test_an_unclean_election_of_all_new_replicas_ends_the_move() -> None:
    """Nobody else will ever join: whoever leads is all that the partition is to have."""
    world = World(3)
    assert world.create_topic(unclean_leader_election_enable="true") == 0
    first = world.leader()
    new, other = (each for each in (1, 2, 3) if each != first)
    world.kill(new)
    world.pass_time(3000)
    assert reassign(world, (new,), broker_id=other) == 0
    world.kill(first)
    world.pass_time(3000)
    world.start(new)
    world.pass_time(3000)
    assert (world.partition().replicas, world.partition().isr, world.partition().leader) == ((new,), (new,), new)
    assert listed(world, broker_id=other) == []
