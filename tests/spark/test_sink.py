"""`df.write.format("ottla")` and `df.writeStream.format("ottla")`, at-least-once, over the embedded cluster."""

from __future__ import annotations

import pickle
import re
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql.types import StringType, StructField, StructType
from tests.spark.slow_start import started_again

from ottla.client.tables import read_table
from ottla.errors import UserMistake
from ottla.spark import sink

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from ottla.cluster.cluster import Cluster

pytestmark = pytest.mark.spark


def write(frame: DataFrame, cluster: Cluster, **options: Any) -> None:
    given = {name.replace("__", "."): value for name, value in options.items()}
    writer = frame.write.format("ottla").mode("append").option("kafka.bootstrap.servers", cluster.bootstrap_servers)
    writer.options(**given).save()


def read(spark: SparkSession, servers: dict[str, str], **options: str) -> DataFrame:
    return spark.read.format("ottla").options(**servers, **options).load()


def stored(cluster: Cluster, topic: str) -> list[dict[str, Any]]:
    return read_table(cluster.bootstrap_servers, topic).to_pylist()


def test_a_batch_write_sends_every_row_with_every_column(
    spark: SparkSession, kafka_cluster: Cluster, kafka_topic: str
) -> None:
    sent_at = datetime(2026, 1, 2, 3, 4, 5, 6000, tzinfo=UTC)
    frame = spark.createDataFrame(
        [
            (kafka_topic, "a", "1", [("h", b"x")], 2, sent_at),
            (kafka_topic, "b", None, None, 1, sent_at),
        ],
        "topic string, key string, value string, headers array<struct<key string, value binary>>, partition int, "
        "timestamp timestamp",
    )
    write(frame, kafka_cluster, includeHeaders="true")
    rows = {row["key"]: row for row in stored(kafka_cluster, kafka_topic)}
    assert {key: (row["partition"], row["value"]) for key, row in rows.items()} == {b"a": (2, b"1"), b"b": (1, None)}
    assert {row["timestamp"].timestamp() for row in rows.values()} == {sent_at.timestamp()}
    assert [(header["key"], header["value"]) for header in rows[b"a"]["headers"]] == [("h", b"x")]


def test_sparks_large_types_are_written_and_read(spark: SparkSession, kafka_cluster: Cluster, kafka_topic: str) -> None:
    spark.conf.set("spark.sql.execution.arrow.useLargeVarTypes", "true")
    try:
        header = "array(named_struct('key', 'h', 'value', cast('x' as binary))) headers"
        rows = spark.range(2).selectExpr("cast(id as string) value", "cast('k' as binary) key", header)
        write(rows, kafka_cluster, topic=kafka_topic, write__id=kafka_topic)
        servers = {"kafka.bootstrap.servers": kafka_cluster.bootstrap_servers}
        found = read(spark, servers, subscribe=kafka_topic, includeHeaders="true").orderBy("value").collect()
    finally:
        spark.conf.unset("spark.sql.execution.arrow.useLargeVarTypes")
    assert [(row.key, row.value, [tuple(each) for each in row.headers]) for row in found] == [
        (b"k", value, [("h", b"x")]) for value in (b"0", b"1")
    ]


def test_many_tasks_write_every_row_once(spark: SparkSession, kafka_cluster: Cluster, kafka_topic: str) -> None:
    frame = spark.range(0, 50_000, 1, 5).selectExpr("cast(id as string) value", "cast(id % 100 as string) key")
    write(frame, kafka_cluster, topic=kafka_topic, kafka__compression__type="lz4")
    assert sorted(int(row["value"]) for row in stored(kafka_cluster, kafka_topic)) == list(range(50_000))


