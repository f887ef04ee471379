"""A console that ends closes its connections, also those that are not done: who waits on one is told at once."""

from __future__ import annotations

import gc
import socket
from collections.abc import Iterator
from contextlib import closing
from urllib.parse import urlsplit

import pytest

import ottla
from ottla.console.connection import Connection
from ottla.console.console import Console
from ottla.console.server import ConsoleServer

_PATIENCE_S = 60


@pytest.fixture(autouse=True)
def uncollected() -> Iterator[None]:
    """Nothing is closed because the garbage collector happens to find it."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def asking_for(server: ConsoleServer, path: str) -> socket.socket:
    """A connection on which `path` was asked for, and whose answer has begun."""
    url = urlsplit(server.url)
    sock = socket.socket()
    sock.settimeout(_PATIENCE_S)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    sock.connect((url.hostname, url.port))
    sock.sendall(f"GET /{path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    assert sock.recv(5) == b"HTTP/"
    return sock


def has_ended(sock: socket.socket) -> bool:
    """Whether the server closes or resets the connection, after any data that was sent before."""
    try:
        while sock.recv(1 << 16):
            pass
    except ConnectionResetError:
        return True
    except TimeoutError:
        return False
    return True


def test_a_connection_that_was_accepted_while_the_others_were_told(
    looked_at: Console, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ConsoleServer(looked_at, "127.0.0.1", 0) as server:
        sock = asking_for(server, "api/session")
        monkeypatch.setattr(Connection, "shutdown", lambda connection: None)
    with closing(sock):
        assert has_ended(sock)


def test_a_connection_whose_client_takes_nothing(
    looked_at: Console, cluster: ottla.Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    cluster.create_topic("much")
    with ottla.Producer(cluster.bootstrap_servers, compression_type="zstd") as producer:
        for _ in range(16):
            producer.send("much", bytes(900_000))
    with ConsoleServer(looked_at, "127.0.0.1", 0) as server:
        sock = asking_for(server, "api/topics/much/export")
    with closing(sock):
        assert has_ended(sock)
    # Whoever ends a console sees no traceback.
    assert caplog.text == ""
