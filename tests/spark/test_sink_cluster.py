"""What only a cluster of executors does to the exactly-once sink: tasks and stages that are run again.

The control undergoes the same with the sink that is at least once: what its tasks had stored is there twice.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest
from tests.spark.sink_engine import Engine, Stop, running_engine, send_signal
from tests.spark.sink_kills import Say, Strike

import ottla
from ottla.sink import barriers

pytestmark = pytest.mark.spark

STOPS = {"orders": Stop(barriers.TASK_PREPARE), "control": Stop(barriers.TASK_END)}
SETTINGS = {
    "spark.master": "local-cluster[2,2,1024]",
    "spark.executor.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
}


@pytest.fixture(scope="module")
def engine(find_java: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """A driver with two executors of two cores: as many as there are tasks held at once."""
    folder = tmp_path_factory.mktemp("executors")
    with (
        ottla.Cluster(brokers=3) as cluster,
        running_engine(cluster, folder, list(STOPS), controls=["control"], cores=2, settings=SETTINGS) as engine,
    ):
        yield engine


def test_a_task_whose_python_died_is_attempted_again(engine: Engine, say: Say) -> None:
    strike = Strike(engine, "one task's Python process killed", STOPS)
    for held in strike.held.values():
        send_signal(held.pids[0], signal.SIGKILL)
    go_on(engine)
    strike.assert_every_row_once("orders", say)
    # Those of the other task were not written again.
    strike.assert_copies("control", {1, 2}, say)


def test_executors_die_and_the_stages_are_run_again(engine: Engine, say: Say) -> None:
    strike = Strike(engine, "both executors killed", STOPS)
    executors = [pid for pid, command in engine.driver.processes().items() if "CoarseGrainedExecutorBackend" in command]
    assert len(executors) == 2
    for pid in executors:
        send_signal(pid, signal.SIGKILL)
    go_on(engine)
    strike.assert_every_row_once("orders", say)
    strike.assert_copies("control", {2}, say)


def go_on(engine: Engine) -> None:
    """Let all go on, without another start: Spark runs again what it has lost."""
    engine.release()
    for name in STOPS:
        engine.await_done(name)
    engine.assert_quiet()
