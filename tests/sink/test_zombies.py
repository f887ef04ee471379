"""Drivers and attempts that wake up late: they can neither decide nor make anything visible."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import pytest

import ottla
from ottla.client.producer import Producer
from ottla.sink.barriers import Barrier
from ottla.sink.batch import Attempt, BatchId, Totals
from ottla.sink.commit import _to_decide, abort, commit
from ottla.sink.deciding import decide
from ottla.sink.decision_writer import DecisionWriter
from ottla.sink.identities import SLOTS, driver_id, is_ticket_id
from ottla.sink.planning import plan
from ottla.sink.session import session_of
from ottla.sink.task import prepare

from .conftest import Engine, assert_every_row_once, await_quiet, busy, visible_rows
from .driver import Job, run_batch, run_task, send, totals_of


def tasks(job: Job, planned: object, batch: int = 0) -> list:  # type: ignore[type-arg]
    return [run_task(job, job.settings(), planned, batch, task, task) for task in range(job.tasks)]


def test_an_old_driver_that_wakes_up_cannot_decide(job: Job) -> None:
    settings = job.settings()
    old = tasks(job, plan(session_of(settings)))
    new = tasks(job, plan(session_of(settings)))
    with pytest.raises(ottla.ProducerFenced, match="another query or write has begun a batch of this sink"):
        commit(session_of(settings), old)
    commit(session_of(settings), new)
    abort(session_of(settings), old)
    assert_every_row_once(job, batches=1)


def test_an_old_driver_without_rows_cannot_decide_either(job: Job) -> None:
    job.rows_per_batch = 0
    settings = job.settings()
    old = tasks(job, plan(session_of(settings)))
    new = tasks(job, plan(session_of(settings)))
    with pytest.raises(ottla.ProducerFenced, match="another query or write has begun a batch of this sink"):
        commit(session_of(settings), old)
    commit(session_of(settings), new)
    assert visible_rows(job) == {}


def test_an_old_drivers_abort_leaves_the_new_ones_batch_alone(job: Job) -> None:
    settings = job.settings()
    old = tasks(job, plan(session_of(settings)))
    new = tasks(job, plan(session_of(settings)))
    abort(session_of(settings), old)
    commit(session_of(settings), new)
    assert_every_row_once(job, batches=1)


def test_abort_after_the_decision_finishes_it(job: Job) -> None:
    settings = job.settings()
    messages = tasks(job, plan(session_of(settings)))
    commit(session_of(settings), messages)
    abort(session_of(settings), messages)
    assert_every_row_once(job, batches=1)


def test_abort_before_the_decision_makes_way_for_readers(job: Job) -> None:
    settings = job.settings()
    messages = tasks(job, plan(session_of(settings)))
    abort(session_of(settings), [messages[0], None, *messages[2:]])
    abort(session_of(settings), messages)
    await_quiet(job)
    assert visible_rows(job) == {}
    with pytest.raises(ottla.ProducerFenced, match="or this batch was aborted"):
        commit(session_of(settings), messages)
    run_batch(job, settings, 0)
    assert_every_row_once(job, batches=1)


def test_abort_leaves_all_as_it_is_where_nobody_can_tell_what_is_decided(cluster: ottla.Cluster, job: Job) -> None:
    settings = job.settings()
    messages = tasks(job, plan(session_of(settings)))
    # The driver's coordinator is out of reach; those of some tasks are not.
    broker_id = cluster.coordinator(transactional_id=driver_id(job.sink_id))
    others = {message.entry.identity.transactional_id for message in messages if message.entry}
    assert any(cluster.coordinator(transactional_id=other) != broker_id for other in others)
    with cluster.faults.lose_request(api="EndTxn", broker_id=broker_id) as lost:
        impatient = dataclasses.replace(settings, client_settings={"default.api.timeout.ms": 3_000})
        abort(session_of(impatient), messages)
    assert lost.fired
    assert len(busy(job)) == 3
    # The commit may still have been on its way.
    commit(session_of(settings), messages)
    assert_every_row_once(job, batches=1)


def test_a_commit_that_is_asked_for_again_does_no_harm(job: Job) -> None:
    settings = job.settings()
    messages = tasks(job, plan(session_of(settings)))
    for _ in range(2):
        commit(session_of(settings), messages)
    assert_every_row_once(job, batches=1)


def test_two_attempts_of_a_partition_do_not_meet_and_one_counts(job: Job) -> None:
    settings = job.settings()
    planned = plan(session_of(settings))
    losers = [run_task(job, settings, planned, 0, 1, number) for number in (100, 101)]
    messages = tasks(job, planned)
    ids = {message.entry.identity.transactional_id for message in [*losers, messages[1]] if message.entry}  # type: ignore[union-attr]
    assert len(ids) == 3
    commit(session_of(settings), messages)
    # No later than that, losers hold nobody back.
    assert_every_row_once(job, batches=1)


def test_an_attempt_that_has_an_identity_and_no_row_yet_is_not_robbed_of_it(job: Job) -> None:
    settings = job.settings()
    planned = plan(session_of(settings))
    rows = job.rows_of(0, 1)
    inner: list = []  # type: ignore[type-arg]

    def write(producer: Callable[[], Producer]) -> Totals:
        taken = producer()
        inner.append(run_task(job, settings, planned, 0, 1, 100))
        send(taken, job, rows)
        return totals_of(rows)

    batch = BatchId(job.query_id, 0)
    outer = prepare(session_of(settings), planned, batch, Attempt(101, 1), write, lambda: totals_of(rows))
    others = [run_task(job, settings, planned, 0, task, task) for task in (0, 2)]
    commit(session_of(settings), [others[0], outer, others[1]])
    assert_every_row_once(job, batches=1)
    assert inner[0].entry is not None


def test_an_attempt_of_an_old_plan_that_wakes_up_late_is_swept(job: Job) -> None:
    settings = job.settings()
    planned = plan(session_of(settings))
    rows = job.rows_of(0, 1)

    def write(producer: Callable[[], Producer]) -> Totals:
        send(producer(), job, rows[:5])
        producer().flush()
        run_batch(job, settings, 0)
        send(producer(), job, rows[5:])
        return totals_of(rows)

    with pytest.raises(ottla.OttlaError):
        prepare(
            session_of(settings), planned, BatchId(job.query_id, 0), Attempt(100, 1), write, lambda: totals_of(rows)
        )
    assert_every_row_once(job, batches=1)


def test_an_identity_that_was_never_used_is_taken_by_a_later_plan(job: Job) -> None:
    settings = job.settings()
    for batch in range(3 * SLOTS):
        planned = plan(session_of(settings))

        def die(producer: Callable[[], Producer]) -> Totals:
            producer()
            raise RuntimeError("the task fails before its first row")

        with pytest.raises(RuntimeError):
            prepare(session_of(settings), planned, BatchId(job.query_id, batch), Attempt(100, 1), die, Totals)
        commit(session_of(settings), tasks(job, planned, batch))
    with ottla.Admin(job.bootstrap_servers) as admin:
        ids = [
            each.transactional_id for each in admin.list_transactions() if f"-{job.sink_id}/" in each.transactional_id
        ]
    assert len([each for each in ids if is_ticket_id(each)]) == job.tasks
    # The driver's, and all that its tasks could choose from.
    assert len(ids) == 1 + job.tasks * (1 + SLOTS)
    assert_every_row_once(job, batches=3 * SLOTS)


def test_a_plan_alone_makes_way_for_readers(job: Job) -> None:
    settings = job.settings()
    tasks(job, plan(session_of(settings)))
    assert len(busy(job)) == 3
    plan(session_of(settings))
    await_quiet(job)
    assert visible_rows(job) == {}


@pytest.mark.parametrize("barrier", [Barrier.PLAN_LOOK, Barrier.COMMIT_SWEEP])
def test_an_old_driver_that_wakes_up_before_it_sweeps_touches_nothing_of_the_new_one(
    barrier: str, job: Job, engine: Engine
) -> None:
    settings = job.settings()
    engine.hold(barrier)
    engine.start()
    engine.await_held(barrier)
    # The new one has decided, and not committed anything yet, when the old one goes on with what it knows.
    batch = 0 if barrier == Barrier.PLAN_LOOK else 1
    planned = plan(session_of(settings))
    messages = tasks(job, planned, batch)
    decision = _to_decide(session_of(settings), planned, messages[0].batch, messages, messages)
    with DecisionWriter(session_of(settings), planned.driver_identity) as writer:
        decide(writer, planned, decision, messages)
    # The old one may fence us now, as its next batch comes; not before.
    engine.hold(Barrier.PLAN_FENCE)
    engine.release(barrier)
    if barrier == Barrier.PLAN_LOOK:
        assert engine.end() != 0
    else:
        engine.await_held(Barrier.PLAN_FENCE)
        engine.kill()
    assert len(busy(job)) == 3
    commit(session_of(settings), messages)
    assert_every_row_once(job, batches=batch + 1)


def test_an_attempt_that_fails_leaves_nothing_open(job: Job) -> None:
    settings = job.settings()
    planned = plan(session_of(settings))

    def fail(producer: Callable[[], Producer]) -> Totals:
        send(producer(), job, [1, 2, 3])
        raise RuntimeError("the task fails")

    def miscount(producer: Callable[[], Producer]) -> Totals:
        send(producer(), job, [1, 2, 3])
        return Totals(4, 0)

    for write, expected in ((fail, RuntimeError), (miscount, ottla.OttlaError)):
        with pytest.raises(expected, match=r"the task fails|has 4 rows, and 3 were stored"):
            prepare(session_of(settings), planned, BatchId(job.query_id, 0), Attempt(7, 0), write, Totals)
    await_quiet(job)
    assert visible_rows(job) == {}


def test_a_sink_does_not_touch_one_whose_name_begins_alike(job: Job) -> None:
    other = Job(**{**job.__dict__, "sink_id": f"{job.sink_id}-2", "query_id": "query-2"})
    ours = tasks(job, plan(session_of(job.settings())))
    theirs = tasks(other, plan(session_of(other.settings())), batch=1)
    # Planned again, each with what the other has prepared still open.
    commit(session_of(job.settings()), ours)
    plan(session_of(job.settings()))
    commit(session_of(other.settings()), theirs)
    assert_every_row_once(job, batches=2)
