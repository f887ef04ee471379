"""A Spark driver that streams files of rows through sinks: a process of its own, told by lines what to do.

Argument: the job as JSON (`Job`). Standard input: "start NAME N" (begin or go on with a query, N tasks a batch), "end
NAME" (wait until a query that failed is over), "await-one NAME" (wait until one task is done of those that run) and
"stop NAME"; what was done is said on standard output, and "stopping:NAME" when a query that waits for somebody is bound
to stop. Each query has a topic, a sink and a checkpoint of its name. A file in its folder `rows` is a micro-batch: each
line is a row's number, row n has key n modulo `KEYS`, and a key's rows lie in one task, in order.
"""

from __future__ import annotations

import json
import os
import sys
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

ROWS = 40
KEYS = 10
# What a session costs at its start is mostly the compilers' work; these sessions are too short for it to pay.
QUICK_JAVA = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
QUICK_START = {
    "spark.driver.extraJavaOptions": QUICK_JAVA,
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.streaming.pollingDelay": "50ms",
    "spark.sql.streaming.metricsEnabled": "false",
}


@dataclass
class Job:
    """What to stream: in `controls` are the queries that are at least once, `options` are further ones by query.

    `modes`: which of them are no plain streaming queries (`sink_modes`).
    """

    bootstrap_servers: str
    folder: str
    cores: int
    controls: list[str] = field(default_factory=list)
    options: dict[str, dict[str, str]] = field(default_factory=dict)
    settings: dict[str, str] = field(default_factory=dict)
    modes: dict[str, str] = field(default_factory=dict)

    def text(self) -> str:
        return json.dumps(asdict(self))

    def rows(self, name: str) -> Path:
        return Path(self.folder, name, "rows")

    def source(self, name: str) -> str | None:
        """The topic that has the rows too, for those who read them there."""
        return f"{name}-source" if self.modes.get(name, "").startswith("topic") else None

    def sink_id(self, name: str, number: int) -> str:
        """Of a micro-batch's sink: each batch write is a sink of its own, by its write.id."""
        return f"{name} {number}" if self.modes.get(name) in ("batch", "topicBatch") else name

    def checkpoint(self, name: str) -> Path:
        return Path(self.folder, name, "checkpoint")


def start(session: SparkSession, job: Job, name: str, tasks: int) -> StreamingQuery:
    if name in job.modes:
        from tests.spark.sink_modes import start_mode

        return cast("StreamingQuery", start_mode(session, job, name, tasks))
    lines = session.readStream.schema("value string").option("maxFilesPerTrigger", 1).text(str(job.rows(name)))
    rows = lines.selectExpr("value", f"cast(cast(value as long) % {KEYS} as string) key").repartition(tasks, "key")
    is_control = name in job.controls
    return (
        rows.writeStream.format("ottla-control" if is_control else "ottla")
        .option("kafka.bootstrap.servers", job.bootstrap_servers)
        .option("topic", name)
        .options(**{"delivery": "at-least-once"} if is_control else {"sink.id": name})
        .options(**job.options.get(name, {}))
        .option("checkpointLocation", str(job.checkpoint(name)))
        .start()
    )


def say(*words: Any) -> None:
    # One write for a line, lest those of threads run into each other.
    os.write(1, f"{' '.join(map(str, words))}\n".encode())


def tell_failure(query: StreamingQuery, name: str) -> None:
    """Nobody asks for it where a query was to go on."""
    try:
        query.awaitTermination()
    except Exception as error:
        say(f"failed:{name}", error)


def await_one_task(session: SparkSession) -> None:
    """Of all stages that run now."""
    tracker = session.sparkContext.statusTracker()
    while not any(
        (stage := tracker.getStageInfo(stage_id)) is not None and stage.numTasks > stage.numCompletedTasks > 0
        for stage_id in tracker.getActiveStageIds()
    ):
        time.sleep(0.01)


def stop(query: StreamingQuery, name: str) -> None:
    stopping = Thread(target=query.stop)
    stopping.start()
    # Its thread goes on only when whoever it waits for answers; what it has been told can be seen before.
    thread = cast(Any, query)._jsq.streamingQuery().queryExecutionThread()
    while thread.isAlive() and not thread.isInterrupted():
        time.sleep(0.01)
    say(f"stopping:{name}")
    stopping.join()
    say(f"stop:{name}")


def main() -> None:
    from ottla.spark.session import local_session

    job = Job(**json.loads(sys.argv[1]))
    session = local_session("ottla-sink-tests", cores=job.cores, settings=QUICK_START | job.settings)
    if job.controls:
        from tests.spark.at_least_once_control import ControlSource

        session.dataSource.register(ControlSource)
    queries: dict[str, StreamingQuery] = {}
    ends: dict[str, Thread] = {}
    say("ready")
    for line in sys.stdin:
        word, name, *arguments = line.split()
        if word == "start":
            queries[name] = start(session, job, name, int(arguments[0]))
            ends[name] = Thread(target=tell_failure, args=(queries[name], name), daemon=True)
            ends[name].start()
        elif word == "stop":
            Thread(target=stop, args=(queries[name], name)).start()
            continue
        elif word == "await-one":
            await_one_task(session)
        else:
            # Its failure is told first.
            ends[name].join()
        say(f"{word}:{name}")


if __name__ == "__main__":
    main()
