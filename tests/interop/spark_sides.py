"""Does each case of `spark_cases` with Spark's own connector and with ours, and prints what came of it, a line a case.

In a process of its own, as the connector must be on the class path when Spark's Java starts. Arguments: bootstrap
servers, settings of the session as JSON, a folder for checkpoints, the cases of each kind as JSON.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.interop.spark_cases import COUNTED, EARLY, topic_of
from tests.spark.slow_start import started_again

import ottla
from ottla.errors import UserMistake
from ottla.spark import offsets_behind_latest
from ottla.spark.session import local_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

FORMS = ("kafka", "ottla")
_PATIENCE_S, _LONG_S = 8, 240
_CONFIGURED = "spark.sql.streaming.checkpointLocation"


class Sides:
    """One session, and the cases in it."""

    def __init__(self, spark: SparkSession, servers: str, folder: Path) -> None:
        self._spark, self._folder = spark, folder
        self._servers = {"kafka.bootstrap.servers": servers}

    def read(self, form: str, case: str, options: dict[str, str]) -> Any:
        """The rows of a batch, their columns, and of some how many tasks read them."""
        frame = self._spark.read.format(form).options(**(self._servers | options)).load()
        tasks = frame.rdd.getNumPartitions() if case in COUNTED else None
        return {"rows": _rows(frame), "columns": frame.schema.simpleString(), "tasks": tasks}

    def stream(self, form: str, case: str, options: dict[str, Any]) -> Any:
        """The rows of all micro-batches of a stream that ends, the offsets it went by, and its lag."""
        given = dict(options)
        trigger = given.pop("trigger", {"availableNow": True})
        source = self._spark.readStream.format(form).options(**(self._servers | given)).load()
        return self._drain(source, f"{form}-{case}", trigger)

    def write(self, form: str, case: str, options: dict[str, Any]) -> Any:
        """Nothing: the test reads the topic."""
        given = {"mode": "append", "topic": topic_of(case, form), **options}
        rows, mode = given.pop("rows"), given.pop("mode")
        columns = [column.replace("TOPIC", f"'{topic_of(case, form)}'") for column in rows]
        writer = self._spark.range(0, 3, 1, 1).selectExpr(*columns).write.format(form).mode(mode)
        writer.options(**self._servers, **{name: value for name, value in given.items() if value is not None}).save()

    def sink(self, form: str, case: str, options: dict[str, Any]) -> Any:
        """Nothing: the test reads the topic."""
        given = {"outputMode": "append", "trigger": {"availableNow": True}, "configured": False, **options}
        mode, trigger, configured = given.pop("outputMode"), given.pop("trigger"), given.pop("configured")
        counted, goes_to = given.pop("counted", mode != "append"), given.pop("form", None)
        reads = given.pop("source", form if goes_to else "ottla")
        source = self._spark.readStream.format(reads).options(**self._servers, **EARLY).load()
        rows = source.select("key", "value")
        if counted:
            rows = source.groupBy("partition").count().selectExpr("string(partition) key", "string(count) value")
        place = str(self._folder / topic_of(case, form))
        writer = rows.writeStream.outputMode(mode).trigger(**trigger)
        if goes_to == "foreach":
            writer = writer.foreach(_PassOn(self._servers["kafka.bootstrap.servers"], topic_of(case, form)))
        elif goes_to == "foreachBatch":
            where = self._servers | {"topic": topic_of(case, form)} | ({"sink.id": case} if form == "ottla" else {})
            writer = writer.foreachBatch(
                lambda batch, _: batch.write.format(form).mode("append").options(**where).save()
            )
        else:
            writer = writer.format(goes_to or form).options(**self._servers, topic=topic_of(case, form), **given)
        if configured:
            self._spark.conf.set(_CONFIGURED, place)
        else:
            writer = writer.option("checkpointLocation", place)
        # Of triggers that never end: Spark's connector is stopped; ours raises an error, however long that takes.
        patience_s = None if "availableNow" in trigger else _PATIENCE_S if form == "kafka" else _LONG_S

        def run() -> None:
            query = writer.start()
            if not query.awaitTermination(patience_s):
                query.stop()

        try:
            started_again(run)
        finally:
            self._spark.conf.unset(_CONFIGURED)

    def move(self, first: str, _case: str, _options: dict[str, Any]) -> Any:
        """What this format reads in a stream, and then the other one with the checkpoint of that stream."""
        topic = topic_of("moved", first)
        told = []
        for form in (first, *(form for form in FORMS if form != first)):
            with ottla.Producer(self._servers["kafka.bootstrap.servers"]) as producer:
                for number in range(3):
                    producer.send(topic, f"{form} {number}", partition=number)
            source = (
                self._spark.readStream.format(form).options(**(self._servers | EARLY | {"subscribe": topic})).load()
            )
            told.append(self._drain(source, topic, {"availableNow": True}))
        return told

    def _drain(self, source: DataFrame, place: str, trigger: dict[str, Any]) -> dict[str, Any]:
        found: list[str] = []
        writer = (
            source.writeStream.foreachBatch(lambda rows, _: found.extend(_rows(rows)))
            .option("checkpointLocation", str(self._folder / place))
            .trigger(**trigger)
        )

        def run() -> StreamingQuery:
            query = writer.start()
            query.awaitTermination()
            return query

        query = started_again(run)
        progress = [each for each in query.recentProgress if each.numInputRows]
        ends = [json.loads(each.sources[0].endOffset) for each in progress]
        own = [each.sources[0].metrics or {} for each in progress]
        computed = [offsets_behind_latest(each)[0] for each in progress]
        return {
            "rows": sorted(found),
            "description": progress[0].sources[0].description if progress else "",
            "offsets": ends,
            "batches": [each.numInputRows for each in progress],
            "behind": [theirs or ours for theirs, ours in zip(own, computed, strict=True)],
        }


class _PassOn:
    """`foreach` with a producer of ours in every task."""

    def __init__(self, servers: str, topic: str) -> None:
        self._servers, self._topic = servers, topic
        self._producer: ottla.Producer | None = None

    def open(self, partition_id: int, epoch_id: int) -> bool:
        self._producer = ottla.Producer(self._servers)
        return True

    def process(self, row: Any) -> None:
        assert self._producer is not None
        self._producer.send(self._topic, row.value, row.key)

    def close(self, error: Exception | None) -> None:
        if self._producer is not None:
            self._producer.close()


def _rows(records: DataFrame) -> list[str]:
    headers = ["headers"] if "headers" in records.columns else []
    names = ["topic", "partition", "offset", "key", "value", "timestampType", "unix_micros(timestamp) time", *headers]
    return sorted(repr(tuple(row)) for row in records.selectExpr(*names).collect())


def _outcome(act: Callable[[str, str, dict[str, Any]], Any], form: str, case: str, options: dict[str, Any]) -> Any:
    """What comes of a case with one format: an error in words where it is refused."""
    try:
        return act(form, case, options)
    except Exception as refusal:
        return f"refused: {type(refusal).__name__}: {refusal}"


def main() -> None:
    """Do all cases, and print what came of each with either format as JSON."""
    servers, settings, folder, cases = sys.argv[1:]
    try:
        spark = local_session("ottla-tests", settings=json.loads(settings))
    except UserMistake as reason:
        sys.stdout.write(json.dumps({"missing": str(reason)}))
        return
    sides = Sides(spark, servers, Path(folder))
    for kind, these in json.loads(cases).items():
        for case, options in these.items():
            both = [_outcome(getattr(sides, kind), form, case, options) for form in FORMS]
            sys.stdout.write(json.dumps({"case": case, "both": both}) + "\n")
            sys.stdout.flush()
    spark.stop()


if __name__ == "__main__":
    main()
