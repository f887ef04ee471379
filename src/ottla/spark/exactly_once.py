"""The exactly-once sink as Spark calls it: which call of Spark takes which step of `ottla.sink`.

Spark makes a writer twice for each micro-batch, in two processes on the driver. It pickles one writer for the tasks,
and calls `commit` of the other one. It does not say which is which. A plan fences the driver that planned before, so
only the first writer may plan. Only that one is pickled: so `__getstate__` makes the plan. Spark pickles the writer
twice, so the plan is kept. The plan goes into every task with the writer, and comes to `commit` in the tasks' messages.
A batch write is planned when its writer is made, which Spark does once.

Spark tells a plan neither query nor batch: tasks learn both from their local properties. Tasks of a batch write within
foreachBatch have these properties, too, with two exceptions. With Spark Connect the function runs in a process of its
own, and its writes come to the server like any other write. And a thread that the function starts has the properties
only if it inherits them: otherwise the session's settings show that the rows come from a query.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, cast

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from ottla.errors import KafkaError, UserMistake
from ottla.sink.batch import WRITE, Attempt, BatchId, Plan, Prepared, Skipped
from ottla.sink.commit import abort, commit
from ottla.sink.planning import plan
from ottla.sink.session import session_of
from ottla.sink.settings import TRANSACTION_TIMEOUT_MS, SinkSettings
from ottla.sink.task import prepare
from ottla.spark.checkpoint import query_of
from ottla.spark.continuous import refuse_continuous_query, refuse_epoch
from ottla.spark.mistakes import plainly, while_pickling
from ottla.spark.sink_options import SinkOptions
from ottla.spark.sink_rows import SinkRows, count_rows, send_rows
from ottla.spark.topic_check import check_topic

if TYPE_CHECKING:
    import pyarrow as pa

_QUERY_ID = "sql.streaming.queryId"
_BATCH_ID = "streaming.sql.batchId"
# The job group of a streaming query's jobs is the query's run id.
_RUN_ID = "spark.jobGroup.id"
_JOB_TAGS = "spark.job.tags"
# What Spark Connect gives to each of its jobs.
_CONNECT_TAG = "SparkConnect_"
# Settings that Spark gives the session of each streaming query and all its tasks; batch jobs rarely have them.
_OF_QUERIES = (("spark.sql.cbo.enabled", "false"), ("spark.sql.requireAllClusterKeysForDistribution", "false"))
# The rights that the sink needs besides those on the user's topics.
_GRANTS = {
    "TOPIC_AUTHORIZATION_FAILED": "Create, Read, Write and Describe on topics {control_topic} and {receipts_topic}",
    "TRANSACTIONAL_ID_AUTHORIZATION_FAILED": "Write and Describe on transactional ids that begin with ottla-sink-",
}

_OUTAGE_MS = "60000"


class Outcome(WriterCommitMessage):
    """What a task tells the driver: its message for `ottla.sink`."""

    def __init__(self, message: Prepared | Skipped) -> None:
        self.message = message


class ExactlyOnceStreamWriter(DataSourceStreamArrowWriter):
    """One micro-batch of a streaming query."""

    def __init__(self, options: SinkOptions, rows: SinkRows) -> None:
        self._settings = sink_settings(options)
        self._rows = rows
        self._options = options
        self._plan: Plan | None = None

    @while_pickling
    def __getstate__(self) -> dict[str, Any]:
        """Spark pickles the writer in the planning process, and nowhere else."""
        if self._plan is None:
            refuse_continuous_query(self._options.checkpoint)
            check_topic(self._options)
            # A query goes on while the registry is away.
            self._rows = self._rows.registered(once=True)
            self._plan = _plan(self._settings, query_of(self._options.checkpoint))
        return dict(self.__dict__)

    @plainly
    def write(self, iterator: Iterator[pa.RecordBatch]) -> Outcome:  # type: ignore[override]  # as its base class does
        """Write one task's rows and leave them invisible."""
        assert self._plan is not None
        context = _task_context()
        batch = _micro_batch(context)
        if batch is None:
            raise UserMistake(
                "The exactly-once sink was called for a streaming query, and Spark does not say which. Start the query "
                "again; if it happens again, report it with your Spark's version."
            )
        return _write(self._settings, self._plan, batch, context, self._rows, iterator)

    @plainly
    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Decide the micro-batch and make it visible."""
        refuse_epoch(messages)
        commit(session_of(self._settings), _all(messages))

    @plainly
    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Give up what tasks prepared, unless it is decided."""
        abort(session_of(self._settings), _told(messages))


