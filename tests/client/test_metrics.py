"""`Producer.metrics()` and metric reporters over real sockets."""

from __future__ import annotations

import asyncio
import logging
import threading
from math import isnan
from typing import Any

import pytest
from tests.client.in_time import ahead

import ottla
from ottla.cluster.cluster import Cluster
from ottla.errors import BufferFull, ConfigError


@pytest.fixture(scope="module")
def cluster() -> Any:
    with Cluster(brokers=2) as cluster:
        yield cluster


@pytest.fixture
def topic(cluster: Cluster, request: pytest.FixtureRequest) -> str:
    name = "".join(c if c.isalnum() else "-" for c in request.node.name)
    cluster.create_topic(name, partitions=4)
    return name


def test_bytes_requests_and_latencies_of_each_node(cluster: Cluster, topic: str) -> None:
    with ottla.Producer(cluster.bootstrap_servers) as producer:
        for number in range(2000):
            producer.send(topic, b"v" * 100, partition=number % 4)
        producer.flush(30)
        figures = producer.metrics()
    assert figures["record-send-total"] == 2000
    for name in ("outgoing-byte-total", "incoming-byte-total", "request-total", "response-total"):
        assert figures[name] == sum(node[name] for node in figures.nodes.values()) > 0
    assert figures["outgoing-byte-total"] > figures.topics[topic]["byte-total"] > 2000 * 100
    assert figures["request-size-max"] > figures["request-size-avg"] > 0
    assert figures["request-size-avg"] * figures["request-total"] == pytest.approx(figures["outgoing-byte-total"])
    for broker_id in (1, 2):
        node = figures.nodes[broker_id]
        assert node["request-latency-max"] >= node["request-latency-avg"] > 0
    assert figures["connection-count"] == figures["connection-creation-total"] == len(figures.nodes)
    assert figures["metadata-age"] >= 0


def test_the_io_thread_accounts_for_its_time(cluster: Cluster, topic: str) -> None:
    with ottla.Producer(cluster.bootstrap_servers) as producer:
        producer.send(topic, b"v").result(30)
        figures = producer.metrics()
    assert figures["select-total"] > 0
    assert figures["io-time-ns-total"] > 0
    assert figures["io-wait-time-ns-total"] > 0
    assert 0 < figures["io-ratio"] + figures["io-wait-ratio"] < 1.01
    assert figures["metadata-wait-time-ns-total"] > 0
    assert figures["flush-time-ns-total"] == 0


def test_compression_shows_in_the_ratio(cluster: Cluster, topic: str) -> None:
    with ottla.Producer(cluster.bootstrap_servers, compression_type="lz4") as producer:
        producer.send(topic, b"v" * 10_000).result(30)
        figures = producer.metrics()
    assert figures["compression-rate-avg"] < 0.1
    assert figures["batch-size-max"] < 1000 < 10_000 < figures["record-size-max"]
    assert figures.topics[topic]["compression-rate"] == figures["compression-rate-avg"]


def test_columns_are_counted_like_records(cluster: Cluster, topic: str) -> None:
    pa = pytest.importorskip("pyarrow")
    with ottla.Producer(cluster.bootstrap_servers) as producer:
        producer.send_table(topic, pa.table({"v": [b"a" * 10, b"b" * 300]}), value="v").result(30)
        figures = producer.metrics()
    assert figures["record-send-total"] == 2
    assert figures["record-size-max"] == 309


def send_many(producer: ottla.Producer, topic: str, count: int) -> None:
    for _ in range(count):
        producer.send(topic, b"v" * 1000, partition=0)


async def send_many_async(producer: ottla.AsyncProducer, topic: str, count: int) -> None:
    for _ in range(count):
        await producer.send(topic, b"v" * 1000, partition=0)


def test_a_full_buffer_shows_who_waits_and_who_was_refused(cluster: Cluster, topic: str) -> None:
    with ottla.Producer(cluster.bootstrap_servers, buffer_memory=40_000, max_block_ms=500) as producer:
        producer.send(topic, b"first", partition=0).result(30)
        leader = cluster.leader(topic, 0)
        cluster.pause(leader)
        try:
            with pytest.raises(BufferFull):
                send_many(producer, topic, 100)
            figures = producer.metrics()
        finally:
            cluster.resume(leader)
        assert figures["buffer-exhausted-total"] == 1
        assert figures["buffer-exhausted-rate"] > 0
        assert figures["bufferpool-wait-time-ns-total"] >= 500_000_000
        assert 0 < figures["bufferpool-wait-ratio"] < 1
        assert figures["buffer-available-bytes"] < 40_000 == figures["buffer-total-bytes"]
        assert figures["waiting-threads"] == 0
        producer.flush(30)
        assert producer.metrics()["buffer-available-bytes"] == 40_000


