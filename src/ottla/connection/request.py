"""One request of a client: where it may go, what is kept of it while it is in flight, and what became of it."""

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
    """What became of one request: `message` is the decoded response, or None with `failure` a clause for a person.

    `sent` is False when the request certainly never left as a whole; `unsupported` says that it never will, because
    the broker speaks no version of it that we do, `unsendable` that it cannot be written as bytes. A request that
    expects no answer comes back with `message` and `failure` both None once it was transmitted.
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
        """Who answered; None for a bootstrap address of which no more is known, and where nobody was asked."""
        return self.node_id if self.node_id is not None and self.node_id >= 0 else None
