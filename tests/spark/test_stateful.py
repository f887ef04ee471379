"""Queries with state from the source to the exactly-once sink, interrupted once: the result is that of a batch run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from tests.spark.slow_start import started_again

from ottla.client.tables import read_table, write_table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from ottla.cluster.cluster import Cluster

pytestmark = pytest.mark.spark

ROWS = 240
START_S = 1_767_225_600
COLUMNS = ["cast(key as string) id", "timestamp time", "cast(cast(value as string) as long) amount"]


def fill(cluster: Cluster, topic: str, seed: int, ids: int) -> None:
    """Rows over an hour, a little out of order, and one far behind them that lets the watermark pass all others."""
    random = Random(seed)
    times = [START_S + 15 * row + random.randint(0, 90) for row in range(ROWS)]
    table = pa.table(
        {
            "key": [str(random.randrange(ids)) for _ in range(ROWS)] + ["last"],
            "value": [str(random.randint(1, 100)) for _ in range(ROWS)] + ["0"],
            "time": [1000 * second for second in [*times, START_S + 86_400]],
        }
    )
    write_table(cluster.bootstrap_servers, topic, table, key="key", value="value", timestamp_ms="time")


def sums_by_window(events: DataFrame) -> DataFrame:
    from pyspark.sql import functions as f

    return (
        events.withWatermark("time", "5 minutes")
        .groupBy(f.window("time", "10 minutes"), "id")
        .agg(f.sum("amount").alias("total"), f.count("*").alias("n"))
        .selectExpr("id key", "concat_ws(',', cast(unix_timestamp(window.start) as string), id, total, n) value")
    )


def run(
    spark: SparkSession,
    cluster: Cluster,
    topic: str,
    checkpoint: Path,
    query: Callable[[Callable[[str], DataFrame]], DataFrame],
) -> None:
    """All there is, then the last micro-batch again, as after a crash before Spark's commit log."""

    def stream(name: str) -> DataFrame:
        reader = spark.readStream.format("ottla").option("kafka.bootstrap.servers", cluster.bootstrap_servers)
        reader = reader.option("subscribe", name).option("startingOffsets", "earliest")
        return reader.option("maxOffsetsPerTrigger", 90).load().selectExpr(*COLUMNS)

    def once() -> None:
        (
            query(stream)
            .writeStream.format("ottla")
            .option("kafka.bootstrap.servers", cluster.bootstrap_servers)
            .option("topic", topic)
            .option("checkpointLocation", str(checkpoint))
            .trigger(availableNow=True)
            .start()
            .awaitTermination()
        )

    started_again(once)
    done = sorted(int(path.name) for path in (checkpoint / "commits").iterdir() if path.name.isdecimal())
    assert len(done) >= 3
    for name in (str(done[-1]), f".{done[-1]}.crc"):
        (checkpoint / "commits" / name).unlink(missing_ok=True)
    started_again(once)


def batch(spark: SparkSession, cluster: Cluster, query: Callable[[Callable[[str], DataFrame]], DataFrame]) -> list[str]:
    """The same query over the same topics as a batch."""

    def whole(name: str) -> DataFrame:
        reader = spark.read.format("ottla").option("kafka.bootstrap.servers", cluster.bootstrap_servers)
        return reader.option("subscribe", name).load().selectExpr(*COLUMNS)

    return sorted(row["value"] for row in query(whole).collect())


def visible(cluster: Cluster, topic: str) -> list[str]:
    table = read_table(cluster.bootstrap_servers, topic, isolation_level="read_committed")
    return sorted(value.decode() for value in table["value"].to_pylist())


def test_a_windowed_aggregation_gives_what_a_batch_gives(
    spark: SparkSession, kafka_cluster: Cluster, kafka_topic: str, tmp_path: Path
) -> None:
    source = f"{kafka_topic}-events"
    kafka_cluster.create_topic(source, partitions=1)
    fill(kafka_cluster, source, seed=1, ids=5)

    def query(read: Callable[[str], DataFrame]) -> DataFrame:
        return sums_by_window(read(source))

    run(spark, kafka_cluster, kafka_topic, tmp_path / "checkpoint", query)
    # The window of the row far behind is still open.
    expected = [line for line in batch(spark, kafka_cluster, query) if ",last," not in line]
    assert len(expected) > 20
    assert visible(kafka_cluster, kafka_topic) == expected


def test_a_join_of_two_streams_gives_what_a_batch_gives(
    spark: SparkSession, kafka_cluster: Cluster, kafka_topic: str, tmp_path: Path
) -> None:
    names = [f"{kafka_topic}-{side}" for side in ("orders", "payments")]
    for seed, name in enumerate(names):
        kafka_cluster.create_topic(name, partitions=1)
        fill(kafka_cluster, name, seed, ids=40)

    def query(read: Callable[[str], DataFrame]) -> DataFrame:
        from pyspark.sql import functions as f

        orders, payments = (
            read(name)
            .withWatermark("time", "5 minutes")
            .selectExpr(f"id {side}_id", f"time {side}_at", f"amount {side}_amount")
            for side, name in zip(("o", "p"), names, strict=True)
        )
        near = f.expr("o_id = p_id and p_at between o_at - interval 3 minutes and o_at + interval 10 minutes")
        joined = orders.join(payments, near).where("o_id <> 'last'")
        return joined.selectExpr("o_id key", "concat_ws(',', o_id, o_amount, p_amount, unix_timestamp(o_at)) value")

    run(spark, kafka_cluster, kafka_topic, tmp_path / "checkpoint", query)
    expected = batch(spark, kafka_cluster, query)
    assert len(expected) > 20
    assert visible(kafka_cluster, kafka_topic) == expected
