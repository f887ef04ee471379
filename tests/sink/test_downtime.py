"""A driver that is killed, and not started again until the transactions of its batch have timed out."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import ottla
from ottla.sink.barriers import Barrier

from . import driver
from .conftest import Engine, assert_every_row_once, await_quiet, visible_rows
from .driver import Job


@pytest.fixture(scope="module")
def clock() -> ottla.Clock:
    """The clock of the brokers."""
    return ottla.Clock()


@pytest.fixture(scope="module")
def cluster(clock: ottla.Clock) -> Iterator[ottla.Cluster]:
    with ottla.Cluster(brokers=3, clock=clock) as cluster:
        yield cluster


def time_out(clock: ottla.Clock, job: Job) -> None:
    """Have the coordinators' timers, not a new plan, end the transactions of the killed driver."""
    clock.advance(job.transaction_timeout_ms / 1000 + 1)
    await_quiet(job)


def test_before_the_decision(clock: ottla.Clock, job: Job, engine: Engine) -> None:
    engine.kill_at(Barrier.COMMIT_DECISION)
    time_out(clock, job)
    assert visible_rows(job) == {}
    driver.main(job.text())
    assert_every_row_once(job)


@pytest.mark.prove
@pytest.mark.parametrize(("barrier", "after"), [(Barrier.COMMIT_APPLY, 0), (Barrier.COMMIT_BETWEEN, 1)])
def test_after_the_decision(barrier: str, after: int, clock: ottla.Clock, job: Job, engine: Engine) -> None:
    engine.kill_at(barrier, after=after)
    time_out(clock, job)
    landed = sum(map(len, visible_rows(job).values()))
    assert landed == (0 if barrier == Barrier.COMMIT_APPLY else 40)
    driver.main(job.text())
    assert_every_row_once(job)
