"""Brokers to talk to, and a client that knows nothing but sockets and frames."""

from __future__ import annotations

import os
import select
import socket
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ottla.cluster.cluster import Cluster
from ottla.protocol.frames import FrameBuffer, decode_response, encode_request
from ottla.protocol.message import ApiMessage
from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.records.plain import Record, encode_batch

_PATIENCE_S = 30


class Wire:
    """One connection to a broker; everything on it is done by hand. What hangs fails after half a minute."""

    def __init__(self, address: str) -> None:
        host, port = address.rsplit(":", 1)
        self.socket = socket.create_connection((host, int(port)), timeout=_PATIENCE_S)
        self._frames = FrameBuffer(1 << 30)
        self._arrived: list[memoryview] = []
        self._asked: list[tuple[type[ApiMessage], int]] = []
        self._answers = 0

    def send(self, content: bytes) -> None:
        """Send bytes as they are."""
        self.socket.sendall(content)

    def send_what_is_taken(self, request: bytes) -> tuple[int, bytes]:
        """Send a request over and over until the broker takes no more: how often, and what of the last one is left."""
        self.socket.setblocking(False)
        sent = 0
        while select.select([], [self.socket], [], 0.5)[1]:
            sent += self.socket.send(request[sent % len(request) :])
            assert sent < 100_000_000, "the broker reads on and on"
        self.socket.settimeout(_PATIENCE_S)
        whole, part = divmod(sent, len(request))
        return (whole + 1, request[part:]) if part else (whole, b"")

    def ask(self, message: ApiMessage, version: int, *, answered: bool = True) -> None:
        """Send a request; its correlation id is its number on this connection."""
        self.send(Make.frame(message, version, len(self._asked)))
        if answered:
            self._asked.append((type(message), version))

    def ask_together(self, *asked: tuple[ApiMessage, int]) -> None:
        """Send several requests, with their versions, in one piece."""
        first = len(self._asked)
        self._asked += [(type(message), version) for message, version in asked]
        self.send(b"".join(Make.frame(*each, number) for number, each in enumerate(asked, first)))

    def answer(self) -> Any:
        """The next response, which must be the one to the oldest request without a response."""
        content = self.next_frame()
        correlation_id = int.from_bytes(content[:4])
        request_class, version = self._asked[correlation_id]
        assert correlation_id == self._answers
        self._answers += 1
        return decode_response(content, request_class, version)[1]

    def call(self, message: ApiMessage, version: int) -> Any:
        """The response to a request."""
        self.ask(message, version)
        return self.answer()

    def next_frame(self) -> memoryview:
        """The next frame, without its length; EOFError when the broker has closed the connection."""
        while not self._arrived:
            size = self.socket.recv_into(self._frames.get_buffer())
            if not size:
                raise EOFError
            self._arrived += self._frames.advance(size)
        return self._arrived.pop(0)

    def is_closed_by_broker(self) -> bool:
        """Wait until the broker closes the connection (True) or sends something (False)."""
        try:
            return self.socket.recv(1) == b""
        except ConnectionResetError:
            return True

    def close(self) -> None:
        """Hang up."""
        self.socket.close()


class Make:
    """Requests, as messages and as bytes."""

    @staticmethod
    def frame(message: ApiMessage, version: int, correlation_id: int = 0) -> bytes:
        """A request as one piece of bytes, length first."""
        return b"".join(bytes(chunk) for chunk in encode_request(correlation_id, "test", message, version))

    @staticmethod
    def produce(topic: str, value: bytes, *, partition: int = 0, acks: int = -1) -> ProduceRequest:
        """One record for one partition."""
        records = encode_batch([Record(0, 0, None, value)])
        data = [TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=partition, records=records)])]
        return ProduceRequest(acks=acks, timeout_ms=10_000, topic_data=data)

    @staticmethod
    def fetch(topic: str, offset: int = 0, *, min_bytes: int = 1, max_wait_ms: int = 0) -> FetchRequest:
        """A request for all there is from an offset of partition 0."""
        wanted = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 30)
        return FetchRequest(
            replica_id=-1,
            max_wait_ms=max_wait_ms,
            min_bytes=min_bytes,
            max_bytes=1 << 30,
            topics=[FetchTopic(topic=topic, partitions=[wanted])],
        )


class Processes:
    """What can be seen of a process from outside."""

    @staticmethod
    def wait_for_exit(pid: int) -> None:
        """Return when the process has ended, be it somebody else's child."""
        try:
            descriptor = os.pidfd_open(pid)
        except ProcessLookupError:
            return
        try:
            readable, _, _ = select.select([descriptor], [], [], _PATIENCE_S)
        finally:
            os.close(descriptor)
        assert readable, f"process {pid} is still there"

    @staticmethod
    def is_running(pid: int) -> bool:
        """Whether there is such a process."""
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return False
        return True

    @staticmethod
    def resident_bytes(pid: int) -> int:
        """The memory a process has in use now (Linux)."""
        with open(f"/proc/{pid}/statm") as statm:
            return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.fixture(scope="session")
def make() -> type[Make]:
    """Makes requests."""
    return Make


@pytest.fixture(scope="session")
def processes() -> type[Processes]:
    """Looks at processes."""
    return Processes


@pytest.fixture(scope="module")
def broker() -> Iterator[Cluster]:
    """A cluster of one broker, for the tests of one file."""
    with Cluster(brokers=1) as cluster:
        yield cluster


@pytest.fixture
def wire_to() -> Iterator[Callable[[str], Wire]]:
    """Opens connections to an address, closed after the test."""
    wires: list[Wire] = []

    def open_wire(address: str) -> Wire:
        wires.append(Wire(address))
        return wires[-1]

    yield open_wire
    for wire in wires:
        wire.close()


@pytest.fixture
def connect(wire_to: Callable[[str], Wire]) -> Callable[[Cluster], Wire]:
    """Opens connections to a cluster's first broker, closed after the test."""
    return lambda cluster: wire_to(cluster.bootstrap_servers.split(",")[0])
