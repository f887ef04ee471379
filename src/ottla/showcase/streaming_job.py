"""The streaming job of `ottla run`: reads one topic and writes another one exactly once.

    python -m ottla.showcase.streaming_job        what to do comes as a line of JSON on stdin (`Job`)

Every record goes on under its key, in its partition and with its headers; its value becomes the record and where it
stood (`Result`). The job ends when it has read what there was at its start. As a program it is a Spark driver of its
own, which ends at once, too, when its stdin is closed: whoever started it is gone then. `start` runs the job in a
session that there is already.
"""

from __future__ import annotations

import json
import os
import re
import sys
import threading
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, NamedTuple

from ottla.sink.settings import CONTROL_TOPIC
from ottla.spark.loading import java_settings, query_settings

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

MICRO_BATCHES = 2
FROM = "concat(topic, '-', partition, '@', offset)"
"""Where a record stood, in SQL over the columns of Spark's Kafka source."""


class Result(ABC):
    """The value of a record of the result: by Spark for the job, and twice without it for the judges."""

    @abstractmethod
    def column(self) -> Column:
        """Of the columns of Spark's Kafka source."""

    @abstractmethod
    def values(self, topic: str, partition: int, records: pa.RecordBatch) -> Any:
        """A column of values for these records of a source."""

    @abstractmethod
    def value(self, topic: str, partition: int, offset: int, value: bytes | None) -> bytes:
        """The same for one record."""

    @abstractmethod
    def to_dict(self) -> dict[str, Any] | None:
        """What `read_result` makes a result of, as JSON has it."""


class JsonResult(Result):
    """A JSON object of `from` and `record`."""

    def column(self) -> Column:
        """By putting text together."""
        from pyspark.sql import functions as F  # noqa: N812

        record = "coalesce(cast(value as string), 'null')"
        return F.expr(f"""cast(concat('{{"from":"', {FROM}, '","record":', {record}, '}}') as binary)""")

    def values(self, topic: str, partition: int, records: pa.RecordBatch) -> Any:
        """By pyarrow."""
        import pyarrow as pa
        import pyarrow.compute as pc

        compute: Any = pc  # whose stubs know no scalars here
        offsets = records.column("offset").cast(pa.string())
        value = compute.coalesce(records.column("value").cast(pa.binary()), pa.scalar(b"null"))
        before = compute.binary_join_element_wise(f'{{"from":"{topic}-{partition}@', offsets, '","record":', "")
        return compute.binary_join_element_wise(before.cast(pa.binary()), value, pa.scalar(b"}"), pa.scalar(b""))

    def value(self, topic: str, partition: int, offset: int, value: bytes | None) -> bytes:
        """By hand."""
        return b'{"from":"%s-%d@%d","record":%s}' % (topic.encode(), partition, offset, value or b"null")

    def to_dict(self) -> None:
        """It is the usual one."""


def read_result(told: dict[str, Any] | None) -> Result:
    """What `Result.to_dict` has told."""
    if told is None:
        return JsonResult()
    from ottla.showcase.avro import AvroResult

    return AvroResult(**told)


class Job(NamedTuple):
    """What to read and write; `checkpoint` is a folder that outlives the job, `records` how many there are.

    `options` are more of source and sink, about who they are; `control_topic` is the sink's. `result_as` says what
    becomes of values (`read_result`).
    """

    bootstrap_servers: str
    source: str
    result: str
    sink_id: str
    checkpoint: str
    records: int
    options: dict[str, str] = {}  # noqa: RUF012
    control_topic: str = CONTROL_TOPIC
    result_as: dict[str, Any] | None = None


def run(job: Job) -> None:
    """Do it all, and return when it is done."""
    from ottla.spark.session import local_session

    spark = local_session("ottla run, streaming", settings=java_settings(job.records) | query_settings(job.records))
    start(job, spark).awaitTermination()
    spark.stop()


def start(job: Job, spark: SparkSession) -> StreamingQuery:
    """Begin, or go on from the checkpoint; the query ends by itself."""
    records = (
        spark.readStream.format("ottla")
        .options(**job.options)
        .option("kafka.bootstrap.servers", job.bootstrap_servers)
        .option("subscribe", job.source)
        .option("startingOffsets", "earliest")
        .option("includeHeaders", "true")
        .option("maxOffsetsPerTrigger", -(-job.records // MICRO_BATCHES))
        .load()
    )
    value = read_result(job.result_as).column().alias("value")
    result = records.select("key", value, "headers", "partition")
    return (
        result.writeStream.format("ottla")
        .options(**job.options)
        .option("kafka.bootstrap.servers", job.bootstrap_servers)
        .option("sink.control.topic", job.control_topic)
        .option("topic", job.result)
        .option("includeHeaders", "true")
        .option("sink.id", job.sink_id)
        .option("checkpointLocation", job.checkpoint)
        .trigger(availableNow=True)
        .start()
    )


def _end_with_stdin() -> None:
    sys.stdin.read()
    os._exit(1)


def cause(text: str) -> str:
    """The sentence in all that Spark says: our own error's where one was the cause, else the first line."""
    ours = re.search(r"^ottla\.errors\.\w+: (.*)", text, flags=re.MULTILINE)
    return ours[1] if ours is not None else text.partition("\n")[0]


def main() -> None:
    """The program."""
    job = Job(**json.loads(sys.stdin.readline()))
    threading.Thread(target=_end_with_stdin, daemon=True).start()
    try:
        run(job)
    except Exception as error:
        sys.exit(cause(f"{type(error).__name__}: {error}"))
    # Threads of Spark may still wait for a Java that is gone.
    os._exit(0)


if __name__ == "__main__":
    main()
