"""What a producer promises, held against both clusters: fixtures.

A test that takes `side` runs twice: against three embedded brokers and against three nodes of Apache Kafka 4.3. What
was written is read back by `ottla.Reader` record by record; test_foreign_readers.py has others read it too.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from confluent_kafka import Consumer, TopicPartition
from tools.apache_kafka import Java
from tools.kafka_jars import JarsUnavailable

import ottla
from ottla.records.plain import decode_batches

from ..last_users import stop_behind_last
from ..needs import lacking
from ..papers import Papers
from .sides import Apache, Embedded, Side

PARTITIONS = 3
_PATIENCE_S = 60


@pytest.fixture(scope="session")
def embedded_side(papers: Papers) -> Iterator[Side]:
    """The embedded cluster."""
    cluster = Embedded(papers)
    yield cluster
    cluster.close()


@pytest.fixture(scope="session")
def apache_side(request: pytest.FixtureRequest, papers: Papers) -> Side:
    """Three nodes of Apache Kafka, which take a while to start: once for all files."""
    try:
        cluster = Apache(papers)
    except JarsUnavailable as missing:
        lacking("kafka", missing)
    stop_behind_last(request, _is_on_apache_kafka, cluster.close)
    return cluster


def _is_on_apache_kafka(item: pytest.Item) -> bool:
    here = Path(__file__).parent
    return here in item.path.parents and item.get_closest_marker("kafka") is not None


@pytest.fixture(scope="session", params=["embedded", pytest.param("apache", marks=pytest.mark.kafka)])
def side(request: pytest.FixtureRequest) -> Side:
    """One cluster after the other."""
    cluster: Side = request.getfixturevalue(f"{request.param}_side")
    return cluster


@pytest.fixture
def topic(side: Side, kafka_name: str) -> str:
    """A topic of the test's own: three partitions on three brokers."""
    side.create_topic(kafka_name, PARTITIONS, 3)
    return kafka_name


class Stored(NamedTuple):
    """A record as it is in the log."""

    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


class Reading:
    """Reads topics back with ottla's Reader and the plain decoder."""

    @staticmethod
    def records(side: Side, topic: str) -> list[Stored]:
        """Every record, by partition and offset."""
        found = []
        with ottla.Reader(side.bootstrap_servers, topic) as reader:
            for fetched in reader.iter_raw():
                for _, batch in decode_batches(fetched.records):
                    for one in batch:
                        place = fetched.partition, one.offset, one.timestamp_ms
                        found.append(Stored(*place, one.key, one.value, tuple(one.headers)))
        return sorted(found, key=lambda one: one[:2])

    @staticmethod
    def values(side: Side, topic: str) -> dict[int, list[bytes | None]]:
        """{partition: values in the order of their offsets}, partitions without records included."""
        found: dict[int, list[bytes | None]] = {number: [] for number in range(PARTITIONS)}
        for one in Reading.records(side, topic):
            found[one.partition].append(one.value)
        return found

    @staticmethod
    def batches(side: Side, topic: str) -> list[tuple[int, int]]:
        """(records, codec number) of every batch that is stored."""
        found = []
        with ottla.Reader(side.bootstrap_servers, topic) as reader:
            for fetched in reader.iter_raw():
                found += [(len(batch), header.attributes & 7) for header, batch in decode_batches(fetched.records)]
        return found


@pytest.fixture(scope="session")
def reading() -> type[Reading]:
    """Reads topics back."""
    return Reading


class Foreign:
    """Readers that share no code with ours; each tells {partition: values in the order of their offsets}."""

    @staticmethod
    def confluent(side: Side, topic: str, count: int) -> dict[int, list[bytes]]:
        """confluent-kafka, told what to read; CRCs are checked."""
        config = {"group.id": "not used", "enable.auto.commit": False, "check.crcs": True, "log_level": 0}
        consumer = Consumer({"bootstrap.servers": side.bootstrap_servers, **config})
        consumer.assign([TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)])
        found: dict[int, list[bytes]] = {partition: [] for partition in range(PARTITIONS)}
        left = count
        while left:
            messages = consumer.consume(left, _PATIENCE_S)
            assert messages, f"{left} of {count} records did not come"
            for message in messages:
                assert message.error() is None, message.error()
                found[message.partition()].append(message.value())
            left -= len(messages)
        consumer.close()
        return found

    @staticmethod
    def kcat(side: Side, topic: str) -> dict[int, list[bytes]]:
        """kcat, to the end of every partition."""
        path = shutil.which("kcat")
        if path is None:
            lacking("kcat", "there is no `kcat` on the PATH: install the package `kcat` (Debian, Ubuntu, Homebrew)")
        asked = ["-C", "-t", topic, "-o", "beginning", "-e", "-q", "-f", "%p %s\n"]
        command = [path, "-b", side.bootstrap_servers, *asked]
        done = subprocess.run(command, capture_output=True, timeout=_PATIENCE_S, check=False)
        assert done.returncode == 0, done.stderr.decode()
        found: dict[int, list[bytes]] = {partition: [] for partition in range(PARTITIONS)}
        for line in done.stdout.splitlines():
            partition, value = line.split(b" ", 1)
            found[int(partition)].append(value)
        return found

    def __init__(self, request: pytest.FixtureRequest) -> None:
        self._request = request

    def java(self, side: Side, topic: str, count: int) -> dict[int, list[bytes]]:
        """Java's VerifiableConsumer, in a group of its own."""
        where = ["--bootstrap-server", side.bootstrap_servers, "--topic", topic, "--group-id", f"verifiers-{topic}"]
        asked = ["--max-messages", str(count), "--verbose", "--reset-policy", "earliest"]
        java: Java = self._request.getfixturevalue("java")
        said = java.run("org.apache.kafka.tools.VerifiableConsumer", *where, *asked)
        events = [json.loads(line) for line in said.splitlines() if line.startswith(b"{")]
        found: dict[int, list[bytes]] = {partition: [] for partition in range(PARTITIONS)}
        for event in events:
            if event["name"] == "record_data":
                found[event["partition"]].append(event["value"].encode())
        return found


@pytest.fixture(scope="session")
def foreign(request: pytest.FixtureRequest) -> Foreign:
    """Readers of others; Kafka's jars are looked for only when Java is to read."""
    return Foreign(request)
