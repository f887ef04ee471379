"""Requests of a transactional producer to its coordinators: one at a time, each to the right broker, with pauses.

`transactions.py` decides which request is next, and what an answer means.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ottla.connection.core import ConnectionCore
from ottla.producer.coordinator import GROUP, TRANSACTION, Coordinator
from ottla.producer.transaction_answers import RequestKind
from ottla.producer.transaction_states import REACH_US

# The first pause while the transaction before is still being completed: that rarely takes longer.
_CONCURRENT_MS = 20


class TransactionRequest:
    """The token of a request to a coordinator."""

    __slots__ = ("coordinator", "kind", "message")

    def __init__(self, kind: RequestKind, message: Any, coordinator: Coordinator) -> None:
        self.kind = kind
        self.message = message
        self.coordinator = coordinator

    def __str__(self) -> str:
        return type(self.message).__name__.removesuffix("Request")


class TransactionTalk:
    """Sends the requests; `problem` says why the present one has no good answer yet, for errors of calls that wait."""

    def __init__(self, transactional_id: str, connection: ConnectionCore, backoff: Callable[[int], int]) -> None:
        self.problem = ""
        self._connection = connection
        self._backoff = backoff
        self._coordinator = Coordinator(connection, TRANSACTION, transactional_id, backoff)
        self._groups: dict[str, Coordinator] = {}
        self._in_flight: TransactionRequest | None = None
        self._failures = 0
        self._not_before_us = 0
        self._wake_us: int | None = None

    def may_ask(self, now_us: int) -> bool:
        """Whether a request may be sent now: none is in flight, and no pause is under way."""
        self._wake_us = None
        if self._in_flight is not None:
            return False
        if now_us < self._not_before_us:
            self._wake_us = self._not_before_us
            return False
        return True

    def find(self, now_us: int) -> int | None:
        """The node that coordinates the transactions; None where it is not known, then it is asked for."""
        return self._find(self._coordinator, now_us)

    def find_group(self, group: str, now_us: int) -> Coordinator | None:
        """The coordinator of a group; None where it is not known, then it is asked for."""
        coordinator = self._groups.get(group)
        if coordinator is None:
            coordinator = self._groups[group] = Coordinator(self._connection, GROUP, group, self._backoff)
        return coordinator if self._find(coordinator, now_us) is not None else None

    def knows(self, coordinator: Coordinator) -> bool:
        """Whether it is one of this object's coordinators."""
        return coordinator is self._coordinator or coordinator in self._groups.values()

    def ask(self, kind: RequestKind, message: Any, now_us: int, coordinator: Coordinator | None = None) -> bool:
        """Send a request to the transaction's coordinator, or this one; False where that is not known yet."""
        coordinator = coordinator or self._coordinator
        node_id = self._find(coordinator, now_us)
        if node_id is None:
            return False
        self._in_flight = request = TransactionRequest(kind, message, coordinator)
        self._connection.ask(message, request, now_us, where=node_id, deadline_us=now_us + REACH_US)
        return True

    def _find(self, coordinator: Coordinator, now_us: int) -> int | None:
        node_id = coordinator.find(now_us)
        if node_id is None:
            self._wake_us = coordinator.deadline_us()
        return node_id

    def deadline_us(self) -> int | None:
        """Return when `may_ask` or `find` must be called again if no event comes."""
        return self._wake_us

    def hear(self) -> None:
        """Note that the request in flight was answered, or lost."""
        self._in_flight = None

    def begin_anew(self) -> None:
        """Forget failures and pauses."""
        self._failures = 0
        self._not_before_us = 0
        self.problem = ""

    def pause(self, now_us: int, *, is_concurrent: bool = False) -> None:
        """Begin a pause, which grows with each failure; a short one while a transaction is being completed."""
        self._failures += 1
        if is_concurrent:
            most_ms = self._connection.settings.retry_backoff_max_ms
            pause_us = self._connection.backoff_us(self._failures, min(_CONCURRENT_MS, most_ms), most_ms)
        else:
            pause_us = self._backoff(self._failures)
        self._not_before_us = now_us + pause_us
