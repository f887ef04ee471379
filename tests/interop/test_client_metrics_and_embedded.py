"""Other clients push their metrics to embedded brokers that subscribe to them (KIP-714), as Java's tool can have it."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Producer
from tools.apache_kafka import Java

from ottla.cluster.cluster import Cluster

from ..cluster.test_client_metrics import wait_for
from .kafka_tools import KafkaTools

pytestmark = pytest.mark.kafka

_TOOL = "org.apache.kafka.tools.ClientMetricsCommand"
_PATIENCE_S = 60


@pytest.fixture(scope="module")
def cluster(kafka_tools: KafkaTools) -> Iterator[Cluster]:
    """Two brokers that subscribe to all metrics of clients."""
    with Cluster(brokers=2) as cluster:
        cluster.create_topic("orders", partitions=1)
        alter = ["--alter", "--name", "all", "--metrics", "*", "--interval", "100", "--match", "client_id=.*shop"]
        kafka_tools.run(_TOOL, "--bootstrap-server", cluster.bootstrap_servers, *alter)
        yield cluster


def client(cluster: Cluster, name: str) -> dict[str, Any] | None:
    return next((each for each in cluster.client_metrics() if each["client_id"] == name), None)


def test_javas_tool_lists_and_describes_a_subscription(cluster: Cluster, kafka_tools: KafkaTools) -> None:
    where = ["--bootstrap-server", cluster.bootstrap_servers]
    assert kafka_tools.run(_TOOL, *where, "--list").split() == ["all"]
    said = kafka_tools.run(_TOOL, *where, "--describe", "--name", "all")
    for told in ("metrics=*", "interval.ms=100", "match=client_id=.*shop"):
        assert told in said
    kafka_tools.run(_TOOL, *where, "--alter", "--name", "more", "--interval", "500")
    kafka_tools.run(_TOOL, *where, "--delete", "--name", "more")
    assert kafka_tools.run(_TOOL, *where, "--list").split() == ["all"]


def test_javas_producer_pushes_its_metrics(cluster: Cluster, java: Java) -> None:
    settings = ("--command-property", "client.id=java-shop")
    where = ("--topic", "orders", "--bootstrap-server", cluster.bootstrap_servers)
    command = java.command("org.apache.kafka.tools.ConsoleProducer", *where, *settings)
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) as producer:
        assert producer.stdin is not None
        producer.stdin.write(b"order\n" * 10)
        producer.stdin.flush()
        # Totals are what was added since the push before.
        told = wait_for(lambda: sent_of(client(cluster, "java-shop")))
        producer.stdin.close()
    assert producer.returncode == 0
    assert told["software_name"] == "apache-kafka-java"
    assert wait_for(lambda: (client(cluster, "java-shop") or told)["is_terminated"])


def sent_of(told: dict[str, Any] | None) -> dict[str, Any] | None:
    """What was told, where it tells of connections: every push of Java's does."""
    names = [] if told is None else [each["name"] for each in told["metrics"]]
    return told if "org.apache.kafka.producer.connection.count" in names else None


def test_librdkafka_pushes_its_metrics(cluster: Cluster) -> None:
    config = {"bootstrap.servers": cluster.bootstrap_servers, "client.id": "librdkafka-shop", "log_level": 0}
    producer = Producer({**config, "enable.metrics.push": True})
    for number in range(10):
        producer.produce("orders", b"%d" % number)
    assert producer.flush(_PATIENCE_S) == 0
    told = wait_for(lambda: client(cluster, "librdkafka-shop"))
    assert "librdkafka" in told["software_name"] or "confluent" in told["software_name"]
    assert any(each["name"].startswith("org.apache.kafka.producer.") for each in told["metrics"])


def test_who_does_not_match_is_asked_for_nothing(cluster: Cluster) -> None:
    config = {"bootstrap.servers": cluster.bootstrap_servers, "client.id": "other", "log_level": 0}
    producer = Producer({**config, "enable.metrics.push": True})
    producer.produce("orders", b"one")
    assert producer.flush(_PATIENCE_S) == 0
    assert client(cluster, "other") is None
