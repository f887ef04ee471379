"""A request on its way through the broker, and the connection it came on."""

from __future__ import annotations

from collections import deque
from typing import Any, Protocol

from ottla.broker.events import RequestReceived
from ottla.broker.fetch_sessions import FetchSession
from ottla.faults.plan import Action, FaultContext


class Request:
    """A request being handled: where the answer goes, and what the fault plan does to it.

    `context` is there while the plan has not been asked what strikes after the append; `refusal` and `after` hold
    what it decided. `expects_answer` is False for Produce with acks=0.
    """

    __slots__ = (
        "after",
        "client_id",
        "connection_id",
        "context",
        "correlation_id",
        "expects_answer",
        "listener",
        "message",
        "refusal",
        "version",
    )

    def __init__(self, event: RequestReceived) -> None:
        self.connection_id = event.connection_id
        self.correlation_id = event.correlation_id
        self.client_id = event.client_id
        self.version = event.version
        self.listener = event.listener
        self.message: Any = event.message
        self.expects_answer = True
        self.context: FaultContext | None = None
        self.refusal: Action | None = None
        self.after: Action | None = None


class Cancellable(Protocol):
    """Something that waits on behalf of a connection."""

    def cancel(self) -> None:
        """The connection is gone: stop waiting."""
        ...


class Connection:
    """A connection that is owed an answer, or was hung up on; idle ones are not kept."""

    __slots__ = ("connection_id", "hung_up", "parked", "waiting")

    def __init__(self, connection_id: int) -> None:
        self.connection_id = connection_id
        self.waiting: deque[RequestReceived] = deque()
        self.parked: Cancellable | None = None
        self.hung_up = False


def fault_context(message: Any, broker_id: int, session: FetchSession | None = None) -> FaultContext:
    """What the fault plan is told of a request; a Fetch touches all partitions of its session."""
    api = type(message).__name__.removesuffix("Request")
    if api == "Produce":
        pairs = tuple((topic.name, data.index) for topic in message.topic_data for data in topic.partition_data)
    elif api == "Fetch":
        pairs = tuple((topic.topic, wanted.partition) for topic in message.topics for wanted in topic.partitions)
        if session is not None:
            kept = ((each.topic or "", each.index) for each in session.partitions.values())
            pairs = tuple(dict.fromkeys((*pairs, *kept)))
    elif api == "ListOffsets":
        pairs = tuple((topic.name, wanted.partition_index) for topic in message.topics for wanted in topic.partitions)
    else:
        pairs = ()
    return FaultContext(api, pairs, broker_id)
