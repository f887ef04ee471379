"""A cluster that goes by an `ottla.Clock`: its timeouts pass when a test says so."""

from __future__ import annotations

import pytest
from tests.client.in_time import wait_until

import ottla
from ottla.errors import ConfigError


@pytest.mark.parametrize("in_process", [False, True])
def test_a_transaction_times_out_by_the_clock(in_process: bool) -> None:
    clock = ottla.Clock()
    with ottla.Cluster(1, clock=clock, in_process=in_process) as cluster:
        cluster.create_topic("orders")
        producer = ottla.Producer(cluster.bootstrap_servers, transactional_id="t", transaction_timeout_ms=600_000)
        producer.begin_transaction()
        assert producer.send("orders", b"value").result(60).offset == 0
        with ottla.Admin(cluster.bootstrap_servers) as admin:
            assert admin.describe_transactions(["t"])["t"].state == "Ongoing"
            clock.advance(601)
            # The coordinator looks at its next deadline, which is over; what it then does takes a few messages.
            with pytest.raises(ottla.OttlaError):
                producer.commit_transaction()
            assert admin.describe_transactions(["t"])["t"].state != "Ongoing"
        producer.close()


def test_brokers_of_a_stopped_clock_live_on(kafka_name: str) -> None:
    clock = ottla.Clock(stopped=True)
    with ottla.Cluster(3, clock=clock) as cluster:
        cluster.create_topic(kafka_name)
        with ottla.Producer(cluster.bootstrap_servers) as producer:
            first = producer.send(kafka_name, b"first", timestamp_ms=None).result(60)
            clock.advance(0.2)
            second = producer.send(kafka_name, b"second").result(60)
        assert (first.offset, second.offset) == (0, 1)
        assert set(cluster.brokers().values()) == {"running"}


@pytest.mark.parametrize("seconds", [3, 60, 86_400])
@pytest.mark.parametrize("stopped", [True, False])
def test_one_advance_ends_the_session_of_a_dead_broker_and_no_other(
    kafka_name: str, stopped: bool, seconds: int
) -> None:
    clock = ottla.Clock(stopped=stopped)
    with ottla.Cluster(3, clock=clock, settings={"broker_session_timeout_ms": 2500}) as cluster:
        cluster.create_topic(kafka_name, configs={"min.insync.replicas": "2"})
        leader = cluster.leader(kafka_name, 0)
        cluster.pause(leader)
        clock.advance(seconds)
        assert cluster.await_leader(kafka_name, 0, other_than=leader, timeout=20) != leader
        (partition,) = cluster.topics()[kafka_name]
        assert sorted(partition["isr"]) == sorted({1, 2, 3} - {leader})


def test_a_day_that_passes_at_once_ends_no_session_of_a_broker_that_runs(kafka_name: str) -> None:
    clock = ottla.Clock(stopped=True)
    with ottla.Cluster(3, clock=clock) as cluster:
        cluster.create_topic(kafka_name)
        before = cluster.topics()
        for seconds in (0.1, 2, 2.01, 600, 86_400):
            clock.advance(seconds)
            assert cluster.topics() == before


def test_a_log_is_given_the_clocks_time() -> None:
    clock = ottla.Clock(stopped=True)
    clock.advance(86_400 * 365)
    with ottla.Cluster(1, clock=clock) as cluster:
        cluster.create_topic("orders", configs={"message.timestamp.type": "LogAppendTime"})
        with ottla.Producer(cluster.bootstrap_servers) as producer:
            assert producer.send("orders", b"value").result(60).timestamp_ms == clock.wall_ms()
            clock.advance(60)
            assert producer.send("orders", b"value").result(60).timestamp_ms == clock.wall_ms()


def test_what_is_held_up_comes_when_its_time_has_come(kafka_name: str) -> None:
    """A stopped clock: what another client sends later is stored first, and the other one when the clock is set."""
    clock = ottla.Clock(stopped=True)
    an_hour_ms, patient = 3_600_000, {"request_timeout_ms": 40_000, "delivery_timeout_ms": 45_000}
    with ottla.Cluster(1, clock=clock, settings={"broker_session_timeout_ms": 4 * an_hour_ms}) as cluster:
        cluster.create_topic(kafka_name)
        with (
            ottla.Producer(cluster.bootstrap_servers, client_id="late", **patient) as late,
            ottla.Producer(cluster.bootstrap_servers, client_id="later", **patient) as later,
        ):
            assert late.send(kafka_name, b"first").result(20).offset == 0
            with cluster.faults.stall(probability=1.0, delay_max_ms=an_hour_ms) as stall:
                delivery = late.send(kafka_name, b"late")
                wait_until(
                    lambda: ("late", "Produce") in [(x["client_id"], x["request"]) for x in cluster.connections()],
                    "the request did not come to the broker",
                )
            assert stall.fired >= 1
            assert later.send(kafka_name, b"later").result(20).offset == 1
            assert not delivery.done()
            clock.advance(an_hour_ms / 1000)
            assert delivery.result(20).offset == 2


def test_a_closed_cluster_leaves_nothing_at_the_clock() -> None:
    clock = ottla.Clock()
    with ottla.Cluster(1, clock=clock):
        assert len(clock._watchers) == 1
    assert clock._watchers == []
    clock.advance(1)


def test_what_is_no_clock_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"clock=5 is no clock; give an ottla\.Clock"):
        ottla.Cluster(1, clock=5)  # type: ignore[arg-type]


def test_a_stopped_clock_does_not_make_a_test_wait_longer_for_its_cluster(kafka_name: str) -> None:
    with ottla.Cluster(1, clock=ottla.Clock(stopped=True)) as cluster:
        cluster.create_topic(kafka_name)
        with cluster.faults.hold(topic=kafka_name) as hold, pytest.raises(ottla.OttlaError, match=r"in 0\.01 s"):
            hold.await_reached(timeout=0.01)
        with pytest.raises(ottla.OttlaError, match=r"after 0\.01 s"):
            cluster.await_leader(kafka_name, 0, other_than=1, timeout=0.01)


def test_who_waits_in_vain_for_a_cluster_of_a_stopped_clock_is_told_that_it_is_stopped(kafka_name: str) -> None:
    clock = ottla.Clock(stopped=True)
    with ottla.Cluster(3, clock=clock) as cluster:
        cluster.create_topic(kafka_name)
        cluster.kill(3)
        cluster.start(3)
        stopped = r"the cluster's clock is stopped: call clock\.advance\(\.\.\.\) or clock\.go_on\(\)\.$"
        with pytest.raises(ottla.OttlaError, match=stopped):
            cluster.await_leader(kafka_name, 0, other_than=cluster.leader(kafka_name, 0), timeout=0.01)
        with cluster.faults.hold(topic=kafka_name) as hold, pytest.raises(ottla.OttlaError, match=stopped):
            hold.await_reached(timeout=0.01)
        clock.advance(1)
        assert sorted(cluster.await_isr(kafka_name, 0, 3, timeout=20)) == [1, 2, 3]
        clock.go_on()
        with pytest.raises(ottla.OttlaError, match=r"in sync after 0\.01 s\.$"):
            cluster.await_leader(kafka_name, 0, other_than=cluster.leader(kafka_name, 0), timeout=0.01)
