"""The driver is killed in front of each step of the mechanism, and started again from its checkpoint.

Afterwards a read_committed reader finds every row once, each key's rows in order, and no transaction is open on any
broker, though no transaction timeout has passed. A kill counts only where the barrier was reached. The control does the
same to a sink that is at least once: it must show duplicates, or the kills prove nothing.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from tests import exactly_once
from tests.tiers import some_tested

import ottla
from ottla.sink.barriers import Barrier
from ottla.sink.identities import prefix_of

from . import driver
from .conftest import PASSES, Engine, assert_every_row_once, visible_rows
from .driver import Job

KILLED_AT = [name for name in Barrier if not name.startswith("abort-")]


@pytest.mark.parametrize("barrier", some_tested(KILLED_AT, Barrier.TASK_END, Barrier.COMMIT_APPLY))
def test_every_row_is_there_once_after_a_kill(
    barrier: str, job: Job, engine: Engine, say: Callable[[str], None]
) -> None:
    engine.kill_at(barrier, after=PASSES[barrier])
    say(f"driver without Spark held at {barrier}, and killed there")
    driver.main(job.text())
    assert_every_row_once(job)


@pytest.mark.parametrize("ended", some_tested([1, 2, 3], 2))
def test_every_row_is_there_once_after_a_kill_between_any_two_ends(
    ended: int, job: Job, engine: Engine, say: Callable[[str], None]
) -> None:
    job.tasks = 4
    engine.hold(Barrier.COMMIT_BETWEEN, after=job.tasks - 1 + ended - 1)
    engine.start()
    engine.await_held(Barrier.COMMIT_BETWEEN)
    left = exactly_once.ongoing(job.bootstrap_servers, prefix_of(job.sink_id))
    say(f"driver without Spark held at {Barrier.COMMIT_BETWEEN}, {len(left)} of {job.tasks} open, and killed there")
    assert len(left) == job.tasks - ended
    engine.kill()
    engine.release(Barrier.COMMIT_BETWEEN)
    driver.main(job.text())
    assert_every_row_once(job)


@pytest.mark.prove
@pytest.mark.parametrize("barrier", [Barrier.PLAN_READ, Barrier.TASK_PREPARE, Barrier.COMMIT_APPLY])
def test_the_first_batch_is_as_safe(barrier: str, job: Job, engine: Engine, say: Callable[[str], None]) -> None:
    engine.kill_at(barrier)
    say(f"driver without Spark held at {barrier} in its first batch, and killed there")
    driver.main(job.text())
    assert_every_row_once(job)


def test_a_kill_within_the_recovery_from_a_kill(job: Job, engine: Engine, say: Callable[[str], None]) -> None:
    # What the first one decided is applied by the second one's plan, one transaction after the other.
    for barrier, after in ((Barrier.COMMIT_APPLY, 1), (Barrier.COMMIT_BETWEEN, 0), (Barrier.PLAN_SWEEP, 0)):
        engine.kill_at(barrier, after=after)
        say(f"driver without Spark held at {barrier}, and killed there")
    driver.main(job.text())
    assert_every_row_once(job)


@pytest.mark.parametrize("fault", ["drop_ack", "drop_request"])
def test_a_kill_while_the_decision_is_asked_for_and_unanswered(
    fault: str, cluster: ottla.Cluster, job: Job, engine: Engine, say: Callable[[str], None]
) -> None:
    engine.kill_while_commit_is_unanswered(fault, cluster)
    say(f"driver without Spark killed behind {Barrier.COMMIT_ASKED}, asked for and not answered ({fault})")
    driver.main(job.text())
    assert_every_row_once(job)


@pytest.mark.parametrize("barrier", some_tested([Barrier.COMMIT_APPLY, Barrier.COMMIT_END], Barrier.COMMIT_APPLY))
def test_the_control_at_least_once_shows_duplicates(
    barrier: str, job: Job, tmp_path: Path, say: Callable[[str], None]
) -> None:
    plain = dataclasses.replace(job, exactly_once=False)
    engine = Engine(plain, tmp_path / "barriers")
    engine.kill_at(barrier, after=1)
    say(f"driver without Spark, at least once, held at {barrier}, and killed there")
    driver.main(plain.text())
    found = Counter(row for rows in visible_rows(plain).values() for row in rows)
    assert sorted(found) == list(range(plain.batches * plain.rows_per_batch))
    # The second batch, as a whole.
    assert sorted(row for row, count in found.items() if count > 1) == list(range(60, 120))
