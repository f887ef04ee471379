"""What Spark passes to a task that reads, and how reading begins: the same for batches and streams."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from typing import Any

from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StructType

from ottla.spark.mistakes import each_plainly
from ottla.spark.offset_ranges import OffsetRange
from ottla.spark.options import SourceOptions


class RangePartition(InputPartition):
    """One task's share: ranges that are read one after the other."""

    def __init__(self, spans: Sequence[OffsetRange]) -> None:
        self.value = tuple(spans)


def read_partition(options: SourceOptions, partition: InputPartition, schema: StructType) -> Iterator[Any]:
    """Arrow RecordBatches of one task's ranges, in offset order within each."""
    if partition.value is None:  # what Spark makes up where there was nothing to plan
        return iter(())
    from pyspark.sql.pandas.types import to_arrow_schema

    from ottla.spark.range_reader import read_range

    _spare_the_collector()
    target = to_arrow_schema(schema, timezone="UTC")
    return each_plainly(batch for span in partition.value for batch in read_range(options, span, target))


class _Spared:
    """Whether this process has frozen its objects; gc.get_freeze_count() takes as long as a collection."""

    done = False


def _spare_the_collector() -> None:
    """Once in a worker, exclude the objects of its imports from garbage collection.

    Spark's workers collect garbage after every task. With pyarrow, pandas and PySpark loaded that is 50 ms, ten times
    what a task of a small micro-batch takes otherwise; none of those objects ever goes away.
    """
    from pyspark import TaskContext

    if not _Spared.done and TaskContext.get() is not None:
        _Spared.done = True
        gc.collect()
        gc.freeze()
