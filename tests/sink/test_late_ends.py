"""A driver goes on while the coordinator has not stored the end of its id's previous transaction yet.

From transaction version 2 on (KIP-890) the next epoch is given before the end is stored. Until then the coordinator
answers with CONCURRENT_TRANSACTIONS, as Apache Kafka does from 4.0.0 on.
"""

from __future__ import annotations

import ottla
from ottla.sink.commit import abort, commit
from ottla.sink.planning import plan
from ottla.sink.session import session_of

from .conftest import assert_every_row_once, open_tasks
from .driver import Job, run_task


def test_a_driver_is_not_told_that_another_one_has_begun(cluster: ottla.Cluster, job: Job) -> None:
    session = session_of(job.settings())
    for batch in range(2):
        # The markers are written, but the coordinator gets the answer late.
        with cluster.faults.delay_ack(api="WriteTxnMarkers", delay_ms=300) as late:
            planned = plan(session)
            messages = [run_task(job, job.settings(), planned, batch, task, task) for task in range(job.tasks)]
            commit(session, messages)
        assert late.fired
    assert_every_row_once(job, batches=2)


def test_attempts_that_do_not_count_are_aborted_with_their_batch(cluster: ottla.Cluster, job: Job) -> None:
    session = session_of(job.settings())
    planned = plan(session)
    messages = [run_task(job, job.settings(), planned, 0, task, task) for task in range(job.tasks)]
    run_task(job, job.settings(), planned, 0, 1, 100)
    with cluster.faults.delay_ack(api="WriteTxnMarkers", delay_ms=300) as late:
        commit(session, messages)
    assert late.fired
    assert open_tasks(job) == []
    assert_every_row_once(job, batches=1)


def test_a_batch_that_is_given_up_as_soon_as_it_is_planned_is_aborted(cluster: ottla.Cluster, job: Job) -> None:
    session = session_of(job.settings())
    with cluster.faults.delay_ack(api="WriteTxnMarkers", delay_ms=300):
        planned = plan(session)
        run_task(job, job.settings(), planned, 0, 0, 0)
        abort(session, [None], planned)
    assert open_tasks(job) == []
    planned = plan(session)
    commit(session, [run_task(job, job.settings(), planned, 0, task, task) for task in range(job.tasks)])
    assert_every_row_once(job, batches=1)
