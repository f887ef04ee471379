"""kafka-python, a pure-Python client, against the embedded cluster: producer, consumer, group, admin."""

from __future__ import annotations

import time
from typing import Any

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import NewTopic
from kafka.errors import TopicAlreadyExistsError
from tests.kafka_python_member import member

import ottla
from ottla.cluster.cluster import Cluster

_PARTITIONS = 3
_PATIENCE_S = 60


def read(consumer: KafkaConsumer, count: int) -> dict[tuple[int, int], Any]:
    """The next `count` records, by (partition, offset)."""
    found: dict[tuple[int, int], Any] = {}
    give_up = time.monotonic() + _PATIENCE_S
    while len(found) < count:
        assert time.monotonic() < give_up, f"only {len(found)} of {count} records arrived"
        for messages in consumer.poll(timeout_ms=500).values():
            for message in messages:
                row = (message.key, message.value, tuple(message.headers), message.timestamp)
                found[message.partition, message.offset] = row
    return found


# Its snappy and zstd want libraries that nobody else here needs.
@pytest.mark.parametrize("codec", [None, "gzip", "lz4"])
def test_ottla_reads_what_kafka_python_wrote(cluster: Cluster, topic: str, codec: str | None, exchange: Any) -> None:
    given = exchange.plain_rows(500)
    producer = KafkaProducer(
        bootstrap_servers=cluster.bootstrap_servers, compression_type=codec, acks="all", linger_ms=5
    )
    sending = [
        producer.send(topic, value=value, key=key, headers=list(headers), timestamp_ms=timestamp)
        for key, value, headers, timestamp in given
    ]
    stored = [each.get(_PATIENCE_S) for each in sending]
    producer.close()
    places = {(each.partition, each.offset): row for each, row in zip(stored, given, strict=True)}
    assert len(places) == len(given) > 450
    assert exchange.ottla_reads(cluster.bootstrap_servers, topic) == places


def test_kafka_python_reads_what_ottla_wrote(cluster: Cluster, topic: str, exchange: Any) -> None:
    with ottla.Producer(cluster.bootstrap_servers, compression_type="lz4") as producer:
        for key, value, headers, timestamp in exchange.rows(500):
            producer.send(topic, value, key, headers=headers, timestamp_ms=timestamp)
    consumer = KafkaConsumer(bootstrap_servers=cluster.bootstrap_servers, group_id=None, auto_offset_reset="earliest")
    consumer.assign([TopicPartition(topic, number) for number in range(_PARTITIONS)])
    found = read(consumer, 500)
    consumer.close()
    assert found == exchange.ottla_reads(cluster.bootstrap_servers, topic)


def test_a_kafka_python_group_goes_on_where_it_stopped(cluster: Cluster, topic: str) -> None:
    told = {"bootstrap_servers": cluster.bootstrap_servers, "group_id": topic, "enable_auto_commit": False}
    with ottla.Producer(cluster.bootstrap_servers) as producer:
        for number in range(30):
            producer.send(topic, b"%d" % number, partition=number % _PARTITIONS)
    consumer = member(topic, **told)
    first = read(consumer, 30)
    assert sorted(int(row[1]) for row in first.values()) == list(range(30))
    consumer.commit()
    consumer.close()
    with ottla.Producer(cluster.bootstrap_servers) as producer:
        producer.send(topic, b"new", partition=1)
    consumer = member(topic, **told)
    (row,) = read(consumer, 1).values()
    assert row[1] == b"new"
    places = [TopicPartition(topic, number) for number in range(_PARTITIONS)]
    assert [consumer.committed(each) for each in places] == [10] * _PARTITIONS
    assert consumer.beginning_offsets(places) == dict.fromkeys(places, 0)
    assert list(consumer.end_offsets(places).values()) == [10, 11, 10]
    consumer.close()


def test_kafka_pythons_admin_makes_lists_and_deletes_topics(cluster: Cluster, kafka_name: str) -> None:
    admin = KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers)
    new = NewTopic(kafka_name, 2, 3)
    admin.create_topics([new])
    with pytest.raises(TopicAlreadyExistsError):
        admin.create_topics([new])
    assert kafka_name in admin.list_topics()
    (described,) = admin.describe_topics([kafka_name])
    assert len(described["partitions"]) == 2
    admin.delete_topics([kafka_name])
    assert kafka_name not in admin.list_topics()
    admin.close()
