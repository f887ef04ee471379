"""What the interop tests share: a node of Apache Kafka, an embedded cluster, rows that clients exchange."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from tools.apache_kafka import ApacheKafka, Java
from tools.kafka_jars import JarsUnavailable, fetch_spark_connector

import ottla
from ottla.cluster.cluster import Cluster
from ottla.records.plain import Record, decode_batches

from ..last_users import stop_behind_last
from ..needs import lacking
from .kafka_tools import KafkaTools

PARTITIONS = 3


@pytest.fixture(scope="session")
def spark_connector() -> list[str]:
    """The jars of Spark's own Kafka connector."""
    try:
        return [str(path) for path in sorted(fetch_spark_connector().glob("*.jar"))]
    except JarsUnavailable as missing:
        lacking("spark", missing)


@pytest.fixture(scope="session")
def apache_kafka_node(request: pytest.FixtureRequest) -> ApacheKafka:
    """One node of Apache Kafka, controller and broker in one."""
    try:
        kafka = ApacheKafka()
    except JarsUnavailable as missing:
        lacking("kafka", missing)
    stop_behind_last(request, lambda item: "apache_kafka_node" in getattr(item, "fixturenames", ()), kafka.stop)
    kafka.start()
    return kafka


@pytest.fixture(scope="session")
def apache_kafka(apache_kafka_node: ApacheKafka) -> str:
    """The node's bootstrap address."""
    return apache_kafka_node.bootstrap_servers


@pytest.fixture(scope="session")
def apache_kafka_logs(apache_kafka_node: ApacheKafka) -> Path:
    """Where the node keeps its topics."""
    return apache_kafka_node.logs(1)


@pytest.fixture(scope="module")
def kafka_tools(java: Java) -> Iterator[KafkaTools]:
    """Kafka's command line tools, in one JVM for the tests of one file."""
    with KafkaTools(java) as kafka_tools:
        yield kafka_tools


Row = tuple[bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...], int]


class Exchange:
    """Writes and reads the same rows with librdkafka and with ottla."""

    @staticmethod
    def rows(count: int) -> list[Row]:
        """(key, value, headers, timestamp): keys and values of many sizes, null and empty ones among them."""
        made: list[Row] = []
        # Retention takes what is older than a week, in whichever test runs when a broker looks.
        yesterday_ms = int(time.time() * 1000) - 86_400_000
        for number in range(count):
            key = None if number % 7 == 0 else b"key-%d" % (number % 50)
            value = None if number % 11 == 3 else b"value %d " % number * (number % 60)
            headers = tuple((f"name-{each}", None if each == 2 else b"%d" % number) for each in range(number % 4))
            made.append((key, value, headers, yesterday_ms + number))
        return made

    @staticmethod
    def plain_rows(count: int) -> list[Row]:
        """Rows without what the clients written in Python refuse: neither key nor value, headers that are null."""
        return [
            (key, value, tuple(header for header in headers if header[1] is not None), timestamp)
            for key, value, headers, timestamp in Exchange.rows(count)
            if key is not None or value is not None
        ]

    @staticmethod
    def confluent_writes(address: str, topic: str, given: list[Row], **settings: Any) -> dict[tuple[int, int], Row]:
        """Produce rows; where librdkafka says each of them went, by (partition, offset)."""
        config = {"bootstrap.servers": address, "log_level": 0, "linger.ms": 5, **settings}
        producer = Producer(config)
        places: dict[tuple[int, int], Row] = {}
        errors = []
        for row in given:

            def delivered(error: Any, message: Any, row: Row = row) -> None:
                if error is not None:
                    errors.append(error)
                else:
                    places[message.partition(), message.offset()] = row

            key, value, headers, timestamp = row
            producer.produce(topic, value, key, headers=list(headers), timestamp=timestamp, on_delivery=delivered)
            producer.poll(0)
        assert producer.flush(60) == 0
        assert not errors
        return places

    @staticmethod
    def reading(address: str) -> Consumer:
        """A consumer that is in no group: it is told what to read, and commits nothing."""
        config = {"group.id": "not used", "enable.auto.commit": False, "check.crcs": True, "log_level": 0}
        return Consumer({"bootstrap.servers": address, **config})

    @staticmethod
    def confluent_reads(address: str, topic: str, count: int) -> dict[tuple[int, int], Row]:
        """Read `count` records, by (partition, offset)."""
        consumer = Exchange.reading(address)
        consumer.assign([TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)])
        found: dict[tuple[int, int], Row] = {}
        while len(found) < count:
            messages = consumer.consume(count - len(found), 120)
            assert messages, f"only {len(found)} of {count} records arrived"
            for message in messages:
                assert message.error() is None, message.error()
                headers: tuple[Any, ...] = tuple(message.headers() or ())
                row = (message.key(), message.value(), headers, message.timestamp()[1])
                found[message.partition(), message.offset()] = row
        consumer.close()
        return found

    @staticmethod
    def ottla_reads(address: str, topic: str) -> dict[tuple[int, int], Row]:
        """Decode what is stored with the plain twin, by (partition, offset)."""
        found: dict[tuple[int, int], Row] = {}
        with ottla.Reader(address, topic) as reader:
            for fetched in reader.iter_raw():
                records: list[Record] = [record for _, batch in decode_batches(fetched.records) for record in batch]
                for record in records:
                    row = (record.key, record.value, tuple(record.headers), record.timestamp_ms)
                    found[fetched.partition, record.offset] = row
        return found


@pytest.fixture(scope="session")
def exchange() -> type[Exchange]:
    """Writes and reads the same rows with either client."""
    return Exchange


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """Three embedded brokers, for the tests of one file."""
    with Cluster(brokers=3) as cluster:
        yield cluster


@pytest.fixture
def topic(cluster: Cluster, kafka_name: str) -> str:
    """A topic of the test's own in the embedded cluster."""
    cluster.create_topic(kafka_name, partitions=PARTITIONS)
    return kafka_name
