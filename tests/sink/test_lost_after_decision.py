"""Rows that a timeout takes back after the batch was decided: written again by the same tasks, or refused.

The one window that two-phase commit leaves open until KIP-939: the driver dies between the decision and its last
EndTxn, and nobody starts again within the transaction timeout.
"""

from __future__ import annotations

import dataclasses
from contextlib import closing

import pytest
from tests.client.in_time import wait_until

import ottla
from ottla.cli import main
from ottla.sink.applying import settle
from ottla.sink.barriers import Barrier
from ottla.sink.batch import WRITE, BatchId, Last, Prepared, Skipped, Totals
from ottla.sink.commit import _to_decide, abort, commit
from ottla.sink.deciding import decide
from ottla.sink.decision import Decision
from ottla.sink.decision_writer import DecisionWriter
from ottla.sink.identities import driver_id
from ottla.sink.kafka import Kafka
from ottla.sink.planning import plan
from ottla.sink.refusals import Role, role
from ottla.sink.session import Session, session_of
from ottla.sink.settings import SinkSettings

from . import driver
from .conftest import Engine, assert_every_row_once, await_ends, busy, visible_rows
from .driver import Job, prepare_rows, run_batch, run_task


def decided(job: Job, lost: tuple[int, ...], landed: tuple[int, ...] = ()) -> Decision:
    """Decide batch 0; these tasks' transactions are taken back, those are committed, others stay open."""
    settings = job.settings()
    planned = plan(session_of(settings))
    messages = [run_task(job, settings, planned, 0, task, task) for task in range(job.tasks)]
    session = session_of(settings)
    decision = _to_decide(session, planned, messages[0].batch, messages, messages)  # type: ignore[arg-type]
    with DecisionWriter(session, planned.driver_identity) as writer:
        decide(writer, planned, decision, messages)  # type: ignore[arg-type]
    for tasks, committed in ((lost, False), (landed, True)):
        identities = [decision.entries[task].identity for task in tasks]
        if identities:
            told = ottla.end_transactions(identities, committed, job.bootstrap_servers)
            assert not any(told.values())
    await_ends(job)
    return decision


@pytest.mark.parametrize(("lost", "landed"), [((1,), ()), ((0, 2), (1,)), ((0, 1, 2), ())])
def test_the_same_tasks_write_again_what_was_lost_and_nothing_else(
    lost: tuple[int, ...], landed: tuple[int, ...], job: Job
) -> None:
    decided(job, lost, landed)
    driver.main(job.text())
    assert_every_row_once(job)


def test_when_the_time_is_over_what_is_known_is_told_and_what_is_open_is_left_to_the_next_start(job: Job) -> None:
    decision = decided(job, lost=(0,), landed=(1,))
    first, second, still_open = decision.entries
    with closing(Session(job.settings(), Kafka(job.settings()))) as session:
        session.port.patience_s = 0
        assert settle(session, decision.batch, [first, second]) == (first,)
        with pytest.raises(ottla.TransactionUnfinished, match="is decided, and 1 of its transactions are not commit"):
            settle(session, decision.batch, decision.entries)
    assert [each.transactional_id for each in busy(job)] == [still_open.identity.transactional_id]
    driver.main(job.text())
    assert_every_row_once(job)


def test_a_kill_while_lost_rows_are_written_again(job: Job, engine: Engine) -> None:
    decided(job, (0, 2))
    for barrier in (Barrier.TASK_PREPARE, Barrier.COMMIT_ASKED, Barrier.COMMIT_BETWEEN, Barrier.COMMIT_END):
        engine.kill_at(barrier)
    driver.main(job.text())
    assert_every_row_once(job)


