"""Every fault there is, one way through: imposed, seen to fire, healed, and then it fires no more and all is well.

What each does to clients and records stands in `test_faults.py`. Kinds are taken from the vocabulary itself: a new one
without a case fails here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import pytest
from tests.client.in_time import wait_until

import ottla
from ottla.cluster.faults import Faults
from ottla.faults.fault import KINDS, OF_BROKERS, OF_REQUESTS
from ottla.faults.fields import CONTROLLER, MOMENTS
from ottla.faults.verbs import FaultInForce, Verbs

pytestmark = pytest.mark.prove

PATIENCE_S = 30
AFTERWARDS = 5


class Scene(NamedTuple):
    """Three brokers, and a topic of one partition with a replica on each."""

    cluster: ottla.Cluster
    topic: str
    leader: int

    @property
    def faults(self) -> Faults:
        return self.cluster.faults

    @property
    def others(self) -> tuple[int, ...]:
        return tuple(broker_id for broker_id in (1, 2, 3) if broker_id != self.leader)


def _elect_unclean(at: Scene) -> FaultInForce:
    """Nobody but the leader is in sync, and the leader dies. What it acknowledged all have had before."""
    with at.faults.isolate(at.others[0]), at.faults.isolate(at.others[1]):
        wait_until(lambda: at.cluster.isr(at.topic, 0) == (at.leader,), "the followers stay in sync")
        fault = at.faults.unclean_election(at.topic, 0)
        at.cluster.kill(at.leader)
    return fault


def _corrupt_unsynced(at: Scene) -> FaultInForce:
    """What the broker writes to a log that is not synced at once."""
    at.cluster.create_topic(f"{at.topic}-lazy", configs={"flush.messages": "1000000"})
    with ottla.Producer(at.cluster.bootstrap_servers) as sender:
        sender.send(f"{at.topic}-lazy", "v").result(PATIENCE_S)
    return at.faults.corrupt_unsynced(f"{at.topic}-lazy", 0, broker_id=at.cluster.leader(f"{at.topic}-lazy", 0))


def _move_coordinator(at: Scene) -> FaultInForce:
    """There is a coordinator once somebody has asked for one."""
    at.cluster.create_topic(f"{at.topic}-too")
    with ottla.Producer(at.cluster.bootstrap_servers, transactional_id=at.topic) as sender, sender.transaction():
        sender.send(f"{at.topic}-too", "v")
    return at.faults.move_coordinator(transactional_id=at.topic)


# By the verbs of `cluster.faults`. Nothing says how often: each fires whenever it matches until it is healed, so that
# healing is what ends it.
CASES: dict[str, Callable[[Scene], FaultInForce]] = {
    "refuse": lambda at: at.faults.refuse(topic=at.topic),
    "lose_request": lambda at: at.faults.lose_request(topic=at.topic),
    "drop_request": lambda at: at.faults.drop_request(topic=at.topic),
    "delay_request": lambda at: at.faults.delay_request(topic=at.topic, delay_ms=50),
    "refuse_after_append": lambda at: at.faults.refuse_after_append(topic=at.topic),
    "lose_ack": lambda at: at.faults.lose_ack(topic=at.topic),
    "drop_ack": lambda at: at.faults.drop_ack(topic=at.topic),
    "delay_ack": lambda at: at.faults.delay_ack(topic=at.topic, delay_ms=50),
    "hold": lambda at: at.faults.hold(topic=at.topic),
    "redeliver": lambda at: at.faults.redeliver(topic=at.topic),
    "stop": lambda at: at.faults.stop(at.leader),
    "stop_controller": lambda at: at.faults.stop_controller(),
    "full_disk": lambda at: at.faults.full_disk(at.leader),
    "failing_disk": lambda at: at.faults.failing_disk(at.leader, operation="sync"),
    "drift_clock": lambda at: at.faults.drift_clock(CONTROLLER, drift_ppm=-200_000),
    "lose_messages": lambda at: at.faults.lose_messages(probability=0.5),
    "stall": lambda at: at.faults.stall(probability=0.5, delay_max_ms=50),
    "corrupt_unsynced": _corrupt_unsynced,
    "slow_disk": lambda at: at.faults.slow_disk(at.leader, delay_ms=50),
    "jump_clock": lambda at: at.faults.jump_clock(at.leader, jump_ms=3_600_000),
    "cut_link": lambda at: at.faults.cut_link(at.leader, at.others[0]),
    "isolate": lambda at: at.faults.isolate(at.leader),
    "unplug": lambda at: at.faults.unplug(at.leader),
    "half_open": lambda at: at.faults.half_open(at.leader),
    "unclean_election": _elect_unclean,
    "move_leader": lambda at: at.faults.move_leader(at.topic, 0),
    "move_coordinator": _move_coordinator,
    # The byte stays as it is; a follower's, so that it is in nobody's way.
    "corrupt": lambda at: at.faults.corrupt(at.topic, 0, 0, broker_id=at.others[0]),
}


def _crash(kind: str, moment: str) -> Callable[[Scene], FaultInForce]:
    def impose(at: Scene) -> FaultInForce:
        fault: FaultInForce = getattr(at.faults, kind)(topic=at.topic, moment=moment)
        return fault

    return impose


def _end_now(kind: str) -> Callable[[Scene], FaultInForce]:
    def impose(at: Scene) -> FaultInForce:
        broker = {} if kind == "cut_power" else {"broker_id": at.leader}
        fault: FaultInForce = getattr(at.faults, kind)(moment="now", **broker)
        return fault

    return impose


ENDED_BROKERS = {
    **{f"{kind} at {moment}": _crash(kind, moment) for kind in OF_BROKERS for moment in MOMENTS},
    **{f"{kind} now": _end_now(kind) for kind in OF_BROKERS},
}


class Traffic:
    """One producer, and all it has sent."""

    def __init__(self, sender: ottla.Producer, topic: str) -> None:
        self.sent: list[str] = []
        self._sender = sender
        self._topic = topic

    def send(self) -> ottla.Delivery:
        self.sent.append(f"value {len(self.sent)}")
        return self._sender.send(self._topic, self.sent[-1])


@pytest.fixture(scope="module")
def three() -> Iterator[ottla.Cluster]:
    settings = {
        "broker_session_timeout_ms": 600,
        "broker_heartbeat_interval_ms": 100,
        "replica_lag_time_max_ms": 500,
        # What is acknowledged is synced, so no power cut excuses that it is gone.
        "log_flush_interval_messages": 1,
    }
    with ottla.Cluster(3, settings=settings) as cluster:
        yield cluster


def counted(cluster: ottla.Cluster, fault: FaultInForce) -> dict[str, int]:
    """What the brokers say of a fault; a healed fault remembers its counts and does not ask."""
    found: dict[str, int] = cluster._ask("count_fault", fault_id=fault._fault_id)
    return found


def values(cluster: ottla.Cluster, topic: str) -> list[str]:
    table = ottla.read_table(cluster.bootstrap_servers, topic)
    return [value.decode() for value in table.column("value").to_pylist()]


def test_every_kind_has_a_verb_and_every_verb_a_case() -> None:
    verbs = {name for name in {**vars(Verbs), **vars(Faults)} if not name.startswith("_")} - {
        "add",
        "find",
        "in_force",
        "heal",
        "all",
        "known_kinds",
        "remember_counts",
    }
    # Coordinators are moved as the leaders they are.
    assert verbs - {"move_coordinator"} == {*KINDS}
    lacking = sorted(verbs - {*CASES, *OF_BROKERS})
    assert not lacking, f"CASES needs a row for {lacking}"
    assert {*CASES, *OF_BROKERS} == verbs


@pytest.mark.parametrize("name", [*CASES, *ENDED_BROKERS])
def test_a_healed_fault_fires_no_more_and_all_is_well(three: ottla.Cluster, kafka_name: str, name: str) -> None:
    three.create_topic(kafka_name)
    scene = Scene(three, kafka_name, three.leader(kafka_name, 0))
    quick = {"request_timeout_ms": 400, "retry_backoff_ms": 20, "linger_ms": 0}
    with ottla.Producer(three.bootstrap_servers, delivery_timeout_ms=60_000, **quick) as sender:
        traffic = Traffic(sender, kafka_name)
        traffic.send().result(PATIENCE_S)
        fault = (CASES | ENDED_BROKERS)[name](scene)
        sent = traffic.send()
        wait_until(lambda: fault.fired > 0, f"{fault} never fired")
        fault.heal()
        healed = counted(three, fault)
        assert healed["fired"] == fault.fired > 0
        if name == "unclean_election":
            three.start(scene.leader)
        # Whatever it has affected is back.
        assert set(three.brokers().values()) == {"running"}
        sent.result(PATIENCE_S)
        three.await_isr(kafka_name, 0, 3)
        for _ in range(AFTERWARDS):
            traffic.send().result(PATIENCE_S)
        assert counted(three, fault) == healed
    assert set(three.brokers().values()) == {"running"}
    assert values(three, kafka_name) == traffic.sent


@pytest.mark.parametrize("kind", [*OF_REQUESTS, *OF_BROKERS])
def test_a_fault_healed_before_it_fired_never_does(three: ottla.Cluster, kafka_name: str, kind: str) -> None:
    three.create_topic(kafka_name)
    late = {"delay_ms": 50} if kind.startswith("delay") else {}
    fault: FaultInForce = getattr(three.faults, kind)(topic=kafka_name, **late)
    fault.heal()
    with ottla.Producer(three.bootstrap_servers) as sender:
        traffic = Traffic(sender, kafka_name)
        traffic.send().result(PATIENCE_S)
    assert counted(three, fault) == {"fired": 0, "matched": 0}
    assert set(three.brokers().values()) == {"running"}
    assert values(three, kafka_name) == traffic.sent
