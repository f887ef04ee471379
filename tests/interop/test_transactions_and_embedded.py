"""Transactions of librdkafka (transaction version 1) and of Java (version 2) against the embedded cluster."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from ottla.cluster.cluster import Cluster

from ..markers import await_markers

_PATIENCE_S = 120
_TOOLS = "org.apache.kafka.tools"


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("embedded")


@pytest.fixture(scope="module")
def cluster(data_dir: Path) -> Iterator[Cluster]:
    with Cluster(brokers=3, data_dir=data_dir) as cluster:
        yield cluster


@pytest.fixture
def topic(cluster: Cluster, kafka_name: str) -> str:
    """A topic of the test's name; its transactional ids and groups are called the same."""
    cluster.create_topic(kafka_name, partitions=2)
    return kafka_name


def transactional(cluster: Cluster, transactional_id: str, **settings: Any) -> Producer:
    config = {"bootstrap.servers": cluster.bootstrap_servers, "transactional.id": transactional_id, "log_level": 0}
    producer = Producer({**config, **settings})
    producer.init_transactions(_PATIENCE_S)
    return producer


def reading(cluster: Cluster, group: str, isolation_level: str = "read_committed", *, ends: bool = False) -> Consumer:
    config = {"group.id": group, "enable.auto.commit": False, "log_level": 0, "auto.offset.reset": "earliest"}
    address = {"bootstrap.servers": cluster.bootstrap_servers, "enable.partition.eof": ends}
    return Consumer({**address, "isolation.level": isolation_level, **config})


def read_all(cluster: Cluster, topic: str, isolation_level: str = "read_committed") -> list[bytes]:
    """Every value there is, to the end as this isolation level has it."""
    await_markers(cluster.bootstrap_servers, topic)
    consumer = reading(cluster, "reads alone", isolation_level, ends=True)
    values = []
    for partition in (0, 1):
        place = TopicPartition(topic, partition, 0)
        consumer.assign([place])
        while True:
            message = consumer.poll(_PATIENCE_S)
            assert message is not None
            if (error := message.error()) is not None:
                assert error.code() == KafkaError._PARTITION_EOF, error
                break
            values.append(message.value())
    consumer.close()
    return values


def test_librdkafka_commits_and_aborts(cluster: Cluster, topic: str) -> None:
    producer = transactional(cluster, topic)
    for number in range(6):
        producer.begin_transaction()
        for partition in (0, 1):
            for _ in range(50):
                producer.produce(topic, b"%d" % number, partition=partition)
        if number % 3 == 2:
            producer.flush(_PATIENCE_S)
            producer.abort_transaction(_PATIENCE_S)
        else:
            producer.commit_transaction(_PATIENCE_S)
    wanted = sorted(b"%d" % number for number in (0, 1, 3, 4) for _ in range(100))
    assert sorted(read_all(cluster, topic)) == wanted
    assert len(read_all(cluster, topic, "read_uncommitted")) == 600


def test_librdkafka_moves_offsets_and_records_at_once(cluster: Cluster, topic: str) -> None:
    # Elsewhere, lest what was moved is read as something to move.
    moved = f"{topic}-moved"
    cluster.create_topic(moved, partitions=2)
    plain = Producer({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})
    for number in range(20):
        plain.produce(topic, b"%d" % number, partition=0)
    assert plain.flush(_PATIENCE_S) == 0
    producer = transactional(cluster, topic)
    for begin, commits in ((0, True), (10, False), (10, True)):
        # A new consumer each time: it goes on where the last committed transaction left off.
        consumer = reading(cluster, topic)
        consumer.subscribe([topic])
        messages = consumer.consume(10, _PATIENCE_S)
        assert [message.value() for message in messages] == [b"%d" % (begin + each) for each in range(10)]
        producer.begin_transaction()
        for message in messages:
            producer.produce(moved, b"moved " + message.value(), partition=1)
        done = TopicPartition(topic, 0, messages[-1].offset() + 1)
        producer.send_offsets_to_transaction([done], consumer.consumer_group_metadata(), _PATIENCE_S)
        (producer.commit_transaction if commits else producer.abort_transaction)(_PATIENCE_S)
        consumer.close()
    assert read_all(cluster, moved) == [b"moved %d" % number for number in range(20)]


