"""librdkafka, which shares no code with ottla, against the embedded cluster: each reads what the other wrote.

What librdkafka stored is decoded by the plain-Python twin of the record codec, from the very bytes of the log.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

import ottla
from ottla.cluster.cluster import Cluster
from ottla.records.plain import partition_for_key

_CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
_PARTITIONS = 3


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(brokers=3) as cluster:
        yield cluster


@pytest.fixture
def topic(cluster: Cluster, kafka_name: str) -> str:
    cluster.create_topic(kafka_name, partitions=_PARTITIONS)
    return kafka_name


@pytest.mark.parametrize("codec", _CODECS)
def test_ottla_reads_what_librdkafka_wrote(cluster: Cluster, topic: str, codec: str, exchange: Any) -> None:
    given = exchange.rows(3000)
    places = exchange.confluent_writes(cluster.bootstrap_servers, topic, given, **{"compression.type": codec})
    assert len(places) == 3000
    assert exchange.ottla_reads(cluster.bootstrap_servers, topic) == places


@pytest.mark.parametrize("codec", _CODECS)
def test_librdkafka_reads_what_ottla_wrote(cluster: Cluster, topic: str, codec: str, exchange: Any) -> None:
    given = exchange.rows(3000)
    with ottla.Producer(cluster.bootstrap_servers, compression_type=codec) as producer:
        deliveries = [
            producer.send(topic, value, key, headers=headers, timestamp_ms=timestamp)
            for key, value, headers, timestamp in given
        ]
    places = {}
    for delivery, row in zip(deliveries, given, strict=True):
        stored = delivery.result(0)
        places[stored.partition, stored.offset] = row
    assert len(places) == 3000
    assert exchange.confluent_reads(cluster.bootstrap_servers, topic, 3000) == places
    assert exchange.ottla_reads(cluster.bootstrap_servers, topic) == places


def test_keys_go_where_javas_partitioner_puts_them(cluster: Cluster, topic: str, exchange: Any) -> None:
    """librdkafka's murmur2 partitioner is a second implementation of Java's."""
    given = [row for row in exchange.rows(2000) if row[0] is not None]
    theirs = exchange.confluent_writes(cluster.bootstrap_servers, topic, given, partitioner="murmur2_random")
    with ottla.Producer(cluster.bootstrap_servers) as producer:
        ours = [(producer.send(topic, row[1], row[0]), row[0]) for row in given]
    expected = {row[0]: partition for (partition, _), row in theirs.items()}
    assert {key: delivery.result(0).partition for delivery, key in ours} == expected
    assert all(partition == partition_for_key(key or b"", _PARTITIONS) for key, partition in expected.items())


def test_keys_go_where_librdkafkas_own_partitioner_puts_them(cluster: Cluster, exchange: Any) -> None:
    """Its default, a CRC-32, is ours for those who migrate: by `send` and by whole columns."""
    cluster.create_topic("crc", partitions=13)
    random = Random(32)
    keys = [b"customer-%d" % number for number in range(2500)]
    keys += [random.randbytes(1 + number % 40) for number in range(2500)]
    given = [(key, b"v", (), 1) for key in keys]
    theirs = exchange.confluent_writes(cluster.bootstrap_servers, "crc", given)
    expected = {row[0]: partition for (partition, _), row in theirs.items()}
    table = pa.table({"key": pa.array(keys, pa.binary()), "value": ["v"] * len(keys)})
    with ottla.Producer(cluster.bootstrap_servers, partitioner_class="consistent_random") as producer:
        deliveries = [(producer.send("crc", b"v", key), key) for key in keys]
        rows = producer.send_table("crc", table, key="key", value="value")
    assert {key: delivery.result(0).partition for delivery, key in deliveries} == expected
    assert rows.result(0)["partition"].to_pylist() == [expected[key] for key in keys]


@pytest.mark.parametrize("settings", [{"acks": 0}, {"acks": 1}, {"acks": -1}, {"enable.idempotence": True}])
def test_every_kind_of_ack_stores_each_record_once(
    cluster: Cluster, topic: str, settings: dict[str, Any], exchange: Any
) -> None:
    given = exchange.rows(1000)
    exchange.confluent_writes(cluster.bootstrap_servers, topic, given, **settings)
    stored = exchange.confluent_reads(cluster.bootstrap_servers, topic, 1000)
    assert sorted(stored.values(), key=repr) == sorted(given, key=repr)


def test_a_lost_ack_duplicates_without_idempotence_only(cluster: Cluster, topic: str, exchange: Any) -> None:
    """librdkafka sends again what was not acknowledged; only sequence numbers tell the broker that it knows it."""
    given = exchange.rows(300)
    config = {"linger.ms": 50, "retry.backoff.ms": 10, "reconnect.backoff.ms": 10}
    with cluster.faults.lose_ack(topic=topic, nth=1) as fault:
        exchange.confluent_writes(cluster.bootstrap_servers, topic, given, **config, **{"enable.idempotence": True})
        assert fault.fired == 1
    assert sorted(exchange.ottla_reads(cluster.bootstrap_servers, topic).values(), key=repr) == sorted(given, key=repr)
    with cluster.faults.lose_ack(topic=topic, nth=1) as fault:
        exchange.confluent_writes(cluster.bootstrap_servers, topic, given, **config, **{"enable.idempotence": False})
        assert fault.fired == 1
    assert len(exchange.ottla_reads(cluster.bootstrap_servers, topic)) > 600


def test_librdkafka_finds_offsets_by_time_and_by_end(cluster: Cluster, topic: str, exchange: Any) -> None:
    exchange.confluent_writes(
        cluster.bootstrap_servers, topic, [(None, b"%d" % n, (), 1000 * n) for n in range(1, 101)]
    )
    consumer = exchange.reading(cluster.bootstrap_servers)
    ends = [consumer.get_watermark_offsets(TopicPartition(topic, number), 120) for number in range(_PARTITIONS)]
    assert sum(high for _, high in ends) == 100
    assert {low for low, _ in ends} == {0}
    asked = [TopicPartition(topic, number, 50_000) for number in range(_PARTITIONS)]
    found = consumer.offsets_for_times(asked, 120)
    consumer.close()
    later = {
        (partition, offset)
        for (partition, offset), row in exchange.ottla_reads(cluster.bootstrap_servers, topic).items()
        if row[3] >= 50_000
    }
    for place in found:
        offsets = [offset for partition, offset in later if partition == place.partition]
        assert place.offset == (min(offsets) if offsets else -1)


def test_librdkafkas_admin_makes_lists_and_deletes_topics(cluster: Cluster) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})
    made = admin.create_topics([NewTopic("made-by-librdkafka", 4, 2)])
    assert made["made-by-librdkafka"].result(120) is None
    listed = admin.list_topics(timeout=120)
    assert sorted(listed.brokers) == [1, 2, 3]
    partitions = listed.topics["made-by-librdkafka"].partitions
    assert {number: len(each.replicas) for number, each in partitions.items()} == {0: 2, 1: 2, 2: 2, 3: 2}
    assert cluster.leader("made-by-librdkafka", 3) == partitions[3].leader
    with pytest.raises(KafkaException, match="TOPIC_ALREADY_EXISTS"):
        admin.create_topics([NewTopic("made-by-librdkafka", 1, 1)])["made-by-librdkafka"].result(120)
    assert admin.delete_topics(["made-by-librdkafka"])["made-by-librdkafka"].result(120) is None
    assert "made-by-librdkafka" not in admin.list_topics(timeout=120).topics
