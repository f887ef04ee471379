"""Brokers that die, coordinators that move and answers that are lost while a batch is decided and applied."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

import ottla
from ottla.sink.barriers import Barrier
from ottla.sink.identities import driver_id

from . import driver
from .conftest import Engine, assert_every_row_once, open_tasks
from .driver import Job

pytestmark = pytest.mark.prove


@pytest.fixture(scope="module")
def cluster() -> Iterator[ottla.Cluster]:
    with ottla.Cluster(brokers=3) as cluster:
        yield cluster


MOMENTS = [Barrier.PLAN_READ, Barrier.TASK_PREPARE, Barrier.COMMIT_DECISION, Barrier.COMMIT_APPLY]


@pytest.mark.parametrize("barrier", MOMENTS)
def test_coordinators_move(
    barrier: str, cluster: ottla.Cluster, job: Job, engine: Engine, say: Callable[[str], None]
) -> None:
    engine.hold(barrier)
    engine.start()
    engine.await_held(barrier)
    moved = [driver_id(job.sink_id), *open_tasks(job)[:1]]
    for transactional_id in moved:
        cluster.move_coordinator(transactional_id=transactional_id)
    say(f"coordinators of {' and '.join(moved)} moved with the driver held at {barrier}")
    engine.release(barrier)
    engine.finish()
    assert_every_row_once(job)


@pytest.mark.parametrize(
    ("barrier", "whose"),
    [
        (Barrier.PLAN_READ, "driver"),
        (Barrier.COMMIT_DECISION, "driver"),
        (Barrier.COMMIT_DECISION, "task"),
        (Barrier.COMMIT_APPLY, "driver"),
        (Barrier.COMMIT_APPLY, "task"),
    ],
)
def test_a_broker_that_coordinates_dies(
    barrier: str, whose: str, cluster: ottla.Cluster, job: Job, engine: Engine, say: Callable[[str], None]
) -> None:
    engine.hold(barrier)
    engine.start()
    engine.await_held(barrier)
    transactional_id = driver_id(job.sink_id) if whose == "driver" else open_tasks(job)[0]
    broker_id = cluster.coordinator(transactional_id=transactional_id)
    cluster.kill(broker_id)
    say(f"broker {broker_id}, which coordinates {transactional_id}, killed with the driver held at {barrier}")
    engine.release(barrier)
    engine.finish()
    cluster.start(broker_id)
    cluster.await_isr(job.topic, 0)
    assert_every_row_once(job)


@pytest.mark.parametrize("barrier", [Barrier.COMMIT_ASKED, Barrier.COMMIT_APPLY])
def test_broker_and_driver_die_together(
    barrier: str, cluster: ottla.Cluster, job: Job, engine: Engine, say: Callable[[str], None]
) -> None:
    engine.hold(barrier, after=1)
    engine.start()
    engine.await_held(barrier)
    broker_id = cluster.leader(job.settings().control_topic, 0)
    cluster.kill(broker_id)
    engine.kill()
    say(f"broker {broker_id}, which leads the decisions, killed with the driver, held at {barrier}")
    engine.release(barrier)
    driver.main(job.text())
    cluster.start(broker_id)
    cluster.await_isr(job.topic, 0)
    assert_every_row_once(job)


@pytest.mark.parametrize("api", ["EndTxn", "InitProducerId", "ListTransactions", "DescribeTransactions", "Produce"])
def test_answers_that_are_lost_are_asked_for_again(api: str, cluster: ottla.Cluster, job: Job) -> None:
    driver.main(job.text())
    job.batches += 2
    with cluster.faults.lose_ack(api=api, every=3) as fault:
        driver.main(job.text())
    assert fault.fired
    assert_every_row_once(job)
