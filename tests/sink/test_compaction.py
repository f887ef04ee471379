"""The control topic is compacted under the sinks: what was decided last stays, and is read as what it is."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.client.in_time import wait_until

import ottla
from ottla.records.plain import decode_batches
from ottla.sink.commit import abort
from ottla.sink.identities import SLOTS
from ottla.sink.planning import plan
from ottla.sink.recovery import describe
from ottla.sink.session import session_of
from ottla.sink.settings import CONTROL_TOPIC, SINK_TOPICS

from .conftest import assert_every_row_once, make_job
from .driver import Job, producer_of, run_batch, run_task

# Of the other sinks in this file; and what two segments of 4 KiB hold, batches of 100 bytes and more.
_OTHERS, _IN_SEGMENTS = 50, 80


@pytest.fixture(scope="module")
def cluster() -> Iterator[ottla.Cluster]:
    settings = {"log_cleaner_backoff_ms": 50, "log_cleaner_delete_retention_ms": 1}
    with ottla.Cluster(brokers=3, settings=settings) as cluster:
        configs = {"cleanup.policy": "compact", "segment.bytes": "4096", "min.cleanable.dirty.ratio": "0.01"}
        for topic in SINK_TOPICS:
            cluster.create_topic(topic, configs=configs)
        yield cluster


def test_decisions_outlive_compaction(cluster: ottla.Cluster, kafka_name: str, tmp_path: Path) -> None:
    busy = make_job(cluster, f"{kafka_name}-busy", tmp_path / "busy", batches=25)
    idle = make_job(cluster, f"{kafka_name}-idle", tmp_path / "idle", batches=1)
    taken_back = make_job(cluster, f"{kafka_name}-taken-back", tmp_path / "taken-back", batches=1)
    for job in (idle, taken_back):
        run_batch(job, job.settings(), 0)
    give_up(taken_back)
    for batch in range(busy.batches):
        run_batch(busy, busy.settings(), batch)
    await_compaction(busy)
    for job in (busy, idle, taken_back):
        # Whoever starts now reads what compaction has left.
        assert describe(session_of(job.settings())).decisions[-1].batch.batch_id == job.batches - 1
        run_batch(job, job.settings(), job.batches - 1)
        job.batches += 1
        run_batch(job, job.settings(), job.batches - 1)
        assert_every_row_once(job)


def test_neither_topic_grows_with_the_number_of_batches(
    cluster: ottla.Cluster, kafka_name: str, tmp_path: Path
) -> None:
    job = make_job(cluster, kafka_name, tmp_path, batches=60)
    for batch in range(job.batches):
        run_batch(job, job.settings(), batch)
    keys = dict(zip(SINK_TOPICS, (1, job.tasks * SLOTS), strict=True))
    for topic, most in keys.items():
        await_few(job, topic, most)
    assert_every_row_once(job)


def await_few(job: Job, topic: str, most: int) -> None:
    """Wait until there are so many records of this sink, and in all as many batches, with control markers, as fit into
    two segments beside: what is newest is not compacted yet."""
    port = session_of(job.settings()).port
    deadline = time.monotonic() + 60
    while True:
        batches = [each for read in port.read(topic, 0, port.end_offset(topic)) for each in decode_batches(read)]
        ours = {
            record.key for _, records in batches for record in records if job.sink_id.encode() in (record.key or b"")
        }
        assert len(ours) <= most
        if len(batches) <= _OTHERS + 2 * most + _IN_SEGMENTS:
            return
        assert time.monotonic() < deadline, f"{topic} has {len(batches)} batches, for {most} keys"
        time.sleep(0.05)


def give_up(job: Job) -> None:
    """A batch that is aborted after its decision was appended."""
    settings = job.settings()
    planned = plan(session_of(settings))
    messages = [run_task(job, settings, planned, 1, task, task) for task in range(job.tasks)]
    with producer_of(settings, planned.driver_identity.transactional_id) as producer:
        producer.init_transactions(planned.driver_identity)
        producer.begin_transaction()
        producer.send(CONTROL_TOPIC, b"never decided", settings.sink_id.encode(), partition=0).result(30)
        producer.abort_transaction()
    abort(session_of(settings), messages)


def await_compaction(job: Job) -> None:
    def few() -> bool:
        return len(describe(session_of(job.settings())).decisions) <= job.batches // 2

    wait_until(few, "the control topic was not compacted", patience_s=60)
