"""Consumer groups of librdkafka and of Java against the embedded cluster."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, ConsumerGroupState, TopicPartition
from confluent_kafka.admin import AdminClient

import ottla
from ottla.cluster.cluster import Cluster

_PARTITIONS = 4
_PATIENCE_S = 60


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(brokers=3) as cluster:
        yield cluster


@pytest.fixture
def topic(cluster: Cluster, kafka_name: str) -> str:
    """A topic of the test's name; the group is called the same."""
    cluster.create_topic(kafka_name, partitions=_PARTITIONS)
    return kafka_name


def fill(cluster: Cluster, topic: str, count: int) -> None:
    with ottla.Producer(cluster.bootstrap_servers) as producer:
        for number in range(count):
            producer.send(topic, b"%d" % number, partition=number % _PARTITIONS)


def member(cluster: Cluster, group: str, **settings: Any) -> Consumer:
    config = {"group.id": group, "auto.offset.reset": "earliest", "heartbeat.interval.ms": 200, "log_level": 0}
    return Consumer({"bootstrap.servers": cluster.bootstrap_servers, **config, **settings})


def poll_until(consumers: list[Consumer], done: Callable[[], bool]) -> list[bytes]:
    """Poll all of them in turn until it is done, and give what was read."""
    values = []
    give_up = time.monotonic() + _PATIENCE_S
    while not done():
        assert time.monotonic() < give_up
        for consumer in consumers:
            message = consumer.poll(0.05)
            if message is not None:
                assert message.error() is None, message.error()
                values.append(message.value())
    return values


def read(consumer: Consumer, count: int) -> list[bytes]:
    values: list[bytes] = []
    while len(values) < count:
        messages = consumer.consume(count - len(values), _PATIENCE_S)
        assert messages, f"only {len(values)} of {count} records arrived"
        for message in messages:
            assert message.error() is None, message.error()
            values.append(message.value())
    return values


def shares(*consumers: Consumer) -> list[list[int]]:
    return [sorted(each.partition for each in consumer.assignment()) for consumer in consumers]


@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
def test_two_consumers_share_the_partitions_and_one_takes_over(cluster: Cluster, topic: str, strategy: str) -> None:
    settings = {"partition.assignment.strategy": strategy}
    first, second = member(cluster, topic, **settings), member(cluster, topic, **settings)
    first.subscribe([topic])
    poll_until([first], lambda: shares(first) == [[0, 1, 2, 3]])
    second.subscribe([topic])
    poll_until([first, second], lambda: sorted(map(len, shares(first, second))) == [2, 2])
    assert sorted(number for share in shares(first, second) for number in share) == [0, 1, 2, 3]
    fill(cluster, topic, 40)
    values: list[bytes] = []
    give_up = time.monotonic() + _PATIENCE_S
    while len(values) < 40 and time.monotonic() < give_up:
        for consumer in (first, second):
            values += [message.value() for message in consumer.consume(40, 0.1)]
    assert sorted(map(int, values)) == list(range(40))
    second.close()
    poll_until([first], lambda: shares(first) == [[0, 1, 2, 3]])
    first.close()


def test_a_consumer_goes_on_where_the_one_before_it_stopped(cluster: Cluster, topic: str) -> None:
    fill(cluster, topic, 20)
    consumer = member(cluster, topic, **{"enable.auto.commit": False})
    consumer.subscribe([topic])
    assert len(read(consumer, 20)) == 20
    done = consumer.commit(asynchronous=False)
    assert sorted((each.partition, each.offset) for each in done) == [(n, 5) for n in range(_PARTITIONS)]
    consumer.close()
    with ottla.Producer(cluster.bootstrap_servers) as producer:
        producer.send(topic, b"new", partition=2)
    consumer = member(cluster, topic)
    consumer.subscribe([topic])
    assert read(consumer, 1) == [b"new"]
    consumer.close()


def test_what_was_read_is_committed_when_a_consumer_closes(cluster: Cluster, topic: str) -> None:
    fill(cluster, topic, 12)
    consumer = member(cluster, topic, **{"auto.commit.interval.ms": 3_600_000})
    consumer.subscribe([topic])
    read(consumer, 12)
    consumer.close()
    asking = member(cluster, topic)
    found = asking.committed([TopicPartition(topic, number) for number in range(_PARTITIONS)], _PATIENCE_S)
    asking.close()
    assert [each.offset for each in found] == [3] * _PARTITIONS