def test_rows_lost_again_are_written_again(job: Job) -> None:
    decided(job, (0, 2))
    settings = job.settings()
    planned = plan(session_of(settings))
    messages = [run_task(job, settings, planned, 0, task, task) for task in range(job.tasks)]
    session = session_of(settings)
    prepared = [message for message in messages if hasattr(message, "entry")]
    decision = _to_decide(session, planned, messages[0].batch, messages, prepared)  # type: ignore[arg-type]
    with DecisionWriter(session, planned.driver_identity) as writer:
        decide(writer, planned, decision, prepared)  # type: ignore[arg-type]
    again = [entry.identity for entry in decision.entries if entry.partition_id == 2]
    ottla.end_transactions(again, False, job.bootstrap_servers)
    driver.main(job.text())
    assert_every_row_once(job)


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        (
            {"tasks": 2},
            r"task . of batch 0 .* rows where .* were decided: the rows that were lost by a timeout",
        ),
        ({"tasks": 4}, r"run it with as many tasks as it had"),
        ({"rows_per_batch": 50}, r"rows where 20 were decided"),
    ],
)
def test_lost_rows_are_refused_from_other_tasks(changed: dict[str, int], told: str, job: Job) -> None:
    decided(job, (1,))
    with pytest.raises(ottla.UserMistake, match=told):
        driver.main(dataclasses.replace(job, **changed).text())  # type: ignore[arg-type]
    # What was decided and could be committed is there, and nothing twice.
    rows = [row for of_partition in visible_rows(job).values() for row in of_partition]
    assert sorted(rows) == sorted([*job.rows_of(0, 0), *job.rows_of(0, 2)])
    driver.main(job.text())
    assert_every_row_once(job)


@pytest.mark.parametrize("changed", [{"tasks": 2}, {"tasks": 4}, {"rows_per_batch": 50}])
def test_a_batch_of_which_nothing_is_there_is_written_by_any_tasks_with_any_rows(
    changed: dict[str, int], job: Job
) -> None:
    decided(job, (0, 1, 2))
    # Whoever comes next reads in the decision itself that no row is there.
    for _ in range(2):
        planned = plan(session_of(job.settings()))
        assert planned.last is not None
        assert planned.last.is_all_lost
    other = dataclasses.replace(job, **changed)  # type: ignore[arg-type]
    driver.main(other.text())
    assert_every_row_once(other)


def test_a_part_that_cannot_be_written_again_is_given_up_when_somebody_says_so(
    job: Job, capsys: pytest.CaptureFixture[str]
) -> None:
    decided(job, lost=(1,), landed=(0,))
    other = dataclasses.replace(job, tasks=2, run_id="second")
    with pytest.raises(ottla.UserMistake, match=rf"ottla sink recover {job.sink_id} -b \S+ --accept-loss$"):
        driver.main(other.text())
    command = ["sink", "recover", job.sink_id, "-b", job.bootstrap_servers]
    assert main(command) == 1
    told = capsys.readouterr().err
    assert "20 rows of batch 0 of query query-1 are lost" in told
    assert "the transactions of task 1 timed out (transaction.timeout.ms); the rows of tasks 0, 2 are there" in told
    assert main([*command, "--accept-loss"]) == 0
    assert "counts as done; 20 rows of 60 are lost, or may be" in capsys.readouterr().out
    assert main(command) == 0
    driver.main(other.text())
    rows = sorted(row for of_partition in visible_rows(job).values() for row in of_partition)
    assert rows == sorted([*job.rows_of(0, 0), *job.rows_of(0, 2), *range(60, 180)])


@pytest.mark.parametrize("same_rows", [None, True, False])
def test_a_write_that_lost_rows_is_not_told_as_done_where_fewer_tasks_come_again(
    same_rows: bool | None, job: Job
) -> None:
    settings = dataclasses.replace(job.settings(), same_rows=same_rows)
    session, batch = session_of(settings), BatchId("monday", WRITE)

    def prepared(tasks: int) -> list[Prepared | Skipped]:
        planned = plan(session)
        return [prepare_rows(session, planned, batch, task, job, job.rows_of(0, task)) for task in range(tasks)]

    messages = prepared(3)
    assert isinstance(messages[2], Prepared)
    assert messages[2].entry is not None
    decision = _to_decide(session, messages[0].plan, batch, messages, messages)  # type: ignore[arg-type]
    with DecisionWriter(session, messages[0].plan.driver_identity) as writer:
        decide(writer, messages[0].plan, decision, messages)  # type: ignore[arg-type]
    ottla.end_transactions([messages[2].entry.identity], False, job.bootstrap_servers)
    with pytest.raises(ottla.UserMistake, match=r"has 2 tasks and had 3: the rows that were lost by a timeout can onl"):
        commit(session, prepared(2))
    commit(session, prepared(3))
    assert_every_row_once(job, batches=1)


