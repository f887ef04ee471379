"""Fetched records go from the page cache to the socket by `sendfile`, without TLS; through TLS they cannot.

The brokers run in this process, so that what they ask of the system can be counted: the real calls are made.
"""

from __future__ import annotations

import os
import socket
import ssl
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.papers import Papers

from ottla import Cluster, Listener
from ottla.records.plain import decode_batches

VALUES = [bytes([number]) * 100_000 for number in range(10)]


@pytest.fixture(scope="module")
def cluster(papers: Papers) -> Iterator[Cluster]:
    listeners = {"PLAINTEXT": Listener(), "SSL": Listener(protocol="SSL", certificate=papers.server)}
    with Cluster(brokers=1, listeners=listeners, in_process=True) as cluster:
        yield cluster


@pytest.fixture
def filled(cluster: Cluster, kafka_name: str, connect: Any, make: Any) -> str:
    """A topic with a megabyte in ten batches."""
    cluster.create_topic(kafka_name)
    wire = connect(cluster)
    for value in VALUES:
        assert wire.call(make.produce(kafka_name, value), 9).responses[0].partition_responses[0].error_code == 0
    return kafka_name


@pytest.fixture
def sent_by_file(monkeypatch: pytest.MonkeyPatch) -> dict[int, int]:
    """How many bytes `os.sendfile` has sent, by the port at the other end."""
    sent: dict[int, int] = {}
    real = os.sendfile

    def counted(out: int, source: int, position: int, size: int) -> int:
        count = real(out, source, position, size)
        with socket.socket(fileno=os.dup(out)) as client:
            port = client.getpeername()[1]
        sent[port] = sent.get(port, 0) + count
        return count

    monkeypatch.setattr(os, "sendfile", counted)
    return sent


def fetched(wire: Any, request: Any) -> tuple[int, list[bytes | None]]:
    """(bytes of records, their values)"""
    records = bytes(wire.call(request, 12).responses[0].partitions[0].records)
    return len(records), [record.value for _, rows in decode_batches(records) for record in rows]


def test_every_byte_of_the_records_leaves_by_sendfile(
    cluster: Cluster, filled: str, connect: Any, make: Any, sent_by_file: dict[int, int]
) -> None:
    wire = connect(cluster)
    port = wire.socket.getsockname()[1]
    for first in (0, 7):
        before = sent_by_file.get(port, 0)
        size, values = fetched(wire, make.fetch(filled, first))
        assert values == VALUES[first:]
        assert size > 100_000 * len(values)
        # Neither less (nothing was copied through this process) nor more (what frames it does not lie in a file).
        assert sent_by_file[port] - before == size


def counted(cluster: Cluster) -> float:
    """What the broker says that it has sent by `sendfile`."""
    return cluster.metrics(1)["ottla.network:type=SocketServer,name=SendfileBytesPerSec"]["Count"]


def test_the_broker_counts_what_leaves_by_sendfile(cluster: Cluster, filled: str, connect: Any, make: Any) -> None:
    before = counted(cluster)
    size, _ = fetched(connect(cluster), make.fetch(filled))
    assert counted(cluster) - before == size


def test_nothing_leaves_by_sendfile_through_tls(
    cluster: Cluster,
    filled: str,
    papers: Papers,
    wire_to: Callable[[str], Any],
    make: Any,
    sent_by_file: dict[int, int],
) -> None:
    wire = wire_to(cluster.bootstrap_servers_of("SSL"))
    context = ssl.create_default_context(cafile=str(papers.ca))
    wire.socket = context.wrap_socket(wire.socket, server_hostname="127.0.0.1")
    before = counted(cluster)
    assert fetched(wire, make.fetch(filled))[1] == VALUES
    assert counted(cluster) == before
    assert sent_by_file == {}
