"""The exactly-once sink's mechanism on Apache Kafka 4.3: killed between its steps, every row is there once.

What it relies on is Kafka's, not ours: what ListTransactions and DescribeTransactions tell, which identities EndTxn
takes, how an implicit transaction begins, and that a marker ends what is open.
"""

from __future__ import annotations

import contextlib
import time
from pathlib import Path

import pytest
from tests.client.in_time import wait_until

import ottla
from ottla.producer.transaction_states import TransactionIdentity
from ottla.sink.barriers import Barrier
from ottla.sink.batch import Entry, Prepared, Totals
from ottla.sink.commit import commit
from ottla.sink.identities import SLOTS
from ottla.sink.kafka import Kafka
from ottla.sink.planning import plan
from ottla.sink.recovery import describe
from ottla.sink.session import session_of
from ottla.sink.settings import SinkSettings
from ottla.sink.sweep import fates
from ottla.sink.transaction_log import Fate, TransactionLog

from ..sink import driver
from ..sink.conftest import PASSES, Engine, assert_every_row_once, busy
from ..sink.driver import Job, run_batch
from ..sink.test_held_up_attempts import (
    assert_all_are_alone,
    attempt_held_up,
    held_up_for_four_batches,
    late_beside_all_places,
    tasks,
)
from ..sink.test_long_batches import in_time, rows_of, run, short_of_time, timed_out, visible
from ..sink.test_lost_after_decision import decided

pytestmark = pytest.mark.kafka


@pytest.fixture
def job(apache_kafka: str, kafka_name: str, tmp_path: Path) -> Job:
    with ottla.Admin(apache_kafka) as admin:
        admin.create_topics(kafka_name, partitions=3, replication_factor=1)
    return Job(apache_kafka, kafka_name, str(tmp_path / "checkpoint"), sink_id=kafka_name)


def test_every_row_is_there_once_after_kills(job: Job, tmp_path: Path) -> None:
    job.batches = 4
    engine = Engine(job, tmp_path / "barriers")
    try:
        engine.kill_at(Barrier.TASK_PREPARE, after=PASSES[Barrier.TASK_PREPARE])
        engine.kill_at(Barrier.COMMIT_ASKED)
        engine.kill_at(Barrier.COMMIT_BETWEEN)
        engine.kill_at(Barrier.PLAN_SWEEP)
    finally:
        engine.end_quietly()
    driver.main(job.text())
    assert_every_row_once(job)
    assert describe(session_of(job.settings())).decisions[-1].batch.batch_id == 3


def test_rows_lost_after_the_decision_are_written_again(job: Job) -> None:
    decided(job, lost=(0, 2), landed=(1,))
    driver.main(job.text())
    assert_every_row_once(job)


def test_a_batch_longer_than_its_transactions_is_written_in_several_runs(job: Job) -> None:
    job.same_rows = True
    session = session_of(job.settings())
    for kinds, there in (((timed_out, short_of_time, in_time), (2,)), ((short_of_time, in_time, in_time), (1, 2))):
        with pytest.raises(ottla.TransactionError, match=f"{20 * len(there)} of 60 rows are there"):
            commit(session, run(job, *kinds))
        assert visible(job) == rows_of(job, *there)
    commit(session, run(job, in_time, in_time, in_time))
    assert_every_row_once(job, batches=1)


def test_an_attempt_held_up_before_it_takes_its_id_takes_nothing_from_another_one(job: Job) -> None:
    session = session_of(job.settings())
    planned = plan(session)
    counted: list[Prepared] = []
    late = attempt_held_up(job, planned, lambda: counted.extend(tasks(job, planned)))
    assert isinstance(late, Prepared)
    commit(session, counted)
    assert_every_row_once(job, batches=1)


@pytest.mark.parametrize("first", [0, SLOTS])
def test_an_attempt_held_up_for_four_batches_takes_nothing(first: int, job: Job) -> None:
    late, fourth = held_up_for_four_batches(job, first, is_decided=True)
    assert isinstance(late, ottla.ProducerFenced)
    assert len(fourth) == job.tasks
    # Transactions of earlier batches are over when their markers are written.
    wait_until(lambda: len(busy(job)) <= job.tasks, lambda: busy(job))
    assert len(busy(job)) == job.tasks
    run_batch(job, job.settings(), first + SLOTS - 1)
    assert_every_row_once(job, batches=first + SLOTS)


def test_an_attempt_that_found_the_same_as_a_later_one_withdraws(job: Job) -> None:
    late, counted = late_beside_all_places(job)
    assert isinstance(late, ottla.TransactionError)
    assert_all_are_alone(job, counted)


def test_decisions_are_kept_in_a_compacted_topic(job: Job) -> None:
    driver.main(job.text())
    with ottla.Admin(job.bootstrap_servers) as admin:
        configs = admin.describe_configs(topic=job.settings().control_topic)
    assert (configs["cleanup.policy"].value, configs["max.message.bytes"].value) == ("compact", "16777216")


def test_compaction_takes_receipts_that_are_aborted_and_leaves_those_that_are_committed(
    apache_kafka: str, kafka_name: str
) -> None:
    configs = {"cleanup.policy": "compact", "segment.ms": 100, "min.cleanable.dirty.ratio": 0.01}
    with ottla.Admin(apache_kafka) as admin:
        admin.create_topics(kafka_name, partitions=1, replication_factor=1, configs=configs)
    entries = []
    for number, committed in enumerate((False, True)):
        name = f"{kafka_name}-{number}"
        with ottla.Producer(apache_kafka, transactional_id=name) as producer:
            producer.begin_transaction()
            receipt = producer.send(kafka_name, b"receipt", name.encode(), partition=0)
            identity = producer.prepare_transaction()
        entries.append(Entry(number, TransactionIdentity(*identity), Totals(1, 1), receipt.result().offset, ()))
        ottla.end_transactions([identity], committed, apache_kafka)
    port = Kafka(SinkSettings(kafka_name, apache_kafka))

    def stored() -> TransactionLog:
        log = TransactionLog(lambda record: True)
        for records in port.read(kafka_name, 0, port.end_offset(kafka_name)):
            log.take(records)
        return log

    with contextlib.closing(port), ottla.Producer(apache_kafka) as producer:
        deadline = time.monotonic() + 240
        while any(each.record.offset == entries[0].receipt_offset for each in stored().settled):
            assert time.monotonic() < deadline, "the topic was not compacted"
            # A segment is closed when a record comes.
            producer.send(kafka_name, b"later", b"later", partition=0).result(120)
            time.sleep(0.5)
        assert list(fates(entries, stored()).values()) == [Fate.ABORTED, Fate.COMMITTED]
