"""Metrics that a broker asks for (KIP-714), read with OpenTelemetry's own protobuf classes."""

from __future__ import annotations

import asyncio
import itertools
import logging
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

pytest.importorskip("opentelemetry.proto")

from opentelemetry.proto.metrics.v1.metrics_pb2 import AggregationTemporality
from tests.client.in_time import logged
from tests.client.telemetry_proxy import CLIENT_INSTANCE_ID, CODECS, TelemetryProxy

import ottla
from ottla.protocol.error_codes import ErrorCode

# What KIP-714 wants of every producer.
REQUIRED = {
    ("org.apache.kafka.producer.connection.creation.rate", ()),
    ("org.apache.kafka.producer.connection.creation.total", ()),
    ("org.apache.kafka.producer.node.request.latency.avg", (("node_id", "node-1"),)),
    ("org.apache.kafka.producer.node.request.latency.max", (("node_id", "node-1"),)),
    ("org.apache.kafka.producer.produce.throttle.time.avg", ()),
    ("org.apache.kafka.producer.produce.throttle.time.max", ()),
    ("org.apache.kafka.producer.record.queue.time.avg", ()),
    ("org.apache.kafka.producer.record.queue.time.max", ()),
}

Through = Callable[..., TelemetryProxy]


@pytest.fixture(scope="module")
def cluster() -> Iterator[ottla.Cluster]:
    with ottla.Cluster(brokers=1) as cluster:
        yield cluster


@pytest.fixture
def topic(cluster: ottla.Cluster, kafka_name: str) -> str:
    cluster.create_topic(kafka_name, partitions=2)
    return kafka_name


@pytest.fixture
def through(cluster: ottla.Cluster) -> Iterator[Through]:
    made: list[TelemetryProxy] = []

    def make(**subscription: Any) -> TelemetryProxy:
        made.append(TelemetryProxy(cluster.bootstrap_servers, **subscription))
        return made[-1]

    yield make
    for proxy in made:
        proxy.close()


@pytest.fixture
def last_push(monkeypatch: pytest.MonkeyPatch) -> None:
    """Closing waits for the last push, however long that takes."""
    monkeypatch.setattr("ottla.producer.telemetry.LAST_PUSH_US", 30_000_000)


