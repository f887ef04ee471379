"""`atomic=true`: one transaction for the batch and its decision; nothing of a batch is seen before all of it is."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.tiers import some_tested

import ottla
from ottla.client.producer import Producer
from ottla.sink.barriers import Barrier
from ottla.sink.batch import Attempt, BatchId, Totals
from ottla.sink.commit import abort, commit
from ottla.sink.identities import are_only_claims, is_only_claim
from ottla.sink.planning import plan
from ottla.sink.recovery import describe
from ottla.sink.session import session_of
from ottla.sink.task import prepare

from . import driver
from .conftest import PASSES, Engine, assert_every_row_once, await_quiet, make_job, visible_rows
from .driver import Job, run_batch, run_task
from .test_reading_decisions import described, identity

_NOT_REACHED = (Barrier.TASK_MARKER, Barrier.COMMIT_BETWEEN)
KILLED_AT = [name for name in Barrier if not name.startswith("abort-") and name not in _NOT_REACHED]


@pytest.fixture
def job(cluster: ottla.Cluster, kafka_name: str, tmp_path: Path) -> Job:
    return make_job(cluster, kafka_name, tmp_path, atomic=True)


@pytest.mark.parametrize("barrier", some_tested(KILLED_AT, Barrier.COMMIT_DECISION, Barrier.COMMIT_APPLY))
def test_every_row_is_there_once_after_a_kill(barrier: str, job: Job, engine: Engine) -> None:
    engine.kill_at(barrier, after=PASSES[barrier])
    # All of the second batch or nothing of it, before anybody has recovered anything.
    landed = sum(map(len, visible_rows(job).values()))
    assert landed in (60, 120)
    driver.main(job.text())
    assert_every_row_once(job)


@pytest.mark.parametrize("fault", ["drop_ack", "drop_request"])
def test_a_kill_while_the_commit_is_unanswered(fault: str, cluster: ottla.Cluster, job: Job, engine: Engine) -> None:
    engine.kill_while_commit_is_unanswered(fault, cluster)
    driver.main(job.text())
    assert_every_row_once(job)


def test_it_can_be_told_afterwards(job: Job) -> None:
    driver.main(job.text())
    state = describe(session_of(job.settings()))
    last = state.decisions[-1]
    assert last.atomic
    assert last.batch == BatchId(job.query_id, 2)
    assert sum(span.rows for entry in last.entries for span in entry.spans) == 60
    assert state.open == ()


def test_a_retried_attempt_gives_the_batch_up(job: Job) -> None:
    settings = job.settings()
    planned = plan(session_of(settings))
    messages = [run_task(job, settings, planned, 0, task, task) for task in range(job.tasks)]
    for attempt in (Attempt(100, 1, attempt_number=1), Attempt(101, 1)):
        with pytest.raises(ottla.TransactionError, match=r"partition 1 of batch 0 .* was attempted more than once"):
            driver.prepare_rows(settings, planned, BatchId(job.query_id, 0), 1, job, job.rows_of(0, 1), attempt)
    # Nothing was written by them: the batch is well.
    commit(session_of(settings), messages)
    assert_every_row_once(job, batches=1)


def test_an_attempt_that_never_wrote_may_be_retried(job: Job) -> None:
    settings = job.settings()
    planned = plan(session_of(settings))
    batch = BatchId(job.query_id, 0)

    def fail(_: Callable[[], Producer]) -> Totals:
        raise RuntimeError("its input cannot be read")

    with pytest.raises(RuntimeError):
        prepare(session_of(settings), planned, batch, Attempt(1, 1), fail, Totals)
    messages = [
        driver.prepare_rows(settings, planned, batch, task, job, job.rows_of(0, task), Attempt(10 + task, task, 1))
        for task in range(job.tasks)
    ]
    commit(session_of(settings), messages)
    assert_every_row_once(job, batches=1)


def test_an_attempt_that_came_after_the_winner_gives_the_batch_up(job: Job) -> None:
    settings = job.settings()
    planned = plan(session_of(settings))
    messages = [run_task(job, settings, planned, 0, task, task) for task in range(job.tasks)]
    with ottla.Admin(job.bootstrap_servers) as admin:
        admin.fence_producers([messages[2].claim.transactional_id])  # type: ignore[union-attr]
    with pytest.raises(ottla.TransactionError, match=r"a partition of batch 0 .* was attempted more than once"):
        commit(session_of(settings), messages)
    abort(session_of(settings), messages)
    await_quiet(job)
    assert visible_rows(job) == {}
    run_batch(job, settings, 0)
    assert_every_row_once(job, batches=1)


def test_rows_of_nobody_in_the_transaction_give_the_batch_up(cluster: ottla.Cluster, job: Job) -> None:
    settings = job.settings()
    planned = plan(session_of(settings))
    messages = [run_task(job, settings, planned, 0, task, task) for task in range(job.tasks)]
    other = f"{job.topic}-other"
    cluster.create_topic(other)
    with Producer.from_config(settings.for_sending(planned.coordinator.transactional_id)) as zombie:
        zombie.init_transactions(planned.coordinator)
        zombie.begin_transaction()
        zombie.send(other, b"zombie")
        zombie.prepare_transaction()
    with pytest.raises(ottla.TransactionError, match=f"has written to {other}-0 in the transaction of batch 0"):
        commit(session_of(settings), messages)
    await_quiet(job)
    assert visible_rows(job) == {}


def test_two_tasks_for_one_kafka_partition_are_refused(job: Job) -> None:
    settings = job.settings()
    planned = plan(session_of(settings))
    batch = BatchId(job.query_id, 0)
    # The broker takes the second one's row for a repetition of the first one's: it must not pass unnoticed.
    messages = [driver.prepare_rows(settings, planned, batch, task, job, [task * 12]) for task in range(2)]
    with pytest.raises(ottla.UserMistake, match=r"tasks 0 and 1 of batch 0 .* both write to .*-0, .* leave atomic out"):
        commit(session_of(settings), messages)
    abort(session_of(settings), messages)
    run_batch(job, settings, 0)
    assert_every_row_once(job, batches=1)


def test_a_task_that_fails_takes_all_back_at_once(job: Job) -> None:
    settings = job.settings()
    planned = plan(session_of(settings))
    run_task(job, settings, planned, 0, 0, 0)

    def fail(producer: Callable[[], Producer]) -> Totals:
        driver.send(producer(), job, job.rows_of(0, 1))
        raise RuntimeError("the task fails")

    with pytest.raises(RuntimeError):
        prepare(session_of(settings), planned, BatchId(job.query_id, 0), Attempt(1, 1), fail, Totals)
    await_quiet(job)
    run_batch(job, settings, 0)
    assert_every_row_once(job, batches=1)


def test_a_sink_may_become_atomic_and_plain_again(job: Job) -> None:
    for batch in range(3):
        changed = dataclasses.replace(job, atomic=batch == 1)
        run_batch(changed, changed.settings(), batch)
    assert_every_row_once(job)


def test_claims_are_the_only_ones_where_epochs_follow_on_each_other() -> None:
    looked_at, claim = described(identity("t", 4, 6), "CompleteCommit"), identity("t", 4, 7)
    assert is_only_claim(looked_at, claim)
    assert not is_only_claim(looked_at, identity("t", 4, 8))
    assert not is_only_claim(looked_at, identity("t", 5, 0))
    assert is_only_claim(None, identity("t", 4, 0))
    assert not is_only_claim(None, identity("t", 4, 1))
    assert are_only_claims([claim], {"t": described(claim, "Empty")})
    assert not are_only_claims([claim], {"t": described(identity("t", 4, 8), "Empty")})
    assert not are_only_claims([claim], {})