class ExactlyOnceWriter(DataSourceArrowWriter):
    """One batch write; within foreachBatch, one micro-batch."""

    def __init__(self, options: SinkOptions, rows: SinkRows) -> None:
        self._settings = sink_settings(options)
        self._rows = rows
        self._write_id = options.write_id
        self._own_id = uuid.uuid4().hex
        self._plan = _plan(self._settings)

    @plainly
    def write(self, iterator: Iterator[pa.RecordBatch]) -> Outcome:  # type: ignore[override]  # as its base class does
        """Write one task's rows and leave them invisible."""
        context = _task_context()
        batch = _micro_batch(context) if self._write_id is None else None
        if batch is None:
            if self._write_id is None:
                _refuse_lost_number(context)
            batch = BatchId(self._write_id or self._own_id, WRITE)
        return _write(self._settings, self._plan, batch, context, self._rows, iterator)

    @plainly
    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Decide the write and make it visible."""
        commit(session_of(self._settings), _all(messages))

    @plainly
    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Give up what tasks prepared, unless it is decided."""
        abort(session_of(self._settings), _told(messages), self._plan)


def sink_settings(options: SinkOptions) -> SinkSettings:
    """The settings for `ottla.sink`; ConfigError for a sink id that cannot be used."""
    assert options.sink_id is not None
    # Brokers that are all down for a while must not end a query. `check_topic` refuses a wrong address sooner.
    settings = {"bootstrap.refused.timeout.ms": _OUTAGE_MS, **options.settings}
    timeout_ms = int(settings.pop("transaction.timeout.ms", TRANSACTION_TIMEOUT_MS))
    return SinkSettings(
        options.sink_id,
        options.bootstrap_servers,
        settings,
        control_topic=options.control_topic,
        transaction_timeout_ms=timeout_ms,
        margin_ms=options.margin_ms,
        timeout_name="kafka.transaction.timeout.ms",
        margin_name="sink.margin.ms",
        same_rows=options.same_rows,
        same_rows_name="sink.same.rows=true",
        other_rows_name="sink.same.rows=false",
        of_checkpoint=options.of_checkpoint,
        of_stream=options.of_stream,
    )


def _plan(settings: SinkSettings, query_id: str | None = None) -> Plan:
    try:
        return plan(session_of(settings), query_id)
    except KafkaError as error:
        grants = _GRANTS.get(error.name)
        if grants is None:
            raise
        topics = {"control_topic": settings.control_topic, "receipts_topic": settings.receipts_topic}
        raise UserMistake(
            f"This user may not do what delivery=exactly-once needs: {error}. "
            f"Have it granted {grants.format(**topics)}."
        ) from None


def _write(
    settings: SinkSettings,
    planned: Plan,
    batch: BatchId,
    context: TaskContext,
    rows: SinkRows,
    batches: Iterator[pa.RecordBatch],
) -> Outcome:
    # Outside of a query the job group is the program's own.
    run_id = "" if _micro_batch(context) is None else context.getLocalProperty(_RUN_ID) or ""
    attempt = Attempt(context.taskAttemptId(), context.partitionId(), context.attemptNumber(), run_id)
    message = prepare(
        session_of(settings),
        planned,
        batch,
        attempt,
        write=lambda producer: send_rows(batches, rows, producer, digest=True),
        drain=lambda: count_rows(batches, rows),
    )
    return Outcome(message)


def _task_context() -> TaskContext:
    context = TaskContext.get()
    assert context is not None
    return context


def _micro_batch(context: TaskContext) -> BatchId | None:
    """Which micro-batch of which query a task belongs to; None where Spark runs no streaming query."""
    query_id, batch_id = context.getLocalProperty(_QUERY_ID), context.getLocalProperty(_BATCH_ID)
    return None if query_id is None or batch_id is None else BatchId(query_id, int(batch_id))


def _refuse_lost_number(context: TaskContext) -> None:
    """UserMistake if the write may belong to a micro-batch whose number is not known."""
    if _CONNECT_TAG in (context.getLocalProperty(_JOB_TAGS) or ""):
        raise UserMistake(
            "With Spark Connect the sink does not know whether a write is part of a micro-batch. A repeated "
            "micro-batch would be stored twice. Add the option write.id beside sink.id. Within foreachBatch: "
            "str(batch_id). Elsewhere: a name of this write alone, the same at each repetition."
        )
    if all(context.getLocalProperty(name) == value for name, value in _OF_QUERIES):
        raise UserMistake(
            "These rows come from a streaming query, but Spark does not tell this thread which micro-batch it writes. "
            "A repeated micro-batch would be stored twice. Write in the thread that Spark calls the foreachBatch "
            "function in; or wrap the function of your thread, before you start it: "
            "ottla.spark.thread_target(rows.sparkSession)(function); or add the option write.id beside sink.id, with "
            "str(batch_id)."
        )


def _all(messages: Sequence[WriterCommitMessage | None]) -> list[Prepared | Skipped]:
    return [cast(Outcome, message).message for message in messages]


def _told(messages: Sequence[WriterCommitMessage | None]) -> list[Prepared | Skipped | None]:
    return [message.message if isinstance(message, Outcome) else None for message in messages]
