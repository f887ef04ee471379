"""A broker that is cut off from the others: clients still reach it, and it does not know yet that it leads nothing."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator

import pytest

import ottla
from ottla.sink.identities import coordinator_id
from ottla.sink.planning import plan
from ottla.sink.session import session_of
from ottla.sink.settings import CONTROL_TOPIC

from .conftest import assert_every_row_once
from .driver import Job, run_batch


@pytest.fixture
def cluster() -> Iterator[ottla.Cluster]:
    with ottla.Cluster(brokers=3) as cluster:
        yield cluster


def test_a_plan_does_not_take_an_old_decision_for_the_last_one(cluster: ottla.Cluster, job: Job) -> None:
    run_batch(job, job.settings(), 0)
    stale = cluster.leader(CONTROL_TOPIC, 0)
    if cluster.coordinator(transactional_id=coordinator_id(job.sink_id)) == stale:
        cluster.move_coordinator(transactional_id=coordinator_id(job.sink_id))
    addresses = dict(zip(cluster.brokers(), cluster.bootstrap_servers.split(","), strict=True))
    of_stale = addresses.pop(stale)
    others = ",".join(addresses.values())
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
    assert_every_row_once(job, batches=2)