def test_coroutines_that_wait_for_room_are_counted_too(cluster: Cluster, topic: str) -> None:
    async def work() -> None:
        clock = ottla.Clock()
        settings: Any = {"buffer_memory": 40_000, "clock": clock}
        async with ottla.AsyncProducer(cluster.bootstrap_servers, **settings) as producer:
            await (await producer.send(topic, b"first", partition=0))
            leader = cluster.leader(topic, 0)
            cluster.pause(leader)
            try:
                with ahead(clock, 60), pytest.raises(BufferFull):
                    await send_many_async(producer, topic, 100)
            finally:
                cluster.resume(leader)
            await producer.flush(30)
            figures = producer.metrics()
            assert figures["buffer-exhausted-total"] == 1
            for name in ("bufferpool-wait", "metadata-wait", "flush"):
                assert figures[f"{name}-time-ns-total"] > 0

    asyncio.run(work())


def test_metrics_may_be_asked_for_by_others_while_everybody_sends(cluster: Cluster, topic: str) -> None:
    """With the shortest window there is, samples begin all the time."""
    seen: list[float] = []
    over = threading.Event()
    with ottla.Producer(cluster.bootstrap_servers, metrics_sample_window_ms=1, batch_size=500) as producer:

        def watch() -> None:
            while not over.is_set():
                figures = producer.metrics()
                seen.append(figures["record-send-total"])
                assert all(value >= 0 or isnan(value) for value in figures.values()), figures

        watcher = threading.Thread(target=watch)
        watcher.start()
        try:
            for number in range(5_000):
                producer.send(topic, b"v" * 100, partition=number % 4)
            producer.flush(30)
        finally:
            over.set()
            watcher.join()
    assert seen
    assert seen == sorted(seen)


# ---- reporters --------------------------------------------------------------------------------------------------


def test_reporters_hear_every_window_and_once_at_the_end(cluster: Cluster, topic: str) -> None:
    heard: list[float] = []
    twice = threading.Event()

    def report(metrics: Any) -> None:
        heard.append(metrics["record-send-total"])
        if len(heard) == 2:
            twice.set()

    with ottla.Producer(cluster.bootstrap_servers, metrics_sample_window_ms=20, metric_reporters=report) as producer:
        assert twice.wait(30)
        producer.send(topic, b"v").result(30)
    assert heard[0] == 0
    assert heard[-1] == 1


def test_a_producer_that_lives_shorter_than_a_window_is_reported_once(cluster: Cluster, topic: str) -> None:
    heard: list[Any] = []
    with ottla.Producer(cluster.bootstrap_servers, metric_reporters=[heard.append]) as producer:
        producer.send(topic, b"v")
    (metrics,) = heard
    assert metrics["ottla-record-acked-total"] == 1


@pytest.mark.parametrize("kind", [ValueError, SystemExit, KeyboardInterrupt])
def test_a_reporter_that_raises_is_logged_and_harms_nobody(
    cluster: Cluster, topic: str, caplog: pytest.LogCaptureFixture, kind: type[BaseException]
) -> None:
    heard: list[Any] = []

    def broken(metrics: Any) -> None:
        raise kind("no room for figures")

    caplog.set_level(logging.ERROR, "ottla.producer")
    with ottla.Producer(cluster.bootstrap_servers, metric_reporters=[broken, heard.append]) as producer:
        assert producer.send(topic, b"v").result(30).offset >= 0
    assert len(heard) == 1
    assert "no room for figures" in caplog.text


def test_a_reporter_may_close_the_producer(cluster: Cluster, topic: str) -> None:
    closed = threading.Event()
    made: list[ottla.Producer] = []

    def close_it(metrics: Any) -> None:
        if made:
            made[0].close()
            closed.set()

    made.append(
        ottla.Producer(cluster.bootstrap_servers, metrics_sample_window_ms=20, metric_reporters=close_it),
    )
    assert closed.wait(30)


