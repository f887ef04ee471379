"""Brokers that die, coordinators that move and answers that are lost while a batch is decided and applied."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from tests import exactly_once

import ottla
from ottla.sink import barriers
from ottla.sink.identities import coordinator_id, prefix_of, task_transactional_id

from . import driver
from .conftest import Engine, assert_every_row_once
from .driver import Job


@pytest.fixture(scope="module")
def cluster() -> Iterator[ottla.Cluster]:
    with ottla.Cluster(brokers=3) as cluster:
        yield cluster


MOMENTS = [barriers.PLAN_READ, barriers.TASK_PREPARE, barriers.COMMIT_DECISION, barriers.COMMIT_APPLY]


@pytest.mark.parametrize("barrier", MOMENTS)
def test_coordinators_move(
    barrier: str, cluster: ottla.Cluster, job: Job, engine: Engine, say: Callable[[str], None]
) -> None:
    engine.hold(barrier)
    engine.start()
    engine.await_held(barrier)
    cluster.move_coordinator(transactional_id=coordinator_id(job.sink_id))
    cluster.move_coordinator(transactional_id=task_transactional_id(job.sink_id, 0, 0, 0))
    say(f"coordinators of the driver and of a task moved with the driver held at {barrier}")
    engine.release(barrier)
    engine.finish()
    assert_every_row_once(job)


@pytest.mark.parametrize("whose", ["driver", "task"])
@pytest.mark.parametrize("barrier", [barriers.PLAN_READ, barriers.COMMIT_DECISION, barriers.COMMIT_APPLY])
def test_a_broker_that_coordinates_dies(
    barrier: str, whose: str, cluster: ottla.Cluster, job: Job, engine: Engine, say: Callable[[str], None]
) -> None:
    engine.hold(barrier)
    engine.start()
    engine.await_held(barrier)
    ids = {"driver": coordinator_id(job.sink_id), "task": task_transactional_id(job.sink_id, 0, 0, 0)}
    ongoing = {each.transactional_id for each in exactly_once.ongoing(job.bootstrap_servers, prefix_of(job.sink_id))}
    assert barrier == barriers.PLAN_READ or ids["task"] in ongoing
    broker_id = cluster.coordinator(transactional_id=ids[whose])
    cluster.kill(broker_id)
    say(f"broker {broker_id}, which coordinates {ids[whose]}, killed with the driver held at {barrier}")
    engine.release(barrier)
    engine.finish()
    cluster.start(broker_id)
    cluster.await_isr(job.topic, 0)
    assert_every_row_once(job)


@pytest.mark.parametrize("barrier", [barriers.COMMIT_ASKED, barriers.COMMIT_APPLY])
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
