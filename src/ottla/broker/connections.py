"""A broker's connections: requests of one are handled one at a time, in the order they came.

What arrives before the answer to an earlier request waits here. A connection that was hung up on, or that a fault has
made deaf (it stays open, but nothing more is sent), is kept until its driver reports its end; what still arrives on it
is thrown away. Idle connections are not kept.
"""

from __future__ import annotations

from collections import deque
from typing import Any, Protocol

from ottla.broker.events import HangUp, RequestReceived, Respond
from ottla.broker.outbox import Outbox
from ottla.broker.request import Request


class Cancellable(Protocol):
    """Something that waits on behalf of a connection."""

    def cancel(self) -> None:
        """The connection is gone: stop waiting."""
        ...


class Connection:
    """A connection that is owed an answer, was hung up on, or is muted: its next request has to wait (KIP-219)."""

    __slots__ = ("connection_id", "hung_up", "is_answered", "is_muted", "parked", "waiting")

    def __init__(self, connection_id: int) -> None:
        self.connection_id = connection_id
        self.waiting: deque[RequestReceived] = deque()
        self.parked: Cancellable | None = None
        self.hung_up = False
        # Whether its request is answered: only the muting still delays the next one.
        self.is_answered = False
        self.is_muted = False


class Connections:
    """The connections of one broker, by their ids."""

    __slots__ = ("_due", "_known", "_outbox")

    def __init__(self, outbox: Outbox) -> None:
        self._outbox = outbox
        self._known: dict[int, Connection] = {}
        self._due: deque[Connection] = deque()

    def __len__(self) -> int:
        return len(self._known)

    def queued(self, connection_id: int) -> int:
        """Requests of this connection that wait for their turn (the one being handled not counted)."""
        connection = self._known.get(connection_id)
        return len(connection.waiting) if connection is not None else 0

    def queued_requests(self) -> int:
        """Requests of all connections that wait for their turn."""
        return sum(len(connection.waiting) for connection in self._known.values())

    def arrived(self, event: RequestReceived) -> bool:
        """A request has come; True where it is to be handled now, not later or never."""
        connection = self._known.get(event.connection_id)
        if connection is None:
            self._known[event.connection_id] = Connection(event.connection_id)
            return True
        if not connection.hung_up:
            connection.waiting.append(event)
        return False

    def next_due(self) -> RequestReceived | None:
        """A request whose turn has come, as the one in front of it was answered; None where there is none."""
        while self._due:
            connection = self._due.popleft()
            if not connection.hung_up and self._known.get(connection.connection_id) is connection:
                return connection.waiting.popleft()
        return None

    def send(self, request: Request, message: Any) -> None:
        """Hand out the answer (None: none is expected); the connection's next request is due."""
        connection = self._known.get(request.connection_id)
        if connection is None or connection.hung_up:
            return
        self._outbox.put(Respond(request.connection_id, request.correlation_id, request.version, message))
        connection.parked = None
        if connection.is_muted:
            connection.is_answered = True
        elif connection.waiting:
            self._due.append(connection)
        else:
            del self._known[request.connection_id]

    def mute(self, connection_id: int) -> Connection | None:
        """Let the connection's next request wait until `unmute`; None where the connection has ended."""
        connection = self._known.get(connection_id)
        if connection is None or connection.hung_up:
            return None
        connection.is_muted = True
        return connection

    def unmute(self, connection: Connection) -> None:
        """The connection's next request is due, once what it is owed is answered."""
        connection.is_muted = False
        if not connection.is_answered or self._known.get(connection.connection_id) is not connection:
            return
        connection.is_answered = False
        if connection.hung_up:
            return
        if connection.waiting:
            self._due.append(connection)
        else:
            del self._known[connection.connection_id]

    def hang_up(self, connection_id: int, reason: str) -> None:
        """Have the connection closed; what else arrived on it is dropped."""
        connection = self._known.get(connection_id)
        if connection is None or connection.hung_up:
            return
        connection.hung_up = True
        connection.waiting.clear()
        self._outbox.put(HangUp(connection_id, reason))

    def go_deaf(self, connection_id: int) -> None:
        """Leave the connection open, and ignore what arrives on it; nothing is sent on it any more."""
        connection = self._known.get(connection_id)
        if connection is None:
            return  # its client has gone
        connection.hung_up = True
        connection.waiting.clear()

    def park(self, connection_id: int, waiter: Cancellable) -> None:
        """Let `waiter` be cancelled when the connection is lost."""
        connection = self._known.get(connection_id)
        if connection is not None:
            connection.parked = waiter

    def lost(self, connection_id: int) -> None:
        """The connection has ended."""
        connection = self._known.pop(connection_id, None)
        if connection is not None and connection.parked is not None:
            connection.parked.cancel()
