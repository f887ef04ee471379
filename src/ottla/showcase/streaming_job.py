"""The streaming job of `ottla run`: reads one topic and writes another one exactly once.

    python -m ottla.showcase.streaming_job RECORDS        what to do comes as a line of JSON on stdin (`Job`)

Every record is written with its key, partition and headers; its value becomes the record and its offset (`Result`). The
job ends when it has read what there was at its start. As a program it is a Spark driver of its own. It starts Spark,
for about RECORDS records, before it gets its job, and ends at once when its stdin is closed: then the process that
started it has ended. `start` runs the job in a session that there is already.
"""

from __future__ import annotations

import json
import os
import re
import sys
import threading
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, NamedTuple

from ottla.showcase.result import JsonResult, Result
from ottla.sink.settings import CONTROL_TOPIC
from ottla.spark.loading import java_settings, query_settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

MICRO_BATCHES = 2


def read_result(told: dict[str, Any] | None) -> Result:
    """From what `Result.to_dict` gave."""
    if told is None:
        return JsonResult()
    from ottla.showcase.avro import AvroResult

    return AvroResult(**told)


class Job(NamedTuple):
    """What to read and write; `checkpoint` is a folder that outlives the job, `records` how many there are.

    `options` are more of source and sink, such as their user; `control_topic` is the sink's. `result_as` says what
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


def _listen(told: SimpleQueue[str]) -> None:
    told.put(sys.stdin.readline())
    sys.stdin.read()
    os._exit(1)


def cause(text: str) -> str:
    """One sentence of an error of Spark's: our own error's where one was the cause, else the first line."""
    ours = re.search(r"^ottla\.errors\.\w+: (.*)", text, flags=re.MULTILINE)
    return ours[1] if ours is not None else text.partition("\n")[0]


def main() -> None:
    """The program."""
    from ottla.spark.session import local_session

    records = int(sys.argv[1])
    told: SimpleQueue[str] = SimpleQueue()
    threading.Thread(target=_listen, args=(told,), daemon=True).start()
    try:
        settings = java_settings(records) | query_settings(records)
        spark = local_session("ottla run, streaming", settings=settings)
        start(Job(**json.loads(told.get())), spark).awaitTermination()
        spark.stop()
    except Exception as error:
        sys.exit(cause(f"{type(error).__name__}: {error}"))
    # Threads of Spark may still wait for a Java that has ended.
    os._exit(0)


if __name__ == "__main__":
    main()
