"""A table with the columns of a record is sent without naming columns."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import polars as pl
import pyarrow as pa
import pytest
from tests.client.in_time import run

import ottla

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
KEPT = ["key", "value", "headers", "timestamp", "partition"]


@pytest.fixture
def read(kafka_cluster: ottla.Cluster, kafka_topic: str) -> pa.Table:
    """What `read_table` gives of three partitions with keys, headers and tombstones."""
    with ottla.Producer(kafka_cluster.bootstrap_servers) as producer:
        for number in range(30):
            producer.send(
                kafka_topic,
                None if number % 10 == 9 else b"value %d" % number,
                None if number % 4 == 0 else b"key %d" % number,
                headers=[("n", b"%d" % number), ("none", None)][: number % 3],
                # Not the partition that the key would choose.
                partition=number % 3,
                timestamp_ms=1_357_084_800_000 + number,
            )
    return ottla.read_table(kafka_cluster.bootstrap_servers, kafka_topic)


@pytest.fixture
def copy_topic(kafka_cluster: ottla.Cluster, kafka_name: str) -> str:
    name = f"copy-of-{kafka_name}"[:200]
    kafka_cluster.create_topic(name, partitions=3)
    return name


def rows_of(table: pa.Table, columns: list[str] = KEPT) -> list[tuple[Any, ...]]:
    """The rows, whichever order partitions were read in; no headers and a null are the same."""
    rows = [
        tuple(row[name] or None if name == "headers" else row[name] for name in columns) for row in table.to_pylist()
    ]
    return sorted(rows, key=repr)


def as_spark_has_it(table: pa.Table) -> pa.Table:
    """The columns and types of Spark's Kafka source, as `DataFrame.toArrow` hands them out."""
    spark = {
        "key": table["key"],
        "value": table["value"],
        "topic": pa.array(["another"] * table.num_rows),
        "partition": table["partition"],
        "offset": table["offset"],
        "timestamp": table["timestamp"].cast(pa.timestamp("us", "Europe/Paris")),
        "timestampType": table["timestamp_type"],
        "headers": table["headers"].cast(
            pa.list_(pa.field("element", pa.struct([pa.field("key", pa.string(), False), ("value", pa.binary())])))
        ),
    }
    return pa.table(spark)


@pytest.mark.parametrize(
    "make",
    [
        lambda table: table,
        as_spark_has_it,
        lambda table: table.to_reader(),
        lambda table: iter(table.to_batches()),
        pl.from_arrow,
        lambda table: table.to_pandas(),
        lambda table: table.append_column("topic", pa.array(["another"] * table.num_rows)),
        lambda table: table.set_column(table.column_names.index("key"), "key", table["key"].cast(pa.string())),
    ],
    ids=["pyarrow", "spark", "reader", "batches", "polars", "pandas", "topic", "text"],
)
def test_what_was_read_is_sent_as_it_is(
    kafka_cluster: ottla.Cluster, copy_topic: str, read: pa.Table, make: Callable[[pa.Table], Any]
) -> None:
    delivery = ottla.write_table(kafka_cluster.bootstrap_servers, copy_topic, make(read))
    assert len(delivery) == 30
    again = ottla.read_table(kafka_cluster.bootstrap_servers, copy_topic)
    assert rows_of(again) == rows_of(read)


def test_an_async_producer_takes_it_too(kafka_cluster: ottla.Cluster, copy_topic: str, read: pa.Table) -> None:
    async def work() -> None:
        async with ottla.AsyncProducer(kafka_cluster.bootstrap_servers) as producer:
            await (await producer.send_table(copy_topic, read))

    run(work())
    assert rows_of(ottla.read_table(kafka_cluster.bootstrap_servers, copy_topic)) == rows_of(read)


def test_without_the_column_partition_keys_decide(
    kafka_cluster: ottla.Cluster, copy_topic: str, read: pa.Table
) -> None:
    ottla.write_table(kafka_cluster.bootstrap_servers, copy_topic, read.drop_columns(["partition"]))
    again = ottla.read_table(kafka_cluster.bootstrap_servers, copy_topic)
    assert rows_of(again, KEPT[:4]) == rows_of(read, KEPT[:4])
    with ottla.Producer(kafka_cluster.bootstrap_servers) as producer:
        for row in again.filter(pa.compute.is_valid(again["key"])).to_pylist():
            assert producer.send(copy_topic, b"", row["key"]).result(30).partition == row["partition"]


def test_a_partition_that_is_not_there_says_what_to_do(
    kafka_cluster: ottla.Cluster, kafka_name: str, read: pa.Table
) -> None:
    kafka_cluster.create_topic(f"narrow-{kafka_name}", partitions=1)
    with pytest.raises(ottla.RecordError, match=r"names partition 1 in row 10; .* Without this column"):
        ottla.write_table(kafka_cluster.bootstrap_servers, f"narrow-{kafka_name}", read)


def test_what_is_named_takes_the_place_of_its_column(kafka_cluster: ottla.Cluster, kafka_topic: str) -> None:
    table = pa.table({"value": ["v"], "key": ["not this"], "id": ["this"], "timestamp": [7], "partition": [2]})
    ottla.write_table(kafka_cluster.bootstrap_servers, kafka_topic, table, key="id")
    [record] = ottla.read_table(kafka_cluster.bootstrap_servers, kafka_topic).to_pylist()
    assert (record["key"], record["value"], record["partition"]) == (b"this", b"v", 2)
    assert record["timestamp"] == datetime(1970, 1, 1, 0, 0, 0, 7000, UTC)


def test_a_value_that_is_named_leaves_the_other_columns_alone(kafka_cluster: ottla.Cluster, kafka_topic: str) -> None:
    table = pa.table({"value": ["v"], "key": ["k"], "partition": [99]})
    ottla.write_table(kafka_cluster.bootstrap_servers, kafka_topic, table, value="value")
    [record] = ottla.read_table(kafka_cluster.bootstrap_servers, kafka_topic).to_pylist()
    assert record["key"] is None


def test_values_alone_are_enough(kafka_cluster: ottla.Cluster, kafka_topic: str) -> None:
    assert len(ottla.write_table(kafka_cluster.bootstrap_servers, kafka_topic, pa.table({"value": ["a", None]}))) == 2
    assert len(ottla.write_table(kafka_cluster.bootstrap_servers, kafka_topic, iter([]))) == 0


@pytest.mark.parametrize(
    ("columns", "sentence"),
    [
        ({"key": ["k"]}, "value=None cannot be sent as it is"),
        ({"text": ["k"]}, "value=None cannot be sent as it is"),
        ({"value": ["v"], "tail": ["N1"], "Key": ["k"]}, "'tail', 'Key' are not among them"),
        ({"value": ["v"], "timestamp_ms": [1]}, "'timestamp_ms' is not among them"),
        ({"value": [1]}, "'value', named as value, is of type int64"),
        ({"value": ["v"], "headers": ["h"]}, "'headers', named as headers, is of type string"),
        ({"value": ["v"], "partition": ["p"]}, "'partition', named as partition, is of type string"),
        ({"value": ["v"], "timestamp": [1.5]}, "'timestamp', named as timestamp, is of type double"),
    ],
)
def test_columns_that_are_no_record_are_named(
    kafka_cluster: ottla.Cluster, kafka_topic: str, columns: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(ottla.RecordError, match=sentence):
        ottla.write_table(kafka_cluster.bootstrap_servers, kafka_topic, pa.table(columns))
