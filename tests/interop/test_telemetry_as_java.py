"""What a producer pushes against what Java's pushes (KIP-714), and what Apache Kafka's brokers say of it."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("opentelemetry.proto")

from tests.client.telemetry_proxy import Push, TelemetryProxy
from tests.wire import Wire

import ottla
from ottla.cluster.cluster import Cluster
from ottla.protocol.messages.api_versions import ApiVersionsRequest
from ottla.protocol.messages.get_telemetry_subscriptions import GetTelemetrySubscriptionsRequest
from ottla.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)

pytestmark = pytest.mark.kafka

_CLIENT_METRICS = 16
_RECORDS = 2000
_RECORD_BYTES = 100
_START = "org.apache.kafka.producer."
# The same as in test_metrics_as_java: what says nothing of a producer's work.
NOT_THERE = {
    "org.apache.kafka.app.info.start.time.ms",
    "org.apache.kafka.kafka.count.count",
    "org.apache.kafka.producer.successful.authentication.no.reauth.total",
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(brokers=1) as cluster:
        cluster.create_topic("perf", partitions=1)
        yield cluster


@pytest.fixture(scope="module")
def javas(cluster: Cluster, java: Any) -> Push:
    """The last push of Java's producer."""
    proxy = TelemetryProxy(cluster.bootstrap_servers)
    where = ("--topic", "perf", "--bootstrap-server", proxy.bootstrap_servers)
    producer = subprocess.Popen(
        java.command("org.apache.kafka.tools.ConsoleProducer", *where), stdin=subprocess.PIPE, stdout=subprocess.DEVNULL
    )
    with producer:
        assert producer.stdin is not None
        producer.stdin.write((b"v" * _RECORD_BYTES + b"\n") * _RECORDS)
        producer.stdin.flush()
        # It has something to push once it has sent something; only then it may end.
        proxy.wait_for(lambda proxy: any(push.value("record.send.total") for push in proxy.pushes))
        producer.stdin.close()
    assert producer.returncode == 0
    proxy.close()
    return proxy.pushes[-1]


@pytest.fixture(scope="module")
def ours(cluster: Cluster) -> Push:
    """The last push of ottla's."""
    proxy = TelemetryProxy(cluster.bootstrap_servers)
    with ottla.Producer(proxy.bootstrap_servers) as producer:
        for _ in range(_RECORDS):
            producer.send("perf", b"v" * _RECORD_BYTES)
        producer.flush(120)
        proxy.wait_for(lambda proxy: len(proxy.pushes) > 0)
    proxy.close()
    return proxy.pushes[-1]


def kinds(push: Push) -> dict[tuple[str, tuple[str, ...]], tuple[str, str, int]]:
    """(name, names of labels) -> gauge or sum, the type of its number, temporality."""
    found = {}
    for metric in push.metrics:
        data = getattr(metric, metric.WhichOneof("data"))
        (point,) = data.data_points
        labels = tuple(sorted(label.key for label in point.attributes))
        temporality = data.aggregation_temporality if metric.HasField("sum") else 0
        found[metric.name, labels] = metric.WhichOneof("data"), point.WhichOneof("value"), temporality
    return found


def test_names_labels_and_kinds_are_javas(javas: Push, ours: Push) -> None:
    assert javas.request.terminating
    assert ours.request.terminating
    theirs, mine = kinds(javas), kinds(ours)
    assert {name for name, _ in theirs.keys() - mine.keys()} == NOT_THERE
    assert mine.keys() <= theirs.keys()
    assert {key: kind for key, kind in theirs.items() if key in mine} == mine


def test_values_that_can_be_compared_are_javas(javas: Push, ours: Push) -> None:
    for name in ("record.error.total", "buffer.total.bytes"):
        assert ours.value(name) == javas.value(name), name
    assert ours.value("record.send.total") == _RECORDS
    assert 0 < javas.value("record.send.total") <= _RECORDS  # Java's last push goes before its last records
    of_topic = f"{_START}topic.record.send.total", (("topic", "perf"),)
    assert of_topic in javas.points()
    assert ours.points()[of_topic].as_double == _RECORDS
    nodes = [labels for name, labels in ours.points() if name == f"{_START}node.request.total"]
    assert nodes == [(("node_id", "node-1"),)]
    assert (f"{_START}node.request.total", nodes[0]) in javas.points()


def test_apache_kafka_lists_it_only_with_a_plugin(apache_kafka: str) -> None:
    """However it is configured: so against plain brokers there is nothing to push to."""
    wire = Wire(apache_kafka)
    changes = [
        AlterableConfig(name=name, config_operation=0, value=value)
        for name, value in (("metrics", "*"), ("interval.ms", "100"))
    ]
    resource = AlterConfigsResource(resource_type=_CLIENT_METRICS, resource_name="all", configs=changes)
    (told,) = wire.ask(IncrementalAlterConfigsRequest(resources=[resource]), 1).responses
    assert told.error_code == 0
    listed = {api.api_key for api in wire.ask(ApiVersionsRequest(), 2).api_keys}
    assert GetTelemetrySubscriptionsRequest.API_KEY not in listed
    wire.close()
