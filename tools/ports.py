"""Ports for servers that are started by number, and a while after the number was chosen."""

from __future__ import annotations

import contextlib
import fcntl
import os
import random
import socket
import tempfile
import threading

# Below those that Linux hands out to everybody who asks for any port, and clients get.
_RANGE = 20_000, 32_000
_given: set[int] = set()
_lock = threading.Lock()


def free_ports(count: int) -> list[int]:
    """Ports of loopback in a row that nobody listens on, and that no other call is given while this process lives.

    Calls of one user's other processes know of each other by locks on a file's bytes, which end with the process.
    """
    with _lock:
        while True:
            first = random.randrange(_RANGE[0], _RANGE[1] - count)
            ports = range(first, first + count)
            if _given.isdisjoint(ports) and _nobody_listens(ports) and _is_reserved(ports):
                _given.update(ports)
                return list(ports)


def _nobody_listens(ports: range) -> bool:
    with contextlib.ExitStack() as stack:
        try:
            for port in ports:
                stack.enter_context(socket.create_server(("127.0.0.1", port)))
        except OSError:
            return False
        return True


def _is_reserved(ports: range) -> bool:
    try:
        fcntl.lockf(_reservations(), fcntl.LOCK_EX | fcntl.LOCK_NB, len(ports), ports.start)
    except OSError:
        return False
    return True


def _reservations() -> int:
    """The file whose byte N stands for port N. It stays open: closing any descriptor of it ends all of the locks."""
    global _file
    if _file is None:
        path = os.path.join(tempfile.gettempdir(), f"ottla-ports-{os.getuid()}")
        _file = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    return _file


_file: int | None = None
