"""Producer metrics as OpenTelemetry's instruments, read by its own SDK."""

from __future__ import annotations

import asyncio
import gc
import sys
from typing import Any

import pytest

import ottla
from ottla.cluster.cluster import Cluster

sdk = pytest.importorskip("opentelemetry.sdk.metrics")
export = pytest.importorskip("opentelemetry.sdk.metrics.export")


@pytest.fixture(scope="module")
def cluster() -> Any:
    with Cluster(brokers=1) as cluster:
        for topic in ("flights", "weather"):
            cluster.create_topic(topic)
        yield cluster


class Collector:
    """A meter provider and what it collects: name -> [(attributes, value)]."""

    def __init__(self) -> None:
        self._reader = export.InMemoryMetricReader()
        self.provider = sdk.MeterProvider([self._reader])

    def metrics(self) -> dict[str, Any]:
        data = self._reader.get_metrics_data()
        scopes = (
            [] if data is None else [scope for resource in data.resource_metrics for scope in resource.scope_metrics]
        )
        return {metric.name: metric for scope in scopes for metric in scope.metrics}

    def points(self) -> dict[str, list[tuple[dict[str, str], float]]]:
        return {
            name: [(dict(point.attributes), point.value) for point in metric.data.data_points]
            for name, metric in self.metrics().items()
        }


@pytest.fixture
def collector() -> Any:
    collector = Collector()
    yield collector
    collector.provider.shutdown()


def test_figures_come_with_attributes_at_their_finest(cluster: Cluster, collector: Collector) -> None:
    with ottla.Producer(cluster.bootstrap_servers, client_id="mine") as producer:
        ottla.observe_metrics(producer, collector.provider)
        for topic in ("flights", "flights", "weather"):
            producer.send(topic, b"v").result(30)
        points = collector.points()
    mine = {"client-id": "mine"}
    sent = sorted(points["kafka.producer.record_send_total"], key=lambda point: point[0]["topic"])
    assert sent == [({**mine, "topic": "flights"}, 2), ({**mine, "topic": "weather"}, 1)]
    ((attributes, value),) = points["kafka.producer.request_latency_avg"]
    assert attributes == {**mine, "node-id": "node-1"}
    assert value > 0
    assert points["kafka.producer.buffer_total_bytes"] == [(mine, 33_554_432)]


def test_totals_are_counters_and_the_rest_gauges(cluster: Cluster, collector: Collector) -> None:
    with ottla.Producer(cluster.bootstrap_servers) as producer:
        ottla.observe_metrics(producer, collector.provider)
        producer.send("flights", b"v").result(30)
        metrics = collector.metrics()
    assert isinstance(metrics["kafka.producer.request_total"].data, export.Sum)
    assert metrics["kafka.producer.request_total"].data.is_monotonic
    assert isinstance(metrics["kafka.producer.batch_size_max"].data, export.Gauge)
    assert metrics["kafka.producer.batch_size_max"].description


def test_each_collection_reads_anew_and_what_is_nothing_is_left_out(cluster: Cluster, collector: Collector) -> None:
    with ottla.Producer(cluster.bootstrap_servers) as producer:
        ottla.observe_metrics(producer, collector.provider)
        assert "kafka.producer.batch_size_avg" not in collector.points()
        for count in (1, 2, 3):
            producer.send("flights", b"v").result(30)
            ((_, sent),) = collector.points()["kafka.producer.record_send_total"]
            assert sent == count


def test_two_producers_are_told_apart_and_an_ended_one_is_not_told_of(cluster: Cluster, collector: Collector) -> None:
    first = ottla.Producer(cluster.bootstrap_servers, client_id="first")
    with ottla.Producer(cluster.bootstrap_servers, client_id="second") as second:
        for producer in (first, second):
            ottla.observe_metrics(producer, collector.provider)
        names = {attributes["client-id"] for attributes, _ in collector.points()["kafka.producer.waiting_threads"]}
        assert names == {"first", "second"}
        first.close()
        ((attributes, _),) = collector.points()["kafka.producer.waiting_threads"]
        assert attributes == {"client-id": "second"}


def test_being_observed_does_not_keep_a_producer_alive(cluster: Cluster, collector: Collector) -> None:
    producer = ottla.Producer(cluster.bootstrap_servers)
    ottla.observe_metrics(producer, collector.provider)
    assert collector.points()
    del producer
    gc.collect()
    assert not collector.points()


def test_an_async_producer_is_observed_alike(cluster: Cluster, collector: Collector) -> None:
    async def work() -> None:
        async with ottla.AsyncProducer(cluster.bootstrap_servers, client_id="mine") as producer:
            ottla.observe_metrics(producer, collector.provider)
            await (await producer.send("weather", b"v"))
            assert collector.points()["kafka.producer.record_send_total"] == [
                ({"client-id": "mine", "topic": "weather"}, 1)
            ]

    asyncio.run(work())


def test_without_opentelemetry_the_command_is_named(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.metrics", None)
    with ottla.Producer(cluster.bootstrap_servers) as producer:
        with pytest.raises(ottla.MissingExtra, match=r"pip install 'ottla\[otel\]'"):
            ottla.observe_metrics(producer)
        assert producer.send("flights", b"v").result(30)
