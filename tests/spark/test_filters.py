"""Filters of a query, handed down: less is read, and the rows are the same."""

from __future__ import annotations

import pickle
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql.datasource import (
    DataSourceReader,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    Not,
)
from pyspark.sql.types import StructType
from tests.spark.test_source import SENT_MS, read, send

from ottla.spark.filters import narrow_ranges, oldest_ms
from ottla.spark.offset_ranges import OffsetRange
from ottla.spark.offset_resolution import plan_batch
from ottla.spark.options import read_options
from ottla.spark.source import OttlaReader

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ottla.cluster.cluster import Cluster

ENABLED = "spark.sql.python.filterPushdown.enabled"
RANGES = [OffsetRange(topic, partition, 10, 20) for topic in ("a", "b") for partition in range(3)]
SENT = datetime.fromtimestamp(SENT_MS / 1000, UTC)


def narrowed(*filters: Filter) -> list[tuple[str, int, int, int]]:
    return [(span.topic, span.partition, span.start, span.end) for span in narrow_ranges(RANGES, filters)]


@pytest.mark.parametrize(
    ("filters", "left"),
    [
        ([EqualTo(("topic",), "a"), EqualTo(("partition",), 1)], [("a", 1, 10, 20)]),
        ([In(("topic",), ("b", "c")), GreaterThan(("partition",), 1)], [("b", 2, 10, 20)]),
        ([EqualTo(("topic",), "a"), LessThan(("partition",), 1), EqualTo(("offset",), 12)], [("a", 0, 12, 13)]),
        (
            [EqualTo(("topic",), "a"), LessThanOrEqual(("partition",), 0), GreaterThanOrEqual(("offset",), 19)],
            [("a", 0, 19, 20)],
        ),
        (
            [EqualTo(("topic",), "b"), EqualTo(("partition",), 0), In(("offset",), (3, 12, 15))],
            [("b", 0, 10, 16)],
        ),
        (
            [
                EqualTo(("topic",), "b"),
                EqualTo(("partition",), 0),
                GreaterThan(("offset",), 11),
                LessThan(("offset",), 14),
            ],
            [("b", 0, 12, 14)],
        ),
        ([GreaterThan(("offset",), 19)], []),
        ([EqualTo(("partition",), 7)], []),
    ],
)
def test_what_no_filter_lets_pass_is_not_planned(filters: list[Filter], left: list[tuple[str, int, int, int]]) -> None:
    assert narrowed(*filters) == left


@pytest.mark.parametrize(
    "other",
    [
        Not(EqualTo(("partition",), 1)),
        IsNotNull(("offset",)),
        EqualTo(("key",), b"k"),
        EqualTo(("headers", "offset"), 1),
        EqualTo(("offset",), None),
    ],
)
def test_a_filter_that_says_nothing_of_offsets_leaves_all(other: Filter) -> None:
    assert len(narrowed(other)) == len(RANGES)


def planned(cluster: Cluster, topic: str, *filters: Filter) -> dict[int, tuple[int, int]]:
    options = read_options({"kafka.bootstrap.servers": cluster.bootstrap_servers, "subscribe": topic})
    return {span.partition: (span.start, span.end) for span in plan_batch(options, filters)}


def test_a_time_bounds_where_reading_begins(kafka_cluster: Cluster, kafka_topic: str) -> None:
    # The n-th record of all is n ms younger than the first; partition 0 holds 0 to 3, 1 holds 4 and 5, 2 holds 6 to 8.
    send(kafka_cluster, kafka_topic, {0: 4, 1: 2, 2: 3})
    since = SENT + timedelta(milliseconds=6)
    assert planned(kafka_cluster, kafka_topic, GreaterThanOrEqual(("timestamp",), since)) == {1: (1, 2), 2: (0, 3)}
    assert planned(kafka_cluster, kafka_topic, LessThan(("timestamp",), since)) == {0: (0, 4), 1: (0, 2), 2: (0, 3)}
    assert planned(kafka_cluster, kafka_topic, EqualTo(("timestamp",), SENT + timedelta(days=1))) == {}


def test_a_time_before_1970_lets_records_without_a_time_pass() -> None:
    # To Spark their time is -1 ms; brokers look for records from 0 ms on only.
    assert oldest_ms([GreaterThan(("timestamp",), datetime(1960, 1, 1, tzinfo=UTC))]) is None
    assert oldest_ms([EqualTo(("timestamp",), datetime.fromtimestamp(0, UTC) - timedelta(milliseconds=1))]) is None
    assert oldest_ms([GreaterThan(("timestamp",), datetime.fromtimestamp(1, UTC))]) == 999


def test_a_reader_is_one_without_filters_where_spark_hands_none_down() -> None:
    reader = OttlaReader(read_options({"kafka.bootstrap.servers": "a:1", "subscribe": "t"}), StructType())
    assert getattr(reader.pushFilters, "__func__", None) is DataSourceReader.pushFilters
    wanted = [EqualTo(("partition",), 1)]
    assert reader.pushFilters(wanted) == wanted
    copy: Any = pickle.loads(pickle.dumps(reader))
    assert copy.pushFilters.filters == tuple(wanted)


@pytest.mark.spark
def test_spark_reads_the_same_rows_by_fewer_tasks(
    spark: SparkSession, kafka_cluster: Cluster, kafka_topic: str
) -> None:
    send(kafka_cluster, kafka_topic, {0: 4, 1: 2, 2: 3})
    wanted = {
        "partition = 1 and offset >= 1": (1, 1),
        "partition in (0, 2) and offset < 2 and key is not null": (4, 2),
        f"timestamp >= timestamp_millis({SENT_MS + 6}) and value <> 'v7'": (2, 2),
        f"timestamp < timestamp_millis({SENT_MS + 3})": (3, 3),
        "topic = 'another'": (0, 1),
        "partition = 0 or offset = 1": (6, 3),
    }
    try:
        for enabled in ("false", "true"):
            spark.conf.set(ENABLED, enabled)
            for condition, (count, tasks) in wanted.items():
                frame = read(spark, kafka_cluster, subscribe=kafka_topic).where(condition)
                assert frame.count() == count, (enabled, condition)
                assert frame.rdd.getNumPartitions() == (tasks if enabled == "true" else 3), (enabled, condition)
    finally:
        spark.conf.unset(ENABLED)
