"""Kills on clusters before Kafka 4.0 (transaction version 1), where an epoch outlives its transaction."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import ottla
from ottla.sink.barriers import Barrier
from ottla.sink.commit import abort
from ottla.sink.planning import plan
from ottla.sink.session import session_of

from . import driver
from .conftest import PASSES, Engine, assert_every_row_once, await_quiet
from .driver import Job, run_batch, run_task

pytestmark = pytest.mark.prove


@pytest.fixture(scope="module")
def cluster() -> Iterator[ottla.Cluster]:
    with ottla.Cluster(brokers=3, settings={"transaction_version": 1}) as cluster:
        yield cluster


@pytest.mark.parametrize(
    "barrier", [Barrier.TASK_END, Barrier.COMMIT_ASKED, Barrier.COMMIT_BETWEEN, Barrier.COMMIT_END]
)
def test_every_row_is_there_once_after_a_kill(barrier: str, job: Job, engine: Engine) -> None:
    engine.kill_at(barrier, after=PASSES[barrier])
    driver.main(job.text())
    assert_every_row_once(job)


def test_what_killed_tasks_have_sent_is_aborted(job: Job) -> None:
    planned = plan(session_of(job.settings()))
    messages = [run_task(job, job.settings(), planned, 0, task, task) for task in range(job.tasks)]
    abort(session_of(job.settings()), [messages[0], None, None], planned)
    await_quiet(job)
    run_batch(job, job.settings(), 0)
    assert_every_row_once(job, batches=1)
