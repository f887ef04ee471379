"""The coordinator of a consumer group (KIP-848) dies, or cannot write: nobody is told what may be lost."""

from __future__ import annotations

import errno
from collections.abc import Iterator

import pytest

from ottla.broker.topic_names import OFFSETS_TOPIC
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest

from .consumer_world import Consumer, described, settle
from .group_world import GROUP, commit, offsets_partition
from .world import TOPIC, World, full_disk_of_the_last_in_line


@pytest.fixture
def world() -> Iterator[World]:
    """Three brokers with a topic of four partitions, held by all of them."""
    world = World(3)
    world.create_topic(partitions=4, replicas=3)
    yield world
    world.close()


def pair(world: World) -> tuple[Consumer, Consumer]:
    """Two members that have come to the end."""
    first, second = Consumer(world, "first"), Consumer(world, "second", instance_id="static")
    first.join()
    second.join()
    settle(first, second)
    return first, second


def kill_coordinator(world: World, *members: Consumer) -> None:
    """The coordinator dies; members find the next one."""
    world.kill(members[0].node)
    world.pass_time(2000)
    asked = FindCoordinatorRequest(coordinator_keys=[GROUP])
    answer = world.ask(next(iter(world.brokers)), asked, version=6).coordinators[0]
    assert answer.error_code == 0
    for member in members:
        member.node = answer.node_id


def test_members_keep_what_they_own_under_the_next_coordinator(world: World) -> None:
    first, second = pair(world)
    owned, epoch = (first.indexes, second.indexes), first.epoch
    kill_coordinator(world, first, second)
    settle(first, second)
    assert ((first.indexes, second.indexes), first.epoch) == (owned, epoch)
    assert commit(world, 4, member_id="first", generation_id_or_member_epoch=epoch, node=first.node) == 0
    assert first.leave() == 0
    settle(second)
    assert second.indexes == [0, 1, 2, 3]


def test_a_rebalance_goes_on_under_the_next_coordinator(world: World) -> None:
    first, second = pair(world)
    third = Consumer(world, "third")
    third.join()
    first.busy = second.busy = True
    first.beat(1)
    second.beat(1)
    kill_coordinator(world, first, second, third)
    for member in (third, first, third, second, third):
        member.beat(1)
    assert (len(first.owned), len(second.owned), third.owned) == (2, 2, [])
    first.busy = second.busy = False
    first.answer = second.answer = None
    assert first.heartbeat(full=True) == second.heartbeat(full=True) == 0
    settle(first, second, third)
    assert sorted(first.indexes + second.indexes + third.indexes) == [0, 1, 2, 3]
    assert described(world, node=first.node).group_state == "Stable"


def test_sessions_begin_anew_under_the_next_coordinator(world: World) -> None:
    first, second = pair(world)
    world.pass_time(30_000)
    kill_coordinator(world, first, second)
    for _ in range(40):
        world.pass_time(1000)
        second.beat(1)
    assert second.indexes != [0, 1, 2, 3]
    for _ in range(8):
        world.pass_time(1000)
        second.beat(1)
    assert second.indexes == [0, 1, 2, 3]
    assert first.heartbeat() == ErrorCode.UNKNOWN_MEMBER_ID


def joining(name: str) -> ConsumerGroupHeartbeatRequest:
    return ConsumerGroupHeartbeatRequest(
        group_id=GROUP,
        member_id=name,
        rebalance_timeout_ms=1000,
        subscribed_topic_names=[TOPIC],
        topic_partitions=[],
    )


def test_a_member_is_told_nothing_that_is_not_replicated(world: World) -> None:
    first, second = pair(world)
    node = first.node
    dead, heir, last = full_disk_of_the_last_in_line(world, OFFSETS_TOPIC, offsets_partition(world))
    assert dead == node
    waiting = world.send(node, joining("third"), version=1)
    assert waiting not in world.answers
    kill_coordinator(world, first, second)
    world.storages[last].failure = None
    world.pass_time(10_000)
    assert first.node == heir
    assert world.answers.get(waiting, []) in ([], ["hung up"])
    settle(first, second)
    members = described(world, node=heir).members
    owned = [index for member in members for each in member.assignment.topic_partitions for index in each.partitions]
    assert sorted(owned) == sorted(dict.fromkeys(owned))
    assert not {*first.indexes} & {*second.indexes}


def test_what_could_not_be_written_is_written_with_the_next_change(world: World) -> None:
    first, second = pair(world)
    storage = world.storages[first.node]
    storage.failing, storage.failure = f"{OFFSETS_TOPIC}-{offsets_partition(world)}/", errno.ENOSPC
    third = Consumer(world, "third")
    assert third.join() == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert first.leave() == ErrorCode.COORDINATOR_NOT_AVAILABLE
    storage.failure = None
    assert third.join() == 0
    settle(second, third)
    assert sorted(second.indexes + third.indexes) == [0, 1, 2, 3]
    kill_coordinator(world, second, third)
    settle(second, third)
    assert sorted(second.indexes + third.indexes) == [0, 1, 2, 3]


def test_a_former_coordinator_says_that_it_is_none(world: World) -> None:
    first, second = pair(world)
    former = first.node
    kill_coordinator(world, first, second)
    world.start(former)
    world.pass_time(2000)
    assert first.node != former
    second.node = former
    assert second.heartbeat() == ErrorCode.NOT_COORDINATOR
