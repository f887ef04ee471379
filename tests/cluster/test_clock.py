"""A cluster that goes by an `ottla.Clock`: its timeouts pass when a test says so."""

from __future__ import annotations

import pytest

import ottla
from ottla.errors import ConfigError

from .patience import until


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
                until(
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
