"""`format("ottla")` against the embedded cluster: Spark sees what was sent, under the options of its own source."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from ottla.client.producer import Producer

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from ottla.cluster.cluster import Cluster

pytestmark = pytest.mark.spark

KAFKA_SCHEMA = StructType(
    [
        StructField("key", BinaryType(), True),
        StructField("value", BinaryType(), True),
        StructField("topic", StringType(), True),
        StructField("partition", IntegerType(), True),
        StructField("offset", LongType(), True),
        StructField("timestamp", TimestampType(), True),
        StructField("timestampType", IntegerType(), True),
    ]
)
HEADERS = StructField(
    "headers",
    ArrayType(StructType([StructField("key", StringType(), True), StructField("value", BinaryType(), True)])),
    True,
)
SENT_MS = 1_767_323_045_006


def send(cluster: Cluster, topic: str, counts: dict[int, int]) -> None:
    """`counts[partition]` records to each partition: key k<n>, value v<n>, a header every third; n counts on."""
    number = 0
    with Producer(cluster.bootstrap_servers) as producer:
        for partition, count in counts.items():
            for _ in range(count):
                headers: list[tuple[str, bytes | None]] = [("n", str(number).encode()), ("none", None)]
                producer.send(
                    topic,
                    f"v{number}",
                    f"k{number}",
                    partition=partition,
                    timestamp_ms=SENT_MS + number,
                    headers=headers if number % 3 == 0 else None,
                )
                number += 1


def read(spark: SparkSession, cluster: Cluster, **options: Any) -> DataFrame:
    reader = spark.read.format("ottla").option("kafka.bootstrap.servers", cluster.bootstrap_servers)
    return reader.options(**options).load()


def test_spark_reads_every_record_with_the_schema_of_its_own_source(
    spark: SparkSession, kafka_cluster: Cluster, kafka_topic: str
) -> None:
    send(kafka_cluster, kafka_topic, {0: 5, 1: 0, 2: 4})
    records = read(spark, kafka_cluster, subscribe=kafka_topic)
    assert records.schema == KAFKA_SCHEMA
    rows = records.orderBy("partition", "offset").collect()
    places = [(0, offset) for offset in range(5)] + [(2, offset) for offset in range(4)]
    for number, (row, (partition, offset)) in enumerate(zip(rows, places, strict=True)):
        assert row.asDict() == {
            "key": f"k{number}".encode(),
            "value": f"v{number}".encode(),
            "topic": kafka_topic,
            "partition": partition,
            "offset": offset,
            "timestamp": datetime.fromtimestamp((SENT_MS + number) / 1000, UTC).astimezone().replace(tzinfo=None),
            "timestampType": 0,
        }


def test_headers_come_when_asked_for(spark: SparkSession, kafka_cluster: Cluster, kafka_topic: str) -> None:
    send(kafka_cluster, kafka_topic, {1: 4})
    records = read(spark, kafka_cluster, subscribe=kafka_topic, includeHeaders=True)
    assert records.schema == StructType([*KAFKA_SCHEMA.fields, HEADERS])
    rows = records.orderBy("offset").collect()
    assert [tuple(header) for header in rows[3].headers] == [("n", b"3"), ("none", None)]
    assert not rows[1].headers


def test_null_keys_and_tombstones_stay_null(spark: SparkSession, kafka_cluster: Cluster, kafka_topic: str) -> None:
    with Producer(kafka_cluster.bootstrap_servers) as producer:
        producer.send(kafka_topic, b"", partition=0)
        producer.send(kafka_topic, None, b"", partition=0)
    rows = read(spark, kafka_cluster, subscribe=kafka_topic).orderBy("offset").collect()
    assert [(row.key, row.value) for row in rows] == [(None, b""), (b"", None)]


def test_only_the_chosen_columns_are_read(spark: SparkSession, kafka_cluster: Cluster, kafka_topic: str) -> None:
    send(kafka_cluster, kafka_topic, {0: 2})
    records = read(spark, kafka_cluster, subscribe=kafka_topic, columns="value,offset")
    assert records.columns == ["value", "offset"]
    assert [tuple(row) for row in records.orderBy("offset").collect()] == [(b"v0", 0), (b"v1", 1)]


def test_offsets_bound_what_is_read(spark: SparkSession, kafka_cluster: Cluster, kafka_topic: str) -> None:
    send(kafka_cluster, kafka_topic, {0: 6, 1: 6, 2: 6})
    bounds = {
        "startingOffsets": json.dumps({kafka_topic: {"0": 2, "1": -2, "2": 6}}),
        "endingOffsets": json.dumps({kafka_topic: {"0": 4, "1": 1, "2": -1}}),
    }
    rows = read(spark, kafka_cluster, subscribe=kafka_topic, **bounds).orderBy("partition", "offset").collect()
    assert [(row.partition, row.offset) for row in rows] == [(0, 2), (0, 3), (1, 0)]
    assigned = json.dumps({kafka_topic: [2]})
    assert read(spark, kafka_cluster, assign=assigned).select("partition").distinct().collect() == [(2,)]


def test_minimum_partitions_split_the_reading_and_lose_nothing(
    spark: SparkSession, kafka_cluster: Cluster, kafka_topic: str
) -> None:
    send(kafka_cluster, kafka_topic, {0: 30, 1: 3})
    records = read(spark, kafka_cluster, subscribe=kafka_topic, minPartitions=5)
    assert records.rdd.getNumPartitions() >= 5
    places = sorted((row.partition, row.offset) for row in records.collect())
    assert places == [(0, offset) for offset in range(30)] + [(1, offset) for offset in range(3)]


def test_an_empty_topic_has_no_rows(spark: SparkSession, kafka_cluster: Cluster, kafka_topic: str) -> None:
    assert read(spark, kafka_cluster, subscribe=kafka_topic).collect() == []


def test_several_topics_are_read_as_one(spark: SparkSession, kafka_cluster: Cluster, kafka_topic: str) -> None:
    other = kafka_topic + "-other"
    kafka_cluster.create_topic(other, partitions=1)
    send(kafka_cluster, kafka_topic, {0: 2})
    send(kafka_cluster, other, {0: 3})
    counted = read(spark, kafka_cluster, subscribe=f"{kafka_topic},{other}").groupBy("topic").count()
    assert {row.topic: row["count"] for row in counted.collect()} == {kafka_topic: 2, other: 3}
    kafka_cluster.delete_topic(other)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"subscribe": "no-such-topic"}, "no-such-topic"),
        (
            {"subscribe": "x", "kafka.bootstrap.servers": "127.0.0.1:1", "kafka.default.api.timeout.ms": "300"},
            "no Kafka broker could be reached at 127.0.0.1:1 (connection refused)",
        ),
        ({"subscribe": "x", "subscribePattern": ".*"}, "exactly one of the options"),
        ({"subscribe": "x", "kafka.client.idd": "me"}, "client.id"),
    ],
)
def test_what_cannot_be_read_is_said_before_any_task_runs(
    spark: SparkSession, kafka_cluster: Cluster, options: dict[str, str], sentence: str
) -> None:
    with pytest.raises(PySparkException) as refused:
        read(spark, kafka_cluster, **options).collect()
    assert sentence in str(refused.value)
    assert "task" not in str(refused.value).lower()


def test_a_schema_of_the_users_own_is_refused(spark: SparkSession, kafka_cluster: Cluster, kafka_topic: str) -> None:
    reader = spark.read.format("ottla").option("kafka.bootstrap.servers", kafka_cluster.bootstrap_servers)
    with pytest.raises(PySparkException, match="schema of its own"):
        reader.schema("value string").option("subscribe", kafka_topic).load().collect()
