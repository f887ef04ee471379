"""The exactly-once sink's mechanism on Apache Kafka 4.3: killed between its steps, every row is there once.

What it relies on is Kafka's, not ours: what ListTransactions and DescribeTransactions tell, which identities EndTxn
takes, how an implicit transaction begins, and that a marker ends what is open.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import ottla
from ottla.sink.barriers import Barrier
from ottla.sink.recovery import describe
from ottla.sink.session import session_of

from ..sink import driver
from ..sink.conftest import PASSES, Engine, assert_every_row_once
from ..sink.driver import Job
from ..sink.test_lost_after_decision import decided

pytestmark = pytest.mark.kafka


@pytest.fixture
def job(apache_kafka: str, kafka_name: str, tmp_path: Path) -> Job:
    with ottla.Admin(apache_kafka) as admin:
        admin.create_topics(kafka_name, partitions=3, replication_factor=1)
    return Job(apache_kafka, kafka_name, str(tmp_path / "checkpoint"), sink_id=kafka_name)


@pytest.mark.parametrize("atomic", [False, True], ids=["by task", "atomic"])
def test_every_row_is_there_once_after_kills(atomic: bool, job: Job, tmp_path: Path) -> None:
    job.atomic = atomic
    job.batches = 4
    engine = Engine(job, tmp_path / "barriers")
    try:
        engine.kill_at(Barrier.TASK_PREPARE, after=PASSES[Barrier.TASK_PREPARE])
        engine.kill_at(Barrier.COMMIT_ASKED)
        engine.kill_at(Barrier.COMMIT_END if atomic else Barrier.COMMIT_BETWEEN)
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


def test_decisions_are_kept_in_a_compacted_topic(job: Job) -> None:
    driver.main(job.text())
    with ottla.Admin(job.bootstrap_servers) as admin:
        configs = admin.describe_configs(topic=job.settings().control_topic)
    assert (configs["cleanup.policy"].value, configs["max.message.bytes"].value) == ("compact", "16777216")
