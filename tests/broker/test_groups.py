"""Groups: joining, generations, rebalances, sessions."""

from __future__ import annotations

import pytest

from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.heartbeat import HeartbeatRequest
from ottla.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from ottla.protocol.messages.leave_group import LeaveGroupRequest

from .group_world import GROUP, Client, find_coordinator, stable_pair
from .world import World


def test_a_new_member_is_told_its_id_and_joins_with_it(world: World) -> None:
    client = Client(world)
    told = client.join_once()
    assert told.error_code == ErrorCode.MEMBER_ID_REQUIRED
    assert told.member_id.startswith("test-")
    client.member_id = told.member_id
    joined = client.join_once()
    assert (joined.error_code, joined.generation_id, joined.protocol_name) == (0, 1, "range")
    assert joined.leader == joined.member_id == told.member_id
    assert [(each.member_id, each.metadata) for each in joined.members] == [(told.member_id, b"about me")]


def test_before_version_4_a_new_member_joins_at_once(world: World) -> None:
    client = Client(world)
    assert client.join_once(version=3).generation_id == 1
    assert client.heartbeat() == 0


def test_the_leaders_assignment_reaches_everybody(world: World) -> None:
    first, second = stable_pair(world)
    assert first.synced.assignment == b"first half"
    assert (first.generation, second.generation) == (2, 2)
    assert second.joined.members == []
    assert second.joined.leader == first.member_id
    assert (first.heartbeat(), second.heartbeat()) == (0, 0)


def test_a_follower_waits_for_the_leader(world: World) -> None:
    first, second = Client(world), Client(world)
    first.join()
    second.join()
    first.join()
    assert second.sync() == "waiting"
    assert first.sync({second: b"yours"}).assignment == b""
    assert second.synced.assignment == b"yours"
    assert second.sync().assignment == b"yours"


def test_a_newcomer_waits_until_the_members_have_joined_again(world: World) -> None:
    first = Client(world)
    first.join()
    first.sync({first: b"all"})
    second = Client(world)
    assert second.join() == "waiting"
    assert first.heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS
    assert first.commit(5) == 0
    assert first.join().generation_id == second.joined.generation_id == 2


def test_who_leaves_is_missed_at_once(world: World) -> None:
    first, second = stable_pair(world)
    assert first.leave() == 0
    assert second.heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS
    assert first.heartbeat() == ErrorCode.UNKNOWN_MEMBER_ID
    joined = second.join()
    assert (joined.generation_id, joined.leader) == (3, second.member_id)
    assert first.leave() == ErrorCode.UNKNOWN_MEMBER_ID


def test_who_falls_silent_is_out_when_its_session_ends(world: World) -> None:
    first, second = stable_pair(world)
    world.pass_time(9_000)
    assert first.heartbeat() == 0
    world.pass_time(1_500)
    assert second.heartbeat() == ErrorCode.UNKNOWN_MEMBER_ID
    assert first.heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS
    assert [each.member_id for each in first.join().members] == [first.member_id]


def test_a_member_that_does_not_join_again_holds_the_others_up_for_the_rebalance_timeout(world: World) -> None:
    first = Client(world, session_timeout_ms=100_000, rebalance_timeout_ms=20_000)
    first.join()
    first.sync({first: b"all"})
    second = Client(world, rebalance_timeout_ms=5_000)
    assert second.join() == "waiting"
    world.pass_time(19_900)
    assert second.joined == "waiting"
    world.pass_time(200)
    assert [each.member_id for each in second.joined.members] == [second.member_id]
    assert first.heartbeat() == ErrorCode.UNKNOWN_MEMBER_ID


def test_who_does_not_sync_is_out_after_the_rebalance_timeout(world: World) -> None:
    first, second = Client(world, rebalance_timeout_ms=8_000), Client(world, rebalance_timeout_ms=8_000)
    first.join()
    second.join()
    first.join()
    second.sync()
    world.pass_time(8_100)
    assert second.synced.error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert first.heartbeat() == ErrorCode.UNKNOWN_MEMBER_ID
    assert second.join().leader == second.member_id


def test_a_rebalance_sends_those_away_who_wait_for_an_assignment(world: World) -> None:
    first, second = Client(world), Client(world)
    first.join()
    second.join()
    first.join()
    assert second.sync() == "waiting"
    third = Client(world)
    third.join()
    assert second.synced.error_code == ErrorCode.REBALANCE_IN_PROGRESS


def test_a_promised_id_lapses_with_the_session_timeout(world: World) -> None:
    client = Client(world)
    client.member_id = client.join_once().member_id
    world.pass_time(10_100)
    assert client.join_once().error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_the_protocol_that_most_members_like_is_chosen(world: World) -> None:
    likes = [{"a": b"1", "b": b"2", "c": b""}, {"b": b"3", "a": b"4"}, {"b": b"5", "a": b"6", "d": b""}]
    clients = [Client(world, protocols=each) for each in likes]
    clients[0].join()
    clients[1].join()
    clients[2].join()
    joined = clients[0].join()
    assert joined.protocol_name == "b"
    assert [each.metadata for each in joined.members] == [b"2", b"3", b"5"]


