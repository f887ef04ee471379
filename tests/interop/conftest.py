"""A real Apache Kafka for the interop tests: one node, started from Maven Central's jars, stopped by its pid."""

from __future__ import annotations

import importlib.util
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

import ottla
from ottla.cluster.cluster import Cluster
from ottla.records.plain import Record, decode_batches

PARTITIONS = 3
_START_TIMEOUT_S = 90
_CLUSTER_ID = "b3R0bGEtaW50ZXJvcC10ZQ"


def _kafka_jars() -> ModuleType:
    path = Path(__file__).parents[2] / "tools" / "kafka_jars.py"
    spec = importlib.util.spec_from_file_location("kafka_jars", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Java:
    """Kafka's jars and a Java to run them: the command line of any of Kafka's main classes."""

    def __init__(self, java: str, jars: Path) -> None:
        self._java = java
        self._jars = jars

    def command(self, main_class: str, *arguments: str, heap_mb: int = 256) -> list[str]:
        """What to start. Serial collector and first-tier compiler: short runs on few cores."""
        options = [f"-Xmx{heap_mb}m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto"]
        quiet = ["-Dlog4j2.level=ERROR", "-Dlog4j.statusLogger.level=OFF"]
        return [self._java, *options, *quiet, "-cp", f"{self._jars}/*", main_class, *arguments]

    def run(self, main_class: str, *arguments: str, given: bytes | None = None) -> bytes:
        """What one of Kafka's tools prints, fed with `given` on its standard input."""
        done = subprocess.run(
            self.command(main_class, *arguments), input=given, capture_output=True, timeout=120, check=False
        )
        assert done.returncode == 0, (done.stdout + done.stderr).decode()
        return done.stdout


@pytest.fixture(scope="session")
def java() -> Java:
    jars = _kafka_jars()
    try:
        return Java(jars.find_java(), jars.fetch())
    except jars.JarsUnavailable as missing:
        pytest.skip(str(missing))


@pytest.fixture(scope="session")
def spark_connector() -> list[str]:
    """The jars of Spark's own Kafka connector."""
    jars = _kafka_jars()
    try:
        return [str(path) for path in sorted(jars.fetch_spark_connector().glob("*.jar"))]
    except jars.JarsUnavailable as missing:
        pytest.skip(str(missing))


def _free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [sock.getsockname()[1] for sock in sockets]
    for sock in sockets:
        sock.close()
    return ports


@pytest.fixture(scope="session")
def apache_kafka_logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where `apache_kafka` keeps its topics."""
    return tmp_path_factory.mktemp("apache-kafka") / "logs"


@pytest.fixture(scope="session")
def apache_kafka(java: Java, apache_kafka_logs: Path) -> Iterator[str]:
    """The bootstrap address of one Apache Kafka node, controller and broker in one."""
    folder = apache_kafka_logs.parent
    port, controller_port = _free_ports(2)
    settings = {
        "process.roles": "broker,controller",
        "node.id": 1,
        "controller.quorum.voters": f"1@127.0.0.1:{controller_port}",
        "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}",
        "controller.listener.names": "CONTROLLER",
        "log.dirs": apache_kafka_logs,
        "auto.create.topics.enable": "false",
        # Tests write records of 2023, which must not be gone by age before they are read.
        "log.retention.ms": -1,
        "offsets.topic.replication.factor": 1,
        "offsets.topic.num.partitions": 3,
        "group.initial.rebalance.delay.ms": 0,
        "transaction.state.log.replication.factor": 1,
        "transaction.state.log.min.isr": 1,
    }
    properties = folder / "server.properties"
    properties.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    java.run("kafka.tools.StorageTool", "format", "-t", _CLUSTER_ID, "-c", str(properties))
    log = folder / "server.out"
    with log.open("wb") as output:
        server = subprocess.Popen(
            java.command("kafka.Kafka", str(properties), heap_mb=512), stdout=output, stderr=subprocess.STDOUT
        )
    try:
        address = f"127.0.0.1:{port}"
        AdminClient({"bootstrap.servers": address, "log_level": 0}).list_topics(timeout=_START_TIMEOUT_S)
        yield address
    except Exception:
        print(log.read_text()[-4000:])  # noqa: T201  # pytest shows it with the failure
        raise
    finally:
        server.terminate()
        try:
            server.wait(30)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()


Row = tuple[bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...], int]


class Exchange:
    """Writes and reads the same rows with librdkafka and with ottla."""

    @staticmethod
    def rows(count: int) -> list[Row]:
        """(key, value, headers, timestamp): keys and values of many sizes, null and empty ones among them."""
        made: list[Row] = []
        for number in range(count):
            key = None if number % 7 == 0 else b"key-%d" % (number % 50)
            value = None if number % 11 == 3 else b"value %d " % number * (number % 60)
            headers = tuple((f"name-{each}", None if each == 2 else b"%d" % number) for each in range(number % 4))
            made.append((key, value, headers, 1_700_000_000_000 + number))
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
            messages = consumer.consume(count - len(found), 30)
            assert messages, f"only {len(found)} of {count} records arrived"
            for message in messages:
                assert message.error() is None, message.error()
                headers = tuple(message.headers() or ())
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
def kafka_name(request: pytest.FixtureRequest) -> str:
    """A name for topics and groups of the test's own; nothing is made."""
    return "".join(c if c.isascii() and c.isalnum() else "-" for c in request.node.name)


@pytest.fixture
def topic(cluster: Cluster, kafka_name: str) -> str:
    """A topic of the test's own in the embedded cluster."""
    cluster.create_topic(kafka_name, partitions=PARTITIONS)
    return kafka_name
