"""One request of a client: where it may go, what is kept of it while it is in flight, and its result."""

from __future__ import annotations

from typing import Any

# Where `ConnectionCore.ask` sends: a node id, or one of these.
ANY_NODE = -1_000_001
CONTROLLER = -1_000_002


class Pending:
    """A request that was handed to the driver and is not settled yet."""

    __slots__ = ("answered", "sent_us", "token")

    def __init__(self, token: Any, sent_us: int, answered: bool) -> None:
        self.token = token
        self.sent_us = sent_us
        self.answered = answered


class Answer:
    """The result of one request: `message` is the decoded response, or None; then `failure` is a clause for a person.

    `sent` is False when the request certainly was not sent as a whole. Then `unsupported` may say that broker and
    client have no version of it in common, or `unsendable` that it cannot be written as bytes. If a request expects no
    answer, `message` and `failure` are both None once it was transmitted.
    """

    __slots__ = ("failure", "message", "node_id", "sent", "token", "unsendable", "unsupported")

    def __init__(
        self,
        token: Any,
        message: Any,
        failure: str | None,
        sent: bool,
        node_id: int | None,
        unsupported: bool = False,
        unsendable: bool = False,
    ) -> None:
        self.token = token
        self.message = message
        self.failure = failure
        self.sent = sent
        self.node_id = node_id
        self.unsupported = unsupported
        self.unsendable = unsendable

    @property
    def broker_id(self) -> int | None:
        """The broker that answered; None for a bootstrap address whose broker id is not known, or if none was asked."""
        return self.node_id if self.node_id is not None and self.node_id >= 0 else None
