"""A port of the sink on which an attempt is held up between its look at a transactional id and its request for it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from ottla.client.transaction_admin import TransactionDescription
from ottla.producer.transaction_states import TransactionIdentity
from ottla.sink.kafka import Kafka
from ottla.sink.settings import SinkSettings


class HeldUp(Kafka):
    """A way to Kafka on which `meanwhile` happens, once, when an id was looked at and is about to be taken."""

    def __init__(self, settings: SinkSettings, meanwhile: Callable[[], None]) -> None:
        super().__init__(settings)
        self._looked_at: set[str] = set()
        self._meanwhile: Callable[[], None] | None = meanwhile
        self.held_before = ""
        """The id that it was about to take."""

    def describe_transactions(self, transactional_ids: Iterable[str]) -> Mapping[str, TransactionDescription]:
        asked = list(transactional_ids)
        self._looked_at.update(asked)
        return super().describe_transactions(asked)

    def forget_looks(self) -> None:
        """Only ids that are looked at from now on count."""
        self._looked_at.clear()

    def next_identity(self, transactional_id: str, timeout_ms: int) -> TransactionIdentity:
        self._about_to_take(transactional_id)
        return super().next_identity(transactional_id, timeout_ms)

    def first_identity(
        self, transactional_id: str, timeout_ms: int, ticket: TransactionIdentity
    ) -> TransactionIdentity | None:
        self._about_to_take(transactional_id)
        return super().first_identity(transactional_id, timeout_ms, ticket)

    def begin(self, identity: TransactionIdentity, topic: str) -> bool:
        self._about_to_take(identity.transactional_id)
        return super().begin(identity, topic)

    def _about_to_take(self, transactional_id: str) -> None:
        if transactional_id in self._looked_at and self._meanwhile is not None:
            happen, self._meanwhile = self._meanwhile, None
            self.held_before = transactional_id
            happen()
