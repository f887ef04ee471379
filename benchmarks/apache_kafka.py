"""A real Apache Kafka of one or three nodes to be measured against, and Java's performance tools.

Every node is controller and broker in one ("combined"), started from Maven Central's jars with the collector and the
options of Kafka's own start script and a heap of 1 GiB. Nodes are told apart by pid and end with the `with` statement.
"""

from __future__ import annotations

import contextlib
import os
import re
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from tools import kafka_jars

from benchmarks.wire import Wire
from ottla.protocol.messages.metadata import MetadataRequest

_CLUSTER_ID = "b3R0bGEtYmVuY2htYXJrcw"
_PATIENCE_S = 120
_BROKER_OPTIONS = (
    "-Xmx1g",
    "-Xms1g",
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
)
_TOOL_OPTIONS = ("-Xmx512m", "-XX:+UseG1GC")
_QUIET = ("-Dlog4j2.level=ERROR", "-Dlog4j.statusLogger.level=OFF")


def java_command(main_class: str, *arguments: str, options: tuple[str, ...] = _TOOL_OPTIONS) -> list[str]:
    """The command line of one of Kafka's main classes; raises kafka_jars.JarsUnavailable."""
    return [kafka_jars.find_java(), *options, *_QUIET, "-cp", f"{kafka_jars.fetch()}/*", main_class, *arguments]


def run_java(main_class: str, *arguments: str, timeout_s: float = _PATIENCE_S) -> str:
    """What one of Kafka's tools prints; SystemExit with its own words where it fails."""
    command = java_command(main_class, *arguments)
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, check=False)
    if done.returncode:
        raise SystemExit(f"{main_class} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


def producer_performance(bootstrap: str, topic: str, records: int, record_bytes: int) -> float:
    """Records per second of Java's ProducerPerformance with default settings (acks=all, idempotent)."""
    said = run_java(
        "org.apache.kafka.tools.ProducerPerformance",
        *("--bootstrap-server", bootstrap, "--topic", topic, "--num-records", str(records)),
        *("--record-size", str(record_bytes), "--throughput", "-1"),
    )
    found = re.findall(rf"^{records} records sent, ([\d.]+) records/sec", said, re.MULTILINE)
    if not found:
        raise SystemExit(f"ProducerPerformance did not send everything:\n{said}")
    return float(found[-1])


def consumer_performance(bootstrap: str, topic: str, records: int) -> float:
    """Records per second of Java's ConsumerPerformance from the first record to the last, joining the group aside."""
    said = run_java(
        "org.apache.kafka.tools.ConsumerPerformance",
        *("--bootstrap-server", bootstrap, "--topic", topic, "--num-records", str(records), "--hide-header"),
        *("--group", f"bench-{time.monotonic_ns()}", "--timeout", "30000"),
    )
    row = [field.strip() for field in said.strip().splitlines()[-1].split(",")]
    if len(row) != 10 or int(row[4]) < records:
        raise SystemExit(f"ConsumerPerformance did not read everything:\n{said}")
    return float(row[9])


class ApacheKafka:
    """One or three nodes of Apache Kafka, their logs in `folder`; `bootstrap_servers` once they answer."""

    def __init__(self, nodes: int, folder: str | None = None) -> None:
        self._nodes = nodes
        self._folder = tempfile.TemporaryDirectory(prefix="apache-kafka-", dir=folder)
        self._processes: list[subprocess.Popen[bytes]] = []
        self.addresses = [f"127.0.0.1:{port}" for port in _free_ports(nodes)]
        self.bootstrap_servers = ",".join(self.addresses)
        self._format()

    def _format(self) -> None:
        controllers = [f"127.0.0.1:{port}" for port in _free_ports(self._nodes)]
        voters = ",".join(f"{number}@{address}" for number, address in enumerate(controllers, start=1))
        for number, (address, controller) in enumerate(zip(self.addresses, controllers, strict=True), start=1):
            settings = {
                "process.roles": "broker,controller",
                "node.id": number,
                "controller.quorum.voters": voters,
                "listeners": f"PLAINTEXT://{address},CONTROLLER://{controller}",
                "advertised.listeners": f"PLAINTEXT://{address}",
                "controller.listener.names": "CONTROLLER",
                "log.dirs": f"{self._folder.name}/node-{number}",
                "auto.create.topics.enable": "false",
                "offsets.topic.replication.factor": 1,
                "offsets.topic.num.partitions": 3,
                "group.initial.rebalance.delay.ms": 0,
                "transaction.state.log.replication.factor": 1,
                "transaction.state.log.min.isr": 1,
            }
            path = self._properties(number)
            path.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
            run_java("kafka.tools.StorageTool", "format", "-t", _CLUSTER_ID, "-c", str(path))

    def _properties(self, number: int) -> Path:
        return Path(self._folder.name) / f"node-{number}.properties"

    def start(self) -> float:
        """Start the nodes; the seconds from there until every one has answered Metadata with all brokers in it."""
        begin = time.perf_counter()
        for number in range(1, self._nodes + 1):
            command = java_command("kafka.Kafka", str(self._properties(number)), options=_BROKER_OPTIONS)
            with open(f"{self._folder.name}/node-{number}.out", "wb") as output:
                self._processes.append(subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT))
        for number, address in enumerate(self.addresses, start=1):
            self._await_answer(number, address, begin + _PATIENCE_S)
        return time.perf_counter() - begin

    def _await_answer(self, number: int, address: str, until_s: float) -> None:
        while True:
            with contextlib.suppress(OSError, EOFError), Wire(address) as wire:
                if len(wire.call(MetadataRequest(), 9).brokers) == self._nodes:
                    return
            if time.perf_counter() > until_s or self._processes[number - 1].poll() is not None:
                raise SystemExit(Path(f"{self._folder.name}/node-{number}.out").read_text()[-4000:])
            time.sleep(0.02)

    @property
    def pids(self) -> list[int]:
        """The nodes' processes."""
        return [process.pid for process in self._processes]

    def stop(self) -> None:
        """End the nodes and remove their folder; there is nothing worth a clean shutdown."""
        for process in self._processes:
            process.kill()
        for process in self._processes:
            process.wait()
        self._processes.clear()
        self._folder.cleanup()

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, _kind: type | None, _error: BaseException | None, _trace: TracebackType | None) -> None:
        self.stop()


def resident_bytes(pid: int) -> int:
    """The memory a process has in use now (Linux)."""
    with open(f"/proc/{pid}/statm") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def _free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [sock.getsockname()[1] for sock in sockets]
    for sock in sockets:
        sock.close()
    return ports
