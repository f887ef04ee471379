"""What the sink's tests share: the small engine as a process of its own, held and killed at barriers, and the proof."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests import exactly_once
from tests.client.in_time import wait_until

import ottla
from ottla.sink.barriers import BARRIERS_FOLDER, Barrier, hold
from ottla.sink.identities import driver_id, prefix_of

from . import driver
from .driver import Job

_PATIENCE_S = 60
_TASKS = 3
# How often each barrier is passed in a batch.
PASSES = {name: _TASKS if name.startswith("task-") else 1 for name in Barrier}
PASSES[Barrier.COMMIT_BETWEEN] = _TASKS - 1


@pytest.fixture(scope="module")
def cluster() -> Iterator[ottla.Cluster]:
    """Three brokers, for the tests of one file."""
    with ottla.Cluster(brokers=3) as cluster:
        yield cluster


@pytest.fixture
def job(cluster: ottla.Cluster, kafka_name: str, tmp_path: Path) -> Job:
    """A job with a topic and a sink of its own."""
    return make_job(cluster, kafka_name, tmp_path)


def make_job(cluster: ottla.Cluster, name: str, folder: Path, **more: Any) -> Job:
    cluster.create_topic(name, partitions=3)
    return Job(cluster.bootstrap_servers, name, str(folder / "checkpoint"), sink_id=name, **more)


class Engine:
    """The small engine in a process of its own."""

    def __init__(self, job: Job, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.job = job
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        environment = {**os.environ, BARRIERS_FOLDER: str(self._folder)}
        command = [sys.executable, str(Path(driver.__file__)), self.job.text()]
        self._process = subprocess.Popen(command, env=environment)

    def hold(self, barrier: str, *, after: int = 0) -> None:
        """Let it wait at this barrier, once it has passed it so often."""
        hold(self._folder, barrier, after)

    def release(self, barrier: str) -> None:
        (self._folder / f"{barrier}.hold").unlink()

    def await_held(self, barrier: str) -> None:
        """Wait until it is held there: the proof that this barrier was reached."""
        assert self._process is not None
        held = self._folder / f"{barrier}.{self._process.pid}.held"
        self.await_true(held.exists, f"{barrier} was not reached")

    def held_or_ended(self, barrier: str) -> bool:
        """Wait for either, and tell whether it is held there."""
        assert self._process is not None
        held = self._folder / f"{barrier}.{self._process.pid}.held"
        process = self._process
        wait_until(
            lambda: held.exists() or process.poll() is not None, f"{barrier} was not reached", patience_s=_PATIENCE_S
        )
        return held.exists()

    def await_true(self, question: Callable[[], bool], otherwise: str) -> None:
        assert self._process is not None
        deadline = time.monotonic() + _PATIENCE_S
        while not question():
            assert self._process.poll() is None, f"{otherwise}: it ended with {self._process.returncode}"
            assert time.monotonic() < deadline, otherwise
            time.sleep(0.005)

    def kill(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGKILL)
        assert self._process.wait(_PATIENCE_S) == -signal.SIGKILL

    def kill_while_commit_is_unanswered(self, fault: str, cluster: ottla.Cluster) -> None:
        """Start it, have the second batch's EndTxn or its answer lost by `fault`, and kill it as it waits."""
        self.hold(Barrier.COMMIT_ASKED, after=1)
        self.start()
        self.await_held(Barrier.COMMIT_ASKED)
        with getattr(cluster.faults, fault)(api="EndTxn", nth=1) as lost:
            self.release(Barrier.COMMIT_ASKED)
            self.await_true(lambda: lost.fired == 1, "the commit was not asked for")
            self.kill()

    def finish(self) -> None:
        assert self.end() == 0

    def end(self) -> int:
        """Its exit status, once it has ended by itself."""
        assert self._process is not None
        return self._process.wait(_PATIENCE_S)

    def kill_at(self, barrier: str, *, after: int = 0) -> None:
        """Start it, hold it at the barrier, and kill it there."""
        self.hold(barrier, after=after)
        self.start()
        self.await_held(barrier)
        self.kill()
        self.release(barrier)

    def end_quietly(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait()


@pytest.fixture
def engine(job: Job, tmp_path: Path) -> Iterator[Engine]:
    """The engine for `job`; it does not outlive the test."""
    engine = Engine(job, tmp_path / "barriers")
    yield engine
    engine.end_quietly()


@contextmanager
def brokers_later(cluster: ottla.Cluster, passed_ms: int) -> Iterator[None]:
    """Within the block, the clocks of the brokers are ahead by `passed_ms`."""
    with ExitStack() as stack:
        for broker_id in cluster.brokers():
            stack.enter_context(cluster.faults.jump_clock(broker_id, jump_ms=passed_ms))
        yield


def await_ends(job: Job) -> None:
    """Wait until the cluster is ending no transaction: brokers answer EndTxn before they write the markers."""

    def ending() -> list[Any]:
        return [each for each in exactly_once.busy(job.bootstrap_servers) if each.state != "Ongoing"]

    wait_until(lambda: not ending(), ending)


def visible_rows(job: Job) -> dict[int, list[int]]:
    """What a read_committed reader finds, by partition in offset order."""
    await_ends(job)
    return exactly_once.visible_rows(job.bootstrap_servers, job.topic)


def busy(job: Job) -> list[Any]:
    """The sink's transactions that are open."""
    await_ends(job)
    return exactly_once.busy(job.bootstrap_servers, prefix_of(job.sink_id))


def open_tasks(job: Job) -> list[str]:
    """The transactional ids of tasks whose transactions are open."""
    found = exactly_once.ongoing(job.bootstrap_servers, prefix_of(job.sink_id))
    return [each.transactional_id for each in found if each.transactional_id != driver_id(job.sink_id)]


def await_quiet(job: Job) -> None:
    """Wait until no transaction is open; that takes moments, for most of these tests' timeout is a minute."""

    def left() -> list[Any]:
        return exactly_once.busy(job.bootstrap_servers, prefix_of(job.sink_id))

    wait_until(lambda: not left(), left)


def assert_every_row_once(job: Job, batches: int | None = None) -> None:
    """Every row once for a read_committed reader, each key's rows in order, and no transaction left open anywhere."""
    await_quiet(job)
    count = (job.batches if batches is None else batches) * job.rows_per_batch
    exactly_once.assert_rows_once(visible_rows(job), count, job.keys)
