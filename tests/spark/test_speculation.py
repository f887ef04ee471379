"""Speculation: a second attempt at a slow task, alive beside the first, and the exactly-once sink counts one of them.

Spark runs no second attempt on the host of the first, and all executors of `local-cluster` share one: a master and two
workers are started here, each worker at a loopback address of its own.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.spark.sink_driver import QUICK_JAVA
from tests.spark.sink_engine import TASKS, Engine
from tests.spark.standalone import Daemons
from tools.ports import free_ports

import ottla
from ottla.sink.barriers import BARRIERS_FOLDER, Barrier

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
    # Both first attempts must reach the barrier before Spark copies one of them, also on a machine that stalls.
    "spark.speculation.task.duration.threshold": "16s",
}


@pytest.fixture
def engine(find_java: None, tmp_path: Path) -> Iterator[Engine]:
    """A driver with an executor at each of two hosts."""
    daemons = Daemons(tmp_path / "daemons", {BARRIERS_FOLDER: str(tmp_path / "queries" / "barriers")})
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