def test_a_static_member_is_given_its_partitions_back(cluster: Cluster, topic: str) -> None:
    other = member(cluster, topic, **{"group.instance.id": "other"})
    one = member(cluster, topic, **{"group.instance.id": "one"})
    other.subscribe([topic])
    one.subscribe([topic])
    poll_until([other, one], lambda: sorted(map(len, shares(other, one))) == [2, 2])
    kept = shares(other, one)
    one.close()
    one = member(cluster, topic, **{"group.instance.id": "one"})
    one.subscribe([topic])
    poll_until([other, one], lambda: shares(one) != [[]])
    assert shares(other, one) == kept
    one.close()
    other.close()


def test_offsets_are_there_when_a_cluster_is_started_again(tmp_path: Path) -> None:
    with Cluster(brokers=3, data_dir=tmp_path / "data") as cluster:
        cluster.create_topic("kept", partitions=_PARTITIONS)
        fill(cluster, "kept", 8)
        consumer = member(cluster, "readers")
        consumer.subscribe(["kept"])
        read(consumer, 8)
        consumer.close()
    with Cluster(brokers=3, data_dir=tmp_path / "data") as cluster:
        with ottla.Producer(cluster.bootstrap_servers) as producer:
            producer.send("kept", b"new", partition=1)
        consumer = member(cluster, "readers")
        consumer.subscribe(["kept"])
        assert read(consumer, 1) == [b"new"]
        consumer.close()


def test_librdkafkas_admin_sees_groups_and_deletes_them(cluster: Cluster, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})
    fill(cluster, topic, 4)
    consumer = member(cluster, topic)
    consumer.subscribe([topic])
    read(consumer, 4)
    told = admin.describe_consumer_groups([topic])[topic].result(_PATIENCE_S)
    assert told.state == ConsumerGroupState.STABLE
    (only,) = told.members
    assert sorted(each.partition for each in only.assignment.topic_partitions) == [0, 1, 2, 3]
    consumer.close()
    listed = admin.list_consumer_groups().result(_PATIENCE_S)
    assert not listed.errors
    assert topic in [each.group_id for each in listed.valid]
    assert admin.delete_consumer_groups([topic])[topic].result(_PATIENCE_S) is None
    listed = admin.list_consumer_groups().result(_PATIENCE_S)
    assert topic not in [each.group_id for each in listed.valid]


@pytest.mark.kafka
def test_javas_console_consumer_reads_as_a_group_and_its_tool_describes_it(
    cluster: Cluster, topic: str, java: Any
) -> None:
    fill(cluster, topic, 20)
    where = ["--bootstrap-server", cluster.bootstrap_servers]
    reading = ["--topic", topic, "--group", topic, "--from-beginning", "--max-messages", "20"]
    said = java.run("org.apache.kafka.tools.consumer.ConsoleConsumer", *where, *reading)
    assert sorted(map(int, said.split())) == list(range(20))
    tool = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
    told = java.run(tool, *where, "--describe", "--group", topic).decode()
    rows = [line.split() for line in told.splitlines() if topic in line.split()[:1]]
    assert sorted((int(row[2]), int(row[3]), int(row[5])) for row in rows) == [(n, 5, 0) for n in range(_PARTITIONS)]
    assert topic in java.run(tool, *where, "--list").decode().split()


@pytest.mark.kafka
def test_javas_log_dump_understands_the_offsets_topic(java: Any, tmp_path: Path) -> None:
    with Cluster(brokers=1, data_dir=tmp_path / "data") as cluster:
        cluster.create_topic("read", partitions=_PARTITIONS)
        fill(cluster, "read", 4)
        consumer = member(cluster, "readers")
        consumer.subscribe(["read"])
        read(consumer, 4)
        consumer.close()
    logs = sorted((tmp_path / "data" / "broker-1").glob("__consumer_offsets-*/*.log"))
    files = ["--offsets-decoder", "--files", ",".join(map(str, logs))]
    said = java.run("org.apache.kafka.tools.DumpLogSegments", *files).decode()
    assert '"group":"readers","topic":"read","partition":3' in said
    assert '"protocolType":"consumer"' in said