def test_a_streaming_query_writes_every_row(
    spark: SparkSession, kafka_cluster: Cluster, kafka_topic: str, tmp_path: Path
) -> None:
    spark.range(0, 1000, 1, 2).selectExpr("cast(id as string) value").write.parquet(str(tmp_path / "rows"))
    query = (
        spark.readStream.schema("value string")
        .parquet(str(tmp_path / "rows"))
        .writeStream.format("ottla")
        .option("kafka.bootstrap.servers", kafka_cluster.bootstrap_servers)
        .option("topic", kafka_topic)
        .option("delivery", "at-least-once")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    assert sorted(int(row["value"]) for row in stored(kafka_cluster, kafka_topic)) == list(range(1000))


@pytest.mark.parametrize(
    ("select", "options", "told"),
    [
        ("id", {}, "There is no column 'value' among id"),
        ("id as value", {}, "Column 'value' is of type bigint"),
        ("cast(id as string) value", {"topik": "t"}, "did you mean topic"),
        ("cast(id as string) value", {"kafka.acks": "7"}, "acks"),
        ("cast(id as string) value", {"kafka.max.block.ms": "3000", "topic": "not:allowed"}, "not:allowed"),
        ("cast(id as string) value, 9 as partition", {}, "names partition 9 in row 0"),
    ],
)
def test_what_cannot_be_written_is_told_in_one_sentence(
    spark: SparkSession, kafka_cluster: Cluster, kafka_topic: str, select: str, options: dict[str, str], told: str
) -> None:
    with pytest.raises(PySparkException, match=told):
        write(spark.range(3).selectExpr(*select.split(", ")), kafka_cluster, **({"topic": kafka_topic} | options))
    assert stored(kafka_cluster, kafka_topic) == []


def test_a_topic_cannot_be_overwritten(spark: SparkSession, kafka_cluster: Cluster, kafka_topic: str) -> None:
    frame = spark.range(3).selectExpr("cast(id as string) value")
    with pytest.raises(PySparkException, match="cannot be overwritten"):
        frame.write.format("ottla").mode("overwrite").option(
            "kafka.bootstrap.servers", kafka_cluster.bootstrap_servers
        ).option("topic", kafka_topic).save()


@pytest.mark.parametrize("block_ms", ["2000", "3000"])
def test_an_unknown_topic_is_waited_for_as_long_as_the_options_say_and_named_when_the_write_is_planned(
    kafka_cluster: Cluster, block_ms: str
) -> None:
    options = {"kafka.bootstrap.servers": kafka_cluster.bootstrap_servers, "topic": "no-such-topic"}
    with pytest.raises(UserMistake) as refused:
        sink.batch_writer(
            options | {"kafka.max.block.ms": block_ms},
            StructType([StructField("value", StringType())]),
            overwrite=False,
        )
    assert str(refused.value) == (
        "The topic to write to is 'no-such-topic', which does not exist: check its name, or create it first "
        f"(waited for {block_ms} ms; kafka.max.block.ms says how long)."
    )


def test_a_name_that_no_topic_can_have_says_what_is_allowed(kafka_cluster: Cluster) -> None:
    options = {"kafka.bootstrap.servers": kafka_cluster.bootstrap_servers, "topic": "or ders"}
    with pytest.raises(UserMistake) as refused:
        sink.batch_writer(options, StructType([StructField("value", StringType())]), overwrite=False)
    assert str(refused.value) == (
        "The topic to write to is 'or ders', which cannot be a topic's name: allowed are up to 249 letters, digits, "
        "'.', '_' and '-'."
    )


@pytest.mark.parametrize("options", [{"delivery": "at-least-once"}, {"sink.id": "of-a-topic-that-is-gone"}])
def test_a_topic_that_is_gone_keeps_nobody_from_aborting(kafka_cluster: Cluster, options: dict[str, str]) -> None:
    servers = {"kafka.bootstrap.servers": kafka_cluster.bootstrap_servers, "kafka.max.block.ms": "2000"}
    given = servers | options | {"topic": "no-such-topic"}
    # As the process does that commits and aborts, and that is another one after a minute without work.
    writer = sink.stream_writer(given, StructType([StructField("value", StringType())]))
    writer.abort([None], 7)
    with pytest.raises(UserMistake, match="'no-such-topic', which does not exist"):
        pickle.dumps(writer)


def test_a_mistake_is_one_sentence_at_the_end_of_sparks_own_error(
    spark: SparkSession, kafka_cluster: Cluster, kafka_topic: str, tmp_path: Path
) -> None:
    servers = {"kafka.bootstrap.servers": kafka_cluster.bootstrap_servers}
    rows = spark.range(1).selectExpr("cast(id as string) value")
    stream = spark.readStream.format("ottla").options(**servers, subscribe=kafka_topic, startingOffsets="earliest")
    write(rows, kafka_cluster, topic=kafka_topic)

    def run(**options: str) -> None:
        query = stream.load().selectExpr("value", "77 partition").writeStream.format("ottla")
        query = query.options(**servers, topic=kafka_topic, **options).option("checkpointLocation", str(tmp_path))
        started_again(lambda: query.trigger(availableNow=True).start().awaitTermination())

    mistakes: dict[str, Callable[[], Any]] = {
        "minPartitions is '0'": lambda: read(spark, servers, subscribe="x", minPartitions="0"),
        "'no-such-topic', which does not": lambda: read(spark, servers, subscribe="no-such-topic").collect(),
        "acks='7' is not known": lambda: write(rows, kafka_cluster, topic=kafka_topic, kafka__acks="7"),
        "partition 77 in row 0": lambda: write(
            rows.selectExpr("value", "77 partition"), kafka_cluster, topic=kafka_topic
        ),
        "names partition 77 in row 0": run,
        "is more than the brokers allow": lambda: run(**{"kafka.transaction.timeout.ms": "2000000"}),
    }
    for sentence, mistake in mistakes.items():
        with pytest.raises(PySparkException) as refused:
            mistake()
        lines = re.sub(
            r"\s*SQLSTATE: \w+|\n=== Streaming Query ===.*", "", str(refused.value), flags=re.DOTALL
        ).splitlines()
        assert sentence in lines[-1]
        assert len([line for line in lines if line.lstrip().startswith("File ") and "ottla" in line]) == 1, lines
        assert "Could not serialize" not in str(refused.value)
