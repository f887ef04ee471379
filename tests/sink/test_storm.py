"""Drivers killed, held up and woken again at barriers drawn by seed, while answers are lost and coordinators move.

Whoever is held up is a zombie for its successors: it goes on from where it stood, with what it knew. In the end one
driver runs undisturbed, and every row is there once. Who wakes alone would do all the work that is left, so each driver
is given batches of its own, and one that ends before its barrier is followed by another one with the same plan: half of
them are killed, half held up, and each once. OTTLA_SOAK=1 runs 75 seeds with each transaction version.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
from tests.drawn import commit_seeds

import ottla
from ottla.sink.barriers import Barrier
from ottla.sink.identities import driver_id

from . import driver
from .conftest import PASSES, Engine, assert_every_row_once, make_job, open_tasks
from .driver import Job

pytestmark = pytest.mark.prove

SEEDS = commit_seeds(1, soak=75)
_KILLED = _HELD_UP = 3
_TRIES = 8
_BATCHES_EACH = 2
_APIS = ("EndTxn", "InitProducerId", "ListTransactions", "DescribeTransactions", "FindCoordinator", "Produce", "Fetch")


class Storm:
    """One seed's bad day."""

    def __init__(self, seed: int, cluster: ottla.Cluster, job: Job, folder: Path) -> None:
        self._random = Random(seed)
        self._cluster = cluster
        self._job = job
        self._folder = folder
        self._zombies: list[tuple[Engine, str]] = []
        self._started = 0
        self.killed = self.held_up = 0
        self.happened: list[str] = []

    @property
    def job(self) -> Job:
        """With batches that nobody has begun yet."""
        return dataclasses.replace(self._job, batches=_BATCHES_EACH * (self._started + 1))

    def run(self) -> None:
        with contextlib.ExitStack() as stack:
            plan = [True] * _KILLED + [False] * _HELD_UP
            self._random.shuffle(plan)
            for is_killed in plan:
                if self._random.random() < 0.3:
                    api = self._random.choice(_APIS)
                    self.happened.append(f"answers of {api} are lost")
                    lost = self._cluster.faults.lose_ack(api=api, probability=0.1, seed=self._random.getrandbits(30))
                    stack.callback(lost.heal)
                assert any(self._drive(is_killed) for _ in range(_TRIES)), "no driver came to its barrier"
                if self._zombies and self._random.random() < 0.5:
                    self._wake(self._random.randrange(len(self._zombies)))
            while self._zombies:
                self._wake(0)

    def _drive(self, is_killed: bool) -> bool:
        """Start a driver that is killed or held up at a barrier; whether it came there."""
        barrier = self._random.choice(list(Barrier))
        after = self._random.randrange(PASSES[barrier] + 1)
        number = self._started
        engine = Engine(self.job, self._folder / f"driver-{number}")
        self._started += 1
        engine.hold(barrier, after=after)
        engine.start()
        if not engine.held_or_ended(barrier):
            self.happened.append(f"driver {number} ended before {barrier}")
            return False
        if self._random.random() < 0.3:
            self._move_coordinators()
        if is_killed:
            self.happened.append(f"driver {number} is killed at {barrier}")
            engine.kill()
            self.killed += 1
        else:
            self.happened.append(f"driver {number} sleeps at {barrier}")
            self._zombies.append((engine, barrier))
            self.held_up += 1
        return True

    def _move_coordinators(self) -> None:
        """Those of the driver's id, and of tasks whose transactions are open; who shares one moves along with it."""
        of_driver, tasks = driver_id(self._job.sink_id), open_tasks(self._job)
        before = {each: self._cluster.coordinator(transactional_id=each) for each in (of_driver, *tasks)}
        for transactional_id, broker_id in before.items():
            if self._cluster.coordinator(transactional_id=transactional_id) == broker_id:
                self._cluster.move_coordinator(transactional_id=transactional_id)
        self.happened.append(f"coordinators move: the driver's, and those of {len(tasks)} open transactions of tasks")

    def _wake(self, index: int) -> None:
        engine, barrier = self._zombies.pop(index)
        self.happened.append(f"the one at {barrier} wakes up")
        engine.release(barrier)
        if self._random.random() < 0.5 or not self._zombies:
            self.happened.append(f"and ends with {engine.end()}")
        else:
            self._zombies.append((engine, barrier))
            engine.hold(barrier)

    def clean(self) -> None:
        for engine, _ in self._zombies:
            engine.end_quietly()


@pytest.fixture(scope="module", params=[2, 1], ids=["version-2", "version-1"])
def cluster(request: pytest.FixtureRequest) -> Iterator[ottla.Cluster]:
    with ottla.Cluster(brokers=3, settings={"transaction_version": request.param}) as cluster:
        yield cluster


@pytest.mark.parametrize("seed", SEEDS)
def test_every_row_is_there_once_after_a_storm(
    seed: int, cluster: ottla.Cluster, kafka_name: str, tmp_path: Path
) -> None:
    job = make_job(cluster, kafka_name, tmp_path)
    storm = Storm(seed, cluster, job, tmp_path)
    try:
        storm.run()
        assert (storm.killed, storm.held_up) == (_KILLED, _HELD_UP)
        last = dataclasses.replace(storm.job, tasks=1 + seed % 4)
        driver.main(last.text())
        assert_every_row_once(last)
    except BaseException as error:
        error.add_note("\n".join(storm.happened))
        raise
    finally:
        storm.clean()
