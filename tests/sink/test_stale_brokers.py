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
from ottla.sink.barriers import Barrier
from ottla.sink.batch import Prepared
from ottla.sink.commit import abort, commit
from ottla.sink.identities import coordinator_id
from ottla.sink.kafka import Kafka
from ottla.sink.planning import look, plan
from ottla.sink.session import Session, session_of
from ottla.sink.settings import CONTROL_TOPIC, SinkSettings

from .conftest import assert_every_row_once, make_job
from .driver import Job, run_batch, run_task


@pytest.fixture
def cluster() -> Iterator[ottla.Cluster]:
    with ottla.Cluster(brokers=3) as cluster:
        yield cluster


def cut_off(cluster: ottla.Cluster, job: Job) -> tuple[int, str, str]:
    """The leader of the control topic, which coordinates nothing of the driver's, its address, and the others'."""
    stale = cluster.leader(CONTROL_TOPIC, 0)
    if cluster.coordinator(transactional_id=coordinator_id(job.sink_id)) == stale:
        cluster.move_coordinator(transactional_id=coordinator_id(job.sink_id))
    addresses = dict(zip(cluster.brokers(), cluster.bootstrap_servers.split(","), strict=True))
    of_stale = addresses.pop(stale)
    return stale, of_stale, ",".join(addresses.values())


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
    stale = cluster.coordinator(transactional_id=coordinator_id(job.sink_id))
    addresses = dict(zip(cluster.brokers(), cluster.bootstrap_servers.split(","), strict=True))
    impatient = {"default.api.timeout.ms": 5_000}
    old = session_of(
        dataclasses.replace(job.settings(), bootstrap_servers=addresses.pop(stale), client_settings=impatient)
    )
    replaced = plan(old)
    others = ",".join(addresses.values())
    settings = dataclasses.replace(job.settings(), bootstrap_servers=others)
    with cluster.faults.isolate(stale):
        cluster.move_coordinator(transactional_id=coordinator_id(job.sink_id))
        planned = plan(session_of(settings))
        messages = [run_task(job, settings, planned, 1, task, task) for task in range(job.tasks)]
        # What it would find open are the transactions of the new driver.
        with contextlib.suppress(ottla.OttlaError):
            assert look(old, replaced.coordinator, old.read_decision()) is None
        commit(session_of(settings), messages)
    assert_every_row_once(dataclasses.replace(job, bootstrap_servers=others), batches=2)


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
    for place in (cluster._coordinating(None, coordinator_id(job.sink_id)), (CONTROL_TOPIC, 0)):
        if cluster.leader(*place) == stale:
            cluster.move_leader(*place)
    # It remembers who coordinates them.
    assert committing.port.describe_transactions(ids).keys() == set(ids)
    addresses = dict(zip(cluster.brokers(), cluster.bootstrap_servers.split(","), strict=True))
    del addresses[stale]
    others = dataclasses.replace(settings, bootstrap_servers=",".join(addresses.values()))
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
