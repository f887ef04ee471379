"""The brokers of paced senders: an embedded broker that answers late, or Apache Kafka with slow followers.

Clients connect to the leader of all partitions through a proxy that counts the Produce requests (slow_way.py); in front
of the embedded broker it also delays their answers. Apache Kafka has three nodes. Node 1 leads every partition and is
the only controller. While a client is measured, the other two are paused for 80 of every 100 ms, and acks=all waits.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

from tools.apache_kafka import SERVER_OPTIONS, ApacheKafka
from tools.ports import free_ports

import ottla
from benchmarks.paced_cells import FAR, Cell
from benchmarks.producer_speed import log_folder
from benchmarks.slow_way import SlowWay
from benchmarks.wire import Wire
from ottla.protocol.messages.create_topics import CreatableReplicaAssignment, CreatableTopic, CreateTopicsRequest

_STILL_S = 0.08
_MOVING_S = 0.02
_LEADER = 1
_HEAP_MB = 512
_LISTENER = "CLIENTS"
_CREATE_TOPICS_VERSION = 7


class Place:
    """A leader behind a proxy: `create` makes a topic there, `slowed` is entered while a client is measured."""

    def __init__(
        self, way: SlowWay, replicas: list[int], slowed: Callable[[], contextlib.AbstractContextManager[None]]
    ):
        self.bootstrap = way.address
        self.slowed = slowed
        self._way = way
        self._replicas = replicas

    def produce_requests(self) -> int:
        """How many Produce requests have passed so far."""
        return self._way.produce_requests

    def create(self, name: str, partitions: int) -> None:
        """Make a topic whose partitions this broker leads."""
        assignments = [
            CreatableReplicaAssignment(partition_index=partition, broker_ids=self._replicas)
            for partition in range(partitions)
        ]
        topic = CreatableTopic(name=name, num_partitions=-1, replication_factor=-1, assignments=assignments)
        with Wire(self.bootstrap) as wire:
            answer = wire.call(CreateTopicsRequest(topics=[topic], timeout_ms=60_000), _CREATE_TOPICS_VERSION)
        refused = answer.topics[0].error_code
        if refused:
            raise SystemExit(f"topic {name} was not made: {refused} {answer.topics[0].error_message}")


@contextlib.contextmanager
def late_broker(cell: Cell) -> Iterator[Place]:
    """One embedded broker whose answers come as late as the cell says."""

    @contextlib.contextmanager
    def slowed() -> Iterator[None]:
        way.late_s = cell.service_ms / 1000
        try:
            yield
        finally:
            way.late_s = 0.0

    with SlowWay(is_serial=cell.kind != FAR) as way:
        [port] = free_ports(1)
        way.broker = f"127.0.0.1:{port}"
        with ottla.Cluster(brokers=1, listeners={"slow": ottla.Listener(port=port, advertised_port=way.port)}):
            yield Place(way, [1], slowed)


class _OneController(ApacheKafka):
    """Node 1 is the controller, whatever becomes of the others."""

    def _own(self, node_id: int) -> dict[str, Any]:
        own = super()._own(node_id)
        own["controller.quorum.voters"] = own["controller.quorum.voters"].partition(",")[0]
        if node_id != _LEADER:
            own["process.roles"] = "broker"
            own["listeners"] = own["listeners"].rpartition(",")[0]
        return own


@contextlib.contextmanager
def slow_followers() -> Iterator[Place]:
    """Three nodes of Apache Kafka, logs in memory."""
    with contextlib.ExitStack() as stack:
        ways = [stack.enter_context(SlowWay()) for _ in range(3)]
        apache = _OneController(
            3,
            folder=log_folder(),
            heap_mb=_HEAP_MB,
            options=SERVER_OPTIONS,
            listeners={_LISTENER: "PLAINTEXT"},
            advertised={_LISTENER: [way.address for way in ways]},
        )
        for way, address in zip(ways, apache.bootstrap_servers_of(_LISTENER).split(","), strict=True):
            way.broker = address
        stack.enter_context(apache)
        yield Place(ways[0], apache.node_ids, lambda: _standing_still(apache))


@contextlib.contextmanager
def _standing_still(apache: ApacheKafka) -> Iterator[None]:
    followers = [node_id for node_id in apache.node_ids if node_id != _LEADER]
    ended = threading.Event()

    def slow_down() -> None:
        while not ended.is_set():
            for node_id in followers:
                apache.pause(node_id)
            ended.wait(_STILL_S)
            for node_id in followers:
                apache.resume(node_id)
            ended.wait(_MOVING_S)

    thread = threading.Thread(target=slow_down)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
