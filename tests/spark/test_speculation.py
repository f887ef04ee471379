"""Speculation: a second attempt at a slow task, alive beside the first, and the exactly-once sink counts one of them.

Spark runs no second attempt on the host of the first, and all executors of `local-cluster` share one: a master and two
workers are started here, each worker at a loopback address of its own.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.spark.sink_driver import QUICK_JAVA
from tests.spark.sink_engine import TASKS, Engine, await_true
from tools.ports import free_ports

import ottla
from ottla.sink.barriers import BARRIERS_FOLDER, Barrier
from ottla.spark.java import find_java as java_of_this_machine
from ottla.spark.java import lay_java_home

pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif(sys.platform != "linux", reason="elsewhere loopback has one address"),
]

HOSTS = ("127.0.0.1", "127.0.0.2")
SETTINGS = {
    "spark.executor.cores": str(TASKS),
    "spark.executor.memory": "512m",
    "spark.executor.extraJavaOptions": QUICK_JAVA,
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    # Both first attempts are to come to the barrier before one of them is copied.
    "spark.speculation.task.duration.threshold": "8s",
}


class Daemons:
    """Spark's own master and workers."""

    def __init__(self, folder: Path, barriers_folder: Path) -> None:
        import pyspark

        home = Path(pyspark.__file__).parent
        (folder / "conf").mkdir(parents=True)
        self._folder = folder
        self._program = home / "bin" / "spark-class"
        self._environment = os.environ | {
            "JAVA_HOME": str(lay_java_home(*java_of_this_machine(), folder / "java")),
            "SPARK_HOME": str(home),
            "SPARK_CONF_DIR": str(folder / "conf"),
            "SPARK_DAEMON_JAVA_OPTS": QUICK_JAVA,
            "SPARK_WORKER_DIR": str(folder / "work"),
            BARRIERS_FOLDER: str(barriers_folder),
        }
        self._processes: list[subprocess.Popen[bytes]] = []

    def start(self, name: str, host: str, *arguments: str, said: str) -> None:
        """Start one and wait until it has said so."""
        words = self._folder / f"{name}-{len(self._processes)}.out"
        command = [str(self._program), f"org.apache.spark.deploy.{name}", "--host", host, "--webui-port", "0"]
        with words.open("wb") as out:
            self._processes.append(
                subprocess.Popen(
                    [*command, *arguments],
                    env=self._environment | {"SPARK_LOCAL_IP": host},
                    stdout=out,
                    stderr=subprocess.STDOUT,
                )
            )
        await_true(lambda: said in words.read_text(), words.read_text)

    def stop(self) -> None:
        """Workers first; they end their executors."""
        for process in reversed(self._processes):
            process.terminate()
            process.wait()


@pytest.fixture
def engine(find_java: None, tmp_path: Path) -> Iterator[Engine]:
    """A driver with an executor at each of two hosts."""
    daemons = Daemons(tmp_path / "daemons", tmp_path / "queries" / "barriers")
    [port] = free_ports(1)
    master = f"spark://{HOSTS[0]}:{port}"
    with ottla.Cluster(brokers=3) as cluster:
        engine = Engine(
            cluster, tmp_path / "queries", ["orders"], cores=2, settings=SETTINGS | {"spark.master": master}
        )
        try:
            daemons.start("master.Master", HOSTS[0], "--port", str(port), said="New state: ALIVE")
            for host in HOSTS:
                cores = ("--cores", str(TASKS), "--memory", "600m")
                daemons.start("worker.Worker", host, *cores, master, said="Successfully registered")
            engine.start(["orders"])
            yield engine
        finally:
            engine.end()
            daemons.stop()


def test_of_two_attempts_that_are_alive_at_once_one_counts(engine: Engine) -> None:
    slow = engine.slow_down("orders", Barrier.TASK_PREPARE)
    # Done, though both first attempts are held with all their rows sent.
    engine.await_done("orders")
    assert engine.held(Barrier.TASK_PREPARE) == slow
    assert len(slow) == TASKS
    engine.assert_quiet()
    engine.assert_every_row_once("orders")
    # They wake up, and find nothing to add to.
    engine.release()
    engine.add_file("orders")
    engine.await_done("orders")
    engine.assert_quiet()
    engine.assert_every_row_once("orders")
