"""The at-least-once sink with barriers: before its rows, and between these and Spark's note that they are stored."""

from __future__ import annotations

from typing import Any

from pyspark.sql.types import StructType

from ottla.sink.barriers import COMMIT_END, TASK_END, TASK_ROWS, reach
from ottla.spark.sink import AtLeastOnceStreamWriter, Written, stream_writer
from ottla.spark.source import OttlaDataSource


class ControlWriter(AtLeastOnceStreamWriter):
    """Stops before the append, behind it, and before the commit log."""

    def write(self, iterator: Any) -> Written:
        reach(TASK_ROWS)
        written = super().write(iterator)
        reach(TASK_END)
        return written

    def commit(self, messages: Any, batchId: int) -> None:  # noqa: N803
        reach(COMMIT_END)


class ControlSource(OttlaDataSource):
    """`format("ottla-control")`."""

    @classmethod
    def name(cls) -> str:
        return "ottla-control"

    def streamWriter(self, schema: StructType, overwrite: bool) -> ControlWriter:  # noqa: N802
        writer = stream_writer(self.options, schema)
        assert isinstance(writer, AtLeastOnceStreamWriter)
        return ControlWriter(writer._plan)
