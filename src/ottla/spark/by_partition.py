"""Rows brought together by the Kafka partition they go to, so that each of these is written by one task.

That is what `atomic=true` asks for: all tasks write in one transaction, and brokers count a transaction's batches
partition by partition, so only one producer may send to each.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from ottla.errors import UserMistake
from ottla.records.key_partitions import key_partitions

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


def sink_partitions(
    rows: DataFrame,
    bootstrap_servers: str | Sequence[str] | None = None,
    *,
    topic: str | None = None,
    tasks: int | None = None,
    **settings: Any,
) -> DataFrame:
    """The same rows with a column `partition`, repartitioned by it: no Kafka partition has rows in two tasks.

    Where the column is missing or null, a row's partition is the one that Kafka's own clients choose for its key, and
    one of all by its value where it has no key. For that the `topic` must be named, and the brokers are asked how many
    partitions it has (`settings` are those of `ottla.Admin`). Rows that name topics in a column `topic` must name their
    partitions, too. `tasks`: as many as the topic has partitions. A key's rows keep their order where they lay in one
    task before. Raises UserMistake for what cannot be done, KafkaError for an unknown topic.
    """
    from pyspark.sql import functions as f

    if topic is None:
        if not {"topic", "partition"} <= {*rows.columns}:
            raise UserMistake(
                "Nothing says which Kafka partition a row goes to: name the topic, or give columns 'topic' and "
                "'partition'."
            )
        return _together(rows, tasks, "topic", "partition")
    if bootstrap_servers is None:
        raise UserMistake(f"Give the bootstrap servers, too: they know how many partitions {topic} has.")
    count = _partition_count(bootstrap_servers, topic, settings)
    partition: Column = f.pmod(f.xxhash64("value"), f.lit(count)).cast("int")
    if "key" in rows.columns:
        partition = f.when(f.col("key").isNull(), partition).otherwise(_by_key(f.col("key"), count))
    if "partition" in rows.columns:
        partition = f.coalesce(f.col("partition"), partition)
    return _together(rows.withColumn("partition", partition), tasks or count, "partition")


def _together(rows: DataFrame, tasks: int | None, *columns: str) -> DataFrame:
    return rows.repartition(*columns) if tasks is None else rows.repartition(tasks, *columns)


def _partition_count(bootstrap_servers: str | Sequence[str], topic: str, settings: dict[str, Any]) -> int:
    from ottla.client.admin import Admin

    with Admin(bootstrap_servers, **settings) as admin:
        return len(admin.describe(topic).partitions)


def _by_key(key: Column, count: int) -> Column:
    from pyspark.sql.pandas.functions import arrow_udf

    def partitions(keys: pa.Array) -> pa.Array:  # type: ignore[type-arg]  # PySpark reads the hints
        made = key_partitions(keys, count)
        return pa.Array.from_buffers(pa.int32(), len(keys), [None, pa.py_buffer(made)])

    of_functions: Any = arrow_udf  # its stubs know other functions than columns in, a column out
    placed: Column = of_functions(partitions, "int")(key)
    return placed
