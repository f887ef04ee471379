"""Requests and answers that vanish without a word, come late, or come twice; and brokers that end in between."""

from __future__ import annotations

import pytest

from ottla.broker.events import ConnectionLost, FaultFired, RequestReceived, Respond
from ottla.faults.fault import make_fault

from .world import TOPIC, World, batch_of, produce_request


def values(world: World) -> list[bytes | None]:
    return [record.value for record in world.stored()]


@pytest.mark.parametrize(("kind", "stored"), [("drop_request", []), ("drop_ack", [b"a"])])
def test_a_dropped_message_leaves_the_connection_open_and_silent(world: World, kind: str, stored: list[bytes]) -> None:
    fault_id = world.faults.add(make_fault(kind, nth=1))
    connection = world.send(1, produce_request({(TOPIC, 0): batch_of(b"a")}))
    world.send(1, produce_request({(TOPIC, 0): batch_of(b"b")}), connection=connection)
    world.pass_time(60_000)
    assert connection not in world.answers
    assert values(world) == stored
    assert world.faults.fired(fault_id) == 1


def test_another_connection_hears_all_the_same(world: World) -> None:
    world.faults.add(make_fault("drop_ack", nth=1))
    world.send(1, produce_request({(TOPIC, 0): batch_of(b"a")}))
    assert world.produce(batch_of(b"b")).base_offset == 1


def test_a_silent_connection_is_forgotten_when_its_client_leaves(world: World) -> None:
    world.faults.add(make_fault("drop_ack", nth=1))
    connection = world.send(1, produce_request({(TOPIC, 0): batch_of(b"a")}))
    core = world.brokers[1]
    core.receive(ConnectionLost(connection), world.now_us)
    assert len(core.connections) == 0


def test_a_client_that_has_left_cannot_be_silenced() -> None:
    world = World(3)
    world.create_topic(partitions=1, replicas=3)
    leader = world.leader()
    fault_id = world.faults.add(make_fault("drop_ack", nth=1))
    world.unreachable = {1, 2, 3} - {leader}
    connection = world.send(leader, produce_request({(TOPIC, 0): batch_of(b"a")}))
    world.brokers[leader].receive(ConnectionLost(connection), world.now_us)
    world.unreachable = set()
    world.pass_time(2_000)
    assert world.faults.fired(fault_id) == 1
    assert values(world) == [b"a"]


def test_without_an_answer_asked_for_a_dropped_request_silences_nobody(world: World) -> None:
    world.faults.add(make_fault("drop_request", nth=1))
    connection = world.send(1, produce_request({(TOPIC, 0): batch_of(b"a")}, acks=0))
    world.send(1, produce_request({(TOPIC, 0): batch_of(b"b")}, acks=0), connection=connection)
    assert values(world) == [b"b"]


def test_a_late_request_is_overtaken_by_its_retry_on_a_new_connection(world: World) -> None:
    """What a broken network does to a producer without sequence numbers: the first attempt comes last."""
    world.faults.add(make_fault("delay_request", delay_ms=500, nth=1))
    first = world.send(1, produce_request({(TOPIC, 0): batch_of(b"a")}))
    world.brokers[1].receive(ConnectionLost(first), world.now_us)
    assert world.produce(batch_of(b"a")).base_offset == 0
    assert world.produce(batch_of(b"b")).base_offset == 1
    world.pass_time(600)
    assert values(world) == [b"a", b"b", b"a"]
    assert first not in world.answers


def test_sequence_numbers_recognise_the_late_request(world: World) -> None:
    world.faults.add(make_fault("delay_request", delay_ms=500, nth=1))
    batch = batch_of(b"a", producer_id=4, sequence=0)
    first = world.send(1, produce_request({(TOPIC, 0): batch}))
    assert world.produce(batch).base_offset == 0
    world.pass_time(600)
    assert values(world) == [b"a"]
    assert world.answers[first][0].responses[0].partition_responses[0].base_offset == 0


@pytest.mark.parametrize(("producer_id", "stored"), [(-1, [b"a", b"b", b"a"]), (4, [b"a", b"b"])])
def test_a_request_delivered_twice_is_stored_twice_only_without_sequence_numbers(
    world: World, producer_id: int, stored: list[bytes]
) -> None:
    fault_id = world.faults.add(make_fault("redeliver", delay_ms=100, nth=1))
    for number, value in enumerate((b"a", b"b")):
        batch = batch_of(value, producer_id=producer_id, sequence=number if producer_id >= 0 else -1)
        assert world.produce(batch).base_offset == number
    world.pass_time(200)
    assert values(world) == stored
    assert world.faults.fired(fault_id) == 1


def test_what_comes_again_does_not_touch_the_memory_of_the_first(replicated: World) -> None:
    """Followers get the leader's batch by reference, and an append stamps the batch in place."""
    replicated.faults.add(make_fault("redeliver", nth=1))
    assert replicated.produce(batch_of(b"a"), acks=1).base_offset == 0
    replicated.pass_time(50)
    for broker_id in replicated.brokers:
        assert [record.offset for record in replicated.stored(broker_id=broker_id)] == [0, 1]


def crashed(world: World, moment: str, *, acks: int = -1) -> tuple[list[type], list[bytes | None]]:
    """What the core says when a kill fires for its next Produce request, and what is in its log."""
    world.faults.add(make_fault("kill", nth=1, moment=moment))
    core = world.brokers[world.leader()]
    core.receive(RequestReceived(9, 1, 12, "test", produce_request({(TOPIC, 0): batch_of(b"a")}, acks=acks)), 0)
    said = [type(output) for output in core.outputs() if isinstance(output, FaultFired | Respond)]
    return said, values(world)


def test_a_kill_at_the_request_fires_before_the_append(world: World) -> None:
    assert crashed(world, "request") == ([FaultFired], [])


@pytest.mark.parametrize("moment", ["append", "ack"])
def test_a_kill_afterwards_fires_before_the_answer(world: World, moment: str) -> None:
    said, stored = crashed(world, moment)
    assert said[0] is FaultFired
    assert stored == [b"a"]


def test_a_kill_at_the_append_comes_before_any_follower_hears_of_it(replicated: World) -> None:
    leader = replicated.leader()
    replicated.faults.add(make_fault("kill", nth=1, moment="append"))
    core = replicated.brokers[leader]
    core.receive(RequestReceived(9, 1, 12, "test", produce_request({(TOPIC, 0): batch_of(b"a")})), replicated.now_us)
    assert isinstance(core.outputs()[0], FaultFired)


def test_a_kill_at_the_ack_waits_for_the_followers(replicated: World) -> None:
    replicated.faults.add(make_fault("kill", nth=1, moment="ack"))
    replicated.send(replicated.leader(), produce_request({(TOPIC, 0): batch_of(b"a")}))
    assert [kind for _, kind in replicated.fault_fired] == ["kill"]
    assert all(len(replicated.stored(broker_id=broker_id)) == 1 for broker_id in replicated.brokers)


def test_a_broker_paused_at_a_request_handles_it_when_it_goes_on(world: World) -> None:
    world.faults.add(make_fault("pause", nth=1, moment="request"))
    connection = world.send(1, produce_request({(TOPIC, 0): batch_of(b"a")}))
    assert world.fault_fired == [(1, "pause")]
    assert values(world) == []
    world.pass_time(10)
    assert len(world.answers[connection]) == 1
    assert values(world) == [b"a"]