def test_the_next_batch_cannot_pass_by_lost_rows(job: Job) -> None:
    decided(job, (1,))
    settings = job.settings()
    with pytest.raises(ottla.UserMistake, match="20 rows of batch 0 of query query-1 are missing in Kafka"):
        run_batch(job, settings, 1)


def test_a_write_that_lost_rows_says_under_which_id_it_is_to_be_run_again() -> None:
    last = Last(BatchId("monday", WRITE), Totals(3, 1), 2, {1: Totals(2, 0)}, {0: Totals(1, 1)})
    with pytest.raises(
        ottla.UserMistake, match=r"2 rows of write monday are missing .* Run that write again with write.id=monday: "
    ):
        role(SinkSettings("orders", "localhost:9092"), last, BatchId("tuesday", WRITE), 0)
    assert role(SinkSettings("orders", "localhost:9092"), last, BatchId("monday", WRITE), 1) is Role.REWRITE
    assert role(SinkSettings("orders", "localhost:9092"), last, BatchId("monday", WRITE), 0) is Role.SKIP


def test_a_timeout_between_the_decision_and_its_commits_is_told(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = job.settings()
    planned = plan(session_of(settings))
    messages = [run_task(job, settings, planned, 0, task, task) for task in range(job.tasks)]
    entry = messages[1].entry  # type: ignore[union-attr]
    assert entry is not None

    def reach(name: str) -> None:
        if name == Barrier.COMMIT_APPLY:
            ottla.end_transactions([entry.identity], False, job.bootstrap_servers)

    monkeypatch.setattr("ottla.sink.commit.reach", reach)
    with pytest.raises(
        ottla.TransactionError,
        match=r"is decided, and 40 of 60 rows are there: .* only these tasks write their rows: 1\.",
    ):
        commit(session_of(settings), messages)
    driver.main(job.text())
    assert_every_row_once(job)


def test_a_driver_that_was_held_up_finds_its_decision_taken_back(job: Job, engine: Engine) -> None:
    # Between its last look at the tasks' transactions and the commit; those have most of a minute left.
    engine.job.margin_ms = 10_000
    engine.hold(Barrier.COMMIT_ASKED, after=1)
    engine.start()
    engine.await_held(Barrier.COMMIT_ASKED)
    with ottla.Admin(job.bootstrap_servers) as admin:
        name = driver_id(job.sink_id)
        engine.await_true(
            lambda: admin.describe_transactions([name])[name].state == "CompleteAbort", "the decision stays open"
        )
    # R is the first to time out: what it names could still be committed, or it would be too late to find out.
    assert len(busy(job)) == job.tasks
    engine.release(Barrier.COMMIT_ASKED)
    assert engine.end() != 0
    assert sum(map(len, visible_rows(job).values())) == 60
    driver.main(job.text())
    assert_every_row_once(job)


def test_a_driver_that_was_delayed_is_told_so(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    job.margin_ms = 2_000
    session = session_of(job.settings())
    planned = plan(session)
    messages = [run_task(job, job.settings(), planned, 0, task, task) for task in range(job.tasks)]

    def reach(barrier: Barrier) -> None:
        if barrier is Barrier.COMMIT_ASKED:
            name = driver_id(job.sink_id)
            wait_until(lambda: session.port.describe_transactions([name])[name].state == "CompleteAbort")

    monkeypatch.setattr("ottla.sink.deciding.reach", reach)
    told = r"delayed while it decided, for longer than .* \(1000 ms\)\. Start the query again; .* raise margin"
    with pytest.raises(ottla.TransactionError, match=told):
        commit(session, messages)
    abort(session, messages)
    assert not busy(job)