def test_librdkafkas_zombie_is_fenced(cluster: Cluster, topic: str) -> None:
    old = transactional(cluster, topic)
    old.begin_transaction()
    old.produce(topic, b"zombie", partition=0)
    old.flush(_PATIENCE_S)
    new = transactional(cluster, topic)
    with pytest.raises(KafkaException) as fenced:
        old.commit_transaction(_PATIENCE_S)
    assert fenced.value.args[0].fatal()
    new.begin_transaction()
    new.produce(topic, b"alive", partition=0)
    new.commit_transaction(_PATIENCE_S)
    assert read_all(cluster, topic) == [b"alive"]


@pytest.mark.kafka
def test_java_produces_in_transactions_and_its_tools_tell_of_them(
    cluster: Cluster, topic: str, java: Any, data_dir: Path
) -> None:
    arguments = ["--topic", topic, "--num-records", "20000", "--record-size", "100", "--throughput", "20000"]
    more = ["--transaction-duration-ms", "100", "--transactional-id", topic]
    settings = [f"bootstrap.servers={cluster.bootstrap_servers}", "acks=all"]
    said = java.run(f"{_TOOLS}.ProducerPerformance", *arguments, *more, "--producer-props", *settings)
    assert b"20000 records sent" in said
    assert len(read_all(cluster, topic)) == 20_000

    def transactions(*asked: str) -> str:
        command = f"{_TOOLS}.TransactionsCommand"
        said: bytes = java.run(command, "--bootstrap-server", cluster.bootstrap_servers, *asked)
        return said.decode()

    listed = [line.split() for line in transactions("list").splitlines() if line.startswith(topic)]
    assert [words[-1] for words in listed] == ["CompleteCommit"]
    described = transactions("describe", "--transactional-id", topic).splitlines()[1].split()
    assert "CompleteCommit" in described
    # Java took version 2: every transaction had an epoch of its own.
    assert int(described[described.index("CompleteCommit") - 1]) >= 5
    producers = transactions("describe-producers", "--topic", topic, "--partition", "0")
    assert listed[0][2] in producers.split()
    read = java.run(
        f"{_TOOLS}.consumer.ConsoleConsumer",
        *("--bootstrap-server", cluster.bootstrap_servers, "--topic", topic, "--from-beginning"),
        *("--isolation-level", "read_committed", "--max-messages", "20000"),
    )
    assert len(read.splitlines()) == 20_000


@pytest.mark.kafka
def test_javas_dump_reads_the_coordinators_log(cluster: Cluster, topic: str, java: Any, data_dir: Path) -> None:
    producer = transactional(cluster, topic, **{"transaction.timeout.ms": 123_456})
    producer.begin_transaction()
    producer.produce(topic, b"v", partition=0)
    producer.commit_transaction(_PATIENCE_S)
    logs = sorted(data_dir.glob("**/__transaction_state-*/*.log"))
    assert logs
    dumped = java.run(
        "org.apache.kafka.tools.DumpLogSegments", "--transaction-log-decoder", "--files", ",".join(map(str, logs))
    ).decode()
    lines = [line for line in dumped.splitlines() if f'"{topic}"' in line or topic in line]
    assert any("123456" in line for line in lines), dumped[:3000]


@pytest.mark.kafka
def test_java_runs_transactions_in_version_1_where_the_cluster_says_so(java: Any) -> None:
    with Cluster(brokers=1, settings={"transaction_version": 1}) as cluster:
        cluster.create_topic("first-version", partitions=2)
        arguments = ["--topic", "first-version", "--num-records", "5000", "--record-size", "100"]
        more = ["--throughput", "10000", "--transaction-duration-ms", "100", "--transactional-id", "first"]
        settings = [f"bootstrap.servers={cluster.bootstrap_servers}", "acks=all"]
        java.run(f"{_TOOLS}.ProducerPerformance", *arguments, *more, "--producer-props", *settings)
        assert len(read_all(cluster, "first-version")) == 5_000
        asked = ["--bootstrap-server", cluster.bootstrap_servers, "describe", "--transactional-id", "first"]
        words = java.run(f"{_TOOLS}.TransactionsCommand", *asked).decode().splitlines()[1].split()
        assert words[words.index("CompleteCommit") - 1] == "0"