def test_a_reporter_that_hangs_does_not_keep_the_producer_from_closing(
    cluster: Cluster, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ottla.client.producer_driver.LAST_REPORT_S", 0.05)
    let_go = threading.Event()
    heard: list[float] = []

    def hang(metrics: Any) -> None:
        let_go.wait(60)
        heard.append(metrics["ottla-record-acked-total"])

    with ottla.Producer(cluster.bootstrap_servers, client_id="hangs", metric_reporters=hang) as producer:
        producer.send(topic, b"v")
    assert heard == []
    (thread,) = [thread for thread in threading.enumerate() if thread.name == "ottla-metrics-hangs"]
    let_go.set()
    thread.join(30)
    assert heard == [1]


def test_an_async_producer_is_reported_too(cluster: Cluster, topic: str) -> None:
    heard: list[Any] = []

    async def work() -> None:
        async with ottla.AsyncProducer(cluster.bootstrap_servers, metric_reporters=heard.append) as producer:
            await producer.send(topic, b"v")

    asyncio.run(work())
    (metrics,) = heard
    assert metrics["ottla-record-acked-total"] == 1


@pytest.mark.parametrize("reporters", ["org.apache.kafka.common.metrics.JmxReporter", [print, 3], 7])
def test_a_reporter_that_cannot_be_called_is_refused(reporters: Any) -> None:
    with pytest.raises(ConfigError, match="not a function"):
        ottla.Producer("127.0.0.1:1", metric_reporters=reporters)


def test_figures_have_kafkas_names_by_client_node_and_topic(cluster: Cluster, topic: str) -> None:
    with ottla.Producer(cluster.bootstrap_servers) as producer:
        producer.send(topic, b"v").result(30)
        figures = producer.metrics()
        node = next(node for number, node in figures.nodes.items() if number >= 0)
    assert {
        "batch-size-avg",
        "buffer-available-bytes",
        "bufferpool-wait-ratio",
        "compression-rate-avg",
        "record-error-rate",
        "record-queue-time-avg",
        "record-retry-rate",
        "record-size-avg",
        "records-per-request-avg",
        "request-latency-avg",
        "request-rate",
        "requests-in-flight",
    } <= set(figures)
    assert {"request-latency-avg", "request-rate"} <= set(node)
    assert {"byte-rate", "compression-rate", "record-error-rate", "record-retry-rate"} <= set(figures.topics[topic])


def test_a_reporter_that_is_async_is_refused() -> None:
    async def awaited_by_nobody(metrics: Any) -> None: ...

    with pytest.raises(ConfigError, match=r"metric\.reporters is an async function, which nobody would await"):
        ottla.Producer("127.0.0.1:1", metric_reporters=awaited_by_nobody)


def test_transaction_calls_tell_how_long_they_took(cluster: Cluster, topic: str) -> None:
    with ottla.Producer(cluster.bootstrap_servers, transactional_id=topic) as producer:
        with producer.transaction():
            producer.send(topic, b"v")
            producer.send_offsets_to_transaction({(topic, 0): 1}, "some-group")
        producer.begin_transaction()
        producer.abort_transaction()
        figures = producer.metrics()
    for verb in ("init", "begin", "send-offsets", "commit", "abort"):
        assert figures[f"txn-{verb}-time-ns-total"] > 0, verb
    assert figures["txn-prepare-time-ns-total"] == 0


def test_who_came_in_and_who_did_not_is_counted() -> None:
    listener = ottla.Listener(protocol="SASL_PLAINTEXT", users={"ada": "engine"})
    given: Any = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "PLAIN", "sasl_username": "ada"}
    with Cluster(brokers=1, listeners={"SASL_PLAINTEXT": listener}) as cluster:
        cluster.create_topic("flights")
        with ottla.Producer(cluster.bootstrap_servers, sasl_password="engine", **given) as producer:
            producer.send("flights", b"v").result(30)
            figures = producer.metrics()
        with ottla.Producer(cluster.bootstrap_servers, sasl_password="wrong", **given) as refused:
            with pytest.raises(ottla.AuthenticationError):
                refused.send("flights", b"v")
            told = refused.metrics()
    assert figures["successful-authentication-total"] == figures["connection-creation-total"] > 0
    assert figures["failed-authentication-total"] == told["successful-authentication-total"] == 0
    assert told["failed-authentication-total"] > 0
    assert isnan(figures["reauthentication-latency-max"])


def test_a_token_provider_that_raises_is_counted_as_one_who_did_not_come_in() -> None:
    """Java's clients make a SaslAuthenticationException of what their callback handler raises, and count that."""

    def give() -> str:
        raise OSError("the issuer of tokens is away")

    listener = ottla.Listener(protocol="SASL_PLAINTEXT", sasl_mechanisms=("OAUTHBEARER",))
    given: Any = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "OAUTHBEARER"}
    with (
        Cluster(brokers=1, listeners={"SASL_PLAINTEXT": listener}) as cluster,
        ottla.Producer(cluster.bootstrap_servers, sasl_oauthbearer_token_provider=give, **given) as producer,
    ):
        with pytest.raises(ottla.AuthenticationError, match=r"token\.provider raised OSError"):
            producer.send("flights", b"v")
        figures = producer.metrics()
    assert figures["successful-authentication-total"] == 0
    assert figures["failed-authentication-total"] > 0
