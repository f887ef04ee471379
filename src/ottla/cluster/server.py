"""A broker's doors: one listening socket for each listener, and the clients that came in by them."""

from __future__ import annotations

import asyncio
import errno
import logging
import random
import socket
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ottla.cluster.client_connection import ClientConnection
from ottla.cluster.links import Links, Node
from ottla.cluster.listener import Listener
from ottla.errors import UserMistake

if TYPE_CHECKING:
    import ssl

    from ottla.broker.authentication import Users

logger = logging.getLogger("ottla.cluster")

_CONNECTIONS_MAX = 4096
_ACCEPTS_PER_TURN = 64
_BACKLOG = 512
_REST_S = 0.2  # how long nobody is accepted when the process has no descriptor left
_NO_ROOM = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


class Entrance:
    """A listener with what its doors share: certificate and users, where it has any; UserMistake, MissingExtra."""

    __slots__ = ("listener", "name", "tls", "users")

    def __init__(self, name: str, listener: Listener) -> None:
        self.name = name
        self.listener = listener
        self.tls: ssl.SSLContext | None = None
        self.users: Users | None = None
        if listener.is_tls:
            from ottla.cluster.tls import server_context

            self.tls = server_context(name, listener)
        if listener.is_sasl:
            from ottla.broker.authentication import Users

            self.users = Users(listener.users, tuple(listener.sasl_mechanisms), random.SystemRandom())


class Door:
    """An entrance as one broker has it: the listening socket, and what clients are told of it."""

    __slots__ = ("advertised", "entrance", "name", "socket")

    def __init__(self, entrance: Entrance, broker_id: int) -> None:
        listener = entrance.listener
        self.name = entrance.name
        self.entrance = entrance
        self.socket = listen(listener.host, listener.port + broker_id - 1 if listener.port else 0)
        self.advertised = listener.advertised(broker_id, self.socket.getsockname()[1])


def open_doors(entrances: Iterable[Entrance], broker_id: int) -> list[Door]:
    """All doors of a broker, or UserMistake and none."""
    doors: list[Door] = []
    try:
        for entrance in entrances:
            doors.append(Door(entrance, broker_id))
    except BaseException:
        for door in doors:
            door.socket.close()
        raise
    return doors


def listen(host: str, port: int) -> socket.socket:
    """A listening socket on `port`, or on a free one where that is 0; UserMistake where it cannot be had."""
    sock = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
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
    """The clients of one broker; made around its doors, which it owns from then on."""

    def __init__(self, links: Links, loop: asyncio.AbstractEventLoop, node: Node, doors: list[Door]) -> None:
        self.links = links
        self.loop = loop
        self.broker_id = node.broker_id
        self._node = node
        self._doors = doors
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
        for door in self._doors:
            door.socket.close()
        for client in list(self._node.clients.values()):
            client.close()

    def _accept_on(self) -> None:
        if not self._accepting and not self._closed:
            self._accepting = True
            for door in self._doors:
                self.loop.add_reader(door.socket, self._acceptable, door)

    def _accept_off(self) -> None:
        if self._accepting:
            self._accepting = False
            for door in self._doors:
                self.loop.remove_reader(door.socket)

    def _acceptable(self, door: Door) -> None:
        for _ in range(_ACCEPTS_PER_TURN):
            if not self._accepting:
                return
            if len(self._node.clients) >= _CONNECTIONS_MAX:
                logger.warning(
                    "broker %d has %d connections and accepts no more until one is closed",
                    self.broker_id,
                    _CONNECTIONS_MAX,
                )
                self._accept_off()
                return
            try:
                sock, address = door.socket.accept()
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
            peer = f"{address[0]}:{address[1]}"
            try:
                self._node.clients[number] = ClientConnection(self, number, sock, peer, door)
            except OSError as error:
                # Gone again before TLS could begin.
                logger.debug("broker %d lost %s: %s", self.broker_id, peer, error)
                sock.close()