def test_members_that_share_no_protocol_are_refused(world: World) -> None:
    first = Client(world)
    first.join()
    assert Client(world, protocols={"sticky": b""}).join().error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert Client(world, protocols={}).join().error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    other_kind = Client(world).join_once(protocol_type="connect")
    assert other_kind.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert first.sync(protocol_name="sticky").error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert first.sync(protocol_type="consumer", protocol_name="range").error_code == 0


@pytest.mark.parametrize("timeout_ms", [0, 5_999, 1_800_001])
def test_a_session_timeout_out_of_bounds_is_refused(world: World, timeout_ms: int) -> None:
    client = Client(world, session_timeout_ms=timeout_ms)
    assert client.join().error_code == ErrorCode.INVALID_SESSION_TIMEOUT


def test_old_generations_and_unknown_members_are_refused(world: World) -> None:
    first, _ = stable_pair(world)
    first.generation -= 1
    assert first.heartbeat() == ErrorCode.ILLEGAL_GENERATION
    assert first.sync(generation_id=1).error_code == ErrorCode.ILLEGAL_GENERATION
    unknown = Client(world)
    unknown.member_id, unknown.generation = "nobody", 2
    assert unknown.heartbeat() == ErrorCode.UNKNOWN_MEMBER_ID
    assert unknown.sync().error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert unknown.join().error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert unknown.leave() == ErrorCode.UNKNOWN_MEMBER_ID


def test_an_empty_group_id_is_refused(world: World) -> None:
    node = find_coordinator(world)
    protocols = [JoinGroupRequestProtocol(name="range")]
    join = JoinGroupRequest(session_timeout_ms=10_000, protocol_type="consumer", protocols=protocols)
    assert world.ask(node, join).error_code == ErrorCode.INVALID_GROUP_ID
    assert world.ask(node, HeartbeatRequest(), version=4).error_code == ErrorCode.INVALID_GROUP_ID
    assert world.ask(node, LeaveGroupRequest()).error_code == ErrorCode.INVALID_GROUP_ID


def test_a_group_that_fills_waits_for_more_members() -> None:
    world = World(1, group_initial_rebalance_delay_ms=3000)
    first, second = Client(world), Client(world)
    assert first.join() == "waiting"
    world.pass_time(2_000)
    assert second.join() == "waiting"
    world.pass_time(1_500)
    assert first.joined == "waiting"
    world.pass_time(3_000)
    assert len(first.joined.members) == 2
    assert second.joined.generation_id == 1


def test_a_static_member_comes_back_without_a_rebalance(world: World) -> None:
    leader = Client(world, instance_id="one")
    leader.join()
    leader.sync({leader: b"kept"})
    again = Client(world, instance_id="one")
    joined = again.join()
    assert (joined.error_code, joined.generation_id, joined.skip_assignment) == (0, 1, True)
    assert joined.member_id == joined.leader != leader.member_id
    assert again.sync().assignment == b"kept"
    assert leader.heartbeat() == ErrorCode.FENCED_INSTANCE_ID
    assert leader.commit(1) == ErrorCode.FENCED_INSTANCE_ID
    older = Client(world, instance_id="one").join(version=5)
    assert older.leader != older.member_id


def test_the_first_of_two_with_one_instance_id_is_sent_away(world: World) -> None:
    other, first, second = Client(world), Client(world, instance_id="one"), Client(world, instance_id="one")
    other.join()
    other.sync({other: b"all"})
    assert first.join() == "waiting"
    assert second.join() == "waiting"
    assert first.joined.error_code == ErrorCode.FENCED_INSTANCE_ID
    assert len(other.join().members) == 2


def test_who_shuts_down_while_it_waits_to_join_is_answered(world: World) -> None:
    first, second = Client(world), Client(world)
    first.join()
    first.sync({first: b"all"})
    second.join()
    assert second.leave() == 0
    assert second.joined.error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_another_broker_does_not_coordinate(replicated: World) -> None:
    client = Client(replicated)
    client.join()
    client.node = client.node % 3 + 1
    assert client.heartbeat() == ErrorCode.NOT_COORDINATOR
    assert client.join().error_code == ErrorCode.NOT_COORDINATOR
    assert client.sync().error_code == ErrorCode.NOT_COORDINATOR
    assert client.commit(1) == ErrorCode.NOT_COORDINATOR
    answer = replicated.ask(client.node, LeaveGroupRequest(group_id=GROUP))
    assert answer.error_code == ErrorCode.NOT_COORDINATOR
