"""A real Apache Kafka of one node or several, and Kafka's own tools: what tests and benchmarks hold ours against.

Every node is controller and broker in one ("combined"), started from Maven Central's jars. Nodes are told apart by
pid, listen on loopback only, and end with the `with` statement; each can be killed, stopped, frozen and started again.
The controllers of combined nodes are the quorum, so of three nodes one may be away at a time.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tools import kafka_jars
from tools.ports import free_ports

from ottla.protocol.frames import decode_response, encode_request
from ottla.protocol.messages.metadata import MetadataRequest

_CLUSTER_ID = "b3R0bGEtYXBhY2hlLWthZg"
_PATIENCE_S = 120
_METADATA_VERSION = 9
_QUIET = ("-Dlog4j2.level=ERROR", "-Dlog4j.statusLogger.level=OFF")
# For short runs on few cores: no second compiler, no threads that collect.
BRIEF_OPTIONS = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")
# Those of Kafka's own start script.
SERVER_OPTIONS = (
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
)
# A partition without a leader gets one within seconds, as in a test it should; Kafka's default is 9 s. Transactions
# that have timed out are looked for every second instead of every ten.
QUICK_FAILOVER = {
    "broker.session.timeout.ms": 3000,
    "broker.heartbeat.interval.ms": 500,
    "replica.lag.time.max.ms": 5000,
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": 1000,
}


class Java:
    """Kafka's jars and a Java to run them; raises kafka_jars.JarsUnavailable where one of the two cannot be had."""

    def __init__(self, options: Iterable[str] = BRIEF_OPTIONS) -> None:
        self._java = kafka_jars.find_java()
        self._jars = kafka_jars.fetch()
        self._options = tuple(options)

    def command(self, main_class: str, *arguments: str, heap_mb: int = 256) -> list[str]:
        """The command line of one of Kafka's main classes."""
        options = [f"-Xmx{heap_mb}m", *self._options, *_QUIET]
        return [self._java, *options, "-cp", f"{self._jars}/*", main_class, *arguments]

    def run(
        self,
        main_class: str,
        *arguments: str,
        given: bytes | None = None,
        heap_mb: int = 256,
        timeout_s: float = _PATIENCE_S,
    ) -> bytes:
        """What one of Kafka's tools prints, fed with `given` on its standard input; RuntimeError where it fails."""
        command = self.command(main_class, *arguments, heap_mb=heap_mb)
        done = subprocess.run(command, input=given, capture_output=True, timeout=timeout_s, check=False)
        if done.returncode:
            raise RuntimeError(f"{main_class} failed:\n{(done.stdout + done.stderr).decode(errors='replace')}")
        return done.stdout