@pytest.mark.usefixtures("last_push")
def test_a_broker_that_asks_is_told_every_so_often_and_at_the_end(
    through: Through, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    proxy = through()
    with caplog.at_level(logging.INFO, logger="ottla.producer"), ottla.Producer(proxy.bootstrap_servers) as producer:
        for number in range(10):
            producer.send(topic, b"v" * 100, partition=number % 2)
        producer.flush(30)
        proxy.wait_for(lambda proxy: len(proxy.pushes) >= 2)
    *pushes, last = proxy.pushes
    assert [push.request.terminating for push in pushes] == [False] * len(pushes)
    assert last.request.terminating
    assert {(bytes(push.request.client_instance_id), push.request.subscription_id) for push in proxy.pushes} == {
        (CLIENT_INSTANCE_ID.bytes, 1)
    }
    assert proxy.asked_by == [bytes(16)]
    points = last.points()
    assert points.keys() >= REQUIRED
    assert points.keys() >= {("org.apache.kafka.producer.topic.record.send.total", (("topic", topic),))}
    assert all(name.startswith("org.apache.kafka.producer.") and ".ottla." not in name for name, _ in points)
    assert not any("client_id" in dict(labels) for _, labels in points)
    assert last.value("record.send.total") == 10
    assert last.value("buffer.total.bytes") == 33_554_432
    assert [str(CLIENT_INSTANCE_ID) in message for message in logged(caplog, "ottla.producer")] == [True]


def test_totals_are_sums_that_only_grow_and_all_else_are_gauges(through: Through, topic: str) -> None:
    proxy = through()
    with ottla.Producer(proxy.bootstrap_servers) as producer:
        producer.send(topic, b"v").result(30)
        proxy.wait_for(lambda proxy: len(proxy.pushes) >= 2)
    first, second = proxy.pushes[:2]
    for metric in first.metrics:
        assert metric.WhichOneof("data") == ("sum" if metric.name.endswith(".total") else "gauge"), metric.name
        if metric.HasField("sum"):
            assert metric.sum.is_monotonic
            assert metric.sum.aggregation_temporality == AggregationTemporality.AGGREGATION_TEMPORALITY_CUMULATIVE
    key = "org.apache.kafka.producer.request.total", ()
    assert first.points()[key].start_time_unix_nano == second.points()[key].start_time_unix_nano
    assert 0 < first.points()[key].start_time_unix_nano < first.points()[key].time_unix_nano
    assert first.points()[key].time_unix_nano < second.points()[key].time_unix_nano
    assert first.value("request.total") <= second.value("request.total")


def test_deltas_add_up_to_what_was_sent_and_what_was_refused_comes_again(through: Through, topic: str) -> None:
    proxy = through(delta_temporality=True)
    proxy.error_codes.append(ErrorCode.TELEMETRY_TOO_LARGE)
    with ottla.Producer(proxy.bootstrap_servers) as producer:
        for number in range(4):
            producer.send(topic, b"v").result(30)
            proxy.wait_for(lambda proxy, count=number + 1: len(proxy.pushes) >= count)
    _refused, *taken = proxy.pushes
    assert sum(push.value("record.send.total") for push in taken) == 4
    key = "org.apache.kafka.producer.record.send.total", ()
    for before, after in itertools.pairwise(taken):
        assert after.points()[key].start_time_unix_nano == before.points()[key].time_unix_nano
    assert {
        metric.sum.aggregation_temporality for push in taken for metric in push.metrics if metric.HasField("sum")
    } == {AggregationTemporality.AGGREGATION_TEMPORALITY_DELTA}


@pytest.mark.parametrize("codes", [[4, 3, 1, 2], [3], [1], [2], [], [9]])
def test_metrics_are_compressed_as_the_broker_likes_best(through: Through, topic: str, codes: list[int]) -> None:
    proxy = through(accepted_compression_types=codes)
    with ottla.Producer(proxy.bootstrap_servers) as producer:
        producer.send(topic, b"v").result(30)
        proxy.wait_for(lambda proxy: len(proxy.pushes) >= 1)
    best = next((code for code in codes if code in CODECS), 0)
    assert {push.codec for push in proxy.pushes} == {CODECS[best]}
    assert proxy.pushes[0].points().keys() >= REQUIRED


def test_a_codec_that_was_refused_is_not_used_again(through: Through, topic: str) -> None:
    proxy = through(accepted_compression_types=[4, 3])
    proxy.error_codes.append(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
    with ottla.Producer(proxy.bootstrap_servers) as producer:
        producer.send(topic, b"v").result(30)
        proxy.wait_for(lambda proxy: len(proxy.pushes) >= 3)
    assert [push.codec for push in proxy.pushes[:3]] == ["zstd", "lz4", "lz4"]


def test_only_what_was_asked_for_is_told(through: Through, topic: str) -> None:
    prefixes = ["org.apache.kafka.producer.node.request.latency", "org.apache.kafka.producer.record.queue"]
    proxy = through(requested_metrics=prefixes)
    with ottla.Producer(proxy.bootstrap_servers) as producer:
        producer.send(topic, b"v").result(30)
        proxy.wait_for(lambda proxy: len(proxy.pushes) >= 1)
    names = {metric.name.removeprefix("org.apache.kafka.producer.") for metric in proxy.pushes[-1].metrics}
    assert names == {f"{of}.{end}" for of in ("node.request.latency", "record.queue.time") for end in ("avg", "max")}


def test_what_does_not_fit_is_left_out_topics_first(through: Through, topic: str) -> None:
    proxy = through(telemetry_max_bytes=6000)
    with ottla.Producer(proxy.bootstrap_servers) as producer:
        producer.send(topic, b"v").result(30)
        proxy.wait_for(lambda proxy: len(proxy.pushes) >= 1)
    assert all(0 < push.size_bytes <= 6000 for push in proxy.pushes)
    assert ("org.apache.kafka.producer.record.send.total", ()) in proxy.pushes[-1].points()
    assert not any(labels for _, labels in proxy.pushes[-1].points())


def test_an_unknown_subscription_is_asked_for_anew(through: Through, topic: str) -> None:
    proxy = through()
    proxy.error_codes.append(ErrorCode.UNKNOWN_SUBSCRIPTION_ID)
    with ottla.Producer(proxy.bootstrap_servers) as producer:
        producer.send(topic, b"v").result(30)
        proxy.wait_for(lambda proxy: len(proxy.pushes) >= 2)
    assert [push.request.subscription_id for push in proxy.pushes[:2]] == [1, 2]
    assert proxy.asked_by[:2] == [bytes(16), CLIENT_INSTANCE_ID.bytes]


@pytest.mark.parametrize("code", [ErrorCode.INVALID_RECORD, ErrorCode.INVALID_REQUEST, ErrorCode.UNKNOWN_SERVER_ERROR])
def test_a_broker_that_cannot_use_them_is_left_alone(through: Through, topic: str, code: int) -> None:
    proxy = through()
    proxy.error_codes.append(code)
    with ottla.Producer(proxy.bootstrap_servers) as producer:
        producer.send(topic, b"v").result(30)
        proxy.wait_for(lambda proxy: len(proxy.pushes) >= 1)
        assert producer.send(topic, b"w").result(30)
    assert len(proxy.pushes) == len(proxy.asked_by) == 1


def test_a_transactional_producer_says_who_it_is(through: Through, topic: str, kafka_name: str) -> None:
    proxy = through()
    with ottla.Producer(proxy.bootstrap_servers, transactional_id=kafka_name) as producer:
        with producer.transaction():
            producer.send(topic, b"v")
        proxy.wait_for(lambda proxy: len(proxy.pushes) >= 1)
    (resource,) = [of.resource for of in proxy.pushes[-1].data.resource_metrics]
    assert [(of.key, of.value.string_value) for of in resource.attributes] == [("transactional_id", kafka_name)]


@pytest.mark.usefixtures("last_push")
def test_an_async_producer_tells_as_well(through: Through, topic: str) -> None:
    proxy = through()

    async def send() -> None:
        async with ottla.AsyncProducer(proxy.bootstrap_servers) as producer:
            await (await producer.send(topic, b"v"))
            await asyncio.to_thread(proxy.wait_for, lambda proxy: len(proxy.pushes) >= 1)

    asyncio.run(send())
    assert proxy.pushes[-1].request.terminating
    assert proxy.pushes[-1].value("record.send.total") == 1


def test_it_can_be_switched_off(through: Through, topic: str) -> None:
    proxy = through()
    with ottla.Producer.from_config(
        {"bootstrap.servers": proxy.bootstrap_servers, "enable.metrics.push": "false"}
    ) as producer:
        producer.send(topic, b"v").result(30)
    assert not proxy.asked_by
    assert not proxy.pushes


def test_the_client_instance_id_is_had_before_anything_is_sent_and_after_closing(through: Through) -> None:
    proxy = through()
    with ottla.Producer(proxy.bootstrap_servers) as producer:
        assert producer.client_instance_id(30) == CLIENT_INSTANCE_ID
    assert producer.client_instance_id(0) == CLIENT_INSTANCE_ID
    assert proxy.asked_by == [bytes(16)]


def test_a_broker_that_wants_no_metrics_gives_an_id_too(through: Through) -> None:
    proxy = through(requested_metrics=[])
    with ottla.Producer(proxy.bootstrap_servers) as producer:
        assert producer.client_instance_id(30) == CLIENT_INSTANCE_ID
    assert not proxy.pushes


def test_the_client_instance_id_is_awaited_in_an_event_loop(through: Through, cluster: ottla.Cluster) -> None:
    proxy = through()

    async def ask(bootstrap_servers: str, timeout: float) -> Any:
        async with ottla.AsyncProducer(bootstrap_servers) as producer:
            return await producer.client_instance_id(timeout)

    assert asyncio.run(ask(proxy.bootstrap_servers, 30)) == CLIENT_INSTANCE_ID
    assert asyncio.run(ask(cluster.bootstrap_servers, 0.01)) is None


def test_where_no_broker_gives_an_id_there_is_none(cluster: ottla.Cluster, topic: str) -> None:
    with ottla.Producer(cluster.bootstrap_servers) as producer:
        producer.send(topic, b"v").result(30)
        assert producer.client_instance_id(0.01) is None
        with pytest.raises(ValueError, match="timeout=-1 is no time to wait"):
            producer.client_instance_id(-1)
    with pytest.raises(ottla.errors.ClosedError):
        producer.client_instance_id(30)


def test_without_metrics_push_there_is_no_client_instance_id(cluster: ottla.Cluster) -> None:
    refused = pytest.raises(ottla.errors.ConfigError, match=r"enable\.metrics\.push is False")
    with ottla.Producer(cluster.bootstrap_servers, enable_metrics_push=False) as producer, refused:
        producer.client_instance_id(30)

    async def ask() -> None:
        async with ottla.AsyncProducer(cluster.bootstrap_servers, enable_metrics_push=False) as producer:
            await producer.client_instance_id(30)

    with refused:
        asyncio.run(ask())


def test_where_no_broker_asks_nothing_of_it_is_loaded() -> None:
    code = """
import sys, ottla
with ottla.Cluster(brokers=1) as cluster:
    cluster.create_topic("flights")
    with ottla.Producer(cluster.bootstrap_servers) as producer:
        producer.send("flights", b"value").result(30)
print([name for name in sys.modules if "telemetry" in name or "otlp" in name])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "[]\n"
