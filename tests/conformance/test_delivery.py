"""Each level of acknowledgement: what a `Delivery` says, and what is stored."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from tests.client.in_time import wait_until

import ottla
from ottla.errors import DeliveryError, DeliveryFailed, DeliveryUnknown, KafkaError

from .sides import Side, await_topic

_NOT_KNOWN = -1
_TRIES = 30


def close(producer: ottla.Producer) -> None:
    """Give up after a moment; that is to be carried out within a second, so where it is late it is asked for again."""
    for _ in range(_TRIES):
        with contextlib.suppress(TimeoutError):
            return producer.close(0.3)
    raise AssertionError("it does not close")


@pytest.mark.parametrize(
    "settings", [{"acks": 1}, {"acks": "all", "enable_idempotence": False}, {"acks": "all"}, {}], ids=str
)
def test_an_acked_record_is_where_its_delivery_says(
    side: Side, topic: str, settings: dict[str, Any], reading: Any
) -> None:
    with ottla.Producer(side.bootstrap_servers, **settings) as producer:
        sent = [producer.send(topic, b"%d" % number, b"key-%d" % (number % 20)) for number in range(1000)]
    side.await_readable(topic, 1000)
    told = {}
    for number, delivery in enumerate(sent):
        where = delivery.result(0)
        told[where.partition, where.offset] = (b"%d" % number, where.timestamp_ms)
    stored = {(one.partition, one.offset): (one.value, one.timestamp_ms) for one in reading.records(side, topic)}
    assert stored == told


def test_without_acks_nothing_is_told_and_everything_is_stored(side: Side, topic: str, reading: Any) -> None:
    with ottla.Producer(side.bootstrap_servers, acks=0) as producer:
        sent = [producer.send(topic, b"%d" % number, partition=number % 3) for number in range(1000)]
    side.await_readable(topic, 1000)
    assert {delivery.result(0).offset for delivery in sent} == {_NOT_KNOWN}
    expected = {partition: [b"%d" % number for number in range(partition, 1000, 3)] for partition in range(3)}
    assert reading.values(side, topic) == expected


def test_flush_returns_when_all_is_stored_and_close_counts_the_rest(side: Side, topic: str, reading: Any) -> None:
    producer = ottla.Producer(side.bootstrap_servers, linger_ms=60_000)
    first = [producer.send(topic, b"%d" % number) for number in range(100)]
    producer.flush()
    assert all(delivery.done() for delivery in first)
    assert len(reading.records(side, topic)) == 100
    last = producer.send(topic, b"last")
    assert not last.done()
    producer.close()
    assert last.done()
    assert len(reading.records(side, topic)) == 101


def test_a_silent_leader_leaves_flush_waiting_and_close_with_the_truth(
    side: Side, kafka_name: str, reading: Any
) -> None:
    side.create_topic(kafka_name, 3, 1)
    producer = ottla.Producer(side.bootstrap_servers, linger_ms=0)
    producer.send(kafka_name, b"before", partition=0).result(120)
    leader = side.leader(kafka_name, 0)
    side.pause(leader)
    try:
        delivery = producer.send(kafka_name, b"in doubt", partition=0)
        # Before it is sent, its outcome is not in doubt.
        wait_until(lambda: producer.metrics()["ottla-batches-in-flight"] == 1)
        with pytest.raises(TimeoutError):
            producer.flush(0.3)
        assert not delivery.done()
        with pytest.raises(DeliveryError) as caught:
            close(producer)
    finally:
        side.resume(leader)
    assert (caught.value.failed, caught.value.unknown) == (0, 1)
    assert isinstance(delivery.exception(), DeliveryUnknown)
    assert reading.values(side, kafka_name)[0][0] == b"before"


def test_what_is_larger_than_the_topic_takes_fails_and_all_else_arrives(
    side: Side, kafka_name: str, reading: Any
) -> None:
    side.create_topic(kafka_name, 1, 3, max_message_bytes="20000")
    with ottla.Producer(side.bootstrap_servers, linger_ms=50, batch_size=4096) as producer:
        sent = [producer.send(kafka_name, b"%d" % number) for number in range(100)]
        too_large = producer.send(kafka_name, bytes(30_000))
        sent += [producer.send(kafka_name, b"%d" % number) for number in range(100, 200)]
        assert isinstance(too_large.exception(120), DeliveryFailed)
        cause = too_large.exception(0)
        producer.flush()
    assert "MESSAGE_TOO_LARGE" in str(cause)
    assert [delivery.result(0).offset for delivery in sent] == list(range(200))
    assert [one.value for one in reading.records(side, kafka_name)] == [b"%d" % number for number in range(200)]


@pytest.mark.parametrize("name", ["never-made", "no/slashes"])
def test_a_topic_that_cannot_be_had_is_an_error_and_all_else_arrives(
    side: Side, topic: str, name: str, reading: Any
) -> None:
    with ottla.Producer(side.bootstrap_servers, max_block_ms=1_000) as producer:
        await_topic(producer, topic)
        producer.send(topic, b"one", partition=0)
        with pytest.raises((KafkaError, ValueError), match=name):
            producer.send(name, b"nowhere")
        producer.send(topic, b"two", partition=0)
    assert reading.values(side, topic)[0] == [b"one", b"two"]
