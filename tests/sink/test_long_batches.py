"""Batches that take longer than their transactions: where rows repeat, each run decides what ends in time."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import pytest

import ottla
from ottla.client.producer import Producer
from ottla.errors import OttlaError, TransactionError
from ottla.sink.barriers import Barrier
from ottla.sink.batch import WRITE, Attempt, BatchId, Plan, Prepared, Skipped, Totals
from ottla.sink.commit import abort, commit
from ottla.sink.kafka import Kafka
from ottla.sink.planning import plan
from ottla.sink.recovery import describe
from ottla.sink.session import Session, session_of
from ottla.sink.settings import SinkSettings
from ottla.sink.task import prepare

from .conftest import assert_every_row_once, brokers_later, busy, visible_rows
from .driver import Job, prepare_rows, run_batch, run_task

_MARGIN_MS = 20_000
_HOUR_MS = 3_600_000


@pytest.fixture
def settings(job: Job) -> SinkSettings:
    job.same_rows = True
    return job.settings()


def short_of_time(job: Job, planned: Plan, task: int) -> Prepared | Skipped:
    """A task whose transaction is open, with less time left than the margin."""
    short = dataclasses.replace(job.settings(), transaction_timeout_ms=_MARGIN_MS // 2, margin_ms=0)
    return run_task(job, short, planned, 0, task, task)


def timed_out(job: Job, planned: Plan, task: int) -> Prepared | Skipped:
    """A task whose transaction the coordinator has aborted, as it does when the time is up."""
    message = run_task(job, job.settings(), planned, 0, task, task)
    assert isinstance(message, Prepared)
    assert message.entry is not None
    ottla.end_transactions([message.entry.identity], False, job.bootstrap_servers)
    return message


def in_time(job: Job, planned: Plan, task: int) -> Prepared | Skipped:
    return run_task(job, job.settings(), planned, 0, task, task)


def run(job: Job, *kinds: object) -> list[Prepared | Skipped]:
    """Batch 0 with tasks of these kinds: its messages, of one plan."""
    planned = plan(session_of(job.settings()))
    return [kind(job, planned, task) for task, kind in enumerate(kinds)]  # type: ignore[operator]


def visible(job: Job) -> list[int]:
    return sorted(row for rows in visible_rows(job).values() for row in rows)


def rows_of(job: Job, *tasks: int) -> list[int]:
    return sorted(row for task in tasks for row in job.rows_of(0, task))


@pytest.mark.parametrize("late", [short_of_time, timed_out])
def test_what_ends_in_time_is_decided_and_the_next_run_writes_the_rest(
    late: object, job: Job, settings: SinkSettings
) -> None:
    session = session_of(settings)
    messages = run(job, late, in_time, in_time)
    with pytest.raises(
        ottla.TransactionError,
        match=r"40 of 60 rows are there.*transaction.timeout.ms=60000.*Start the query again: .* write their rows: 0\.",
    ):
        commit(session, messages)
    # Nobody has to wait for those that are not there.
    assert busy(job) == []
    abort(session, messages)
    assert visible(job) == rows_of(job, 1, 2)
    assert [entry.partition_id for entry in describe(session).decisions[-1].lost] == [0]
    again = run(job, in_time, in_time, in_time)
    assert [type(message) for message in again] == [Prepared, Skipped, Skipped]
    commit(session, again)
    run_batch(job, settings, 1)
    assert_every_row_once(job, batches=2)


def test_a_task_that_is_there_is_not_read_again_while_others_are_missing(job: Job, settings: SinkSettings) -> None:
    # It would take as long as before, and the batch would be too long again.
    session = session_of(settings)
    with pytest.raises(ottla.TransactionError):
        commit(session, run(job, timed_out, in_time, in_time))

    def never(*_: object) -> Totals:
        raise AssertionError("its rows are asked for")

    planned = plan(session)
    for task in (1, 2):
        assert isinstance(prepare(session, planned, BatchId(job.query_id, 0), Attempt(9, task), never, never), Skipped)


def test_each_run_adds_to_a_batch_until_it_is_whole(job: Job, settings: SinkSettings) -> None:
    session = session_of(settings)
    for kinds, there in (
        ((timed_out, short_of_time, in_time), (2,)),
        ((short_of_time, in_time, in_time), (1, 2)),
        ((in_time, in_time, in_time), (0, 1, 2)),
    ):
        messages = run(job, *kinds)
        if len(there) < job.tasks:
            with pytest.raises(ottla.TransactionError, match=f"{20 * len(there)} of 60 rows are there"):
                commit(session, messages)
        else:
            commit(session, messages)
        assert visible(job) == rows_of(job, *there)
    assert_every_row_once(job, batches=1)


def test_where_nothing_ends_in_time_it_is_refused_and_nothing_is_decided(job: Job, settings: SinkSettings) -> None:
    session = session_of(settings)
    refused = r"too late: 3\). .* raise transaction.timeout.ms \(and transaction.max.timeout.ms of the"
    with pytest.raises(ottla.TransactionError, match=refused):
        commit(session, run(job, timed_out, short_of_time, timed_out))
    assert describe(session).decisions == ()
    with pytest.raises(ottla.TransactionError, match="20 of 60 rows are there"):
        commit(session, run(job, timed_out, short_of_time, in_time))
    # The same for those that are left.
    with pytest.raises(ottla.TransactionError, match=r"task 0 .* too late: 2\)"):
        commit(session, run(job, timed_out, timed_out, in_time))
    assert visible(job) == rows_of(job, 2)
    run_batch(job, settings, 0)
    assert_every_row_once(job, batches=1)


def test_where_rows_need_not_repeat_it_is_refused_with_both_remedies(job: Job) -> None:
    told = r"raise transaction.timeout.ms \(and transaction.max.timeout.ms of the brokers, .* set same_rows=True: then"
    with pytest.raises(ottla.TransactionError, match=told):
        commit(session_of(job.settings()), run(job, short_of_time, in_time, in_time))
    assert visible(job) == []


def test_other_rows_are_refused_where_a_part_is_there(job: Job, settings: SinkSettings) -> None:
    with pytest.raises(ottla.TransactionError):
        commit(session_of(settings), run(job, timed_out, in_time, in_time))
    with pytest.raises(ottla.UserMistake, match=r"task 0 of batch 0 .* --accept-loss"):
        run_batch(dataclasses.replace(job, rows_per_batch=50), settings, 0)
    assert visible(job) == rows_of(job, 1, 2)


def test_a_write_names_its_write_id(job: Job, settings: SinkSettings) -> None:
    session = session_of(settings)
    planned = plan(session)
    batch = BatchId("monday", WRITE)
    messages = [prepare_rows(session, planned, batch, task, job, job.rows_of(0, task)) for task in range(3)]
    assert isinstance(messages[0], Prepared)
    assert messages[0].entry is not None
    ottla.end_transactions([messages[0].entry.identity], False, job.bootstrap_servers)
    with pytest.raises(ottla.TransactionError, match=r"Start the write, with write.id=monday, again"):
        commit(session, messages)


def test_a_driver_held_up_while_it_leaves_transactions_out_has_not_decided(
    job: Job, settings: SinkSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = session_of(settings)
    messages = run(job, timed_out, in_time, in_time)
    driver_identity = messages[0].plan.driver_identity

    def reach(name: str) -> None:
        if name == Barrier.COMMIT_ASKED:
            # The decision's own transaction times out before those of the tasks.
            ottla.end_transactions([driver_identity], False, job.bootstrap_servers)

    monkeypatch.setattr("ottla.sink.deciding.reach", reach)
    with pytest.raises(OttlaError, match="is not decided"):
        commit(session, messages)
    assert visible(job) == []
    monkeypatch.undo()
    run_batch(job, settings, 0)
    assert_every_row_once(job, batches=1)


@pytest.fixture(scope="module", params=[2, 1], ids=["version-2", "version-1"])
def cluster(request: pytest.FixtureRequest) -> Iterator[ottla.Cluster]:
    with ottla.Cluster(brokers=3, settings={"transaction_version": request.param}) as cluster:
        yield cluster


@pytest.mark.parametrize("committed", [1, 2, 3])
def test_a_commit_asked_for_again_takes_nothing_for_late_that_it_has_committed(
    committed: int, job: Job, settings: SinkSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = session_of(settings)
    messages = run(job, in_time, in_time, in_time)
    identities = [message.entry.identity for message in messages if isinstance(message, Prepared) and message.entry]

    def reach(name: str) -> None:
        if name == Barrier.COMMIT_APPLY:
            ottla.end_transactions(identities[:committed], True, job.bootstrap_servers)
            raise OttlaError("the commit ends here")

    monkeypatch.setattr("ottla.sink.commit.reach", reach)
    with pytest.raises(OttlaError, match="ends here"):
        commit(session, messages)
    monkeypatch.undo()
    commit(session, messages)
    assert describe(session).decisions[-1].lost == ()
    assert_every_row_once(job, batches=1)


def test_a_batch_that_takes_more_than_half_of_the_time_is_told_before_one_is_too_long(
    job: Job, cluster: ottla.Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    session = session_of(job.settings())
    for batch, passed_ms in ((0, 0), (1, 21_000)):
        # It may be planned long before: Spark computes a shuffle first, and no transaction is open yet.
        planned = plan(session)
        planned = planned._replace(planned_ms=planned.planned_ms - 50_000)
        messages = [run_task(job, job.settings(), planned, batch, task, task) for task in range(job.tasks)]
        with brokers_later(cluster, passed_ms):
            commit(session, messages)
        told = "more than half of the 40000 ms that it may take (transaction.timeout.ms=60000 less margin_ms=20000)"
        assert (told in caplog.text) is bool(passed_ms)
    assert "set same_rows=True" in caplog.text


@pytest.mark.parametrize("ahead_ms", [-_HOUR_MS, _HOUR_MS])
@pytest.mark.parametrize("passed_ms", [0, 41_000])
def test_the_drivers_clock_does_not_say_how_much_time_is_left(
    job: Job, cluster: ottla.Cluster, monkeypatch: pytest.MonkeyPatch, ahead_ms: int, passed_ms: int
) -> None:
    session = session_of(job.settings())
    now_ms = session.port.now_ms
    monkeypatch.setattr(session.port, "now_ms", lambda: now_ms() + ahead_ms)
    planned = plan(session)
    messages = [run_task(job, job.settings(), planned, 0, task, task) for task in range(job.tasks)]
    with brokers_later(cluster, passed_ms):
        if not passed_ms:
            commit(session, messages)
            assert_every_row_once(job, batches=1)
            return
        told = (
            r"ms left of transaction\.timeout\.ms \(60000\), and 20000 .* less margin_ms \(20000\): raise transaction"
        )
        with pytest.raises(TransactionError, match=told):
            commit(session, messages)
    assert describe(session).decisions == ()
    abort(session, messages)


def test_a_task_that_begins_when_the_first_transactions_may_be_over_says_so(
    job: Job, caplog: pytest.LogCaptureFixture
) -> None:
    planned = plan(session_of(job.settings()))
    run_task(job, job.settings(), planned, 0, 0, 0)
    said = "begins to write"
    assert said not in caplog.text
    run_task(job, job.settings(), planned._replace(planned_ms=planned.planned_ms - 60_000), 0, 1, 1)
    assert f"task 1 of batch 0 of query query-1 {said}" in caplog.text
    assert "transactions of the first tasks may have timed out (transaction.timeout.ms=60000)" in caplog.text
    plan(session_of(job.settings()))


class AnHourLater(Kafka):
    """Its clock jumps when it is told to."""

    jumped_s = 0

    def passed_s(self) -> float:
        return super().passed_s() + self.jumped_s


def test_a_task_that_takes_longer_than_its_own_transaction_says_what_to_raise(job: Job) -> None:
    settings = job.settings()
    port = AnHourLater(settings)
    session = Session(settings, port)
    planned = plan(session)

    def write(producer: object) -> Totals:
        taken: Producer = producer()  # type: ignore[operator]
        taken.send(job.topic, b"0", partition=0).result()
        assert taken.transaction_identity is not None
        # As the coordinator does when the time is up: the next epoch is nobody's.
        with ottla.Admin(job.bootstrap_servers) as admin:
            admin.fence_producers([taken.transaction_identity.transactional_id])
        port.jumped_s = 3_600
        taken.send(job.topic, b"1", partition=1).result()
        raise AssertionError("it is taken")

    told = r"task 0 of batch 0 .* takes longer than its transaction may \(transaction.timeout.ms=60000\): raise that"
    with pytest.raises(ottla.TransactionError, match=told):
        prepare(session, planned, BatchId(job.query_id, 0), Attempt(0, 0), write, Totals)
    session.close()
