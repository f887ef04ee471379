"""Structured Streaming from `format("ottla")`: what Spark itself does with the source, from first batch to restart."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from pyspark.errors import PySparkException
from tests.spark.slow_start import started_again

from ottla.client.admin import Admin
from ottla.client.producer import Producer
from ottla.spark.stream_offsets import consumer_lag

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from ottla.cluster.cluster import Cluster

pytestmark = pytest.mark.spark

TIMEOUT_S = 120


def send(cluster: Cluster, topic: str, counts: dict[int, int]) -> None:
    with Producer(cluster.bootstrap_servers) as producer:
        for partition, count in counts.items():
            for number in range(count):
                producer.send(topic, f"{partition}-{number}", partition=partition)


def open_stream(spark: SparkSession, cluster: Cluster, **options: Any) -> DataFrame:
    reader = spark.readStream.format("ottla").option("kafka.bootstrap.servers", cluster.bootstrap_servers)
    return reader.options(**{"startingOffsets": "earliest", "kafka.metadata.max.age.ms": 0, **options}).load()


class Batches:
    """What each micro-batch held, as (partition, offset)."""

    def __init__(self) -> None:
        self.rows: dict[int, list[tuple[int, int]]] = {}

    def __call__(self, records: DataFrame, batch: int) -> None:
        self.rows[batch] = [(row.partition, row.offset) for row in records.collect()]

    def all(self) -> list[tuple[int, int]]:
        return sorted(row for rows in self.rows.values() for row in rows)


def test_a_stream_takes_up_growth_shows_its_lag_and_goes_on_after_a_restart(
    spark: SparkSession, kafka_cluster: Cluster, kafka_topic: str, tmp_path: Path
) -> None:
    batches = Batches()

    def start(**options: Any) -> Any:
        records = open_stream(spark, kafka_cluster, subscribe=kafka_topic, columns="partition,offset", **options)
        writer = records.writeStream.foreachBatch(batches).option("checkpointLocation", str(tmp_path / "checkpoint"))

        def begin() -> Any:
            query = writer.start()
            query.processAllAvailable()
            return query

        return started_again(begin)

    send(kafka_cluster, kafka_topic, {0: 6, 1: 3})
    query = start(maxOffsetsPerTrigger=6)
    assert [len(rows) for rows in batches.rows.values()] == [6, 3]
    progresses = [json.loads(progress.json) for progress in query.recentProgress]
    lags = [consumer_lag(progress) for progress in progresses if progress["numInputRows"]]
    assert [sum(lag[kafka_topic].values()) for lag in lags] == [3, 0]

    with Admin(kafka_cluster.bootstrap_servers) as admin:
        admin.create_partitions(kafka_topic, 4)
    send(kafka_cluster, kafka_topic, {3: 2})
    query.processAllAvailable()
    query.stop()
    assert batches.all() == [(0, n) for n in range(6)] + [(1, n) for n in range(3)] + [(3, 0), (3, 1)]

    # The last planned batch as Spark's own source would have left it: written down, not yet processed.
    last = max(int(path.name) for path in (tmp_path / "checkpoint" / "offsets").iterdir() if path.name.isdecimal())
    offsets = tmp_path / "checkpoint" / "offsets" / str(last)
    written = offsets.read_text().splitlines()
    assert json.loads(written[-1]) == {kafka_topic: {"0": 6, "1": 3, "2": 0, "3": 2}}
    offsets.write_text("\n".join([*written[:-1], re.sub(r"\s", "", written[-1])]))
    (offsets.parent / f".{last}.crc").unlink()
    for name in (str(last), f".{last}.crc"):
        (tmp_path / "checkpoint" / "commits" / name).unlink()
    send(kafka_cluster, kafka_topic, {2: 1})
    repeated, batches = batches.rows[last], Batches()
    query = start()
    query.stop()
    assert batches.rows[last] == repeated
    assert batches.all() == sorted([*repeated, (2, 0)])


def test_micro_batches_are_limited_by_bytes(
    spark: SparkSession, kafka_cluster: Cluster, kafka_topic: str, tmp_path: Path
) -> None:
    with Producer(kafka_cluster.bootstrap_servers) as producer:
        for _ in range(12):
            producer.send(kafka_topic, b"x" * 10_000, partition=1)
    batches = Batches()
    records = open_stream(spark, kafka_cluster, subscribe=kafka_topic, maxBytesPerTrigger="51k")
    writer = records.writeStream.foreachBatch(batches).option("checkpointLocation", str(tmp_path / "checkpoint"))
    assert started_again(lambda: writer.trigger(availableNow=True).start().awaitTermination(TIMEOUT_S))
    assert [len(rows) for rows in batches.rows.values()] == [5, 5, 2]
    assert batches.all() == [(1, n) for n in range(12)]


def test_available_now_reads_what_there_is_and_commits_it_to_the_group(
    spark: SparkSession, kafka_cluster: Cluster, kafka_topic: str, kafka_name: str, tmp_path: Path
) -> None:
    send(kafka_cluster, kafka_topic, {0: 7, 2: 4})
    batches = Batches()
    options = {"minOffsetsPerTrigger": 1000, "kafka.group.id": kafka_name, "subscribePattern": kafka_topic}
    records = open_stream(spark, kafka_cluster, **options)
    writer = records.writeStream.foreachBatch(batches).option("checkpointLocation", str(tmp_path / "checkpoint"))
    assert started_again(lambda: writer.trigger(availableNow=True).start().awaitTermination(TIMEOUT_S))
    assert batches.all() == [(0, n) for n in range(7)] + [(2, n) for n in range(4)]
    consumer = Consumer({"bootstrap.servers": kafka_cluster.bootstrap_servers, "group.id": kafka_name})
    places = [TopicPartition(kafka_topic, partition) for partition in range(3)]
    assert [found.offset for found in consumer.committed(places, timeout=120)] == [7, 0, 4]
    consumer.close()


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"subscribe": "no-such-topic"}, "subscribe names topic 'no-such-topic', which does not exist"),
        ({"subscribe": "x", "endingOffsets": "latest"}, "endingOffsets cannot be used in a streaming query"),
    ],
)
def test_what_a_stream_cannot_read_is_said_when_it_starts(
    spark: SparkSession, kafka_cluster: Cluster, tmp_path: Path, options: dict[str, str], sentence: str
) -> None:
    writer = open_stream(spark, kafka_cluster, **options).writeStream.format("noop")
    with pytest.raises(PySparkException) as refused:
        started_again(lambda: writer.start().awaitTermination(TIMEOUT_S))
    assert sentence in str(refused.value)


@pytest.mark.parametrize(
    ("trigger", "sentence"),
    [
        ({"realTime": "5 seconds"}, "PythonMicroBatchStreamWithTriggerAvailableNow is not supported in Real-time Mode"),
        ({"continuous": "1 second"}, "does not support continuous processing"),
    ],
)
def test_triggers_without_micro_batches_are_refused(
    spark: SparkSession,
    kafka_cluster: Cluster,
    kafka_topic: str,
    tmp_path: Path,
    trigger: dict[str, str],
    sentence: str,
) -> None:
    writer = open_stream(spark, kafka_cluster, subscribe=kafka_topic).writeStream.format("console")
    writer = writer.outputMode("update").option("checkpointLocation", str(tmp_path))
    with pytest.raises(Exception, match=sentence):
        writer.trigger(**trigger).start().awaitTermination(TIMEOUT_S)
