"""Clients that never read, consumers that stall, hundreds that vanish: memory stays bounded, descriptors come back."""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import time
from collections.abc import Callable
from typing import Any

import pytest

from ottla.cluster.cluster import Cluster
from ottla.protocol.messages.api_versions import ApiVersionsRequest
from ottla.protocol.messages.metadata import MetadataRequest
from ottla.records.plain import decode_batches

pytestmark = pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="looks at a process in /proc")

_PATIENCE_S = 30
_RECORD = bytes(range(256)) * 3_000  # 750 KiB
_RECORDS = 20


@pytest.fixture(scope="module")
def filled(broker: Cluster, make: Any) -> str:
    """A topic with 15 MB in it."""
    from tests.cluster.conftest import Wire

    broker.create_topic("filled")
    wire = Wire(broker.bootstrap_servers)
    for _ in range(_RECORDS):
        assert wire.call(make.produce("filled", _RECORD), 9).responses[0].partition_responses[0].error_code == 0
    wire.close()
    return "filled"


def sockets_of(pid: int) -> int:
    """How many sockets a process holds."""
    count = 0
    for name in os.listdir(f"/proc/{pid}/fd"):
        with contextlib.suppress(FileNotFoundError):
            count += os.readlink(f"/proc/{pid}/fd/{name}").startswith("socket:")
    return count


def sockets_come_back_to(count: int, pid: int, ask: Callable[[], Any]) -> bool:
    """Whether the process gives sockets back until so many are left, while it answers others."""
    until = time.monotonic() + _PATIENCE_S
    while sockets_of(pid) > count and time.monotonic() < until:
        ask()
    return sockets_of(pid) <= count


def drop(wire: Any) -> None:
    """Vanish without a good-bye: the broker gets a reset."""
    wire.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    wire.close()


def test_a_thousand_connections_opened_and_dropped_leave_nothing(
    broker: Cluster, connect: Any, wire_to: Any, make: Any, processes: Any, filled: str
) -> None:
    """Dropped at once, in the middle of a frame, after an answer, and while a Fetch waits for records."""
    bystander = connect(broker)
    bystander.call(MetadataRequest(), 12)
    request = make.frame(MetadataRequest(), 12)
    sockets, memory = sockets_of(broker.pid), processes.resident_bytes(broker.pid)
    for _ in range(10):
        wires = [connect(broker) for _ in range(100)]
        for number, wire in enumerate(wires):
            if number % 4 == 1:
                wire.send(request[: number % len(request)])
            elif number % 4 == 2:
                wire.call(ApiVersionsRequest(), 2)
            elif number % 4 == 3:
                # Who closes in order may still want its answer, so the broker keeps the connection until there is one.
                wait_ms = 600_000 if number % 8 < 4 else 100
                wire.ask(make.fetch(filled, _RECORDS, max_wait_ms=wait_ms), 12)
        assert bystander.call(MetadataRequest(), 12).brokers
        for number, wire in enumerate(wires):
            if number % 8 < 4:
                drop(wire)
            else:
                wire.close()
    assert sockets_come_back_to(sockets, broker.pid, lambda: bystander.call(MetadataRequest(), 12))
    assert processes.resident_bytes(broker.pid) - memory < 20_000_000


def test_consumers_that_never_read_hold_no_memory(
    broker: Cluster, connect: Any, make: Any, processes: Any, filled: str
) -> None:
    """What they asked for stays in the log's files until their sockets take it."""
    bystander = connect(broker)
    bystander.call(make.fetch(filled), 12)
    sockets, memory = sockets_of(broker.pid), processes.resident_bytes(broker.pid)
    stuck = [connect(broker) for _ in range(60)]
    for wire in stuck:
        for _ in range(5):
            wire.ask(make.fetch(filled), 12)
    for _ in range(10):
        records = bystander.call(make.fetch(filled, _RECORDS - 1), 12).responses[0].partitions[0].records
        [(_, [record])] = list(decode_batches(bytes(records)))[-1:]
        assert record.value == _RECORD
    # They asked for 4.5 GB.
    assert processes.resident_bytes(broker.pid) - memory < 20_000_000
    for wire in stuck:
        drop(wire)
    assert sockets_come_back_to(sockets, broker.pid, lambda: bystander.call(MetadataRequest(), 12))


def test_a_slow_consumer_gets_everything_in_the_end(broker: Cluster, connect: Any, make: Any, filled: str) -> None:
    """It takes a few bytes now and then, while another client goes on at its own pace."""
    slow, busy = connect(broker), connect(broker)
    slow.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65_536)
    slow.ask(make.fetch(filled), 12)
    content = bytearray()
    for _ in range(50):
        content += slow.socket.recv(1000)
        assert busy.call(MetadataRequest(), 12).brokers
    size = 4 + int.from_bytes(content[:4])
    while len(content) < size:
        content += slow.socket.recv(size - len(content))
    assert content.count(_RECORD) == _RECORDS


def test_producers_that_never_read_their_answers_are_not_read_on(
    broker: Cluster, connect: Any, make: Any, processes: Any, kafka_name: str
) -> None:
    """They fill their own socket buffers, not the broker's memory."""
    broker.create_topic(kafka_name)
    bystander = connect(broker)
    bystander.call(MetadataRequest(), 12)
    memory = processes.resident_bytes(broker.pid)
    request = make.frame(MetadataRequest(), 12)
    wires = [connect(broker) for _ in range(20)]
    for wire in wires:
        wire.socket.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            for _ in range(200):
                wire.send(request * 500)
    assert bystander.call(make.produce(kafka_name, b"value"), 9).responses[0].partition_responses[0].error_code == 0
    assert processes.resident_bytes(broker.pid) - memory < 30_000_000
