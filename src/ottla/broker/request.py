"""A request on its way through the broker."""

from __future__ import annotations

from typing import Any

from ottla.broker.events import RequestReceived
from ottla.faults.plan import Action, FaultContext


class Request:
    """A request being handled: where the answer goes, and what the fault plan does to it.

    `context` is set until the plan has decided what happens after the append; `refusal` and `after` hold its decisions.
    `expects_answer` is False for Produce with acks=0.
    """

    __slots__ = (
        "after",
        "client",
        "client_id",
        "connection_id",
        "context",
        "correlation_id",
        "expects_answer",
        "listener",
        "message",
        "refusal",
        "size",
        "version",
    )

    def __init__(self, event: RequestReceived) -> None:
        self.connection_id = event.connection_id
        self.correlation_id = event.correlation_id
        self.client_id = event.client_id
        self.client = event.client
        self.size = event.size
        self.version = event.version
        self.listener = event.listener
        self.message: Any = event.message
        self.expects_answer = True
        self.context: FaultContext | None = None
        self.refusal: Action | None = None
        self.after: Action | None = None
