"""Damaged frames over real sockets, on many connections at once and in pieces of any size: the brokers live on.

While the attackers are at work, a client that behaves keeps getting right answers; afterwards no connection, no
descriptor and no error of the brokers is left behind.
"""

from __future__ import annotations

import contextlib
import logging
import os
import socket
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest
from tests.broker.frame_corpus import TOPIC, Requests, damaged, damaged_frame
from tests.drawn import commit_seeds

from ottla.broker.apis import VERSIONS
from ottla.cluster.cluster import Cluster
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.records.plain import decode_batches

pytestmark = pytest.mark.prove

ATTACKERS = 20
ROUNDS = 30
FRAMES_EACH = 5
HEALTHY = "healthy"
# What all attacks together may leave in the brokers' memory.
GROWTH_BYTES_MAX = 60_000_000


@pytest.fixture(scope="module")
def battered() -> Iterator[Cluster]:
    with Cluster(brokers=3) as cluster:
        cluster.create_topic(HEALTHY, 1, 3)
        yield cluster


class Attacker:
    """A connection with harmful bytes to send, piece by piece."""

    def __init__(self, address: str, stream: bytes, chunk_bytes: int) -> None:
        host, port = address.rsplit(":", 1)
        self.socket = socket.create_connection((host, int(port)))
        self.socket.setblocking(False)
        self.left = stream
        self.chunk_bytes = chunk_bytes

    def step(self) -> bool:
        """Send a piece and take what has come; False when there is no more to do."""
        try:
            with contextlib.suppress(BlockingIOError):
                self.left = self.left[self.socket.send(self.left[: self.chunk_bytes]) :]
            with contextlib.suppress(BlockingIOError):
                if not self.socket.recv(1 << 16):
                    return False
        except OSError:
            return False
        return bool(self.left)


def harmful_stream(rng: Random, requests: Requests) -> bytes:
    frames = []
    for _ in range(FRAMES_EACH):
        api_key = rng.choice(list(VERSIONS))
        frames.append(damaged_frame(rng, requests.frame(api_key, rng.randint(*VERSIONS[api_key]))))
    stream = b"".join(frames)
    return damaged(rng, stream) if rng.random() < 0.3 else stream


class Bystander:
    """A client that behaves: what it stores it reads again, whatever others do."""

    def __init__(self, cluster: Cluster, wire_to: Any, make: Any) -> None:
        addresses = cluster.bootstrap_servers.split(",")
        self._wire = wire_to(addresses[cluster.leader(HEALTHY, 0) - 1])
        self._make = make
        self._next = self._fetch(0).high_watermark

    def _fetch(self, offset: int) -> Any:
        return self._wire.call(self._make.fetch(HEALTHY, offset), 12).responses[0].partitions[0]

    def lives(self) -> None:
        value = b"value %d" % self._next
        answer = self._wire.call(self._make.produce(HEALTHY, value), 9).responses[0].partition_responses[0]
        assert (answer.error_code, answer.base_offset) == (0, self._next)
        [(_, [record])] = decode_batches(bytes(self._fetch(self._next).records))
        assert record.value == value
        self._next += 1


def descriptors(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="looks at a process in /proc")
@pytest.mark.parametrize("seed", commit_seeds(3))
def test_attackers_harm_neither_brokers_nor_bystanders(
    battered: Cluster, wire_to: Any, make: Any, processes: Any, caplog: pytest.LogCaptureFixture, seed: int
) -> None:
    rng = Random(f"sockets {seed}")
    requests = Requests(rng)
    addresses = battered.bootstrap_servers.split(",")
    with contextlib.suppress(Exception):
        battered.create_topic(TOPIC, 2, 3)
    bystander = Bystander(battered, wire_to, make)
    bystander.lives()
    memory = processes.resident_bytes(battered.pid)
    files = descriptors(battered.pid)
    for _ in range(ROUNDS):
        attackers = [
            Attacker(rng.choice(addresses), harmful_stream(rng, requests), rng.choice((1, 5, 40, 1000, 1 << 20)))
            for _ in range(ATTACKERS)
        ]
        active = attackers
        for _ in range(60):
            active = [attacker for attacker in active if attacker.step()]
        bystander.lives()
        for attacker in attackers:
            attacker.socket.close()
        bystander.lives()
    wire = wire_to(addresses[0])
    assert wire.call(MetadataRequest(topics=[MetadataRequestTopic(name=HEALTHY)]), 12).topics[0].error_code == 0
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR] == []
    assert processes.resident_bytes(battered.pid) - memory < GROWTH_BYTES_MAX
    # Log files of topics the attackers made may be open; connections of theirs are not.
    assert len([link for link in links(battered.pid) if link.startswith("socket:")]) < files


def links(pid: int) -> list[str]:
    """What the descriptors of a process stand for."""
    found = []
    for name in os.listdir(f"/proc/{pid}/fd"):
        with contextlib.suppress(FileNotFoundError):
            found.append(os.readlink(f"/proc/{pid}/fd/{name}"))
    return found
