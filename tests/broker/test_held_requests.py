"""`hold`: a request, or its answer, waits at the broker until the fault is healed."""

from __future__ import annotations

import pytest

from ottla.broker.events import ConnectionLost, Released
from ottla.faults.fault import make_fault

from .world import TOPIC, World, batch_of, produce_request


def values(world: World) -> list[bytes | None]:
    return [record.value for record in world.stored()]


def release(world: World, fault_id: int) -> None:
    world.faults.heal(fault_id)
    world.brokers[1].receive(Released(fault_id), world.now_us)
    world.drain()


@pytest.mark.parametrize(("moment", "stored"), [("request", []), ("ack", [b"a"])])
def test_what_is_held_waits_however_late_it_gets(world: World, moment: str, stored: list[bytes]) -> None:
    fault_id = world.faults.add(make_fault("hold", moment=moment, nth=1))
    held = world.send(1, produce_request({(TOPIC, 0): batch_of(b"a")}))
    world.pass_time(60_000)
    assert (values(world), held in world.answers, world.faults.fired(fault_id)) == (stored, False, 1)
    release(world, fault_id)
    assert values(world) == [b"a"]
    assert world.answers[held][0].responses[0].partition_responses[0].base_offset == 0


def test_other_connections_go_on_meanwhile(world: World) -> None:
    fault_id = world.faults.add(make_fault("hold", nth=1))
    world.send(1, produce_request({(TOPIC, 0): batch_of(b"a")}))
    assert world.produce(batch_of(b"b")).base_offset == 0
    release(world, fault_id)
    assert values(world) == [b"b", b"a"]


def test_another_fault_that_is_healed_releases_nothing(world: World) -> None:
    fault_id = world.faults.add(make_fault("hold", nth=1))
    world.send(1, produce_request({(TOPIC, 0): batch_of(b"a")}))
    release(world, world.faults.add(make_fault("hold", topic="other")))
    assert values(world) == []
    release(world, fault_id)
    assert values(world) == [b"a"]


def test_what_a_client_has_given_up_is_handled_when_it_is_released(world: World) -> None:
    fault_id = world.faults.add(make_fault("hold", nth=1))
    world.send(1, produce_request({(TOPIC, 0): batch_of(b"a")}), connection=7)
    world.brokers[1].receive(ConnectionLost(7), world.now_us)
    world.drain()
    assert values(world) == []
    release(world, fault_id)
    assert values(world) == [b"a"]
