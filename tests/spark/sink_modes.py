"""The other ways in which Spark writes to a sink, for `sink_driver`: foreachBatch, batch writes.

And the same rows read from a topic, as a stream and as batches, each Kafka partition in a task.

Each looks like a streaming query to whoever drives it: it takes a file of rows after the other, and leaves a file of
the same number in `commits` once that is written.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from threading import Event, Thread
from typing import TYPE_CHECKING, Any

from tests.spark.sink_driver import KEYS, ROWS, Job

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, DataFrameWriter, SparkSession

_LOOK_AGAIN_S = 0.01


class BatchWrites:
    """Batch writes, one for each file, in a thread of their own; an error ends them."""

    def __init__(self, session: SparkSession, job: Job, name: str, write: Callable[[DataFrame, int], None]) -> None:
        self._session = session
        self._rows = job.rows(name)
        self._commits = job.checkpoint(name) / "commits"
        self._commits.mkdir(parents=True, exist_ok=True)
        self._write = write
        self._stopped = Event()
        self._error: Exception | None = None
        self._thread = Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        # As `thread_target` does. This thread inherits nothing: it is no part of a query.
        session = self._session
        session._jvm.org.apache.spark.sql.classic.SparkSession.setActiveSession(session._jsparkSession)  # type: ignore[union-attr]
        try:
            for number in itertools.count():
                if not (self._commits / str(number)).exists():
                    self._take(number)
                if self._stopped.is_set():
                    return
        except Exception as error:
            self._error = error

    def _take(self, number: int) -> None:
        file = self._rows / f"{number:05}.txt"
        while not file.exists():
            if self._stopped.wait(_LOOK_AGAIN_S):
                return
        self._write(self._session.read.schema("value string").text(str(file)), number)
        (self._commits / str(number)).touch()

    def awaitTermination(self) -> None:  # noqa: N802
        """As a query's: raises what ended it."""
        self._thread.join()
        if self._error is not None:
            raise self._error

    def stop(self) -> None:
        self._stopped.set()
        self._thread.join()


def start_mode(session: SparkSession, job: Job, name: str, tasks: int) -> Any:
    """Begin or go on with one that is no plain streaming query."""
    return _MODES[job.modes[name]](session, job, name, tasks)


def _start_foreach_batch(session: SparkSession, job: Job, name: str, tasks: int) -> Any:
    def write(rows: DataFrame, number: int) -> None:
        _to(job, name, _writer(job, name, rows, tasks, {"sink.id": name})).save()

    lines = session.readStream.schema("value string").option("maxFilesPerTrigger", 1).text(str(job.rows(name)))
    return lines.writeStream.foreachBatch(write).option("checkpointLocation", str(job.checkpoint(name))).start()


def _start_batch_writes(session: SparkSession, job: Job, name: str, tasks: int) -> Any:
    def write(rows: DataFrame, number: int) -> None:
        _to(job, name, _writer(job, name, rows, tasks, {"write.id": job.sink_id(name, number)})).save()

    return BatchWrites(session, job, name, write)


def _start_topic(session: SparkSession, job: Job, name: str, tasks: int) -> Any:
    reader = _from(job, name, session.readStream).option("startingOffsets", "earliest")
    writer = reader.load().select("key", "value").writeStream.format("ottla")
    return _to(job, name, writer).option("sink.id", name).start()


def _start_topic_batch(session: SparkSession, job: Job, name: str, tasks: int) -> Any:
    def write(_: DataFrame, number: int) -> None:
        rows = _from(job, name, session.read).load().select("key", "value")
        # A write is what one file has.
        rows = rows.where(f"cast(cast(value as string) as long) >= {number * ROWS}")
        _to(job, name, rows.write.format("ottla").mode("append")).option("write.id", job.sink_id(name, number)).save()

    return BatchWrites(session, job, name, write)


def _from(job: Job, name: str, reader: Any) -> Any:
    given = {"kafka.bootstrap.servers": job.bootstrap_servers, "subscribe": job.source(name)}
    return reader.format("ottla").options(**given)


_MODES = {
    "foreachBatch": _start_foreach_batch,
    "batch": _start_batch_writes,
    "topic": _start_topic,
    "topicBatch": _start_topic_batch,
}


def _writer(job: Job, name: str, rows: DataFrame, tasks: int, identity: dict[str, str]) -> DataFrameWriter:
    placed = _keyed(rows).repartition(tasks, "key")
    if name in job.controls:
        return placed.write.format("ottla-control").mode("append").option("delivery", "at-least-once")
    return placed.write.format("ottla").mode("append").options(**identity)


def _keyed(lines: DataFrame) -> DataFrame:
    return lines.selectExpr("value", f"cast(cast(value as long) % {KEYS} as string) key")


def _to(job: Job, name: str, writer: Any) -> Any:
    given = {"kafka.bootstrap.servers": job.bootstrap_servers, "topic": name, **job.options.get(name, {})}
    if hasattr(writer, "outputMode"):
        given["checkpointLocation"] = str(job.checkpoint(name))
    return writer.options(**given)
