"""Spark Connect: ottla is installed where the server is, and the client, which has none, names the format alone."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests import exactly_once
from tests.client.in_time import wait_until
from tests.spark import connect_client
from tests.spark.connect_client import KEYS, ROWS
from tests.spark.sink_driver import QUICK_START
from tests.spark.slow_start import STARTED_TOO_SLOWLY
from tools.ports import free_ports

from ..needs import lacking

if TYPE_CHECKING:
    from ottla.cluster.cluster import Cluster

pytestmark = pytest.mark.spark

PATIENCE_S = 240
SERVER = "org.apache.spark.sql.connect.service.SparkConnectServer"
LOGGING = """\
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
rootLogger.level = warn
rootLogger.appenderRef.console.ref = console
"""


@pytest.fixture(scope="module")
def server(find_java: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """The port of a Spark Connect server, a process that Spark's own script starts."""
    for module in ("grpc", "grpc_status", "google.rpc", "zstandard"):
        if importlib.util.find_spec(module) is None:
            lacking("spark", f"Spark Connect needs {module}: pip install 'pyspark[connect]'")
    folder = tmp_path_factory.mktemp("connect")
    [port] = free_ports(1)
    said = folder / "server.out"
    with said.open("w") as out:
        process = subprocess.Popen(
            server_command(folder, port),
            env=server_environment(folder),
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        await_port(process, port, said)
        yield port
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def server_command(folder: Path, port: int) -> list[str]:
    settings = QUICK_START | {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
        "spark.local.dir": str(folder / "local"),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.sql.shuffle.partitions": "2",
        "spark.ui.enabled": "false",
    }
    given = [word for name, value in settings.items() for word in ("--conf", f"{name}={value}")]
    submit = spark_home() / "bin" / "spark-submit"
    return ["bash", str(submit), "--class", SERVER, "--master", "local[2]", "--driver-memory", "1g", *given]


def server_environment(folder: Path) -> dict[str, str]:
    from ottla.spark.java import find_java, lay_java_home

    (folder / "conf").mkdir()
    (folder / "conf" / "log4j2.properties").write_text(LOGGING)
    java, version = find_java()
    return os.environ | {
        "JAVA_HOME": str(lay_java_home(java, version, folder / "java")),
        "SPARK_HOME": str(spark_home()),
        "SPARK_CONF_DIR": str(folder / "conf"),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
    }


def spark_home() -> Path:
    import pyspark

    return Path(pyspark.__file__).parent


def await_port(process: subprocess.Popen[bytes], port: int, said: Path) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while True:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 10):
            return
        assert process.poll() is None, f"the server ended:\n{said.read_text()[-4000:]}"
        assert time.monotonic() < deadline, f"the server does not listen:\n{said.read_text()[-4000:]}"
        time.sleep(0.05)


@pytest.fixture(scope="module")
def brokers() -> Iterator[Cluster]:
    import ottla

    with ottla.Cluster(brokers=1) as cluster:
        with ottla.Admin(cluster.bootstrap_servers) as admin:
            admin.create_topics(["batch", "streamed", "each"], partitions=2)
        yield cluster


@pytest.fixture(scope="module")
def told(server: int, brokers: Cluster, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the client says it has seen."""
    folder = tmp_path_factory.mktemp("checkpoints")
    arguments = [str(server), brokers.bootstrap_servers, str(folder), STARTED_TOO_SLOWLY]
    done = subprocess.run(
        [sys.executable, connect_client.__file__, *arguments],
        env={name: value for name, value in os.environ.items() if name != "SPARK_REMOTE"},
        capture_output=True,
        text=True,
        timeout=2 * PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-6000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def test_a_batch_is_written_once_by_its_id_and_read_back(told: dict[str, Any], brokers: Cluster) -> None:
    assert told["read"] == [ROWS, sum(range(ROWS))]
    exactly_once.assert_rows_once(exactly_once.visible_rows(brokers.bootstrap_servers, "batch"), ROWS, KEYS)


def test_a_micro_batch_that_is_repeated_is_there_once(told: dict[str, Any], brokers: Cluster) -> None:
    assert told["repeated"][0] > 0
    exactly_once.assert_rows_once(exactly_once.visible_rows(brokers.bootstrap_servers, "streamed"), ROWS, KEYS)


def test_foreach_batch_is_refused_without_the_micro_batchs_number_and_exactly_once_with_it(
    told: dict[str, Any], brokers: Cluster
) -> None:
    assert "Add the option write.id beside sink.id. Within foreachBatch: str(batch_id)." in told["refused"]
    assert told["repeated"][1] > 0
    exactly_once.assert_rows_once(exactly_once.visible_rows(brokers.bootstrap_servers, "each"), ROWS, KEYS)


def test_no_transaction_is_left_open(told: dict[str, Any], brokers: Cluster) -> None:
    def busy() -> list[Any]:
        return exactly_once.busy(brokers.bootstrap_servers)

    # A commit is answered before its markers are written.
    wait_until(lambda: not busy(), lambda: f"still open: {busy()}", PATIENCE_S)
