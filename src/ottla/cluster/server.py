"""A broker's door: the listening socket, and the clients that came in."""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
from typing import Any

from ottla.cluster.client_connection import ClientConnection
from ottla.cluster.links import Links, Node
from ottla.errors import UserMistake

logger = logging.getLogger("ottla.cluster")

_CONNECTIONS_MAX = 4096
_ACCEPTS_PER_TURN = 64
_BACKLOG = 512
_REST_S = 0.2  # how long nobody is accepted when the process has no descriptor left
_NO_ROOM = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


def listen(host: str, port: int) -> socket.socket:
    """A listening socket on `port`, or on a free one where that is 0; UserMistake where it cannot be had."""
    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((host, port))
        sock.listen(_BACKLOG)
    except OSError as error:
        sock.close()
        if error.errno == errno.EADDRINUSE:
            raise UserMistake(
                f"port {port} on {host} is in use by another program: "
                "stop that program, choose another port, or port 0 for a free one."
            ) from None
        raise UserMistake(
            f"port {port} on {host} cannot be used ({(error.strerror or str(error)).lower()}): "
            "choose another port, or port 0 for a free one."
        ) from None
    sock.setblocking(False)
    return sock


class BrokerServer:
    """The clients of one broker; made around a listening socket, which it owns from then on."""

    def __init__(self, links: Links, loop: asyncio.AbstractEventLoop, node: Node, listener: socket.socket) -> None:
        self.links = links
        self.loop = loop
        self.broker_id = node.broker_id
        self._node = node
        self._listener = listener
        self._accepting = False
        self._closed = False
        self._accept_on()

    def receive(self, event: Any) -> None:
        """Hand an event of one of the clients to the core."""
        self.links.receive(self._node, event)

    def forget(self, client: ClientConnection) -> None:
        """A connection was closed."""
        self._node.clients.pop(client.connection_id, None)
        self._accept_on()

    def close(self) -> None:
        """Stop listening and drop every connection."""
        self._closed = True
        self._accept_off()
        self._listener.close()
        for client in list(self._node.clients.values()):
            client.close()

    def _accept_on(self) -> None:
        if not self._accepting and not self._closed:
            self._accepting = True
            self.loop.add_reader(self._listener, self._acceptable)

    def _accept_off(self) -> None:
        if self._accepting:
            self._accepting = False
            self.loop.remove_reader(self._listener)

    def _acceptable(self) -> None:
        for _ in range(_ACCEPTS_PER_TURN):
            if len(self._node.clients) >= _CONNECTIONS_MAX:
                logger.warning(
                    "broker %d has %d connections and accepts no more until one is closed",
                    self.broker_id,
                    _CONNECTIONS_MAX,
                )
                self._accept_off()
                return
            try:
                sock, (host, port) = self._listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno not in _NO_ROOM:
                    raise
                logger.warning("broker %d cannot accept a connection: %s", self.broker_id, error.strerror)
                self._accept_off()
                self.loop.call_later(_REST_S, self._accept_on)
                return
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            number = self.links.next_number()
            self._node.clients[number] = ClientConnection(self, number, sock, f"{host}:{port}")
