"""A group's coordinator dies: another broker leads its partition of the offsets topic, and knows what was committed."""

from __future__ import annotations

from typing import Any

from ottla.broker.groups.members import GroupState
from ottla.broker.topic_names import OFFSETS_TOPIC
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup

from .group_world import GROUP, commit, find_coordinator, offsets_partition, stable_pair
from .world import TOPIC, World, full_disk_of_the_last_in_line


def coordinator_seen_by(world: World, broker_id: int) -> int:
    answer = world.ask(broker_id, FindCoordinatorRequest(coordinator_keys=[GROUP]), version=6).coordinators[0]
    assert answer.error_code == 0
    return answer.node_id


def offset_at(world: World, broker_id: int) -> int:
    group = offsets_told_by(world, broker_id)
    assert group.error_code == 0
    return int(group.topics[0].partitions[0].committed_offset)


def offsets_told_by(world: World, broker_id: int) -> Any:
    asked = OffsetFetchRequestGroup(group_id=GROUP, topics=None)
    return world.ask(broker_id, OffsetFetchRequest(groups=[asked]), version=9).groups[0]


def test_committed_offsets_survive_their_coordinator(replicated: World) -> None:
    old = find_coordinator(replicated)
    assert commit(replicated, 7) == 0
    replicated.kill(old)
    replicated.pass_time(2000)
    alive = next(iter(replicated.brokers))
    new = coordinator_seen_by(replicated, alive)
    assert new != old
    assert offset_at(replicated, new) == 7
    assert commit(replicated, 9, node=new) == 0
    replicated.start(old)
    replicated.pass_time(2000)
    replicated.kill(new)
    replicated.pass_time(2000)
    third = coordinator_seen_by(replicated, next(iter(replicated.brokers)))
    assert offset_at(replicated, third) == 9
    assert replicated.partition(TOPIC).leader in replicated.brokers


def test_an_offset_that_only_the_new_coordinator_has_is_told_once_it_is_replicated(replicated: World) -> None:
    node = find_coordinator(replicated)
    assert commit(replicated, 7) == 0
    first, second, third = full_disk_of_the_last_in_line(replicated, OFFSETS_TOPIC, offsets_partition(replicated))
    assert first == node
    assert commit(replicated, 9) == "waiting"
    replicated.kill(first)
    replicated.pass_time(2000)
    assert offsets_told_by(replicated, second).error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    replicated.storages[third].failure = None
    replicated.pass_time(2000)
    assert offset_at(replicated, second) == 9


def test_members_go_on_with_the_next_coordinator(replicated: World) -> None:
    leader, member = stable_pair(replicated)
    replicated.kill(leader.node)
    replicated.pass_time(2000)
    leader.node = member.node = coordinator_seen_by(replicated, next(iter(replicated.brokers)))
    assert (leader.heartbeat(), member.heartbeat()) == (0, 0)
    group = replicated.brokers[leader.node].groups.find(GROUP, replicated.now_us)
    assert group is not None
    assert group.classic.state is GroupState.STABLE
    assert len(group.classic.members) == 2
