"""A real Apache Kafka for the interop tests: one node, started from Maven Central's jars, stopped by its pid."""

from __future__ import annotations

import importlib.util
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from confluent_kafka.admin import AdminClient

_START_TIMEOUT_S = 90
_CLUSTER_ID = "b3R0bGEtaW50ZXJvcC10ZQ"


def _kafka_jars() -> ModuleType:
    path = Path(__file__).parents[2] / "tools" / "kafka_jars.py"
    spec = importlib.util.spec_from_file_location("kafka_jars", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Java:
    """Kafka's jars and a Java to run them: the command line of any of Kafka's main classes."""

    def __init__(self, java: str, jars: Path) -> None:
        self._java = java
        self._jars = jars

    def command(self, main_class: str, *arguments: str, heap_mb: int = 256) -> list[str]:
        """What to start. Serial collector and first-tier compiler: short runs on few cores."""
        options = [f"-Xmx{heap_mb}m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto"]
        quiet = ["-Dlog4j2.level=ERROR", "-Dlog4j.statusLogger.level=OFF"]
        return [self._java, *options, *quiet, "-cp", f"{self._jars}/*", main_class, *arguments]

    def run(self, main_class: str, *arguments: str, given: bytes | None = None) -> bytes:
        """What one of Kafka's tools prints, fed with `given` on its standard input."""
        done = subprocess.run(
            self.command(main_class, *arguments), input=given, capture_output=True, timeout=120, check=False
        )
        assert done.returncode == 0, (done.stdout + done.stderr).decode()
        return done.stdout


@pytest.fixture(scope="session")
def java() -> Java:
    jars = _kafka_jars()
    try:
        return Java(jars.find_java(), jars.fetch())
    except jars.JarsUnavailable as missing:
        pytest.skip(str(missing))


def _free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [sock.getsockname()[1] for sock in sockets]
    for sock in sockets:
        sock.close()
    return ports


@pytest.fixture(scope="session")
def apache_kafka(java: Java, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The bootstrap address of one Apache Kafka node, controller and broker in one."""
    folder = tmp_path_factory.mktemp("apache-kafka")
    port, controller_port = _free_ports(2)
    settings = {
        "process.roles": "broker,controller",
        "node.id": 1,
        "controller.quorum.voters": f"1@127.0.0.1:{controller_port}",
        "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}",
        "controller.listener.names": "CONTROLLER",
        "log.dirs": folder / "logs",
        "auto.create.topics.enable": "false",
        "offsets.topic.replication.factor": 1,
        "transaction.state.log.replication.factor": 1,
        "transaction.state.log.min.isr": 1,
    }
    properties = folder / "server.properties"
    properties.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    java.run("kafka.tools.StorageTool", "format", "-t", _CLUSTER_ID, "-c", str(properties))
    log = folder / "server.out"
    with log.open("wb") as output:
        server = subprocess.Popen(
            java.command("kafka.Kafka", str(properties), heap_mb=512), stdout=output, stderr=subprocess.STDOUT
        )
    try:
        address = f"127.0.0.1:{port}"
        AdminClient({"bootstrap.servers": address, "log_level": 0}).list_topics(timeout=_START_TIMEOUT_S)
        yield address
    except Exception:
        print(log.read_text()[-4000:])  # noqa: T201  # pytest shows it with the failure
        raise
    finally:
        server.terminate()
        try:
            server.wait(30)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()
