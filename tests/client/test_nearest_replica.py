"""`client.rack`: records come from a replica in the reader's rack (KIP-392), embedded or of Apache Kafka."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import Consumer, TopicPartition
from tests.client.in_time import wait_until
from tools.apache_kafka import ApacheKafka
from tools.kafka_jars import JarsUnavailable

import ottla
from ottla.broker.settings import RACK_AWARE_SELECTOR

from ..needs import lacking

SETTINGS = {"replica.selector.class": RACK_AWARE_SELECTOR}


@pytest.fixture(scope="module")
def cluster() -> Iterator[ottla.Cluster]:
    with ottla.Cluster(brokers=3, racks=["east", "west", "west"], settings=SETTINGS) as cluster:
        yield cluster


@pytest.fixture
def topic(cluster: ottla.Cluster, kafka_name: str) -> str:
    """Led by broker 1, which is in the east, with replicas on all three."""
    cluster.create_topic(kafka_name)
    if cluster.leader(kafka_name, 0) != 1:
        cluster.move_leader(kafka_name, 0, 1)
    fill(cluster.bootstrap_servers, kafka_name)
    return kafka_name


ALL = [str(number).encode() for number in range(5)]


def fill(address: str, topic: str) -> None:
    with ottla.Producer(address) as producer:
        for value in ALL:
            producer.send(topic, value)


def read(address: str, topic: str, **settings: Any) -> list[bytes]:
    with ottla.Reader(address, topic, **settings) as reader:
        found: list[Any] = pa.Table.from_batches(list(reader), reader.schema)["value"].to_pylist()
        return found


def given(cluster: ottla.Cluster, topic: str) -> list[float]:
    """How many bytes of the topic each broker has given to consumers."""
    bean = f"kafka.server:type=BrokerTopicMetrics,name=BytesOutPerSec,topic={topic}"
    return [counted.get(bean, {"Count": 0})["Count"] for _, counted in sorted(cluster.metrics().items())]


def test_racks_are_told_in_metadata(cluster: ottla.Cluster) -> None:
    with ottla.Admin(cluster.bootstrap_servers) as admin:
        assert [broker.rack for broker in admin.cluster().brokers] == ["east", "west", "west"]


@pytest.mark.parametrize("level", ["read_uncommitted", "read_committed"])
def test_a_reader_in_a_followers_rack_gets_its_records_there(cluster: ottla.Cluster, topic: str, level: str) -> None:
    assert read(cluster.bootstrap_servers, topic, client_rack="west", isolation_level=level) == ALL
    leader, *followers = given(cluster, topic)
    assert leader == 0
    assert sum(followers) > 0


def test_a_reader_in_the_leaders_rack_or_in_none_reads_from_the_leader(cluster: ottla.Cluster, topic: str) -> None:
    for rack in ("east", "north", ""):
        assert read(cluster.bootstrap_servers, topic, client_rack=rack) == ALL
    leader, *followers = given(cluster, topic)
    assert leader > 0
    assert sum(followers) == 0


def test_a_reader_whose_replica_dies_goes_on_with_the_leader(cluster: ottla.Cluster, topic: str) -> None:
    with ottla.Reader(cluster.bootstrap_servers, topic, end=None, client_rack="west") as reader:
        batches = iter(reader)
        assert next(batches)["value"].to_pylist() == ALL
        _, *followers = given(cluster, topic)
        (near,) = (number for number, size in enumerate(followers, start=2) if size)
        cluster.kill(near)
        try:
            fill(cluster.bootstrap_servers, topic)
            more = next(batches)["value"].to_pylist()
            while len(more) < len(ALL):
                more += next(batches)["value"].to_pylist()
            assert more == ALL
        finally:
            cluster.start(near)
            wait_until(lambda: len(cluster.isr(topic, 0)) == 3)


def test_a_foreign_consumer_is_sent_to_its_rack_as_well(cluster: ottla.Cluster, topic: str) -> None:
    settings = {"bootstrap.servers": cluster.bootstrap_servers, "group.id": topic, "client.rack": "west"}
    consumer = Consumer(settings)
    consumer.assign([TopicPartition(topic, 0, 0)])
    try:
        found: list[Any] = []
        while len(found) < len(ALL):
            found += consumer.consume(len(ALL), 0.5)
        assert [message.value() for message in found] == ALL
    finally:
        consumer.close()
    leader, *followers = given(cluster, topic)
    assert leader == 0
    assert sum(followers) > 0


def test_racks_are_one_name_for_each_broker() -> None:
    for racks in (["east"], "ab", ["east", ""], ["east", 7]):
        with pytest.raises(ottla.ConfigError, match="must be 2 names, one for each broker"):
            ottla.Cluster(brokers=2, racks=racks)


@pytest.mark.kafka
def test_apache_kafka_sends_a_reader_to_its_rack(kafka_name: str) -> None:
    try:
        kafka = ApacheKafka(2, heap_mb=384, settings=SETTINGS)
    except JarsUnavailable as missing:
        lacking("kafka", missing)
    with kafka:
        with ottla.Admin(kafka.bootstrap_servers) as admin:
            admin.create_topics(kafka_name, replication_factor=2)
            leader = admin.describe(kafka_name).partitions[0].leader
        fill(kafka.bootstrap_servers, kafka_name)
        with ottla.Reader(kafka.bootstrap_servers, kafka_name, client_rack=f"rack-{3 - leader}") as reader:
            assert pa.Table.from_batches(list(reader), reader.schema)["value"].to_pylist() == ALL
            core: Any = reader._driver.loop._core
            assert core._positions[kafka_name, 0].nearest == 3 - leader
