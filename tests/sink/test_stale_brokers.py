"""A broker that is cut off from the others: clients still reach it, and it does not know yet that it leads nothing.

What is there in the end is read by way of the others: it may not have heard yet.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import ottla
from ottla.producer.transaction_states import TransactionIdentity
from ottla.sink.barriers import Barrier
from ottla.sink.batch import Attempt, BatchId, Plan, Prepared, Totals
from ottla.sink.commit import _to_decide, abort, commit
from ottla.sink.deciding import decide
from ottla.sink.decision_writer import DecisionWriter
from ottla.sink.identities import driver_id, prefix_of, task_transactional_id, ticket_id
from ottla.sink.kafka import Kafka
from ottla.sink.planning import look, plan
from ottla.sink.session import Session, session_of
from ottla.sink.settings import CONTROL_TOPIC, SinkSettings
from ottla.sink.task import prepare

from .conftest import assert_every_row_once, make_job
from .driver import Job, prepare_rows, run_batch, run_task
from .held_up import HeldUp


@pytest.fixture
def cluster() -> Iterator[ottla.Cluster]:
    with ottla.Cluster(brokers=3) as cluster:
        yield cluster


def cut_off(cluster: ottla.Cluster, job: Job) -> tuple[int, str, str]:
    """The leader of the control topic, which coordinates nothing of the driver's, its address, and the others'."""
    stale = cluster.leader(CONTROL_TOPIC, 0)
    if cluster.coordinator(transactional_id=driver_id(job.sink_id)) == stale:
        cluster.move_coordinator(transactional_id=driver_id(job.sink_id))
    return stale, *addresses(cluster, stale)


def addresses(cluster: ottla.Cluster, stale: int) -> tuple[str, str]:
    """The address of this broker, and those of the others."""
    of_brokers = dict(zip(cluster.brokers(), cluster.bootstrap_servers.split(","), strict=True))
    return of_brokers.pop(stale), ",".join(of_brokers.values())


def test_a_plan_does_not_take_an_old_decision_for_the_last_one(cluster: ottla.Cluster, job: Job) -> None:
    run_batch(job, job.settings(), 0)
    stale, of_stale, others = cut_off(cluster, job)
    with cluster.faults.isolate(stale):
        cluster.await_leader(CONTROL_TOPIC, 0, other_than=stale, timeout=30)
        # This driver dies before the engine notes that the batch is done.
        run_batch(job, dataclasses.replace(job.settings(), bootstrap_servers=others), 1)
        again = dataclasses.replace(job.settings(), bootstrap_servers=of_stale)
        impatient = {**again.client_settings, "default.api.timeout.ms": 2_000}
        # Whether this driver hears of the real leader depends on whom it asks; otherwise it has to be refused.
        with contextlib.suppress(ottla.OttlaError):
            early = plan(session_of(dataclasses.replace(again, client_settings=impatient)))
            assert early.last is not None
            assert early.last.batch.batch_id == 1
    # Now it hears of the others.
    planned = plan(session_of(again))
    assert planned.last is not None
    assert planned.last.batch.batch_id == 1
    run_batch(job, again, 1)
    assert_every_row_once(dataclasses.replace(job, bootstrap_servers=others), batches=2)


def test_an_abort_that_reads_an_old_decision_ends_nothing_of_the_new_one(
    cluster: ottla.Cluster, job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_batch(job, job.settings(), 0)
    stale, of_stale, others = cut_off(cluster, job)
    settings = dataclasses.replace(job.settings(), bootstrap_servers=others)
    with cluster.faults.isolate(stale):
        cluster.await_leader(CONTROL_TOPIC, 0, other_than=stale, timeout=30)
        planned = plan(session_of(settings))
        messages = [run_task(job, settings, planned, 1, task, task) for task in range(job.tasks)]
        with monkeypatch.context() as patched:
            patched.setattr("ottla.sink.commit.reach", fail_at(Barrier.COMMIT_APPLY))
            with pytest.raises(ottla.OttlaError, match="the driver fails here"):
                commit(session_of(settings), messages)
        # It is decided. What the driver reads by now comes from the broker that has not heard of it.
        elsewhere = dataclasses.replace(
            settings, bootstrap_servers=of_stale, client_settings={"default.api.timeout.ms": 5_000}
        )
        with contextlib.suppress(ottla.OttlaError):
            abort(session_of(elsewhere), messages)
    assert plan(session_of(job.settings())).last is not None
    assert_every_row_once(dataclasses.replace(job, bootstrap_servers=others), batches=2)


@pytest.mark.prove
def test_before_version_2_an_abort_does_not_take_the_fence_of_another_driver_for_a_timeout(
    kafka_name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ottla.Cluster(brokers=3, settings={"transaction_version": 1}) as cluster:
        job = make_job(cluster, kafka_name, tmp_path)
        run_batch(job, job.settings(), 0)
        stale, of_stale, others = cut_off(cluster, job)
        settings = dataclasses.replace(job.settings(), bootstrap_servers=others)
        planned = plan(session_of(settings))
        messages = [run_task(job, settings, planned, 1, task, task) for task in range(job.tasks)]
        elsewhere = dataclasses.replace(
            settings, bootstrap_servers=of_stale, client_settings={"default.api.timeout.ms": 3_000}
        )
        # Its connections are to the broker that is cut off now.
        assert session_of(elsewhere).read_decision() is not None
        with cluster.faults.isolate(stale):
            cluster.await_leader(CONTROL_TOPIC, 0, other_than=stale, timeout=30)
            with monkeypatch.context() as patched:
                patched.setattr("ottla.sink.commit.reach", fail_at(Barrier.COMMIT_APPLY))
                with pytest.raises(ottla.OttlaError, match="the driver fails here"):
                    commit(session_of(settings), messages)
            # Another driver is about to read what is decided.
            session_of(settings).fence()
            with contextlib.suppress(ottla.OttlaError):
                abort(session_of(elsewhere), messages)
        last = plan(session_of(job.settings())).last
        assert last is not None
        assert last.lost == {}
        assert_every_row_once(dataclasses.replace(job, bootstrap_servers=others), batches=2)


def test_a_driver_that_was_replaced_does_not_hear_of_a_broker_that_it_may_sweep(
    cluster: ottla.Cluster, job: Job
) -> None:
    run_batch(job, job.settings(), 0)
    stale = cluster.coordinator(transactional_id=driver_id(job.sink_id))
    of_stale, others = addresses(cluster, stale)
    impatient = {"default.api.timeout.ms": 5_000}
    old = session_of(dataclasses.replace(job.settings(), bootstrap_servers=of_stale, client_settings=impatient))
    replaced = plan(old)
    settings = dataclasses.replace(job.settings(), bootstrap_servers=others)
    with cluster.faults.isolate(stale):
        cluster.move_coordinator(transactional_id=driver_id(job.sink_id))
        planned = plan(session_of(settings))
        messages = [run_task(job, settings, planned, 1, task, task) for task in range(job.tasks)]
        # What it would find open are the transactions of the new driver.
        with contextlib.suppress(ottla.OttlaError):
            assert look(old, replaced.driver_identity, old.read_decision()) is None
        commit(session_of(settings), messages)
    assert_every_row_once(dataclasses.replace(job, bootstrap_servers=others), batches=2)


@pytest.mark.parametrize(("of_driver", "is_decided"), [(True, False), (False, True)])
def test_a_late_attempt_does_not_hear_of_a_cut_off_broker_that_it_is_alone(
    cluster: ottla.Cluster, job: Job, of_driver: bool, is_decided: bool
) -> None:
    """It was held up between its look at an id and its begin, until a later batch has begun with that id."""
    job.tasks, stale = 1, 2
    plan(session_of(job.settings()))
    tickets = choose_places(cluster, job, stale, of_driver)
    settings = job.settings()
    for batch in range(4):
        run_batch(job, settings, batch)
    others = dataclasses.replace(settings, bootstrap_servers=addresses(cluster, stale)[1])
    session, messages = session_of(others), []
    first = plan(session_of(settings))

    def later_batches() -> None:
        stack.enter_context(cluster.faults.isolate(stale))
        cluster.await_leader(*cluster._coordinating(None, tickets), other_than=stale, timeout=30)
        if of_driver:
            cluster.await_leader(*cluster._coordinating(None, driver_id(job.sink_id)), other_than=stale, timeout=30)
        message, planned = prepared(job, others, first, 4, number=1), first
        for batch in range(5, 9):
            commit(session, [message])
            planned = plan(session)
            message = prepared(job, others, planned, batch, number=0)
            if message.entry is not None and message.entry.identity.transactional_id == port.held_before:
                break
        messages.append(message)
        if is_decided:
            with DecisionWriter(session, planned.driver_identity) as writer:
                decide(writer, planned, _to_decide(session, planned, message.batch, [message], [message]), [message])

    impatient = dataclasses.replace(settings, client_settings={"default.api.timeout.ms": 5_000})
    port = HeldUp(impatient, later_batches)
    # A Python worker remembers which brokers coordinated these ids in an earlier task.
    port.describe_transactions([driver_id(job.sink_id), tickets])
    port.forget_looks()
    with contextlib.ExitStack() as stack, contextlib.closing(Session(impatient, port)) as late:
        with pytest.raises(ottla.OttlaError):
            prepare(late, first, BatchId(job.query_id, 4), Attempt(100, 0), must_not_write, Totals)
        (message,) = messages
        assert message.entry is not None
        assert message.entry.identity.transactional_id == port.held_before
        if is_decided:
            last = plan(session).last
            assert last is not None
            assert not last.lost
        else:
            commit(session, [message])
    assert_every_row_once(
        dataclasses.replace(job, bootstrap_servers=others.bootstrap_servers), batches=message.batch.batch_id + 1
    )


def choose_places(cluster: ottla.Cluster, job: Job, stale: int, of_driver: bool) -> str:
    """Have this broker coordinate the sink's tickets, with `of_driver` also the driver, and lead nothing else."""
    for number in range(100):
        job.sink_id = f"{job.topic}-{number}"
        tickets = ticket_id(prefix_of(job.sink_id), 0, 0)
        of_task = task_transactional_id(TransactionIdentity(tickets, 0, 0), job.settings().transaction_timeout_ms)
        own, wanted, tasks = (cluster._coordinating(None, each) for each in (driver_id(job.sink_id), tickets, of_task))
        if tasks not in (own, wanted) and (of_driver or own != wanted):
            break
    lead_only(cluster, stale, {wanted, own} if of_driver else {wanted})
    return tickets


