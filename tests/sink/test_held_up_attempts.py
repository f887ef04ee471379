"""An attempt that is held up between its look at a transactional id and the request by which it takes that.

Meanwhile another attempt at the same partition comes by, with the same number, as when a stage is run again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing

import pytest

import ottla
from ottla.client.producer import Producer
from ottla.client.transaction_admin import TransactionDescription
from ottla.errors import OttlaError
from ottla.producer.transaction_states import TransactionIdentity
from ottla.sink.batch import Attempt, BatchId, Entry, Plan, Prepared, Totals
from ottla.sink.commit import _to_decide, commit
from ottla.sink.deciding import decide
from ottla.sink.decision_writer import DecisionWriter
from ottla.sink.identities import SLOTS, prefix_of
from ottla.sink.planning import plan
from ottla.sink.session import Session, session_of
from ottla.sink.task import prepare

from .conftest import assert_every_row_once, await_ends, busy
from .driver import Job, run_batch, run_task, send, totals_of
from .held_up import HeldUp


@pytest.fixture(scope="module", params=[2, 1])
def version(request: pytest.FixtureRequest) -> int:
    """The transaction version."""
    return int(request.param)


@pytest.fixture(scope="module")
def cluster(version: int) -> Iterator[ottla.Cluster]:
    with ottla.Cluster(brokers=3, settings={"transaction_version": version}) as cluster:
        yield cluster


def attempt_held_up(job: Job, planned: Plan, meanwhile: Callable[[], None], batch: int = 0) -> Prepared | OttlaError:
    """An attempt at partition 1 of a batch, and what becomes of it when it goes on."""
    rows = job.rows_of(batch, 1)

    def write(producer: Callable[[], Producer]) -> Totals:
        send(producer(), job, rows)
        return totals_of(rows)

    with closing(Session(job.settings(), HeldUp(job.settings(), meanwhile))) as session:
        try:
            message = prepare(session, planned, BatchId(job.query_id, batch), Attempt(100, 1), write, Totals)
        except OttlaError as error:
            return error
    assert isinstance(message, Prepared)
    return message


def tasks(job: Job, planned: Plan, first_number: int = 0, batch: int = 0) -> list[Prepared]:
    messages = [run_task(job, job.settings(), planned, batch, task, first_number + task) for task in range(job.tasks)]
    return [message for message in messages if isinstance(message, Prepared)]


def decide_batch(job: Job, planned: Plan, messages: list[Prepared]) -> None:
    """The driver dies before it commits anything of it."""
    session = session_of(job.settings())
    decision = _to_decide(session, planned, messages[0].batch, messages, messages)
    with DecisionWriter(session, planned.driver_identity) as writer:
        decide(writer, planned, decision, messages)


def entries(messages: list[Prepared]) -> list[Entry]:
    return [message.entry for message in messages if message.entry is not None]


def test_it_takes_nothing_from_one_that_is_prepared(job: Job) -> None:
    planned = plan(session_of(job.settings()))
    counted: list[Prepared] = []
    late = attempt_held_up(job, planned, lambda: counted.extend(tasks(job, planned)))
    # Both are well, and the driver may take either.
    assert isinstance(late, Prepared)
    assert len(busy(job)) == 1 + len(entries(counted)) == 4
    commit(session_of(job.settings()), counted)
    assert_every_row_once(job, batches=1)


def test_it_takes_nothing_from_one_that_is_decided(job: Job) -> None:
    session = session_of(job.settings())
    planned = plan(session)
    counted: list[Prepared] = []

    def decide_others() -> None:
        counted.extend(tasks(job, planned))
        decide_batch(job, planned, counted)

    attempt_held_up(job, planned, decide_others)
    assert {entry.identity for entry in entries(counted)} <= {
        TransactionIdentity(each.transactional_id, each.producer_id, each.producer_epoch)
        for each in described(job, [entry.identity.transactional_id for entry in entries(counted)])
        if each.state == "Ongoing"
    }
    # Whoever plans next commits what is decided; nothing of it was lost.
    last = plan(session).last
    assert last is not None
    assert not last.lost
    assert_every_row_once(job, batches=1)


def test_it_takes_nothing_from_any_of_those_that_spark_may_run_beside_it(job: Job) -> None:
    planned = plan(session_of(job.settings()))
    counted: list[list[Prepared]] = []

    def run_the_stage_again() -> None:
        counted.extend(tasks(job, planned, 10 * time) for time in range(3))

    late = attempt_held_up(job, planned, run_the_stage_again)
    assert isinstance(late, Prepared)
    assert len(busy(job)) == 1 + 3 * job.tasks
    commit(session_of(job.settings()), counted[0])
    assert_every_row_once(job, batches=1)


def late_beside_all_places(job: Job) -> tuple[Prepared | OttlaError, list[list[Prepared]]]:
    """An attempt that found at rest what another one of its plan has taken since, and those that have all slots."""
    for batch in range(SLOTS):
        run_batch(job, job.settings(), batch)
    planned = plan(session_of(job.settings()))
    counted: list[list[Prepared]] = []

    def take_all_places() -> None:
        counted.extend(tasks(job, planned, 10 * time, SLOTS) for time in range(SLOTS))

    return attempt_held_up(job, planned, take_all_places, SLOTS), counted


def assert_all_are_alone(job: Job, counted: list[list[Prepared]]) -> None:
    others = [entry.identity for messages in counted for entry in entries(messages)]
    assert len({*others}) == SLOTS * job.tasks == len(busy(job))
    commit(session_of(job.settings()), counted[-1])
    assert_every_row_once(job, batches=SLOTS + 1)


def test_one_that_found_the_same_as_a_later_attempt_withdraws(version: int, job: Job) -> None:
    if version < 2:
        pytest.skip("an id can be taken by fencing only")
    late, counted = late_beside_all_places(job)
    assert isinstance(late, ottla.TransactionError)
    assert_all_are_alone(job, counted)


def held_up_for_four_batches(job: Job, first: int, is_decided: bool) -> tuple[Prepared | OttlaError, list[Prepared]]:
    """An attempt of batch `first` and what becomes of it; the last of the batches is prepared, or decided, by then."""
    settings = job.settings()
    for batch in range(first):
        run_batch(job, settings, batch)
    fourth: list[Prepared] = []

    def four_batches() -> None:
        for batch in range(first, first + SLOTS - 1):
            run_batch(job, settings, batch)
        planned = plan(session_of(settings))
        fourth.extend(tasks(job, planned, batch=first + SLOTS - 1))
        if is_decided:
            decide_batch(job, planned, fourth)

    return attempt_held_up(job, plan(session_of(settings)), four_batches, first), fourth


@pytest.mark.parametrize("is_decided", [False, True])
@pytest.mark.parametrize("first", [0, SLOTS])
def test_held_up_for_four_batches_it_takes_nothing(version: int, first: int, is_decided: bool, job: Job) -> None:
    late, fourth = held_up_for_four_batches(job, first, is_decided)
    assert isinstance(late, ottla.ProducerFenced)
    if version == 2:
        assert len(entries(fourth)) == len(busy(job)) == job.tasks
    else:
        # Here it can be taken by fencing only: what was prepared is aborted, and written again.
        assert len(entries(fourth)) == 1 + len(busy(job)) == job.tasks
        if not is_decided:
            with pytest.raises(ottla.TransactionError, match=r"task 1 of batch \d+ .* lost its transaction"):
                commit(session_of(job.settings()), fourth)
    run_batch(job, job.settings(), first + SLOTS - 1)
    assert_every_row_once(job, batches=first + SLOTS)


def described(job: Job, transactional_ids: list[str]) -> list[TransactionDescription]:
    with ottla.Admin(job.bootstrap_servers) as admin:
        return list(admin.describe_transactions(transactional_ids).values())


def test_attempts_that_died_with_an_id_and_no_row_are_in_nobodys_way(
    cluster: ottla.Cluster, version: int, job: Job
) -> None:
    job.tasks, job.rows_per_batch = 10, 40
    session = session_of(job.settings())
    plan(session)
    timeout = f"/{job.settings().transaction_timeout_ms}" if version == 2 else ""
    ids = [f"{prefix_of(job.sink_id)}{task}/0/{slot}{timeout}" for task in range(30) for slot in range(SLOTS)]
    for transactional_id in ids:
        session.port.next_identity(transactional_id, 60_000)
    planned = plan(session)
    await_ends(job)
    described = session.port.describe_transactions(ids)
    assert {each.state for each in described.values()} == {"CompleteAbort"}
    commit(session, [run_task(job, job.settings(), planned, 0, task, task) for task in range(job.tasks)])
    assert_every_row_once(job, batches=1)
