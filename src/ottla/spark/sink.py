"""The sink `format("ottla")`: what Spark calls, for batch writes and streaming queries, and at-least-once itself.

Spark asks for a writer on the driver when a write is planned (for a streaming query: once for every micro-batch), and
there everything is checked that can be: options, columns, the topic. It calls `write` in one task for each of Spark's
partitions, with the rows as Arrow RecordBatches. At-least-once sends them and waits for every acknowledgement: a task
that runs again writes its rows again. Exactly-once is in `exactly_once.py`.
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

from ottla.errors import KafkaError, UserMistake
from ottla.spark.continuous import refuse_continuous_query, refuse_epoch
from ottla.spark.mistakes import plainly
from ottla.spark.sink_options import SinkOptions, read_sink_options
from ottla.spark.sink_rows import SinkRows, plan_rows, send_rows

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa

    from ottla.client.producer import Producer

# How long a topic that nobody knows is waited for when a write is planned, unless kafka.max.block.ms says: brokers that
# make it may need as long, and Kafka's own minute is too long to wait for a name that is mistyped.
_UNKNOWN_TOPIC_MS = 5_000
_known_topics: set[tuple[str, str]] = set()


class SinkPlan(NamedTuple):
    """What the driver has checked and every task needs."""

    options: SinkOptions
    rows: SinkRows


class Written(WriterCommitMessage):
    """What a task of an at-least-once write tells the driver."""

    def __init__(self, rows: int) -> None:
        self.rows = rows


class AtLeastOnceWriter(DataSourceArrowWriter):
    """A batch write whose rows are there once the task that sent them has ended well, and twice if it ran twice."""

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
    if not plan.options.exactly_once:
        return AtLeastOnceWriter(plan)
    from ottla.spark.exactly_once import ExactlyOnceWriter

    return ExactlyOnceWriter(plan.options, plan.rows)


def stream_writer(options: Mapping[str, str], schema: StructType) -> DataSourceStreamArrowWriter:
    """The writer for one micro-batch of `df.writeStream.format("ottla")`; UserMistake for what cannot be written.

    In output mode "complete" every micro-batch appends the whole result, as Spark's own sink does.
    """
    given = read_sink_options(options, streaming=True)
    refuse_continuous_query(given.checkpoint)
    plan = _plan(given, schema)
    if not plan.options.exactly_once:
        return AtLeastOnceStreamWriter(plan)
    from ottla.spark.exactly_once import ExactlyOnceStreamWriter

    return ExactlyOnceStreamWriter(plan.options, plan.rows)


def _plan(options: SinkOptions, schema: StructType) -> SinkPlan:
    rows = plan_rows(schema, options.topic)
    if rows.topic is not None:
        _check_topic(options, rows.topic)
    return SinkPlan(options, rows)


def _check_topic(options: SinkOptions, topic: str) -> None:
    """Ask for the topic, once in this process: an unknown or forbidden one is an error here, not one of each task.

    Where brokers make topics that are asked for, this makes it. It is waited for as long as `kafka.max.block.ms` says.
    """
    from ottla.client.admin import Admin
    from ottla.sink.session import check_authorized
    from ottla.sink.settings import settings_for_reading

    place = (options.bootstrap_servers, topic)
    if place in _known_topics:
        return
    block_ms = options.settings.get("max.block.ms", str(_UNKNOWN_TOPIC_MS))
    with _producer(options, {"max.block.ms": block_ms}) as producer:
        try:
            producer.partitions_for(topic)
            with Admin(options.bootstrap_servers, **settings_for_reading(options.settings)) as admin:
                check_authorized(admin, topic, {"WRITE"})
        except KafkaError as error:
            why = {
                "TOPIC_AUTHORIZATION_FAILED": "which this user may not: have it granted Describe and Write on the "
                "topic.",
                "UNKNOWN_TOPIC_OR_PARTITION": "which does not exist: check its name, or create it first (waited for "
                f"{block_ms} ms; kafka.max.block.ms says how long).",
            }.get(error.name)
            if why is None:
                raise
            raise UserMistake(f"The topic to write to is {topic!r}, {why}", topic=topic) from None
    _known_topics.add(place)


def _write(plan: SinkPlan, batches: Iterator[pa.RecordBatch]) -> Written:
    with _producer(plan.options) as producer:
        totals = send_rows(batches, plan.rows, lambda: producer)
    return Written(totals.rows)


def _producer(options: SinkOptions, settings: Mapping[str, Any] = {}) -> Producer:
    from ottla.client.producer import Producer

    return Producer.from_config({"bootstrap.servers": options.bootstrap_servers, **options.settings, **settings})
