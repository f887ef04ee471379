"""What only a cluster of executors does to the exactly-once sink: tasks and stages that are run again."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest
from tests.spark.sink_engine import Engine, send_signal

import ottla
from ottla.sink import barriers

pytestmark = pytest.mark.spark

SETTINGS = {
    "spark.master": "local-cluster[2,2,1024]",
    "spark.executor.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
}


@pytest.fixture(scope="module")
def engine(find_java: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """A driver with two executors of two cores."""
    with ottla.Cluster(brokers=3) as cluster:
        engine = Engine(cluster, tmp_path_factory.mktemp("executors"), ["orders"], cores=2, settings=SETTINGS)
        try:
            engine.start()
            yield engine
        finally:
            engine.end()


def test_a_task_whose_python_died_is_attempted_again(engine: Engine) -> None:
    [pid, *_] = engine.stop_at({"orders": barriers.TASK_PREPARE})["orders"]
    send_signal(pid, signal.SIGKILL)
    engine.release()
    engine.await_done("orders")
    engine.assert_quiet()
    engine.assert_every_row_once("orders")


def test_executors_die_and_the_stages_are_run_again(engine: Engine) -> None:
    engine.stop_at({"orders": barriers.TASK_PREPARE})
    executors = [pid for pid, command in engine.driver.processes().items() if "CoarseGrainedExecutorBackend" in command]
    assert len(executors) == 2
    for pid in executors:
        send_signal(pid, signal.SIGKILL)
    engine.release()
    engine.await_done("orders")
    engine.assert_quiet()
    engine.assert_every_row_once("orders")
