"""`faults.hold` and `await_fired`: barriers that a test of a client can stand on."""

from __future__ import annotations

import threading

import pytest

import ottla
from ottla.errors import ConfigError, OttlaError, UserMistake

# No answer is given up while a test waits for it: what comes then has been released, and was not sent again.
PATIENT = {"linger_ms": 0, "request_timeout_ms": 40_000, "delivery_timeout_ms": 45_000}
SOON_S = 20


@pytest.mark.parametrize(("moment", "stored"), [("request", 0), ("ack", 1)])
def test_a_held_request_goes_on_when_it_is_released(
    kafka_cluster: ottla.Cluster, kafka_topic: str, moment: str, stored: int
) -> None:
    with ottla.Producer(kafka_cluster.bootstrap_servers, **PATIENT) as producer:
        with kafka_cluster.faults.hold(topic=kafka_topic, moment=moment) as hold:
            delivery = producer.send(kafka_topic, b"value")
            assert hold.await_reached() == 1
            assert not delivery.done()
            assert ottla.read_table(kafka_cluster.bootstrap_servers, kafka_topic).num_rows == stored
            hold.release()
            assert delivery.result(SOON_S).offset == 0
        assert hold.fired == 1
        assert producer.send(kafka_topic, b"value").result(SOON_S).offset == 1


def test_the_end_of_the_block_releases(kafka_cluster: ottla.Cluster, kafka_topic: str) -> None:
    with ottla.Producer(kafka_cluster.bootstrap_servers, **PATIENT) as producer:
        with kafka_cluster.faults.hold(topic=kafka_topic) as hold:
            delivery = producer.send(kafka_topic, b"value")
            hold.await_reached()
        assert delivery.result(SOON_S).offset == 0


def test_what_was_held_before_the_append_meets_the_fault_after_it(
    kafka_cluster: ottla.Cluster, kafka_topic: str
) -> None:
    faults = kafka_cluster.faults
    with (
        faults.hold(topic=kafka_topic, nth=1) as first,
        faults.hold(topic=kafka_topic, nth=1, moment="ack") as second,
        faults.lose_ack(topic=kafka_topic, nth=2) as lost,
        ottla.Producer(kafka_cluster.bootstrap_servers, **PATIENT) as producer,
    ):
        delivery = producer.send(kafka_topic, b"value", partition=0)
        first.await_reached()
        first.release()
        second.await_reached()
        assert ottla.read_table(kafka_cluster.bootstrap_servers, kafka_topic).num_rows == 1
        assert not delivery.done()
        second.release()
        assert delivery.result(SOON_S).offset == 0
        with faults.hold(topic=kafka_topic) as third:
            delivery = producer.send(kafka_topic, b"value", partition=0)
            third.await_reached()
        assert delivery.result(SOON_S).offset == 1
    assert (first.fired, second.fired, lost.fired) == (1, 1, 1)


def test_a_request_that_its_client_has_given_up_stays_held(kafka_cluster: ottla.Cluster, kafka_topic: str) -> None:
    """The second one is the retry; released, both reach the log, and the record is stored once."""
    with ottla.Producer(kafka_cluster.bootstrap_servers, linger_ms=0, request_timeout_ms=300) as producer:
        with kafka_cluster.faults.hold(topic=kafka_topic) as hold:
            delivery = producer.send(kafka_topic, b"value")
            assert hold.await_reached(2) >= 2
        assert delivery.result(SOON_S).offset == 0
    assert ottla.read_table(kafka_cluster.bootstrap_servers, kafka_topic).num_rows == 1


def test_who_waits_for_a_fault_waits_until_it_fires(kafka_cluster: ottla.Cluster, kafka_topic: str) -> None:
    fired: list[int] = []
    with (
        kafka_cluster.faults.lose_ack(topic=kafka_topic, times=2) as fault,
        ottla.Producer(kafka_cluster.bootstrap_servers, linger_ms=0) as producer,
    ):
        waiting = threading.Thread(target=lambda: fired.append(fault.await_fired(2)), daemon=True)
        waiting.start()
        assert producer.send(kafka_topic, b"value").result(60).offset == 0
        waiting.join(60)
    assert fired == [2]


def test_who_waits_in_vain_is_told_how_often_it_fired(kafka_cluster: ottla.Cluster, kafka_topic: str) -> None:
    told = r"lose_ack\(topic='.*'\) fired 0 times in 0 s, and not 3 times: 0 requests matched it"
    with kafka_cluster.faults.lose_ack(topic=kafka_topic) as fault, pytest.raises(OttlaError, match=told):
        fault.await_fired(3, timeout=0)
    with pytest.raises(OttlaError, match="is over: it fired 0 times"):
        fault.await_fired()


def test_who_waits_for_a_fault_that_another_heals_is_told_at_once(
    kafka_cluster: ottla.Cluster, kafka_topic: str
) -> None:
    told: list[str] = []
    fault = kafka_cluster.faults.lose_ack(topic=kafka_topic, nth=1)

    def wait() -> None:
        try:
            fault.await_fired(2, timeout=600)
        except OttlaError as error:
            told.append(str(error))

    with ottla.Producer(kafka_cluster.bootstrap_servers, linger_ms=0) as producer:
        waiting = threading.Thread(target=wait, daemon=True)
        waiting.start()
        producer.send(kafka_topic, b"value").result(60)
    assert fault.fired == 1
    fault.heal()
    waiting.join(60)
    [sentence] = told
    assert "is over: it fired 1 time" in sentence


def test_what_cannot_be_waited_for_is_refused(kafka_cluster: ottla.Cluster, kafka_topic: str) -> None:
    with kafka_cluster.faults.slow_disk(1, delay_ms=1) as slow, pytest.raises(UserMistake, match="apply to requests"):
        slow.await_fired()
    with kafka_cluster.faults.hold(topic=kafka_topic) as hold, pytest.raises(ConfigError, match="count=0"):
        hold.await_reached(0)
    with pytest.raises(ConfigError, match="moment='append' must be one of 'request', 'ack'"):
        kafka_cluster.faults.hold(moment="append")
