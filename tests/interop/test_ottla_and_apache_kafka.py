"""ottla against a real Apache Kafka: what ours wrote theirs accepts and serves, and the other way round."""

from __future__ import annotations

import time
from typing import Any

import pyarrow as pa
import pytest

import ottla
from ottla.errors import KafkaError, RecordError

pytestmark = [pytest.mark.kafka, pytest.mark.sample]

_CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]


@pytest.fixture
def topic(apache_kafka: str, kafka_name: str) -> str:
    with ottla.Admin(apache_kafka) as admin:
        admin.create_topics(kafka_name, partitions=3, replication_factor=1)
        # Apache Kafka names a leader before that has opened its log, and drops what comes in between with acks=0.
        # An answer about offsets is the leader's own, and asked for until it comes.
        admin.end_offsets(kafka_name)
    return kafka_name


@pytest.mark.parametrize("codec", _CODECS)
def test_records_sent_by_ottla_are_read_by_librdkafka(apache_kafka: str, topic: str, codec: str, exchange: Any) -> None:
    given = exchange.rows(2000)
    with ottla.Producer(apache_kafka, compression_type=codec) as producer:
        deliveries = [
            producer.send(topic, value, key, headers=headers, timestamp_ms=timestamp)
            for key, value, headers, timestamp in given
        ]
    places = {}
    for delivery, row in zip(deliveries, given, strict=True):
        stored = delivery.result(0)
        places[stored.partition, stored.offset] = row
    assert len(places) == 2000
    assert exchange.confluent_reads(apache_kafka, topic, 2000) == places
    assert exchange.ottla_reads(apache_kafka, topic) == places


@pytest.mark.parametrize("codec", _CODECS)
def test_ottla_reads_what_librdkafka_wrote_to_apache_kafka(
    apache_kafka: str, topic: str, codec: str, exchange: Any
) -> None:
    places = exchange.confluent_writes(apache_kafka, topic, exchange.rows(2000), **{"compression.type": codec})
    assert exchange.ottla_reads(apache_kafka, topic) == places


@pytest.mark.parametrize("settings", [{"acks": 0}, {"acks": 1}, {"enable_idempotence": False}, {}])
def test_every_kind_of_ack_is_understood(
    apache_kafka: str, topic: str, settings: dict[str, Any], exchange: Any
) -> None:
    given = exchange.rows(500)
    with ottla.Producer(apache_kafka, **settings) as producer:
        for key, value, headers, timestamp in given:
            producer.send(topic, value, key, headers=headers, timestamp_ms=timestamp)
    stored = exchange.confluent_reads(apache_kafka, topic, 500)
    assert sorted(stored.values(), key=repr) == sorted(given, key=repr)


@pytest.mark.parametrize("codec", ["none", "lz4", "zstd"])
def test_a_table_goes_there_and_comes_back(apache_kafka: str, topic: str, codec: str) -> None:
    table = pa.table(
        {
            "name": [None if n % 13 == 0 else f"key-{n % 40}" for n in range(5000)],
            "text": [None if n % 17 == 0 else f"value {n} " * (n % 20) for n in range(5000)],
        }
    )
    with ottla.Producer(apache_kafka, compression_type=codec) as producer:
        delivered = producer.send_table(topic, table, key="name", value="text").result()
    back = ottla.read_table(apache_kafka, topic)
    assert back.num_rows == 5000
    by_place = {
        (row["partition"], row["offset"]): (row["key"], row["value"])
        for row in back.select(["partition", "offset", "key", "value"]).to_pylist()
    }
    for sent, place in zip(table.to_pylist(), delivered.to_pylist(), strict=True):
        expected = tuple(None if text is None else text.encode() for text in (sent["name"], sent["text"]))
        assert by_place[place["partition"], place["offset"]] == expected


def test_apache_kafkas_errors_keep_their_names(apache_kafka: str) -> None:
    with ottla.Admin(apache_kafka) as admin:
        with pytest.raises(KafkaError) as caught:
            admin.create_topics("no/slashes", replication_factor=1)
        assert caught.value.name == "INVALID_TOPIC_EXCEPTION"
        with pytest.raises(KafkaError) as caught:
            admin.create_topics("too-many-replicas", replication_factor=3)
        assert caught.value.name == "INVALID_REPLICATION_FACTOR"
        with pytest.raises(KafkaError) as caught:
            admin.delete_topics("never-made")
        assert caught.value.name == "UNKNOWN_TOPIC_OR_PARTITION"


def test_a_record_larger_than_the_limit_is_refused_before_it_leaves(apache_kafka: str, topic: str) -> None:
    with (
        ottla.Producer(apache_kafka, max_request_size=100_000) as producer,
        pytest.raises(RecordError, match=r"100,?000"),
    ):
        producer.send(topic, bytes(200_000))


def test_offsets_are_listed_and_topics_deleted(apache_kafka: str, topic: str, exchange: Any) -> None:
    exchange.confluent_writes(apache_kafka, topic, exchange.rows(100))
    with ottla.Admin(apache_kafka) as admin:
        assert sum(admin.end_offsets(topic).values()) == 100
        assert admin.begin_offsets(topic) == {0: 0, 1: 0, 2: 0}
        admin.delete_topics(topic)
        # Its controller has answered; its brokers hear of it a moment later.
        give_up = time.monotonic() + 60
        while topic in admin.list_topics():
            assert time.monotonic() < give_up
