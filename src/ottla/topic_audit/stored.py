"""What the judge reads of topics, as a DataFrame: read and reduced in Spark's workers, a range of offsets a task."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from ottla.audit.ledgers.tables import STORED_COLUMNS
from ottla.ledger import schema

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from ottla.audit.ledgers.spark import Bounds
    from ottla.topic_audit.reduced import ValueOf

_RECORDS_A_TASK = 500_000

Range = tuple[str, int, int, int]
"""Topic, partition, first offset, end offset."""


def stored_frame(
    spark: SparkSession,
    bootstrap_servers: str,
    bounds: Bounds,
    settings: Mapping[str, Any],
    value_of: ValueOf | None = None,
) -> DataFrame:
    """Topic, partition, offset, timestamp (ms), sequence and two checksums of all records within `bounds`.

    `settings` are keywords of a reader; `value_of`: see `read_reduced`. Spark shuffles in as many pieces from now on.
    """
    offsets = sum(end - begin for partitions in bounds.values() for begin, end in partitions.values())
    tasks = max(2 * spark.sparkContext.defaultParallelism, -(-offsets // _RECORDS_A_TASK))
    spark.conf.set("spark.sql.shuffle.partitions", str(tasks))
    ranges = _ranges(bounds, max(1, min(_RECORDS_A_TASK, -(-offsets // tasks))))

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        from ottla.topic_audit.reduced import read_reduced

        for batch in batches:
            numbers: list[Any] = batch.column(0).to_pylist()
            for number in numbers:
                topic, partition, *within = ranges[number]
                of_range = {partition: (within[0], within[1])}
                for reduced in read_reduced(bootstrap_servers, topic, of_range, settings, value_of):
                    name = pa.repeat(topic, reduced.num_rows)
                    yield reduced.add_column(0, pa.field(schema.TOPIC, pa.string()), name)

    numbers_of = ", ".join(f"{name} long" for name in STORED_COLUMNS)
    columns = f"{schema.TOPIC} string, {schema.PARTITION} int, {numbers_of}"
    return spark.range(0, len(ranges), 1, max(1, len(ranges))).mapInArrow(read, columns)


def _ranges(bounds: Bounds, size: int) -> list[Range]:
    """All offsets in pieces of at most `size`."""
    return [
        (topic, partition, begin, min(begin + size, end))
        for topic, partitions in bounds.items()
        for partition, (first, end) in partitions.items()
        for begin in range(first, end, size)
    ]