class ApacheKafka:
    """Nodes with ids from 1, their logs under `folder`; `bootstrap_servers` once they answer.

    `listeners` are ways in beside the plain one, by name, each with its security protocol; `settings` are Kafka's own
    (server.properties), `format_arguments` go to StorageTool (`--add-scram ...`). `advertised` names other addresses
    than a listener's own for clients to connect to, one for each node: those of a proxy.
    """

    def __init__(
        self,
        nodes: int = 1,
        *,
        folder: str | os.PathLike[str] | None = None,
        heap_mb: int = 512,
        options: Iterable[str] = BRIEF_OPTIONS,
        listeners: Mapping[str, str] | None = None,
        settings: Mapping[str, Any] | None = None,
        format_arguments: Iterable[str] = (),
        advertised: Mapping[str, list[str]] | None = None,
    ) -> None:
        self._java = Java(options)
        self._heap_mb = heap_mb
        self._folder = tempfile.TemporaryDirectory(prefix="apache-kafka-", dir=folder)
        self._listeners = {"PLAINTEXT": "PLAINTEXT", **(listeners or {})}
        ports = iter(free_ports(nodes * (len(self._listeners) + 1)))
        self._addresses = {
            name: [f"127.0.0.1:{next(ports)}" for _ in range(nodes)] for name in [*self._listeners, "CONTROLLER"]
        }
        self._advertised = {**self._addresses, **(advertised or {})}
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        self.node_ids = list(range(1, nodes + 1))
        self._format(settings or {}, format_arguments)

    @property
    def bootstrap_servers(self) -> str:
        """The addresses of the plain listener, "host:port,host:port"."""
        return self.bootstrap_servers_of("PLAINTEXT")

    def bootstrap_servers_of(self, listener: str) -> str:
        """The addresses of the listener of this name."""
        return ",".join(self._addresses[listener])

    @property
    def pids(self) -> list[int]:
        """The processes of the nodes that were started and not ended."""
        return [process.pid for process in self._processes.values()]

    def logs(self, node_id: int) -> Path:
        """Where a node keeps its topics."""
        return Path(self._folder.name) / f"node-{node_id}"

    # ---- beginning ------------------------------------------------------------------------------------------------

    def _format(self, settings: Mapping[str, Any], arguments: Iterable[str]) -> None:
        java, formatting = Java(), []
        for node_id in self.node_ids:
            path = self._properties(node_id)
            # Who has a replica selector wants racks: each node its own.
            racks = {"broker.rack": f"rack-{node_id}"} if "replica.selector.class" in settings else {}
            own = self._own(node_id) | racks | dict(settings)
            path.write_text("".join(f"{name}={value}\n" for name, value in own.items()))
            command = java.command("kafka.tools.StorageTool", "format", "-t", _CLUSTER_ID, "-c", str(path), *arguments)
            formatting.append(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT))
        for process in formatting:
            said = process.communicate(timeout=_PATIENCE_S)[0]
            if process.returncode:
                raise RuntimeError(f"StorageTool failed:\n{said.decode(errors='replace')}")

    def _own(self, node_id: int) -> dict[str, Any]:
        at = {name: addresses[node_id - 1] for name, addresses in self._addresses.items()}
        voters = ",".join(f"{each}@{self._addresses['CONTROLLER'][each - 1]}" for each in self.node_ids)
        protocols = {**self._listeners, "CONTROLLER": "PLAINTEXT"}
        copies = len(self.node_ids)
        return {
            "process.roles": "broker,controller",
            "node.id": node_id,
            "controller.quorum.voters": voters,
            "listeners": ",".join(f"{name}://{address}" for name, address in at.items()),
            "advertised.listeners": ",".join(
                f"{name}://{self._advertised[name][node_id - 1]}" for name in self._listeners
            ),
            "listener.security.protocol.map": ",".join(f"{name}:{protocol}" for name, protocol in protocols.items()),
            "inter.broker.listener.name": "PLAINTEXT",
            "controller.listener.names": "CONTROLLER",
            "log.dirs": self.logs(node_id),
            "auto.create.topics.enable": "false",
            # Tests write records of 2023, which must not be gone by age before they are read.
            "log.retention.ms": -1,
            "offsets.topic.replication.factor": copies,
            "offsets.topic.num.partitions": 3,
            "group.initial.rebalance.delay.ms": 0,
            "transaction.state.log.replication.factor": copies,
            "transaction.state.log.num.partitions": 3,
            "transaction.state.log.min.isr": 1,
        }

    def _properties(self, node_id: int) -> Path:
        return Path(self._folder.name) / f"node-{node_id}.properties"

    def _output(self, node_id: int) -> Path:
        return Path(self._folder.name) / f"node-{node_id}.out"

    def start(self, node_id: int | None = None) -> float:
        """Start all nodes, or one; the seconds until each of them has answered Metadata with all brokers in it."""
        begin = time.perf_counter()
        starting = self.node_ids if node_id is None else [node_id]
        for each in starting:
            command = self._java.command("kafka.Kafka", str(self._properties(each)), heap_mb=self._heap_mb)
            with self._output(each).open("ab") as output:
                self._processes[each] = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)
        for each in starting:
            self._await_answer(each, begin + _PATIENCE_S)
        return time.perf_counter() - begin

    def _await_answer(self, node_id: int, until_s: float) -> None:
        host, port = self._addresses["PLAINTEXT"][node_id - 1].rsplit(":", 1)
        while True:
            with contextlib.suppress(OSError, EOFError):
                if _count_brokers(host, int(port)) >= len(self._processes):
                    return
            if time.perf_counter() > until_s or self._processes[node_id].poll() is not None:
                said = self._output(node_id).read_text(errors="replace")[-4000:]
                raise RuntimeError(f"node {node_id} of Apache Kafka did not start:\n{said}")
            time.sleep(0.02)

    # ---- in between, and the end ------------------------------------------------------------------------------------

    def kill(self, node_id: int) -> None:
        """End one node without notice (kill -9); what it wrote is in the page cache."""
        process = self._processes.pop(node_id)
        process.kill()
        process.wait()

    def pause(self, node_id: int) -> None:
        """Freeze one node: its clients see connections that are silent."""
        process = self._processes[node_id]
        process.send_signal(signal.SIGSTOP)
        # Until all of its threads stand still: one that runs on goes on to answer requests for a moment.
        os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)

    def resume(self, node_id: int) -> None:
        """Let a frozen node go on."""
        self._processes[node_id].send_signal(signal.SIGCONT)

    def stop(self) -> None:
        """End the nodes and remove their folder; there is nothing worth a clean shutdown."""
        for node_id in list(self._processes):
            self.kill(node_id)
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


def _count_brokers(host: str, port: int) -> int:
    """How many brokers the one at this address knows of; OSError or EOFError while it does not answer."""
    with socket.create_connection((host, port), 10) as sock:
        chunks = encode_request(1, "start", MetadataRequest(topics=[]), _METADATA_VERSION)
        sock.sendall(b"".join(bytes(chunk) for chunk in chunks))
        with sock.makefile("rb") as stream:
            size = stream.read(4)
            frame = stream.read(int.from_bytes(size))
        if len(size) < 4 or len(frame) < int.from_bytes(size):
            raise EOFError
    return len(decode_response(memoryview(frame), MetadataRequest, _METADATA_VERSION)[1].brokers)
