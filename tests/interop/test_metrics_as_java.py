"""The producer's metrics against those of Java's producer: names, groups, tags, and values that can be compared."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import ottla
from ottla.cluster.cluster import Cluster

pytestmark = pytest.mark.kafka

_LEVELS = Path(__file__).with_name("RecordingLevelsOfKafka.java")
_RECORDS = 20_000
_RECORD_BYTES = 100
_LINE = re.compile(r"^([\w-]+):([\w-]+):\{([^}]*)\}\s*: (\S+)$", re.MULTILINE)

Figures = dict[tuple[str, str, tuple[str, ...]], list[float]]

# (group, name) of Java's that ottla does not have, with the reason.
NOT_THERE = {
    ("app-info", "commit-id"): "text, not a figure: ottla.__version__ says which version it is",
    ("app-info", "version"): "text, not a figure: ottla.__version__ says which version it is",
    ("app-info", "start-time-ms"): "says nothing of the producer's work",
    ("kafka-metrics-count", "count"): "how many metrics there are: len(metrics.all())",
    ("producer-metrics", "successful-authentication-no-reauth-total"): "means something to brokers only",
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(brokers=3) as cluster:
        cluster.create_topic("perf", partitions=3)
        yield cluster


@pytest.fixture(scope="module")
def javas(cluster: Cluster, java: Any) -> Figures:
    """What Java's producer prints of itself after a run."""
    said = java.run(
        "org.apache.kafka.tools.ProducerPerformance",
        *("--topic", "perf", "--num-records", str(_RECORDS), "--record-size", str(_RECORD_BYTES)),
        *("--throughput", "-1", "--print-metrics"),
        *("--command-property", f"bootstrap.servers={cluster.bootstrap_servers}", "acks=all"),
    )
    found: Figures = {}
    for group, name, tags, value in _LINE.findall(said.decode()):
        if group != "app-info":
            key = group, name, tuple(sorted(tag.split("=")[0].strip() for tag in tags.split(",")))
            found.setdefault(key, []).append(float(value))
        else:
            found[group, name, ("client-id",)] = []
    return found


@pytest.fixture(scope="module")
def ours(cluster: Cluster) -> Figures:
    """The same of ottla's, after the same run."""
    with ottla.Producer(cluster.bootstrap_servers) as producer:
        for _ in range(_RECORDS):
            producer.send("perf", b"v" * _RECORD_BYTES)
        producer.flush(60)
        metrics = producer.metrics()
    found: Figures = {}
    for metric in metrics.all():
        found.setdefault((metric.group, metric.name, tuple(sorted(metric.tags))), []).append(metric.value)
    return found


def test_every_metric_of_javas_is_there_or_has_a_reason_not_to_be(javas: Figures, ours: Figures) -> None:
    assert len(javas) > 90
    missing = {(group, name) for group, name, _ in javas.keys() - ours.keys()}
    assert missing == set(NOT_THERE)


def test_every_metric_that_kafka_does_not_have_says_so(javas: Figures, ours: Figures) -> None:
    more = {name for _, name, _ in ours.keys() - javas.keys()}
    assert [name for name in more if not name.startswith("ottla-")] == []


@pytest.mark.parametrize("name", ["record-send-total", "record-error-total", "record-retry-total", "batch-split-total"])
def test_totals_of_the_same_records_are_equal(javas: Figures, ours: Figures, name: str) -> None:
    key = "producer-metrics", name, ("client-id",)
    assert ours[key] == javas[key]


@pytest.mark.parametrize(
    "name",
    [
        "batch-size-avg",
        "batch-size-max",
        "buffer-total-bytes",
        "compression-rate-avg",
        "outgoing-byte-total",
        "record-send-rate",
        "records-per-request-avg",
        "request-size-max",
    ],
)
def test_figures_of_the_same_records_are_alike(javas: Figures, ours: Figures, name: str) -> None:
    """Within a factor of three: batches are cut a little differently, requests hold more or fewer of them."""
    key = "producer-metrics", name, ("client-id",)
    (theirs,), (mine,) = javas[key], ours[key]
    assert theirs / 3 < mine < theirs * 3


@pytest.mark.parametrize("name", ["record-size-avg", "record-size-max"])
def test_the_size_of_a_record_is_told_without_the_header_of_its_batch(javas: Figures, ours: Figures, name: str) -> None:
    key = "producer-metrics", name, ("client-id",)
    (theirs,), (mine,) = javas[key], ours[key]
    assert _RECORD_BYTES < mine < theirs == 61 + 21 + 4 + _RECORD_BYTES


def test_bytes_of_a_topic_are_alike(javas: Figures, ours: Figures) -> None:
    key = "producer-topic-metrics", "byte-total", ("client-id", "topic")
    assert math.isclose(ours[key][0], javas[key][0], rel_tol=0.05)


def test_every_node_that_was_asked_is_told_of(ours: Figures, javas: Figures) -> None:
    key = "producer-node-metrics", "request-total", ("client-id", "node-id")
    assert len(ours[key]) >= 3
    assert len(javas[key]) >= 3


# ---- metrics.recording.level -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def recorded(cluster: Cluster, java: Any) -> list[list[str]]:
    """What Java's producer records at each level, line by line."""
    return [line.split("|") for line in java.run(str(_LEVELS), cluster.bootstrap_servers, "perf").decode().splitlines()]


def test_every_sensor_of_javas_producer_records_at_every_level(recorded: list[list[str]]) -> None:
    """That is why all of ours do: there is none that DEBUG or TRACE would add."""
    sensors = [line[1:] for line in recorded if line[0] == "sensor"]
    assert {level for level, *_ in sensors} == {"INFO", "DEBUG", "TRACE"}
    assert len(sensors) > 3 * 30
    assert {(own, records) for _, _, own, records in sensors} == {("INFO", "true")}


def test_every_level_tells_the_same_figures_here_and_in_java(cluster: Cluster, recorded: list[list[str]]) -> None:
    told: dict[str, set[tuple[str, str]]] = {}
    for level in ("INFO", "DEBUG", "TRACE"):
        names = {(line[2], line[3]) for line in recorded if line[:2] == ["metric", level]}
        assert ("producer-metrics", "record-send-total") in names
        told[f"Java's {level}"] = names
        settings: Any = {"transactional_id": "levels", "metrics_recording_level": level}
        with ottla.Producer(cluster.bootstrap_servers, **settings) as producer:
            with producer.transaction():
                producer.send("perf", b"v" * _RECORD_BYTES)
            metrics = producer.metrics()
        told[level] = {(metric.group, metric.name) for metric in metrics.all()}
        # Counted, averaged, a peak, a gauge, a time, a rate of a topic: each is recorded.
        for name in ("record-send-total", "batch-size-avg", "request-size-max", "connection-count"):
            assert metrics[name] > 0
        assert metrics["txn-commit-time-ns-total"] > 0
        assert metrics.topics["perf"]["byte-rate"] > 0
    assert told["INFO"] == told["DEBUG"] == told["TRACE"]
    assert told["Java's INFO"] == told["Java's DEBUG"] == told["Java's TRACE"]
    assert told["Java's INFO"] - told["INFO"] == set(NOT_THERE)
