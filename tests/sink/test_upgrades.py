"""The feature transaction.version of a cluster is changed while a query runs, as in an upgrade to Kafka 4.

That needs no restart and closes no connection. So some clients of the sink have heard of it, and others have not.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.client.in_time import wait_until
from tests.needs import lacking
from tests.soak import SOAK
from tools.apache_kafka import ApacheKafka, Java
from tools.kafka_jars import JarsUnavailable

import ottla
from ottla.client.admin import transactions_of
from ottla.sink import planning
from ottla.sink.barriers import Barrier
from ottla.sink.batch import Attempt, BatchId, Plan
from ottla.sink.commit import abort, commit
from ottla.sink.kafka import Kafka
from ottla.sink.planning import plan
from ottla.sink.refusals import Message
from ottla.sink.session import Session

from .conftest import assert_every_row_once
from .driver import Job, prepare_rows

pytestmark = pytest.mark.kafka

_TASKS = 2
# An id comes again after four batches. Each batch has as many rows for each partition as those before.
_BATCHES = 4


@pytest.fixture(scope="module")
def brokers() -> Iterator[ApacheKafka]:
    try:
        kafka = ApacheKafka(format_arguments=("--feature", "transaction.version=1"))
    except JarsUnavailable as missing:
        lacking("kafka", missing)
    with kafka:
        yield kafka


def set_version(brokers: ApacheKafka, version: int) -> None:
    how = "upgrade" if version == 2 else "downgrade"
    command = ("--bootstrap-server", brokers.bootstrap_servers, how, "--feature", f"transaction.version={version}")
    told = Java().run("org.apache.kafka.tools.FeatureCommand", *command).decode()
    assert f"transaction.version was {how}d to {version}" in told
    wait_until(lambda: version_told(brokers) == version, f"the broker does not say version {version}")


def version_told(brokers: ApacheKafka) -> int:
    """The version that the broker gives on a new connection; the tool asked the controller, which knows it earlier."""
    with ottla.Admin(brokers.bootstrap_servers) as admin:
        admin.cluster()
        return transactions_of(admin).version


@pytest.mark.parametrize("is_given_up", [False, True])
def test_a_driver_that_planned_in_version_2_is_fenced_by_one_that_has_not_heard_of_it(
    brokers: ApacheKafka, kafka_name: str, tmp_path: Path, is_given_up: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ottla.Admin(brokers.bootstrap_servers) as admin:
        admin.create_topics(kafka_name, partitions=3)
    job = Job(brokers.bootstrap_servers, kafka_name, str(tmp_path), sink_id=kafka_name, tasks=_TASKS)
    settings = job.settings()
    with contextlib.ExitStack() as stack:

        def connected() -> Session:
            return stack.enter_context(contextlib.closing(Session(settings, Kafka(settings))))

        def tasks(planned: Plan, batch: int) -> list[Message]:
            worker, id_ = connected(), BatchId(job.query_id, batch)
            return [
                prepare_rows(worker, planned, id_, task, job, job.rows_of(batch, task), Attempt(task, task))
                for task in range(job.tasks)
            ]

        def plan_older(barrier: Barrier) -> None:
            if barrier == Barrier.PLAN_LOOK:
                monkeypatch.undo()
                planned.append(plan(older))

        older = connected()
        planned = [plan(older)]
        commit(older, tasks(planned.pop(), 0))
        set_version(brokers, 2)
        stack.callback(set_version, brokers, 1)
        newer = connected()
        if is_given_up:
            messages = tasks(plan(newer), 1)
            planned.append(plan(older))
            abort(newer, messages)
        else:
            monkeypatch.setattr(planning, "reach", plan_older)
            with pytest.raises(ottla.ProducerFenced, match="another query or write has begun a batch"):
                plan(newer)
        assert planned[0].version == 1
        commit(older, tasks(planned[0], 1))
    assert_every_row_once(job, batches=2)


@pytest.mark.parametrize(
    ("first", "who_connects_anew"), [(1, "tasks"), (2, "tasks"), pytest.param(1, "driver", marks=SOAK)]
)
def test_every_row_is_there_once_after_the_transaction_version_has_changed(
    brokers: ApacheKafka, kafka_name: str, tmp_path: Path, first: int, who_connects_anew: str
) -> None:
    with ottla.Admin(brokers.bootstrap_servers) as admin:
        admin.create_topics(kafka_name, partitions=3)
    job = Job(brokers.bootstrap_servers, kafka_name, str(tmp_path), sink_id=kafka_name, tasks=_TASKS)
    settings = job.settings()
    version = first
    if first == 2:
        set_version(brokers, 2)
    with contextlib.ExitStack() as stack:

        def connected() -> Session:
            return stack.enter_context(contextlib.closing(Session(settings, Kafka(settings))))

        driver, worker = connected(), connected()
        for batch in range(4 * _BATCHES):
            if batch and batch % _BATCHES == 0:
                version = 3 - version
                set_version(brokers, version)
                driver = connected() if who_connects_anew == "driver" else driver
            planned = plan(driver)
            messages = []
            for task in range(job.tasks):
                worker = connected() if who_connects_anew == "tasks" else worker
                attempt = Attempt(batch * job.tasks + task, task)
                rows = job.rows_of(batch, task)
                message = prepare_rows(worker, planned, BatchId(job.query_id, batch), task, job, rows, attempt)
                messages.append(message)
            commit(driver, messages)
    assert_every_row_once(job, batches=4 * _BATCHES)
    if version == 2:
        set_version(brokers, 1)
