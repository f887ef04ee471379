"""`format("ottla")` against the embedded cluster: Spark sees what was sent, under the options of its own source."""

from __future__ import annotations

import json
import os
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
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

from ottla.client.admin import Admin
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
    deliveries = []
    with Producer(cluster.bootstrap_servers) as producer:
        for partition, count in counts.items():
            for _ in range(count):
                number = len(deliveries)
                headers: list[tuple[str, bytes | None]] = [("n", str(number).encode()), ("none", None)]
                delivery = producer.send(
                    topic,
                    f"v{number}",
                    f"k{number}",
                    partition=partition,
                    timestamp_ms=SENT_MS + number,
                    headers=headers if number % 3 == 0 else None,
                )
                deliveries.append(delivery)
    for delivery in deliveries:
        delivery.result()


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
    assert rows[1].headers is None


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


def test_times_and_patterns_bound_what_is_read(spark: SparkSession, kafka_cluster: Cluster, kafka_topic: str) -> None:
    send(kafka_cluster, kafka_topic, {0: 4, 1: 2, 2: 3})
    # The n-th record of all is n ms younger than the first; partition 0 holds 0 to 3, 1 holds 4 and 5, 2 holds 6 to 8.
    times: dict[str, int | str] = {"startingTimestamp": SENT_MS + 2, "endingTimestamp": SENT_MS + 7}
    times["startingOffsetsByTimestampStrategy"] = "latest"
    rows = read(spark, kafka_cluster, subscribePattern=f"{kafka_topic}$", **times).orderBy("partition", "offset")
    assert [(row.partition, row.offset) for row in rows.collect()] == [(0, 2), (0, 3), (1, 0), (1, 1), (2, 0)]
    each = json.dumps({kafka_topic: {"0": SENT_MS + 9, "1": SENT_MS + 5, "2": SENT_MS}})
    starts = {"startingOffsetsByTimestamp": each, "startingOffsetsByTimestampStrategy": "latest"}
    rows = read(spark, kafka_cluster, subscribe=kafka_topic, **starts).orderBy("partition", "offset")
    assert [(row.partition, row.offset) for row in rows.collect()] == [(1, 1), (2, 0), (2, 1), (2, 2)]


def test_a_batch_over_offsets_gone_by_retention_says_so_or_reads_what_there_is(
    spark: SparkSession, kafka_cluster: Cluster, kafka_topic: str
) -> None:
    send(kafka_cluster, kafka_topic, {0: 5})
    with Admin(kafka_cluster.bootstrap_servers) as admin:
        admin.delete_records(kafka_topic, {0: 3})
    start = {"assign": json.dumps({kafka_topic: [0]}), "startingOffsets": json.dumps({kafka_topic: {"0": 1}})}
    with pytest.raises(PySparkException, match=f"offset 1 of partition 0 of {kafka_topic}, which has .* 3 to 5"):
        read(spark, kafka_cluster, **start).collect()
    rows = read(spark, kafka_cluster, failOnDataLoss=False, **start).orderBy("offset").collect()
    assert [row.offset for row in rows] == [3, 4]


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory is read from /proc")
def test_a_workers_memory_stays_bounded_whatever_the_partitions_size(
    spark: SparkSession, kafka_cluster: Cluster, kafka_topic: str
) -> None:
    rows, value_bytes = 24_000, 20_000
    values = pa.table({"value": pa.array([bytes([row % 251]) * value_bytes for row in range(1000)])})
    with Producer(kafka_cluster.bootstrap_servers, compression_type="lz4") as producer:
        for _ in range(rows // len(values)):
            producer.send_table(kafka_topic, values, value="value", partition=None)
    # Half a gigabyte that came as a few megabytes: a fetch of 8 MiB would hold more than there is.
    sizes = read(spark, kafka_cluster, subscribe=kafka_topic).selectExpr("count(*)", "sum(length(value))").collect()
    assert tuple(sizes[0]) == (rows, rows * value_bytes)
    peaks_mib = worker_peaks_mib()
    assert peaks_mib
    assert max(peaks_mib) < 400


def worker_peaks_mib() -> list[int]:
    """The most memory each of Spark's Python workers has had, in MiB."""
    peaks = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal() and b"pyspark.daemon" in read_quietly(folder / "cmdline"):
            found = re.search(rb"VmHWM:\s+(\d+) kB", read_quietly(folder / "status"))
            if found is not None and descends_from(int(folder.name), os.getpid()):
                peaks.append(int(found[1]) // 1024)
    return peaks


def descends_from(pid: int, ancestor: int) -> bool:
    while pid > 1 and pid != ancestor:
        found = re.search(rb"PPid:\s+(\d+)", read_quietly(Path(f"/proc/{pid}/status")))
        pid = int(found[1]) if found is not None else 0
    return pid == ancestor


def read_quietly(path: Path) -> bytes:
    """What is in the file; nothing where its process has ended meanwhile."""
    try:
        return path.read_bytes()
    except OSError:
        return b""


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"subscribe": "no-such-topic"}, "no-such-topic"),
        (
            {"subscribe": "x", "kafka.bootstrap.servers": "127.0.0.1:1", "kafka.default.api.timeout.ms": "2000"},
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


def test_sql_reads_a_view_and_is_told_why_not_a_table(
    spark: SparkSession, kafka_cluster: Cluster, kafka_topic: str
) -> None:
    send(kafka_cluster, kafka_topic, {0: 2})
    servers = kafka_cluster.bootstrap_servers
    using = f"USING ottla OPTIONS ('kafka.bootstrap.servers' '{servers}', subscribe '{kafka_topic}')"
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW records {using}")
    assert [row.value for row in spark.sql("SELECT value FROM records ORDER BY offset").collect()] == [b"v0", b"v1"]
    with pytest.raises(PySparkException, match=r"use CREATE TEMPORARY VIEW \.\.\. USING ottla"):
        spark.sql(f"CREATE TABLE records_of_the_catalog {using}")


def test_a_schema_of_the_users_own_is_refused(spark: SparkSession, kafka_cluster: Cluster, kafka_topic: str) -> None:
    reader = spark.read.format("ottla").option("kafka.bootstrap.servers", kafka_cluster.bootstrap_servers)
    with pytest.raises(PySparkException, match="schema of its own"):
        reader.schema("value string").option("subscribe", kafka_topic).load().collect()
