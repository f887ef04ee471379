"""A task's share as Spark carries it, and how its reading begins: the same for batches and streams."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any

from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StructType

from ottla.spark.mistakes import each_plainly
from ottla.spark.offset_ranges import OffsetRange
from ottla.spark.options import SourceOptions


class RangePartition(InputPartition):
    """One task's share."""

    def __init__(self, span: OffsetRange) -> None:
        self.value = span


def read_partition(options: SourceOptions, partition: InputPartition, schema: StructType) -> Iterator[Any]:
    """Arrow RecordBatches of one range, in offset order."""
    if partition.value is None:  # what Spark makes up where there was nothing to plan
        return iter(())
    from pyspark.sql.pandas.types import to_arrow_schema

    from ottla.spark.range_reader import read_range

    _spare_the_collector()
    return each_plainly(read_range(options, partition.value, to_arrow_schema(schema, timezone="UTC")))


class _Spared:
    """Whether this process's collector was spared already; to count what is frozen takes as long as to look at it."""

    done = False


def _spare_the_collector() -> None:
    """Once in a worker, keep what its imports have left from being looked through again and again.

    Spark's workers collect garbage after every task. With pyarrow, pandas and PySpark loaded that is 50 ms, ten times
    what a task of a small micro-batch takes otherwise; none of those objects ever goes away.
    """
    from pyspark import TaskContext

    if not _Spared.done and TaskContext.get() is not None:
        _Spared.done = True
        gc.collect()
        gc.freeze()
