"""All that the mechanism asks of Kafka and of the time. `Session` uses it; nothing else in this room reaches out.

`ottla.sink.kafka` is the real one. Tests simulate another one, with brokers and clocks by seed, so that days pass in
seconds and every process can be killed or held up at every request.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from ottla.client.interceptors import BatchSeen
from ottla.client.producer import Producer
from ottla.client.transaction_admin import ListedTransaction, TransactionDescription
from ottla.producer.transaction_endings import Ended
from ottla.producer.transaction_states import TransactionIdentity
from ottla.records.batch_header import Buffer


class Port(Protocol):
    """One process's way to one cluster; each call raises what the client of the same name raises."""

    patience_s: float
    """After so long a call gives up, and so does who repeats calls."""

    def ensure_topics(self) -> None:
        """Make the sink's two topics where they are missing; UserMistake for topics or brokers that cannot be used."""

    def has_topics(self) -> bool:
        """Whether both topics exist."""

    def list_transactions(self, prefix: str, states: Iterable[str]) -> list[ListedTransaction]:
        """As `Admin.list_transactions`."""

    def describe_transactions(self, transactional_ids: Iterable[str]) -> Mapping[str, TransactionDescription]:
        """As `Admin.describe_transactions`."""

    def next_identity(self, transactional_id: str, timeout_ms: int) -> TransactionIdentity:
        """The next identity of a transactional id, whose transactions may last so long; UserMistake."""

    def transaction_version(self) -> int:
        """The transaction version in force (KIP-890), as far as a broker has told; 0 before it was asked anything."""

    def first_identity(
        self, transactional_id: str, timeout_ms: int, turn: TransactionIdentity
    ) -> TransactionIdentity | None:
        """The identity of a new transactional id; None, and nothing has happened, where the id exists.

        `turn` is any identity of another id.
        """

    def begin(self, identity: TransactionIdentity) -> bool:
        """Begin a transaction of exactly this identity, or find it begun.

        False, and nothing has happened, where the id has another identity by now.
        """

    def end(self, identities: Sequence[TransactionIdentity], committed: bool) -> Mapping[TransactionIdentity, Ended]:
        """Commit or abort transactions at the same time, and tell which identity each has then."""

    def begin_offset(self, topic: str) -> int:
        """The first offset of partition 0 that is still there."""

    def end_offset(self, topic: str) -> int:
        """The high watermark of partition 0."""

    def read(self, topic: str, start_offset: int, end_offset: int) -> Iterator[Buffer]:
        """Whole record batches of partition 0 as they are stored, from `start_offset` (0: the first one) on."""

    def producer(
        self,
        settings: Mapping[str, Any],
        identity: TransactionIdentity,
        hears: Callable[[BatchSeen], None] | None = None,
    ) -> Producer:
        """A producer with these settings and exactly this identity, that fences nobody.

        `hears` is told what became of each batch. Its user closes it, or, where all went well, has it kept.
        """

    def keep(self, producer: Producer) -> None:
        """Its user is done with it, and nothing is left to end: whoever asks next may have it."""

    def now_ms(self) -> int:
        """The date, in milliseconds since 1970."""

    def passed_s(self) -> float:
        """A clock that never jumps, in seconds."""

    def pause(self) -> None:
        """Let a moment pass before the next look."""

    def close(self) -> None:
        """Close all connections."""
