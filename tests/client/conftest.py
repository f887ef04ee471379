"""Peers that are not what they should be: plain sockets in a thread, each connection handled by one function."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator

import pytest

from ottla.client import leaving

Peer = Callable[[Callable[[socket.socket], None]], str]


@pytest.fixture
def peer() -> Iterator[Peer]:
    """Call it with what to do with each connection; it returns the address it listens on, as host:port."""
    listeners: list[socket.socket] = []
    threads: list[threading.Thread] = []
    connections: list[socket.socket] = []

    def listen(handle: Callable[[socket.socket], None]) -> str:
        listener = socket.create_server(("127.0.0.1", 0))
        listeners.append(listener)

        def accept() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                connections.append(connection)
                with contextlib.suppress(OSError):
                    handle(connection)

        thread = threading.Thread(target=accept, daemon=True)
        thread.start()
        threads.append(thread)
        return f"127.0.0.1:{listener.getsockname()[1]}"

    yield listen
    for listener in listeners:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
    for connection in connections:
        # Whoever reads from it learns of the end only so.
        with contextlib.suppress(OSError):
            connection.shutdown(socket.SHUT_RDWR)
        connection.close()
    for thread in threads:
        thread.join(5)


@pytest.fixture
def taken_port() -> Iterator[socket.socket]:
    """A socket that is bound to a port, so that nobody else gets it, and that does not listen."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield taken


@pytest.fixture
def closed_port(taken_port: socket.socket) -> str:
    """An address where nobody listens."""
    return f"127.0.0.1:{taken_port.getsockname()[1]}"


@pytest.fixture
def unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Long waits are not logged, nor cut short after an interruption: the machine may be slow."""
    for name in ("QUIET_S", "QUIET_INTERRUPTED_S", "LAST_ANSWERS_S"):
        monkeypatch.setattr(leaving, name, 3600)