def lead_only(cluster: ottla.Cluster, broker: int, led: set[tuple[str, int]]) -> None:
    """Have a broker lead these partitions, and no others."""
    places = [(topic, partition) for topic, found in cluster.topics().items() for partition in range(len(found))]
    for place in places:
        if (cluster.leader(*place) == broker) != (place in led):
            cluster.move_leader(*place, *([broker] if place in led else []))


def prepared(job: Job, settings: SinkSettings, planned: Plan, batch: int, number: int) -> Prepared:
    attempt = Attempt(10 * batch + number, 0, number)
    message = prepare_rows(
        session_of(settings), planned, BatchId(job.query_id, batch), 0, job, job.rows_of(batch, 0), attempt
    )
    assert isinstance(message, Prepared)
    return message


def must_not_write(producer: Callable[[], ottla.Producer]) -> Totals:
    producer()
    pytest.fail("it has a transaction")


def test_a_decision_is_not_made_by_the_clock_of_the_driver_because_a_cut_off_broker_does_not_know_it(
    cluster: ottla.Cluster, job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    class HourBehind(Kafka):
        passed_more_s = 0.0

        def now_ms(self) -> int:
            return super().now_ms() - 3_600_000

        def passed_s(self) -> float:
            return super().passed_s() + self.passed_more_s

    run_batch(job, job.settings(), 0)
    own, stale = cluster._coordinating(None, driver_id(job.sink_id)), 2
    lead_only(cluster, stale, {own})
    settings = job.settings()
    others = dataclasses.replace(settings, bootstrap_servers=addresses(cluster, stale)[1])
    port = HourBehind(settings)
    committing = Session(settings, port)
    # It remembers who coordinates the driver's id.
    assert committing.port.describe_transactions([committing.driver_id])
    planned = plan(Session(settings, HourBehind(settings)))

    def time_passes(_: Barrier) -> None:
        port.passed_more_s = settings.transaction_timeout_ms / 1000 - 1

    monkeypatch.setattr("ottla.sink.deciding.reach", time_passes)
    with cluster.faults.isolate(stale):
        cluster.await_leader(*own, other_than=stale, timeout=30)
        messages = [run_task(job, others, planned, 1, task, task) for task in range(job.tasks)]
        with pytest.raises(ottla.TransactionError, match=r"is not decided|ms left of"):
            commit(committing, messages)


def fail_at(barrier: Barrier) -> Callable[[Barrier], None]:
    def reach(reached: Barrier) -> None:
        if reached is barrier:
            raise ottla.OttlaError("the driver fails here")

    return reach


@pytest.mark.parametrize("same_rows", [False, True])
def test_a_cut_off_coordinator_that_knows_an_id_from_earlier_batches_is_not_believed(
    cluster: ottla.Cluster, job: Job, same_rows: bool
) -> None:
    job.same_rows = same_rows
    settings = job.settings()
    planning, committing = session_of(settings), Session(settings, Kafka(settings))
    # An id comes again after four batches, and its transactions have been ended before.
    for number in range(5):
        planned = plan(planning)
        last = [run_task(job, settings, planned, number, task, number * job.tasks + task) for task in range(job.tasks)]
        commit(committing, last)
    entries = [message.entry for message in last if isinstance(message, Prepared) and message.entry is not None]
    ids = [following(entry.identity.transactional_id) for entry in entries]
    stale = 2
    for place in {cluster._coordinating(None, each) for each in ids}:
        if cluster.leader(*place) != stale:
            cluster.move_leader(*place, stale)
    for place in (cluster._coordinating(None, driver_id(job.sink_id)), (CONTROL_TOPIC, 0)):
        if cluster.leader(*place) == stale:
            cluster.move_leader(*place)
    # It remembers who coordinates them.
    assert committing.port.describe_transactions(ids).keys() == set(ids)
    others = dataclasses.replace(settings, bootstrap_servers=addresses(cluster, stale)[1])
    planned = plan(planning)
    with cluster.faults.isolate(stale):
        for place in {cluster._coordinating(None, each) for each in ids}:
            cluster.await_leader(*place, other_than=stale, timeout=30)
        messages = [run_task(job, others, planned, 5, task, 5 * job.tasks + task) for task in range(job.tasks)]
        commit(committing, messages)
    assert_every_row_once(dataclasses.replace(job, bootstrap_servers=others.bootstrap_servers), batches=6)


def test_a_commit_does_not_complete_a_batch_from_an_old_decision(cluster: ottla.Cluster, job: Job) -> None:
    job.same_rows = True
    decided_in_part(job, job.settings(), lost=(1, 2))
    stale, _, others = cut_off(cluster, job)
    settings = dataclasses.replace(job.settings(), bootstrap_servers=others)
    committing = Session(settings, Kafka(settings))
    # It remembers which broker leads the topic.
    assert committing.read_decision() is not None
    with cluster.faults.isolate(stale):
        cluster.await_leader(CONTROL_TOPIC, 0, other_than=stale, timeout=30)
        decided_in_part(dataclasses.replace(job, bootstrap_servers=others), settings, lost=(2,))
        planned = plan(session_of(settings))
        assert planned.last is not None
        assert set(planned.last.lost) == {2}
        messages = [run_task(job, settings, planned, 0, task, task) for task in range(job.tasks)]
        with pytest.raises(ottla.OttlaError, match="is behind"):
            commit(committing, messages)
        run_batch(job, settings, 0)
    assert_every_row_once(dataclasses.replace(job, bootstrap_servers=others), batches=1)


def test_a_batch_that_comes_again_does_not_bring_an_old_decision_back(cluster: ottla.Cluster, job: Job) -> None:
    job.same_rows = True
    decided_in_part(job, job.settings(), lost=(1, 2))
    stale, _, others = cut_off(cluster, job)
    settings = dataclasses.replace(job.settings(), bootstrap_servers=others, same_rows=None)
    committing = Session(settings, Kafka(settings))
    assert committing.read_decision() is not None
    with cluster.faults.isolate(stale):
        cluster.await_leader(CONTROL_TOPIC, 0, other_than=stale, timeout=30)
        run_batch(job, settings, 0)
        # The driver died before the engine noted that the batch is done, and now it has other rows.
        other = dataclasses.replace(job, rows_per_batch=50, run_id="again")
        planned = plan(session_of(settings))
        commit(committing, [run_task(other, settings, planned, 0, task, task) for task in range(job.tasks)])
        last = plan(session_of(settings)).last
        assert last is not None
        assert last.lost == {}
    assert_every_row_once(dataclasses.replace(job, bootstrap_servers=others), batches=1)


def decided_in_part(job: Job, settings: SinkSettings, lost: tuple[int, ...]) -> None:
    """Run batch 0; the transactions of these tasks have timed out before it is decided."""
    planned = plan(session_of(settings))
    messages = [run_task(job, settings, planned, 0, task, task) for task in range(job.tasks)]
    entries = [message.entry for message in messages if isinstance(message, Prepared) and message.entry is not None]
    late = [entry.identity for entry in entries if entry.partition_id in lost]
    assert not any(ottla.end_transactions(late, False, job.bootstrap_servers).values())
    with pytest.raises(ottla.TransactionError, match="rows are there"):
        commit(session_of(settings), messages)


def following(transactional_id: str) -> str:
    """The id that the same task's next attempt takes."""
    head, slot, timeout = transactional_id.rsplit("/", 2)
    return f"{head}/{(int(slot) + 1) % 4}/{timeout}"
