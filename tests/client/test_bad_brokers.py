"""A broker that answers late, wrong, twice or never, or no longer leads: a clear error, and the rest arrives."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import count

import pytest
from tests.client.altering_proxy import AlteringProxy
from tests.read_back import stored_records
from tests.wrong_answers import WRONG, AnswerChange, as_it_is

import ottla
from ottla.protocol.error_codes import ErrorCode

_numbers = count()


def stored(cluster: ottla.Cluster, topic: str) -> dict[int, list[bytes]]:
    found = stored_records(cluster, topic)
    return {partition: [bytes(record.value) for record in records] for partition, records in found.items()}


@pytest.fixture(scope="module")
def single() -> Iterator[ottla.Cluster]:
    with ottla.Cluster(brokers=1) as cluster:
        yield cluster


@pytest.fixture
def single_topic(single: ottla.Cluster) -> Iterator[str]:
    topic = f"single-{next(_numbers)}"
    single.create_topic(topic)
    yield topic
    single.delete_topic(topic)


Through = Callable[..., AlteringProxy]


@pytest.fixture
def through(single: ottla.Cluster) -> Iterator[Through]:
    made: list[AlteringProxy] = []

    def make(*changes: AnswerChange) -> AlteringProxy:
        made.append(AlteringProxy(single.bootstrap_servers, list(changes)))
        return made[-1]

    yield make
    for proxy in made:
        proxy.close()


@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG.keys())
def test_a_broker_that_answers_wrong_is_asked_again_and_everything_is_stored_once(
    single: ottla.Cluster, through: Through, single_topic: str, wrong: AnswerChange
) -> None:
    proxy = through(wrong, as_it_is, wrong)
    with ottla.Producer(proxy.bootstrap_servers, linger_ms=0, retry_backoff_ms=10, reconnect_backoff_ms=5) as producer:
        deliveries = [producer.send(single_topic, b"%d" % n) for n in range(50)]
        producer.flush(60)
        deliveries += [producer.send(single_topic, b"%d" % n) for n in range(50, 500)]
        producer.flush(60)
        while proxy.altered_count < 3:
            deliveries.append(producer.send(single_topic, b"%d" % len(deliveries)))
            producer.flush(60)
        assert [delivery.result(0).offset for delivery in deliveries] == list(range(len(deliveries)))
    assert stored(single, single_topic) == {0: [b"%d" % n for n in range(len(deliveries))]}


@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG.keys())
def test_without_idempotence_or_retries_a_wrong_answer_is_an_unknown_outcome(
    single: ottla.Cluster, through: Through, single_topic: str, wrong: AnswerChange
) -> None:
    proxy = through(wrong)
    with ottla.Producer(proxy.bootstrap_servers, acks=1, retries=0, linger_ms=0, reconnect_backoff_ms=5) as producer:
        first = producer.send(single_topic, b"first")
        error = first.exception(60)
        assert proxy.altered_count == 1
        if wrong is WRONG["answered twice"]:
            assert error is None  # an answer that came twice came
        else:
            assert isinstance(error, ottla.DeliveryUnknown), "a wrong answer counts as an acknowledgement"
        rest = [producer.send(single_topic, b"%d" % n) for n in range(20)]
        errors = [delivery.exception(60) for delivery in rest]
    there = stored(single, single_topic)[0]
    assert there[0] == b"first"
    # A second answer on a connection may cost what is under way on it: unknown, never failed.
    assert all(error is None or isinstance(error, ottla.DeliveryUnknown) for error in errors)
    assert {b"%d" % n for n, error in enumerate(errors) if error is None} <= set(there)


def test_a_broker_that_answers_late_stores_everything_once(kafka_cluster: ottla.Cluster, kafka_topic: str) -> None:
    with (
        ottla.Producer(
            kafka_cluster.bootstrap_servers, linger_ms=0, request_timeout_ms=300, retry_backoff_ms=10
        ) as producer,
        kafka_cluster.faults.delay_ack(topic=kafka_topic, delay_ms=500, every=3, times=3) as fault,
    ):
        deliveries = [producer.send(kafka_topic, b"%d" % n, partition=0) for n in range(200)]
        producer.flush(60)
        while fault.fired < 3:
            deliveries.append(producer.send(kafka_topic, b"%d" % len(deliveries), partition=0))
            producer.flush(60)
        assert [delivery.result(0).offset for delivery in deliveries] == list(range(len(deliveries)))
    assert stored(kafka_cluster, kafka_topic) == {0: [b"%d" % n for n in range(len(deliveries))]}


@pytest.mark.parametrize("verb", ["drop_request", "drop_ack"])
def test_a_broker_that_never_answers_is_asked_again(kafka_cluster: ottla.Cluster, kafka_topic: str, verb: str) -> None:
    with (
        ottla.Producer(
            kafka_cluster.bootstrap_servers, linger_ms=0, request_timeout_ms=300, retry_backoff_ms=10
        ) as producer,
        getattr(kafka_cluster.faults, verb)(topic=kafka_topic, nth=2) as fault,
    ):
        deliveries = []
        while not fault.fired:
            deliveries.append(producer.send(kafka_topic, b"%d" % len(deliveries), partition=0))
            producer.flush(60)
        assert [delivery.result(0).offset for delivery in deliveries] == list(range(len(deliveries)))
    assert stored(kafka_cluster, kafka_topic) == {0: [b"%d" % n for n in range(len(deliveries))]}


def test_a_partition_whose_broker_never_answers_ends_at_the_delivery_timeout_and_the_others_go_on(
    kafka_cluster: ottla.Cluster, kafka_topic: str
) -> None:
    clock = ottla.Clock()
    with (
        ottla.Producer(
            kafka_cluster.bootstrap_servers, clock=clock, linger_ms=0, request_timeout_ms=30_000, retry_backoff_ms=10
        ) as producer,
        kafka_cluster.faults.drop_request(topic=kafka_topic, partition=0) as dropped,
    ):
        silent = producer.send(kafka_topic, b"x", partition=0)
        elsewhere = [producer.send(kafka_topic, b"%d" % n, partition=1 + n % 2) for n in range(100)]
        dropped.await_fired()
        # Wait for these before the clock is advanced: otherwise they would time out, too.
        assert all(delivery.exception(60) is None for delivery in elsewhere)
        for attempts in range(1, 4):
            dropped.await_fired(attempts)
            clock.advance(30)
        dropped.await_fired(4)
        clock.advance(40)
        error = silent.exception(60)
        assert isinstance(error, ottla.DeliveryUnknown)
        assert (error.topic, error.partition) == (kafka_topic, 0)
        assert error.attempts is not None
        assert error.attempts > 1
        assert error.age_ms is not None
        assert error.age_ms >= 120_000
        assert "delivery.timeout.ms=120000 passed for 1 records" in str(error)
        assert "no answer within request.timeout.ms (30000 ms)" in str(error)
        assert error.retriable


def test_a_request_handled_twice_is_stored_once(kafka_cluster: ottla.Cluster, kafka_topic: str) -> None:
    with (
        ottla.Producer(kafka_cluster.bootstrap_servers, linger_ms=0) as producer,
        kafka_cluster.faults.redeliver(topic=kafka_topic, every=2) as fault,
    ):
        deliveries = []
        while fault.fired < 3:
            deliveries.append(producer.send(kafka_topic, b"%d" % len(deliveries), partition=0))
            producer.flush(60)
        assert [delivery.result(0).offset for delivery in deliveries] == list(range(len(deliveries)))
    assert stored(kafka_cluster, kafka_topic) == {0: [b"%d" % n for n in range(len(deliveries))]}


def test_a_partition_that_loses_its_leader_again_and_again_keeps_every_record_and_its_order() -> None:
    with ottla.Cluster(brokers=3) as cluster:
        cluster.create_topic("restless", partitions=2)
        with ottla.Producer(cluster.bootstrap_servers, linger_ms=0, retry_backoff_ms=10) as producer:
            sent = 0
            for _ in range(5):
                for _ in range(200):
                    producer.send("restless", b"%d" % sent, partition=sent % 2)
                    sent += 1
                cluster.move_leader("restless", 0)
            killed = cluster.leader("restless", 1)
            cluster.kill(killed)
            for _ in range(200):
                producer.send("restless", b"%d" % sent, partition=sent % 2)
                sent += 1
            producer.flush(60)
            cluster.start(killed)
        expected = {p: [b"%d" % n for n in range(p, sent, 2)] for p in (0, 1)}
        assert stored(cluster, "restless") == expected


@pytest.mark.parametrize("code", [ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.INVALID_RECORD, -1, 9999])
def test_what_a_broker_refuses_for_good_fails_with_its_word_and_the_rest_arrives(
    kafka_cluster: ottla.Cluster, kafka_topic: str, code: int
) -> None:
    with ottla.Producer(kafka_cluster.bootstrap_servers, linger_ms=0) as producer:
        producer.send(kafka_topic, b"before", partition=0).result(30)
        with kafka_cluster.faults.refuse(topic=kafka_topic, partition=0, error=code, times=1):
            refused = producer.send(kafka_topic, b"refused", partition=0)
            elsewhere = [producer.send(kafka_topic, b"%d" % n, partition=1) for n in range(50)]
            error = refused.exception(60)
        assert isinstance(error, ottla.DeliveryError)
        assert isinstance(error.first, ottla.KafkaError)
        assert error.first.code == code
        assert (error.topic, error.partition, error.attempts) == (kafka_topic, 0, 1)
        assert error.broker_id is not None
        # And all of it in the sentence, for who reads a log.
        assert re.search(rf"\({kafka_topic}-0, broker {error.broker_id}, 1 attempt, \d+ ms old: ", str(error))
        after = [producer.send(kafka_topic, b"after %d" % n, partition=0) for n in range(50)]
        assert all(delivery.exception(60) is None for delivery in elsewhere + after)
    assert stored(kafka_cluster, kafka_topic) == {
        0: [b"before", *(b"after %d" % n for n in range(50))],
        1: [b"%d" % n for n in range(50)],
    }
