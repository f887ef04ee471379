"""A task leaves its producer to the next task of the same worker: connections and metadata, and nothing of its own."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.client.in_time import wait_until

import ottla
from ottla.client.producer import Producer
from ottla.sink import kept_producers
from ottla.sink.batch import Attempt, BatchId, Plan, Prepared, Totals
from ottla.sink.commit import commit
from ottla.sink.identities import SLOTS
from ottla.sink.kafka import Kafka
from ottla.sink.planning import plan
from ottla.sink.session import Session, session_of
from ottla.sink.settings import SinkSettings
from ottla.sink.task import prepare

from .conftest import assert_every_row_once, await_quiet, visible_rows
from .driver import Job, run_batch

NEVER = 10**6


class Worker:
    """A Python worker: one task after the other."""

    def __init__(self, settings: SinkSettings) -> None:
        self.port = Kafka(settings)
        self.session = Session(settings, self.port)
        self.used: list[Producer] = []

    def run(self, planned: Plan, task: int, write: Callable[[Producer], int], number: int = 0) -> Prepared:
        def write_all(producer: Callable[[], Producer]) -> Totals:
            self.used.append(producer())
            return Totals(write(producer()), task)

        batch = BatchId("query-1", 0)
        message = prepare(self.session, planned, batch, Attempt(task, task, number), write_all, Totals)
        assert isinstance(message, Prepared)
        return message

    def idle(self) -> list[Producer]:
        return list(self.port._producers._idle)


@pytest.fixture
def worker(job: Job) -> Iterator[Worker]:
    worker = Worker(job.settings())
    yield worker
    worker.session.close()


@pytest.fixture(autouse=True)
def unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """No producer is closed because the machine is slow."""
    monkeypatch.setattr(kept_producers, "KEPT_S", 600.0)


def row(job: Job, text: bytes, partition: int = 0) -> Callable[[Producer], int]:
    def write(producer: Producer) -> int:
        producer.send(job.topic, text, partition=partition)
        return 1

    return write


def values(job: Job) -> list[bytes]:
    await_quiet(job)
    return sorted(b"%d" % value for rows in visible_rows(job).values() for value in rows)


def test_a_warm_task_opens_no_connection_and_asks_for_no_metadata(
    cluster: ottla.Cluster, job: Job, worker: Worker
) -> None:
    planned = plan(session_of(job.settings()))
    # All brokers are met.
    for task in range(10):
        worker.run(planned, task, row(job, b"77", task % 3))
    with (
        cluster.faults.hold(api="ApiVersions", nth=NEVER) as opened,
        cluster.faults.hold(api="Metadata", nth=NEVER) as metadata,
    ):
        messages = [worker.run(planned, task, row(job, b"%d" % task, task % 3)) for task in range(10)]
        assert (opened.matched, metadata.matched) == (0, 0)
    commit(session_of(job.settings()), messages)
    assert values(job) == [b"%d" % task for task in range(10)]
    assert len(set(worker.used)) == 1


def test_a_warm_micro_batch_opens_no_connection(cluster: ottla.Cluster, job: Job) -> None:
    settings = job.settings()
    job.rows_per_batch = 12
    job.batches = 2 * SLOTS
    # Each task's ids come round once, and their coordinators are met.
    for batch in range(SLOTS):
        run_batch(job, settings, batch)
    with cluster.faults.hold(api="ApiVersions", nth=NEVER) as opened:
        for batch in range(SLOTS, job.batches):
            run_batch(job, settings, batch)
        assert opened.matched == 0
    assert_every_row_once(job)


def test_each_task_tells_its_own_offsets(job: Job, worker: Worker) -> None:
    session = session_of(job.settings())
    planned = plan(session)
    messages = [worker.run(planned, task, row(job, b"%d" % task, task)) for task in range(3)]
    entries = [message.entry for message in messages if message.entry is not None]
    told = session.written(entries)
    assert [[span.partition for span in told[entry.receipt_offset].spans] for entry in entries] == [[0], [1], [2]]
    assert len({entry.identity for entry in entries}) == 3
    commit(session, messages)
    assert values(job) == [b"0", b"1", b"2"]


def test_a_task_that_fails_leaves_nothing(job: Job, worker: Worker) -> None:
    planned = plan(session_of(job.settings()))
    first = worker.run(planned, 0, row(job, b"0"))

    def fail(producer: Producer) -> int:
        producer.send(job.topic, b"7")
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        worker.run(planned, 1, fail)
    assert worker.idle() == []
    again = worker.run(planned, 1, row(job, b"1"), number=1)
    assert worker.used[0] is worker.used[1] is not worker.used[2]
    commit(session_of(job.settings()), [first, again])
    assert values(job) == [b"0", b"1"]


def test_a_task_without_rows_leaves_the_producer_where_it_is(job: Job, worker: Worker) -> None:
    planned = plan(session_of(job.settings()))
    worker.run(planned, 0, row(job, b"0"))
    (kept,) = worker.idle()
    prepare(worker.session, planned, BatchId("query-1", 0), Attempt(1, 1), lambda producer: Totals(), Totals)
    assert worker.idle() == [kept]


def test_tasks_at_the_same_time_have_producers_of_their_own(job: Job, worker: Worker) -> None:
    planned = plan(session_of(job.settings()))
    both = threading.Barrier(2, timeout=30)

    def write(producer: Producer) -> int:
        both.wait()
        producer.send(job.topic, b"1")
        return 1

    messages: list[Prepared] = []
    threads = [
        threading.Thread(target=lambda task=task: messages.append(worker.run(planned, task, write)))  # type: ignore[misc]
        for task in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(worker.used)) == 2
    assert len(worker.idle()) == 1
    commit(session_of(job.settings()), messages)
    assert values(job) == [b"1", b"1"]


def is_closed(producer: Producer, topic: str) -> bool:
    try:
        producer.partitions_for(topic)
    except ottla.ClosedError:
        return True
    return False


def test_a_producer_that_nobody_takes_is_closed(job: Job, worker: Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_producers, "KEPT_S", 0.2)
    planned = plan(session_of(job.settings()))
    worker.run(planned, 0, row(job, b"0"))
    wait_until(lambda: is_closed(worker.used[0], job.topic))
    assert worker.idle() == []
    commit(session_of(job.settings()), [worker.run(planned, 1, row(job, b"1"))])
    assert worker.used[0] is not worker.used[1]
    assert values(job) == [b"1"]


def test_a_producer_is_replaced_when_its_time_is_over(
    job: Job, worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    planned = plan(session_of(job.settings()))
    worker.run(planned, 0, row(job, b"0"))
    monkeypatch.setattr(kept_producers, "KEPT_S", 0.0)
    worker.run(planned, 1, row(job, b"1"))
    assert worker.idle() == []
    worker.run(planned, 2, row(job, b"2"))
    assert worker.used[0] is worker.used[1] is not worker.used[2]


def test_a_child_process_makes_connections_of_its_own(job: Job, tmp_path: Path) -> None:
    settings = job.settings()
    run_batch(job, settings, 0)
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            run_batch(job, settings, 1)
            status = 0
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    run_batch(job, settings, 2)
    assert_every_row_once(job)


def test_partitions_that_were_added_are_known_to_the_next_attempt(
    cluster: ottla.Cluster, job: Job, worker: Worker
) -> None:
    """A producer that was kept may not know them yet."""
    planned = plan(session_of(job.settings()))
    first = worker.run(planned, 0, row(job, b"0"))
    with ottla.Admin(cluster.bootstrap_servers) as admin:
        admin.create_partitions(job.topic, 4)
    with pytest.raises(ottla.RecordError, match="has partitions 0 to 2, not 3"):
        worker.run(planned, 1, row(job, b"1", partition=3))
    again = worker.run(planned, 1, row(job, b"1", partition=3), number=1)
    commit(session_of(job.settings()), [first, again])
    assert values(job) == [b"0", b"1"]
