"""The coordinators of one broker, each made when it is first needed.

Most clusters in tests use neither groups nor transactions: they do not wait for that code, nor hold it in memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import TYPE_CHECKING

from ottla.broker.outbox import Outbox
from ottla.broker.purgatory import Purgatory
from ottla.broker.replicas import Replicas
from ottla.broker.request_channel import RequestChannel
from ottla.broker.topic_names import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from ottla.broker.wall_clock import WallClock

if TYPE_CHECKING:
    from ottla.broker.groups.coordinator import GroupCoordinator
    from ottla.broker.internal_topics import InternalTopic
    from ottla.broker.transactions.coordinator import TransactionCoordinator
    from ottla.broker.transactions.verification import Verification


class Coordinators:
    """The coordinators of groups and of transactions; the request channel answers members of groups."""

    def __init__(
        self,
        replicas: Replicas,
        purgatory: Purgatory,
        outbox: Outbox,
        clock: WallClock,
        rng: Random,
        channel: RequestChannel,
    ) -> None:
        self._replicas = replicas
        self._purgatory = purgatory
        self._outbox = outbox
        self._clock = clock
        self._rng = rng
        self._channel = channel
        self._groups: GroupCoordinator | None = None
        self._transactions: TransactionCoordinator | None = None
        self._verification: Verification | None = None

    @property
    def groups(self) -> GroupCoordinator:
        """The groups coordinated here."""
        if self._groups is None:
            from ottla.broker.groups.coordinator import GroupCoordinator

            self._groups = GroupCoordinator(
                self._topic(OFFSETS_TOPIC),
                self._purgatory,
                self._replicas.settings,
                self._clock,
                self._rng,
                self._channel.answer,
                lambda: self._replicas.image,
            )
        return self._groups

    @property
    def transactions(self) -> TransactionCoordinator:
        """The transactions coordinated here."""
        if self._transactions is None:
            from ottla.broker.transactions.coordinator import TransactionCoordinator

            self._transactions = TransactionCoordinator(
                self._topic(TRANSACTIONS_TOPIC), self._replicas, self._purgatory, self._outbox, self._clock
            )
        return self._transactions

    @property
    def verification(self) -> Verification:
        """Asks the coordinators of transactions for the partitions led here."""
        if self._verification is None:
            from ottla.broker.transactions.verification import Verification

            self._verification = Verification(self._replicas, self._purgatory, self._outbox, self._clock)
        return self._verification

    def image_changed(self, gone: Sequence[str], now_us: int) -> None:
        """Load what is coordinated here now, forget what is not any more, and what concerns topics that are `gone`."""
        topics = self._replicas.topics
        if self._groups is not None or OFFSETS_TOPIC in topics:
            self.groups.image_changed(gone, now_us)
        if self._transactions is not None or TRANSACTIONS_TOPIC in topics:
            self.transactions.image_changed(now_us)

    def _topic(self, name: str) -> InternalTopic:
        from ottla.broker.internal_topics import InternalTopic

        return InternalTopic(name, self._replicas, self._purgatory, self._outbox, self._clock)
