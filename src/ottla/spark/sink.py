"""The sink `format("ottla")`: what Spark calls, for batch writes and streaming queries, and at-least-once itself.

Spark asks for a writer on the driver (for a streaming query: twice for every micro-batch, to plan and to commit).
Options and columns are checked then, and the topic when the write is planned. Spark calls `write` in one task for each
of its partitions, with the rows as Arrow RecordBatches. At-least-once sends them and waits for every acknowledgement: a
task that runs again writes its rows again. Exactly-once is in `exactly_once.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    DataSourceWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from ottla.errors import UserMistake
from ottla.spark.continuous import refuse_continuous_query, refuse_epoch
from ottla.spark.mistakes import plainly, while_pickling
from ottla.spark.sink_options import SinkOptions, read_sink_options
from ottla.spark.sink_rows import SinkRows, plan_rows, send_rows
from ottla.spark.topic_check import check_topic, open_producer

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa


class SinkPlan(NamedTuple):
    """What the driver has checked and every task needs."""

    options: SinkOptions
    rows: SinkRows


class Written(WriterCommitMessage):
    """What a task of an at-least-once write tells the driver."""

    def __init__(self, rows: int) -> None:
        self.rows = rows


class AtLeastOnceWriter(DataSourceArrowWriter):
    """A batch write: rows are stored when their task has succeeded; a task that ran twice has stored them twice."""

    def __init__(self, plan: SinkPlan) -> None:
        self._plan = plan

    @plainly
    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:  # type: ignore[override]  # as its base class does
        """Send one task's rows."""
        return _write(self._plan, iterator)


class AtLeastOnceStreamWriter(DataSourceStreamArrowWriter):
    """The same for the micro-batches of a streaming query."""

    def __init__(self, plan: SinkPlan) -> None:
        self._plan = plan

    @while_pickling
    def __getstate__(self) -> dict[str, Any]:
        """Spark pickles the writer in the planning process, and nowhere else."""
        refuse_continuous_query(self._plan.options.checkpoint)
        check_topic(self._plan.options)
        self._plan = self._plan._replace(rows=self._plan.rows.registered(once=True))
        return dict(self.__dict__)

    @plainly
    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:  # type: ignore[override]  # as its base class does
        """Send one task's rows."""
        return _write(self._plan, iterator)

    @plainly
    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """All rows are stored: there is nothing to do."""
        refuse_epoch(messages)


def batch_writer(options: Mapping[str, str], schema: StructType, overwrite: bool) -> DataSourceWriter:
    """The writer for `df.write.format("ottla")`; UserMistake for what cannot be written."""
    if overwrite:
        raise UserMistake('A topic cannot be overwritten: write with .mode("append").')
    plan = _plan(read_sink_options(options, streaming=False), schema)
    check_topic(plan.options)
    plan = plan._replace(rows=plan.rows.registered(once=False))
    if not plan.options.exactly_once:
        return AtLeastOnceWriter(plan)
    from ottla.spark.exactly_once import ExactlyOnceWriter

    return ExactlyOnceWriter(plan.options, plan.rows)


def stream_writer(options: Mapping[str, str], schema: StructType) -> DataSourceStreamArrowWriter:
    """The writer for one micro-batch of `df.writeStream.format("ottla")`; UserMistake for what cannot be written.

    In output mode "complete" every micro-batch appends the whole result, as Spark's own sink does.
    """
    plan = _plan(read_sink_options(options, streaming=True), schema)
    if not plan.options.exactly_once:
        return AtLeastOnceStreamWriter(plan)
    from ottla.spark.exactly_once import ExactlyOnceStreamWriter

    return ExactlyOnceStreamWriter(plan.options, plan.rows)


def _plan(options: SinkOptions, schema: StructType) -> SinkPlan:
    return SinkPlan(options, plan_rows(schema, options.topic, options.control_topic, options.values))


def _write(plan: SinkPlan, batches: Iterator[pa.RecordBatch]) -> Written:
    with open_producer(plan.options) as producer:
        totals = send_rows(batches, plan.rows, lambda: producer)
    return Written(totals.rows)
