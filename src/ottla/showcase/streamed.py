"""The run's second half: a streaming job copies the exactly-once topic through the exactly-once sink, killed once.

The job begins in a Spark driver of its own (`streaming_job`), which starts while the run's own one audits the topics:
to start takes seconds. It is stopped at the moment when a sink that is not exactly-once goes wrong: its first
micro-batch is decided, and none of its transactions is committed yet. There driver, Java and Python workers are killed,
and the run's own driver, which is already started, takes over from the checkpoint. The result is compared with what the
source topic holds.

Invariant: a job that was not killed at that moment makes the run void.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Self

from ottla.errors import OttlaError
from ottla.ledger import schema
from ottla.patience import comes_within
from ottla.showcase.outcome import STREAMED
from ottla.showcase.result import Result
from ottla.showcase.streaming_job import Job, cause, start
from ottla.spark.loading import query_settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ottla.audit.ledgers.verdict import Verdict
    from ottla.showcase.kafka import RunKafka

_PATIENCE_S = 600.0
_WORDS_MAX = 400


def stream_and_kill(
    driver: StreamingDriver,
    spark: SparkSession,
    kafka: RunKafka,
    source: str,
    result: str,
    records: int,
    partitions: int,
    result_as: Result,
    while_dead: Callable[[], None] = lambda: None,
) -> int:
    """Have `driver` run the job, kill it, let `spark` finish it; how many drivers were killed at the right moment.

    `result_as` says what becomes of values; `while_dead` is called between the two drivers, where the first
    one was killed. OttlaError where the job fails, or takes longer than ten minutes.
    """
    kafka.create_topic(result, partitions)
    job = Job(
        kafka.read_from,
        source,
        result,
        kafka.name("ottla-run"),
        str(driver.folder / "checkpoint"),
        records,
        dict(kafka.spark_options),
        kafka.control_topic,
        result_as.to_dict(),
    )
    killed = driver.run_until_held(job)
    driver.kill()
    if killed:
        while_dead()
        finish(job, spark)
    return int(killed)


def finish(job: Job, spark: SparkSession) -> None:
    """Take the job over from its checkpoint; OttlaError where it fails, or takes longer than ten minutes."""
    query = None
    try:
        # Spark finds data sources of Python by the session that is active in a thread, which this makes `spark` here:
        # it was made in another thread.
        spark.createDataFrame([], "id long")
        # A query keeps the settings that it begins with.
        with _set(spark, query_settings(job.records)):
            query = start(job, spark)
        if not comes_within(_PATIENCE_S, lambda: not query.isActive):
            raise OttlaError(f"the streaming job was not finished within {_PATIENCE_S:.0f} s")
        failure = query.exception()
        if failure is not None:
            raise OttlaError(f"the streaming job failed: {cause(str(failure))[:_WORDS_MAX]}")
    finally:
        if query is not None and query.isActive:
            query.stop()


def judge_result(spark: SparkSession, kafka: RunKafka, source: str, result: str, result_as: Result) -> Verdict:
    """The result audited against the topic that it was made from, which has been audited against the ledger."""
    from pyspark.sql import functions as F  # noqa: N812

    from ottla.audit.ledgers.spark import audit_topics
    from ottla.audit.ledgers.verdict import judge
    from ottla.topic_audit.stored import stored_frame
    from ottla.topic_audit.topic import bounds_of

    settings = {**kafka.reader_settings, "isolation_level": "read_committed"}
    begun, ended = ({topic: bounds} for topic, bounds in bounds_of(kafka.read_from, [source, result], settings).items())
    sent = stored_frame(spark, kafka.read_from, begun, settings, result_as.values).withColumns(
        {
            schema.TOPIC: F.lit(result),
            schema.OUTCOME: F.lit(schema.ACKED),
            schema.OFFSET: F.lit(schema.NO_OFFSET).cast("long"),
        }
    )
    audits = audit_topics(sent, stored_frame(spark, kafka.read_from, ended, settings), ended, transactional=(result,))
    return replace(judge(schema.EXACTLY_ONCE, audits[result]), guarantee=STREAMED)


@contextmanager
def _set(spark: SparkSession, settings: dict[str, str]) -> Iterator[None]:
    before = {name: spark.conf.get(name, None) for name in settings}
    for name, value in settings.items():
        spark.conf.set(name, value)
    yield
    for name, earlier in before.items():
        if earlier is None:
            spark.conf.unset(name)
        else:
            spark.conf.set(name, earlier)


class StreamingDriver:
    """`with StreamingDriver(folder, records) as driver:` a Spark that starts, and waits for its job over `records`.

    It is a process that writes its results into a file. At the end of the block nothing of it is alive, Java and Python
    workers included, and what it had in `folder` can be removed.
    """

    def __init__(self, folder: Path, records: int) -> None:
        from ottla.sink.barriers import BARRIERS_FOLDER, Barrier, hold

        self.folder = folder
        self._said = folder / "driver.txt"
        self._barriers = barriers = folder / "barriers"
        # What a killed driver leaves behind goes with the folder.
        scratch = folder / "tmp"
        for each in (barriers, scratch):
            each.mkdir()
        hold(barriers, Barrier.COMMIT_APPLY)
        self._command = [sys.executable, "-m", "ottla.showcase.streaming_job", str(records)]
        self._environment = {**os.environ, BARRIERS_FOLDER: str(barriers), "TMPDIR": str(scratch)}
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        with self._said.open("wb") as said:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=said,
                env=self._environment,
                start_new_session=True,
            )
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def run_until_held(self, job: Job) -> bool:
        """Give it its job, and wait until it is held (True) or at its end (False).

        OttlaError where it fails or takes too long.
        """
        assert self._process is not None
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):
            # A failure to start is reported below.
            self._process.stdin.write(json.dumps(job._asdict()).encode() + b"\n")
            self._process.stdin.flush()
        process, has_ended = self._process, False

        def is_over() -> bool:
            nonlocal has_ended
            if self._is_held():
                return True
            status = process.poll()
            if status:
                raise OttlaError(f"the streaming job ended with status {status}: {self._end_of_log()}")
            has_ended = status == 0
            return has_ended

        if not comes_within(_PATIENCE_S, is_over):
            raise OttlaError(f"the streaming job did not get on within {_PATIENCE_S:.0f} s: {self._end_of_log()}")
        return not has_ended

    def kill(self) -> None:
        """End it with all that it has started, once."""
        process, self._process = self._process, None
        if process is None:
            return
        assert process.stdin is not None
        try:
            _kill_with_all_below(process.pid)
        except BaseException:
            # An interruption that came before anything was killed.
            _kill_with_all_below(process.pid)
            raise
        finally:
            with suppress(BrokenPipeError):
                process.stdin.close()
            process.wait()

    def _is_held(self) -> bool:
        from ottla.sink.barriers import Barrier

        return any(self._barriers.glob(f"{Barrier.COMMIT_APPLY}.*.held"))

    def _end_of_log(self) -> str:
        words = self._said.read_text(errors="replace").strip().splitlines()
        return words[-1][:_WORDS_MAX] if words else "it said nothing"


def _kill_with_all_below(pid: int) -> None:
    # First those that could start others. Python workers have process groups of their own, and outlive their Java.
    for each in (pid, *_below(pid)):
        with suppress(ProcessLookupError):
            os.kill(each, signal.SIGKILL)


def _below(pid: int) -> list[int]:
    """The processes that this one has started, and those that they have."""
    listed = subprocess.run(["ps", "-A", "-o", "pid=,ppid="], capture_output=True, text=True, check=True).stdout
    children: dict[int, list[int]] = {}
    for line in listed.splitlines():
        child, parent = map(int, line.split())
        children.setdefault(parent, []).append(child)
    found, left = [], [pid]
    while left:
        for child in children.get(left.pop(), ()):
            found.append(child)
            left.append(child)
    return found
