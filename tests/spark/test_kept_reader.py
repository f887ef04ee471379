"""Tasks of one plan that run one after the other in a worker share a reader, and nothing else."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType
from tests.client.in_time import wait_until

import ottla
from ottla.errors import UserMistake
from ottla.spark import kept_reader
from ottla.spark.offset_ranges import OffsetRange
from ottla.spark.offset_resolution import plan_batch
from ottla.spark.options import SourceOptions, read_options
from ottla.spark.range_reader import read_range
from ottla.spark.source import OttlaDataSource

NEVER = 10**6


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No reader is left from before, and none is closed because the machine is slow."""
    monkeypatch.setattr(kept_reader, "_KEPT_S", 600.0)
    monkeypatch.setattr(kept_reader, "_kept", kept_reader._Kept())
    yield
    if kept_reader._kept.timer is not None:
        kept_reader._kept.timer.cancel()
    if kept_reader._kept.reader is not None:
        kept_reader._kept.reader.close()


def planned(cluster: ottla.Cluster, topic: str, **more: str) -> tuple[SourceOptions, list[OffsetRange], Any]:
    given = {"kafka.bootstrap.servers": cluster.bootstrap_servers, "subscribe": topic, **more}
    schema = OttlaDataSource(given).schema()
    assert isinstance(schema, StructType)
    options = read_options(given)
    return options, plan_batch(options), to_arrow_schema(schema, timezone="UTC")


def fill(cluster: ottla.Cluster, topic: str, partitions: int) -> None:
    with ottla.Producer(cluster.bootstrap_servers) as producer:
        for number in range(3 * partitions):
            producer.send(topic, str(number).encode(), partition=number % partitions)


def rows(options: SourceOptions, ranges: list[OffsetRange], schema: Any) -> list[tuple[int, int, bytes]]:
    found = []
    for span in ranges:
        for batch in read_range(options, span, schema):
            columns = (batch.column(name).to_pylist() for name in ("partition", "offset", "value"))
            found += list(zip(*columns, strict=True))
    return found


def test_ranges_of_one_plan_cost_one_question_for_metadata(kafka_cluster: ottla.Cluster, kafka_name: str) -> None:
    kafka_cluster.create_topic(kafka_name, partitions=40)
    fill(kafka_cluster, kafka_name, 40)
    options, ranges, schema = planned(kafka_cluster, kafka_name)
    with kafka_cluster.faults.hold(api="Metadata", nth=NEVER) as metadata:
        found = rows(options, ranges, schema)
        assert metadata.matched == 1
    assert found == [(p, n, str(p + 40 * n).encode()) for p in range(40) for n in range(3)]


def test_the_same_range_can_be_read_twice_by_one_reader(kafka_cluster: ottla.Cluster, kafka_topic: str) -> None:
    fill(kafka_cluster, kafka_topic, 1)
    options, ranges, schema = planned(kafka_cluster, kafka_topic)
    once = rows(options, ranges, schema)
    assert rows(options, ranges * 2, schema) == once * 2


def test_another_plan_has_a_reader_of_its_own(kafka_cluster: ottla.Cluster, kafka_topic: str) -> None:
    """Its topic may be another one by now, which old metadata would not tell."""
    fill(kafka_cluster, kafka_topic, 1)
    older = planned(kafka_cluster, kafka_topic)
    assert len(rows(*older)) == 3
    kafka_cluster.delete_topic(kafka_topic)
    kafka_cluster.create_topic(kafka_topic, partitions=3)
    fill(kafka_cluster, kafka_topic, 1)
    assert len(rows(*planned(kafka_cluster, kafka_topic))) == 3
    with pytest.raises(UserMistake, match="was deleted and made anew"):
        rows(*older)


def test_a_reader_that_is_left_amid_a_range_is_closed(kafka_cluster: ottla.Cluster, kafka_topic: str) -> None:
    fill(kafka_cluster, kafka_topic, 1)
    options, ranges, schema = planned(kafka_cluster, kafka_topic)
    left = read_range(options, ranges[0], schema)
    next(left)
    left.close()  # type: ignore[attr-defined]
    kept = kept_reader._kept.reader
    assert kept is None or kept.is_done
    assert len(rows(options, ranges, schema)) == 3


def test_a_reader_that_nobody_takes_is_closed(
    kafka_cluster: ottla.Cluster, kafka_topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept_reader, "_KEPT_S", 0.5)
    fill(kafka_cluster, kafka_topic, 1)
    before = set(threading.enumerate())
    rows(*planned(kafka_cluster, kafka_topic))
    wait_until(lambda: kept_reader._kept.reader is None)
    wait_until(lambda: set(threading.enumerate()) <= before)


def test_a_reader_that_is_not_done_takes_no_other_partitions(kafka_cluster: ottla.Cluster, kafka_topic: str) -> None:
    with (
        ottla.Reader(kafka_cluster.bootstrap_servers, kafka_topic, end=None) as reader,
        pytest.raises(ottla.ConfigError, match="has partitions left to read; assign others once it is done"),
    ):
        reader.assign({(kafka_topic, 0): (0, 1)})
