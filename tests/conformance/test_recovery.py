"""What a producer lives through without a new one: batches too large, logs that forgot it."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from tests.client.in_time import wait_until

import ottla

from .sides import Side

PATIENCE_S = 60


def test_a_batch_larger_than_the_topic_allows_arrives_in_parts_and_in_order(
    side: Side, kafka_name: str, reading: Any
) -> None:
    side.create_topic(kafka_name, 3, 3, max_message_bytes="1000")
    # Hexadecimal digits of long numbers: no codec makes a full batch of them fit.
    values = [b"%d %x" % (n, pow(7, 200 + n % 200)) for n in range(900)]
    with ottla.Producer(side.bootstrap_servers, linger_ms=50, compression_type="lz4") as producer:
        deliveries = [producer.send(kafka_name, value, partition=n % 3) for n, value in enumerate(values)]
        too_large = producer.send(kafka_name, Random(1).randbytes(5000), partition=0)
        error = too_large.exception(PATIENCE_S)
        assert [delivery.result(PATIENCE_S).offset for delivery in deliveries] == [n // 3 for n in range(900)]
        assert producer.metrics()["batch-split-total"] > 0
    assert isinstance(error, ottla.DeliveryFailed)
    assert isinstance(error.first, ottla.KafkaError)
    assert error.first.name == "MESSAGE_TOO_LARGE"
    assert reading.values(side, kafka_name) == {p: values[p::3] for p in range(3)}


def test_a_topic_deleted_and_made_anew_takes_the_records_of_a_producer_that_goes_on(
    side: Side, kafka_name: str, reading: Any
) -> None:
    side.create_topic(kafka_name, 3, 3)
    with ottla.Producer(side.bootstrap_servers, linger_ms=0) as producer:
        for n in range(20):
            producer.send(kafka_name, b"before %d" % n, partition=0).result(PATIENCE_S)
        with ottla.Admin(side.bootstrap_servers) as admin:
            admin.delete_topics(kafka_name)
            side.create_topic(kafka_name, 3, 3)
            # Until the leader knows of the new topic, requests for this name are answered from the old one.
            wait_until(lambda: not any(admin.end_offsets(kafka_name).values()), patience_s=PATIENCE_S)
        deliveries = [producer.send(kafka_name, b"%d" % n, partition=0) for n in range(500)]
        assert [delivery.result(PATIENCE_S).offset for delivery in deliveries] == list(range(500))
    assert reading.values(side, kafka_name)[0] == [b"%d" % n for n in range(500)]


def test_a_log_whose_records_were_all_deleted_takes_what_comes_next(side: Side, topic: str, reading: Any) -> None:
    with ottla.Producer(side.bootstrap_servers, linger_ms=0) as producer:
        for n in range(20):
            producer.send(topic, b"before %d" % n, partition=0).result(PATIENCE_S)
        with ottla.Admin(side.bootstrap_servers) as admin:
            admin.delete_records(topic, {0: 20})
        deliveries = [producer.send(topic, b"%d" % n, partition=0) for n in range(500)]
        assert [delivery.result(PATIENCE_S).offset for delivery in deliveries] == list(range(20, 520))
    assert reading.values(side, topic)[0] == [b"%d" % n for n in range(500)]


@pytest.mark.parametrize(
    "name", [".", "no spaces", "a/b", "naïve", "x" * 250], ids=["dot", "space", "slash", "not ASCII", "long"]
)
def test_a_topic_name_kafka_refuses_is_refused_at_once(side: Side, topic: str, reading: Any, name: str) -> None:
    with ottla.Producer(side.bootstrap_servers, linger_ms=50) as producer:
        for n in range(5):
            producer.send(topic, b"%d" % n, partition=1)
            with pytest.raises(ottla.KafkaError, match="INVALID_TOPIC_EXCEPTION"):
                producer.send(name, b"x")
    assert reading.values(side, topic)[1] == [b"%d" % n for n in range(5)]
