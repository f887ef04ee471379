"""A streaming engine in small: plans, runs tasks and commits, batch after batch, with a checkpoint in two folders.

Stands for Spark in these tests, and runs in a process of its own that can be killed. What it is told comes as JSON in
its argument; every word of it is in `Job`. Like Spark it logs a batch before it runs it (`offsets`) and after it was
committed (`commits`), in between it knows nothing.

    rows       row n belongs to batch n // rows_per_batch and has key n % keys
    tasks      a key's rows lie in one task, in order
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ottla.client.producer import Producer
from ottla.errors import OttlaError
from ottla.sink import commit as committing
from ottla.sink.batch import Attempt, BatchId, Prepared, Skipped, Totals
from ottla.sink.planning import plan
from ottla.sink.session import Session, session_of
from ottla.sink.settings import SinkSettings
from ottla.sink.task import prepare


@dataclass
class Job:
    """What to do."""

    bootstrap_servers: str
    topic: str
    checkpoint: str
    sink_id: str = "orders"
    query_id: str = "query-1"
    batches: int = 3
    rows_per_batch: int = 60
    keys: int = 12
    tasks: int = 3
    exactly_once: bool = True
    partitions: int = 3
    transaction_timeout_ms: int = 60_000
    margin_ms: int = 20_000
    client_settings: dict[str, Any] = field(default_factory=dict)
    # Which start of the query this is.
    run_id: str = ""
    same_rows: bool = False
    of_checkpoint: bool = False
    of_stream: bool = False
    # The last task of this batch fails, and takes no row back: as one that was killed.
    failing_batch: int = -1

    def settings(self) -> SinkSettings:
        return SinkSettings(
            self.sink_id,
            self.bootstrap_servers,
            {"retry.backoff.ms": 10, "linger.ms": 0, **self.client_settings},
            transaction_timeout_ms=self.transaction_timeout_ms,
            margin_ms=self.margin_ms,
            same_rows=self.same_rows,
            of_checkpoint=self.of_checkpoint,
            of_stream=self.of_stream,
        )

    def rows_of(self, batch: int, task: int) -> list[int]:
        first = batch * self.rows_per_batch
        return [row for row in range(first, first + self.rows_per_batch) if row % self.keys % self.tasks == task]

    def text(self) -> str:
        return json.dumps(asdict(self))


class Checkpoint:
    """Spark's offset log and commit log: which batches were begun, and which were finished; one file each, for ever."""

    def __init__(self, folder: str) -> None:
        self._folder = Path(folder)
        for log in ("offsets", "commits"):
            (self._folder / log).mkdir(parents=True, exist_ok=True)

    def next_batch(self) -> int:
        return max((int(path.name) for path in (self._folder / "commits").iterdir()), default=-1) + 1

    def begin(self, batch: int) -> None:
        (self._folder / "offsets" / str(batch)).touch()

    def finish(self, batch: int) -> None:
        # Who comes second is told so, as in Spark: another driver is at work.
        (self._folder / "commits" / str(batch)).touch(exist_ok=False)

    def roll_back(self, batch: int) -> None:
        """Forget what came after this batch."""
        for path in (self._folder / "commits").iterdir():
            if int(path.name) > batch:
                path.unlink()


def producer_of(settings: SinkSettings, transactional_id: str) -> Producer:
    """A producer of this transactional id as the sink has them."""
    return Producer.from_config({**settings.for_sending(), "transactional.id": transactional_id})


def digest_of(row: int) -> int:
    return int.from_bytes(hashlib.blake2b(b"%d" % row, digest_size=8).digest(), "big")


def totals_of(rows: Sequence[int]) -> Totals:
    totals = Totals()
    for row in rows:
        totals = totals.plus(Totals(1, digest_of(row)))
    return totals


def send(producer: Producer, job: Job, rows: Sequence[int]) -> None:
    for row in rows:
        key = row % job.keys
        producer.send(job.topic, b"%d" % row, b"%d" % key, partition=key % job.partitions)


def run_task(job: Job, settings: SinkSettings, planned: Any, batch: int, task: int, number: int) -> Prepared | Skipped:
    return prepare_rows(
        session_of(settings),
        planned,
        BatchId(job.query_id, batch),
        task,
        job,
        job.rows_of(batch, task),
        Attempt(number, task, run_id=job.run_id),
    )


def prepare_rows(
    session: Session,
    planned: Any,
    batch: BatchId,
    task: int,
    job: Job,
    rows: list[int],
    attempt: Attempt | None = None,
) -> Prepared | Skipped:
    def write(producer: Callable[[], Producer]) -> Totals:
        if rows:
            send(producer(), job, rows)
        return totals_of(rows)

    return prepare(session, planned, batch, attempt or Attempt(0, task), write, lambda: totals_of(rows))


def run_batch(job: Job, settings: SinkSettings, batch: int) -> None:
    planned = plan(session_of(settings))
    messages = [run_task(job, settings, planned, batch, task, batch * job.tasks + task) for task in range(job.tasks)]
    if batch == job.failing_batch:
        committing.abort(session_of(settings), [*messages[:-1], None])
        raise OttlaError(f"batch {batch} fails")
    try:
        committing.commit(session_of(settings), messages)
    except OttlaError:
        # As Spark does, which hands the same messages to abort().
        committing.abort(session_of(settings), messages)
        raise


def run_plainly(job: Job, batch: int) -> None:
    """At least once: what a sink without any of this does."""
    from ottla.sink.barriers import Barrier, reach

    with Producer(job.bootstrap_servers, linger_ms=0) as producer:
        for task in range(job.tasks):
            send(producer, job, job.rows_of(batch, task))
    # Where the other one would be while its rows are stored and the engine's commit log does not know it.
    for name in (Barrier.COMMIT_APPLY, Barrier.COMMIT_END):
        reach(name)


def main(text: str) -> None:
    job = Job(**json.loads(text))
    checkpoint = Checkpoint(job.checkpoint)
    settings = job.settings()
    for batch in range(checkpoint.next_batch(), job.batches):
        checkpoint.begin(batch)
        if job.exactly_once:
            run_batch(job, settings, batch)
        else:
            run_plainly(job, batch)
        checkpoint.finish(batch)


if __name__ == "__main__":
    main(sys.argv[1])
