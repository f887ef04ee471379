"""What `abort` leaves of a batch that failed: nothing that is open, though tasks were killed amid rows or live on.

Spark gives up a write while tasks of it still run: it tells them to end, waits for none, and kills their Python
processes some seconds after `abort` has returned.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.tiers import some_tested

import ottla
from ottla.client.producer import Producer
from ottla.sink.barriers import Barrier
from ottla.sink.batch import Attempt, BatchId, Plan, Totals
from ottla.sink.commit import abort, commit
from ottla.sink.planning import plan
from ottla.sink.session import session_of
from ottla.sink.task import prepare

from . import driver
from .conftest import Engine, assert_every_row_once, await_quiet, busy, visible_rows
from .driver import Job, run_batch, run_task, send

Step = Callable[[Producer], object]


def killed_amid_its_rows(job: Job, planned: Plan, task: int) -> None:
    """Nobody ends its transaction, and nobody hears of it."""
    run_task(job, job.settings(), planned, 0, task, task)


def late(job: Job, planned: Plan, write: Callable[[Callable[[], Producer]], Totals]) -> None:
    """A task that is alive when its batch is given up."""
    prepare(session_of(job.settings()), planned, BatchId(job.query_id, 0), Attempt(1, 1), write, Totals)


def give_up(job: Job, planned: Plan) -> None:
    """No task has come to its end."""
    abort(session_of(job.settings()), [None] * job.tasks, planned)


def send_all(job: Job) -> Step:
    def go_on(producer: Producer) -> None:
        send(producer, job, job.rows_of(0, 1))
        producer.flush()

    return go_on


@pytest.mark.parametrize("ended_well", [(), (0,), (0, 2)])
def test_what_killed_tasks_have_sent_is_aborted(ended_well: tuple[int, ...], job: Job) -> None:
    settings = job.settings()
    planned = plan(session_of(settings))
    messages = [run_task(job, settings, planned, 0, task, task) if task in ended_well else None for task in range(3)]
    for task in range(3):
        if task not in ended_well:
            killed_amid_its_rows(job, planned, task)
    assert len(busy(job)) == 3
    abort(session_of(settings), messages, planned)
    await_quiet(job)
    assert visible_rows(job) == {}
    run_batch(job, settings, 0)
    assert_every_row_once(job, batches=1)


def test_a_task_without_an_identity_gets_none_that_is_of_use(job: Job) -> None:
    settings = job.settings()
    planned = plan(session_of(settings))

    def write(producer: Callable[[], Producer]) -> Totals:
        give_up(job, planned)
        producer()
        raise AssertionError("it may begin")

    told = r"batch 0 .* another query or write has begun a batch of this sink, .* need a sink\.id each"
    with pytest.raises(ottla.ProducerFenced, match=told):
        late(job, planned, write)


def assert_nothing_is_taken(
    job: Job, planned: Plan, *, begin: Step = lambda _: None, end: Callable[[], None], go_on: Step
) -> None:
    """A task has its identity and begins, its batch ends: how it goes on fails, and leaves nothing open."""
    left: list[object] = []

    def write(producer: Callable[[], Producer]) -> Totals:
        taken = producer()
        begin(taken)
        end()
        try:
            go_on(taken)
        finally:
            # Killed here it would leave just this.
            left.extend(busy(job))
        raise AssertionError("its rows were taken")

    with pytest.raises(ottla.OttlaError):
        late(job, planned, write)
    assert left == []


def test_a_task_with_an_identity_and_no_row_yet_can_begin_nothing(job: Job) -> None:
    planned = plan(session_of(job.settings()))
    assert_nothing_is_taken(job, planned, end=lambda: give_up(job, planned), go_on=send_all(job))


def test_a_task_amid_its_rows_can_add_nothing(job: Job) -> None:
    planned = plan(session_of(job.settings()))

    # To one Kafka partition before, to another one behind.
    def send_to(partition: int) -> Step:
        return lambda producer: producer.send(job.topic, b"0", partition=partition).result()

    assert_nothing_is_taken(job, planned, begin=send_to(0), end=lambda: give_up(job, planned), go_on=send_to(1))


def test_the_commit_of_a_batch_stops_an_attempt_that_has_not_sent_a_row(job: Job) -> None:
    settings = job.settings()
    planned = plan(session_of(settings))

    def commit_others() -> None:
        commit(
            session_of(settings), [run_task(job, settings, planned, 0, task, 10 + task) for task in range(job.tasks)]
        )

    assert_nothing_is_taken(job, planned, end=commit_others, go_on=send_all(job))
    assert_every_row_once(job, batches=1)


def test_an_abort_after_the_decision_ends_what_does_not_count(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = job.settings()
    planned = plan(session_of(settings))
    messages = [run_task(job, settings, planned, 0, task, task) for task in range(job.tasks)]
    # A copy of a task, whose message never comes.
    run_task(job, settings, planned, 0, 1, 100)

    def reach(name: str) -> None:
        if name == Barrier.COMMIT_APPLY:
            raise ottla.OttlaError("the commit ends here")

    monkeypatch.setattr("ottla.sink.commit.reach", reach)
    with pytest.raises(ottla.OttlaError, match="ends here"):
        commit(session_of(settings), messages)
    assert len(busy(job)) == 4
    abort(session_of(settings), messages)
    await_quiet(job)
    assert_every_row_once(job, batches=1)


@pytest.mark.parametrize("has_decided", [False, True])
def test_an_abort_that_comes_late_touches_nothing_of_a_newer_driver(has_decided: bool, job: Job) -> None:
    settings = job.settings()
    old = plan(session_of(settings))
    planned = plan(session_of(settings))
    messages = [run_task(job, settings, planned, 0, task, task) for task in range(job.tasks)]
    if has_decided:
        commit(session_of(settings), messages)
        planned = plan(session_of(settings))
        messages = [run_task(job, settings, planned, 1, task, task) for task in range(job.tasks)]
    abort(session_of(settings), [None, None, None], old)
    assert len(busy(job)) == 3
    commit(session_of(settings), messages)
    assert_every_row_once(job, batches=1 + has_decided)


@pytest.mark.parametrize(
    "barrier", some_tested([name for name in Barrier if name.startswith("abort-")], Barrier.ABORT_END)
)
def test_every_row_is_there_once_after_a_kill_amid_an_abort(
    barrier: str, job: Job, engine: Engine, say: Callable[[str], None]
) -> None:
    job.failing_batch = 1
    engine.kill_at(barrier)
    say(f"driver without Spark held at {barrier}, and killed there")
    job.failing_batch = -1
    driver.main(job.text())
    assert_every_row_once(job)
