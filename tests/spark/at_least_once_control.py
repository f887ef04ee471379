"""The at-least-once sink with barriers: before its rows, and between these and Spark's note that they are stored."""

from __future__ import annotations

from typing import Any

from pyspark.sql.types import StructType

from ottla.sink.barriers import Barrier, reach
from ottla.spark.sink import AtLeastOnceStreamWriter, AtLeastOnceWriter, Written, batch_writer, stream_writer
from ottla.spark.source import OttlaDataSource


class _Held:
    """Stops before the append, and behind it."""

    def write(self, iterator: Any) -> Written:
        reach(Barrier.TASK_ROWS)
        written: Written = super().write(iterator)  # type: ignore[misc]
        reach(Barrier.TASK_END)
        return written


class ControlStreamWriter(_Held, AtLeastOnceStreamWriter):
    """Stops before the commit log, too."""

    def commit(self, messages: Any, batchId: int) -> None:  # noqa: N803
        reach(Barrier.COMMIT_END)


class ControlWriter(_Held, AtLeastOnceWriter):
    """Stops before the end of the write, too."""

    def commit(self, messages: Any) -> None:
        reach(Barrier.COMMIT_END)


class ControlSource(OttlaDataSource):
    """`format("ottla-control")`."""

    @classmethod
    def name(cls) -> str:
        return "ottla-control"

    def streamWriter(self, schema: StructType, overwrite: bool) -> ControlStreamWriter:  # noqa: N802
        writer = stream_writer(self.options, schema)
        assert isinstance(writer, AtLeastOnceStreamWriter)
        return ControlStreamWriter(writer._plan)

    def writer(self, schema: StructType, overwrite: bool) -> ControlWriter:
        writer = batch_writer(self.options, schema, overwrite)
        assert isinstance(writer, AtLeastOnceWriter)
        return ControlWriter(writer._plan)
