"""Which partition a record goes to."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import Producer

import ottla
from ottla.errors import RecordError

from .sides import Side


def test_keys_go_where_librdkafkas_murmur2_sends_them(side: Side, topic: str, kafka_name: str, reading: Any) -> None:
    keys = [b"key-%d" % number for number in range(500)] + [b"", b"\xff" * 7, "ключ".encode()]
    with ottla.Producer(side.bootstrap_servers) as ours:
        told = {key: ours.send(topic, b"value", key) for key in keys}
    side.create_topic(f"{kafka_name}-theirs", 3, 1)
    theirs = Producer({"bootstrap.servers": side.bootstrap_servers, "partitioner": "murmur2", "log_level": 0})
    for key in keys:
        theirs.produce(f"{kafka_name}-theirs", b"value", key)
    assert theirs.flush(60) == 0
    expected = {one.key: one.partition for one in reading.records(side, f"{kafka_name}-theirs")}
    assert {key: delivery.result(0).partition for key, delivery in told.items()} == expected


def test_keyless_records_fill_one_partitions_batch_and_reach_all(side: Side, topic: str, reading: Any) -> None:
    with ottla.Producer(side.bootstrap_servers, batch_size=2000) as producer:
        for number in range(5000):
            producer.send(topic, b"%050d" % number)
    values = reading.values(side, topic)
    assert all(values.values())
    assert sum(map(len, values.values())) == 5000
    batches = reading.batches(side, topic)
    assert 5000 / len(batches) > 10


def test_an_explicit_partition_is_taken_and_one_that_is_not_there_refused(side: Side, topic: str, reading: Any) -> None:
    with ottla.Producer(side.bootstrap_servers) as producer:
        producer.send(topic, b"two", b"key", partition=2)
        with pytest.raises(RecordError, match=topic):
            producer.send(topic, b"three", partition=3)
        producer.send(topic, b"zero", b"key", partition=0)
    assert reading.values(side, topic) == {0: [b"zero"], 1: [], 2: [b"two"]}
