"""Kills on clusters before Kafka 4.0 (transaction version 1), where an epoch outlives its transaction."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import ottla
from ottla.sink import barriers

from . import driver
from .conftest import PASSES, Engine, assert_every_row_once
from .driver import Job


@pytest.fixture(scope="module")
def cluster() -> Iterator[ottla.Cluster]:
    with ottla.Cluster(brokers=3, settings={"transaction_version": 1}) as cluster:
        yield cluster


@pytest.mark.parametrize(
    "barrier", [barriers.TASK_END, barriers.COMMIT_ASKED, barriers.COMMIT_BETWEEN, barriers.COMMIT_END]
)
def test_every_row_is_there_once_after_a_kill(barrier: str, job: Job, engine: Engine) -> None:
    engine.kill_at(barrier, after=PASSES[barrier])
    driver.main(job.text())
    assert_every_row_once(job)
