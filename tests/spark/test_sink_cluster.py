"""What only a cluster of executors does to sink and source: processes of their own, tasks and stages run again.

The control undergoes the same with the sink that is at least once: what its tasks had stored is there twice.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.spark.sink_driver import QUICK_JAVA
from tests.spark.sink_engine import Engine, Stop, running_engine, send_signal
from tests.spark.sink_kills import QueryFault, Say

import ottla
from ottla.sink.barriers import Barrier

pytestmark = pytest.mark.spark

STOPS = {"orders": Stop(Barrier.TASK_PREPARE), "control": Stop(Barrier.TASK_END)}
# Queries whose rows come from a topic, by the way they are read.
READ = {"streamed": "topic", "read": "topicBatch"}
SETTINGS = {
    "spark.master": "local-cluster[2,2,1024]",
    "spark.executor.extraJavaOptions": QUICK_JAVA,
}


@pytest.fixture(scope="module")
def engine(find_java: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """A driver with two executors of two cores: as many as there are tasks held at once."""
    folder, names = tmp_path_factory.mktemp("executors"), [*STOPS, *READ]
    with (
        ottla.Cluster(brokers=3) as cluster,
        running_engine(cluster, folder, names, controls=["control"], cores=2, settings=SETTINGS, modes=READ) as engine,
    ):
        yield engine


def test_a_task_whose_python_died_is_attempted_again(engine: Engine, say: Say) -> None:
    fault = QueryFault(engine, "one task's Python process killed", STOPS)
    for held in fault.held.values():
        send_signal(held.pids[0], signal.SIGKILL)
    go_on(engine)
    fault.assert_every_row_once("orders", say)
    # Those of the other task were not written again.
    fault.assert_copies("control", {1, 2}, say)


def test_executors_die_and_the_stages_are_run_again(engine: Engine, say: Say) -> None:
    fault = QueryFault(engine, "both executors killed", STOPS)
    kill_executors(engine)
    go_on(engine)
    fault.assert_every_row_once("orders", say)
    fault.assert_copies("control", {2}, say)


@pytest.mark.parametrize("name", READ)
def test_executors_die_while_they_read_a_topic_and_every_record_is_written_once(
    engine: Engine, name: str, say: Say
) -> None:
    fault = QueryFault(engine, "both executors killed", {name: Stop(Barrier.TASK_PREPARE)})
    # What reads and writes is a child of a daemon, and that of an executor.
    assert {parent(parent(pid)) for pid in fault.held[name].pids} <= {*executors(engine)}
    kill_executors(engine)
    engine.release()
    engine.await_visible(name)
    engine.add_file(name)
    engine.await_visible(name)
    engine.assert_quiet()
    fault.assert_every_row_once(name, say)


def go_on(engine: Engine) -> None:
    """Let all go on, without another start: Spark runs again what it has lost."""
    engine.release()
    for name in STOPS:
        engine.await_done(name)
    engine.assert_quiet()


def kill_executors(engine: Engine) -> None:
    for pid in executors(engine):
        send_signal(pid, signal.SIGKILL)


def executors(engine: Engine) -> list[int]:
    """Both, the ones that were killed having been replaced."""

    def found() -> list[int]:
        return [pid for pid, command in engine.driver.processes().items() if "CoarseGrainedExecutorBackend" in command]

    engine.driver.await_true(lambda: len(found()) == 2, "there are not two executors")
    return found()


def parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
