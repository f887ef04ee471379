"""Ports for servers that are started by number, and a while after the number was chosen."""

from __future__ import annotations

import contextlib
import random
import socket

# Below those that Linux hands out to everybody who asks for any port, and clients get.
_RANGE = 20_000, 32_000


def free_ports(count: int) -> list[int]:
    """Ports of loopback in a row that nobody listens on just now, and that nobody is given by the system meanwhile."""
    while True:
        first = random.randrange(_RANGE[0], _RANGE[1] - count)
        ports = list(range(first, first + count))
        with contextlib.ExitStack() as stack, contextlib.suppress(OSError):
            for port in ports:
                stack.enter_context(socket.create_server(("127.0.0.1", port)))
            return ports
