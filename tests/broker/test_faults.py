"""Faults before and after the append: what is stored, what the client sees, and what counts as fired."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.faults.fault import make_fault
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.metadata import MetadataRequest

from .world import TOPIC, World, batch_of, fetch_request, produce_request, records_of


def values(world: World) -> list[bytes | None]:
    return [record.value for record in world.stored()]


@pytest.mark.parametrize("acks", [1, -1])
def test_lost_ack_is_stored_and_the_connection_cut(world: World, acks: int) -> None:
    fault_id = world.faults.add(make_fault("lose_ack", topic=TOPIC, nth=2))
    assert world.produce(batch_of(b"a"), acks=acks).error_code == 0
    assert world.produce(batch_of(b"b"), acks=acks) == "hung up"
    assert world.produce(batch_of(b"c"), acks=acks).base_offset == 2
    assert values(world) == [b"a", b"b", b"c"]
    assert (world.faults.fired(fault_id), world.faults.matched(fault_id)) == (1, 3)


def test_lost_ack_then_retry_with_a_sequence_stores_one_copy(world: World) -> None:
    world.faults.add(make_fault("lose_ack", nth=1))
    batch = batch_of(b"a", producer_id=4, sequence=0)
    assert world.produce(batch) == "hung up"
    assert world.produce(batch).base_offset == 0
    assert values(world) == [b"a"]


def test_lost_ack_then_retry_without_one_stores_two(world: World) -> None:
    world.faults.add(make_fault("lose_ack", nth=1))
    assert world.produce(batch_of(b"a")) == "hung up"
    assert world.produce(batch_of(b"a")).base_offset == 1
    assert values(world) == [b"a", b"a"]


def test_lost_request_is_not_stored(world: World) -> None:
    fault_id = world.faults.add(make_fault("lose_request", nth=1))
    assert world.produce(batch_of(b"a")) == "hung up"
    assert values(world) == []
    assert world.produce(batch_of(b"a")).base_offset == 0
    assert world.faults.fired(fault_id) == 1


def test_what_was_already_on_its_way_is_dropped_with_the_connection(world: World) -> None:
    """Requests behind the affected one on the same connection are never appended, as with a broken socket."""
    from ottla.broker.events import ConnectionLost, RequestReceived

    world.faults.add(make_fault("lose_ack", nth=1))
    core = world.brokers[1]
    for value in (b"a", b"b", b"c"):
        request = produce_request({(TOPIC, 0): batch_of(value)})
        core.receive(RequestReceived(77, 1, 12, "test", request), world.now_us)
    assert [type(output).__name__ for output in core.outputs()] == ["HangUp"]
    assert values(world) == [b"a"]
    core.receive(ConnectionLost(77), world.now_us)
    assert core.queued(77) == 0


@pytest.mark.parametrize(("kind", "stored"), [("lose_ack", [b"a", b"b"]), ("lose_request", [b"b"])])
def test_without_an_answer_asked_for_nobody_learns_of_the_loss(world: World, kind: str, stored: list[bytes]) -> None:
    fault_id = world.faults.add(make_fault(kind, nth=1))
    assert world.produce(batch_of(b"a"), acks=0) is None
    assert world.produce(batch_of(b"b"), acks=0) is None
    assert values(world) == stored
    assert world.faults.fired(fault_id) == 1


def test_refusal_before_the_append_stores_nothing(world: World) -> None:
    world.faults.add(make_fault("refuse", error=ErrorCode.NOT_ENOUGH_REPLICAS, times=1))
    answer = world.produce(batch_of(b"a"))
    assert (answer.error_code, answer.base_offset) == (ErrorCode.NOT_ENOUGH_REPLICAS, -1)
    assert values(world) == []
    assert world.produce(batch_of(b"a")).error_code == 0


def test_refusal_after_the_append_stores_and_still_names_the_offset(world: World) -> None:
    world.faults.add(make_fault("refuse_after_append", times=1))
    answer = world.produce(batch_of(b"a"))
    assert (answer.error_code, answer.base_offset) == (ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, 0)
    assert values(world) == [b"a"]


@pytest.mark.parametrize("kind", ["refuse", "refuse_after_append"])
def test_refusals_are_for_the_partitions_they_name(world: World, kind: str) -> None:
    world.create_topic("weather", partitions=2)
    world.faults.add(make_fault(kind, topic="weather", partition=1))
    batches = {("weather", 0): batch_of(b"a"), ("weather", 1): batch_of(b"b"), (TOPIC, 0): batch_of(b"c")}
    response = world.ask(1, produce_request(batches))
    failed = [(t.name, p.index) for t in response.responses for p in t.partition_responses if p.error_code]
    assert failed == [("weather", 1)]
    assert len(world.stored("weather", 1)) == (0 if kind == "refuse" else 1)


def test_delayed_ack_comes_late_and_holds_the_connection(world: World) -> None:
    from ottla.broker.events import RequestReceived

    world.faults.add(make_fault("delay_ack", delay_ms=100, nth=1))
    connection = world.send(1, produce_request({(TOPIC, 0): batch_of(b"a")}))
    request = produce_request({(TOPIC, 0): batch_of(b"b")})
    world.brokers[1].receive(RequestReceived(connection, 2, 12, "test", request), world.now_us)
    world.pass_time(90)
    assert connection not in world.answers
    assert values(world) == [b"a"]
    world.pass_time(20)
    offsets = [m.responses[0].partition_responses[0].base_offset for m in world.answers[connection]]
    assert offsets == [0, 1]


def test_delayed_ack_for_a_connection_that_is_gone_is_dropped(world: World) -> None:
    from ottla.broker.events import ConnectionLost

    world.faults.add(make_fault("delay_ack", delay_ms=100))
    connection = world.send(1, produce_request({(TOPIC, 0): batch_of(b"a")}))
    world.brokers[1].receive(ConnectionLost(connection), world.now_us)
    world.pass_time(200)
    assert connection not in world.answers


def test_an_ack_is_not_lost_where_nothing_was_appended(world: World) -> None:
    fault_id = world.faults.add(make_fault("lose_ack", times=1))
    assert world.produce(b"rubbish").error_code == ErrorCode.INVALID_RECORD
    assert world.faults.fired(fault_id) == 0
    assert world.produce(batch_of(b"a")) == "hung up"
    assert world.faults.fired(fault_id) == 1


def test_an_ack_of_all_replicas_is_lost_once_they_have_it(replicated: World) -> None:
    replicated.faults.add(make_fault("lose_ack"))
    assert replicated.produce(batch_of(b"a")) == "hung up"
    for core in replicated.brokers.values():
        assert core.topics[TOPIC][0].log.log_end_offset == 1


def test_one_plan_counts_for_all_brokers_and_not_for_followers() -> None:
    world = World(3)
    world.create_topic(partitions=3, replicas=3)
    produce_rule = world.faults.add(make_fault("lose_ack", nth=3))
    fetch_rule = world.faults.add(make_fault("lose_request", api="Fetch", nth=1))
    seen: list[Any] = [world.produce(batch_of(b"a"), partition=index) for index in range(3)]
    assert [isinstance(answer, str) for answer in seen] == [False, False, True]
    assert (world.faults.fired(produce_rule), world.faults.matched(fetch_rule)) == (1, 0)
    assert world.ask(world.leader(), fetch_request(max_wait_ms=0)) == "hung up"


def test_faults_of_other_apis_fire_before_and_after(world: World) -> None:
    world.faults.add(make_fault("lose_ack", api="Metadata", nth=1))
    world.faults.add(make_fault("delay_ack", api="Metadata", delay_ms=50, every=2))
    assert world.ask(1, MetadataRequest(topics=None)) == "hung up"
    connection = world.send(1, MetadataRequest(topics=None))
    assert connection not in world.answers
    world.pass_time(55)
    assert len(world.answers[connection][0].topics) == 1


def test_after_healing_all_is_well(world: World) -> None:
    fault_id = world.faults.add(make_fault("lose_request"))
    assert world.produce(batch_of(b"a")) == "hung up"
    world.faults.heal(fault_id)
    assert world.produce(batch_of(b"a")).error_code == 0
    assert len(records_of(world.fetch())) == 1
