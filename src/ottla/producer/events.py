"""The events and outputs that the producer core and its driver exchange, besides those of `connection.events`.

Events go in by `ProducerCore.receive(event, now_us)`, outputs come out of `ProducerCore.outputs()`. Every
`SealedBatch` that went in by `BatchesAdded` comes out in exactly one of `BatchAcked`, `BatchFailed`,
`BatchUnknown`, or in `BatchSplit`; then each of its parts does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ottla.errors import KafkaError, OttlaError
from ottla.value import Value

if TYPE_CHECKING:
    from ottla.producer.figures import Metrics
    from ottla.producer.transaction_states import TransactionIdentity
    from ottla.records.delivery import SealedBatch
    from ottla.records.partitions import PartitionLoad


class BatchesAdded(Value):
    """Event: new batches, open ones too, in the order in which they must be stored within each partition."""

    # Written by hand, as BatchAcked is: a frozen dataclass takes a microsecond to fill, and there are many of these.
    __slots__ = ("batches",)

    def __init__(self, batches: Sequence[SealedBatch]) -> None:
        self.batches = batches


class BatchesFilled(Value):
    """Event: batches that were open, or were being compressed, when they were added can be sent now."""

    __slots__ = ("batches",)

    def __init__(self, batches: Sequence[SealedBatch]) -> None:
        self.batches = batches


@dataclass(slots=True, frozen=True)
class OpenBatchesWanted:
    """Event: open batches are ready now, because of a flush, a transaction's end, a close, or a wait for memory."""


@dataclass(slots=True, frozen=True)
class TopicWanted:
    """Event: a call waits for this topic's partitions; answered by `TopicKnown`, and again after each change."""

    topic: str


@dataclass(slots=True, frozen=True)
class CloseRequested:
    """Event: no more batches will come; what is not settled at `deadline_us` is given up (failed or unknown)."""

    deadline_us: int


@dataclass(slots=True, frozen=True)
class InitializeTransactions:
    """Event: get an identity for the transactional id; older producers of that id are fenced (KIP-98).

    With `known`, this identity is taken over from another producer. No coordinator is asked, and no producer is fenced.
    Nothing may have been sent under it into the partitions that this producer will write to. It may have another
    transactional id. The identity before must have no transaction that is open; a prepared one stays prepared.

    `version` is the transaction version of its transactions; None: the one that is in force when one begins.
    """

    token: int
    known: TransactionIdentity | None = None
    version: int | None = None


@dataclass(slots=True, frozen=True)
class BeginTransaction:
    """Event: batches that come from now on belong to one transaction."""

    token: int


@dataclass(slots=True, frozen=True)
class CommitOffsets:
    """Event: these offsets of a consumer group are committed with the transaction (KIP-447).

    `offsets` has (topic, partition, offset, leader epoch or -1, metadata). `generation_id` is -1 and `member_id` "" for
    offsets that are not a group member's.
    """

    token: int
    group_id: str
    offsets: tuple[tuple[str, int, int, int, str], ...]
    generation_id: int = -1
    member_id: str = ""
    group_instance_id: str | None = None


@dataclass(slots=True, frozen=True)
class EndTransaction:
    """Event: commit or abort; all batches of the transaction have come before.

    `committed` None prepares it: when all its batches are stored, it stays open until its end is requested, which any
    client can do that has its transactional id, producer id and epoch.
    """

    token: int
    committed: bool | None


@dataclass(slots=True, frozen=True)
class MetricsRead:
    """Event: the producer's metrics, after `MetricsWanted`, and the Unix time in nanoseconds."""

    metrics: Metrics
    unix_ns: int


@dataclass(slots=True, frozen=True)
class MetricsWanted:
    """Output: the producer's metrics are to be sent to a broker; the driver answers with `MetricsRead`."""


@dataclass(slots=True, frozen=True)
class ClientInstanceWanted:
    """Event: a call waits for the id that brokers with a plugin for metrics give (KIP-714)."""


@dataclass(slots=True, frozen=True)
class ClientInstanceKnown:
    """Output: a broker gave the producer this id, whether or not it wants metrics now (KIP-714)."""

    client_instance_id: str


@dataclass(slots=True, frozen=True)
class TelemetryBegun:
    """Output: from now on the producer's metrics are sent to a broker at this interval, under this id (KIP-714)."""

    client_instance_id: str
    interval_ms: int


@dataclass(slots=True, frozen=True)
class TransactionAnswered:
    """Output: the call with this token is done, or why it failed."""

    token: int
    error: OttlaError | None


@dataclass(slots=True, frozen=True)
class TransactionChanged:
    """Output: batches may be handed over from now on (`is_open`), or not, and `error` says why."""

    is_open: bool
    error: OttlaError | None


@dataclass(slots=True, frozen=True)
class TopicKnown:
    """Output: the topic has this many partitions, or `partition_count` is 0 and `error` says why.

    Repeated whenever metadata shows a change. After a retriable error, the partitions may be known later.
    """

    topic: str
    partition_count: int
    error: KafkaError | None = None


@dataclass(slots=True, frozen=True)
class TopicForgotten:
    """Output: nothing was sent to the topic for `metadata.max.idle.ms`; the next send needs `TopicWanted` again."""

    topic: str


@dataclass(slots=True, frozen=True)
class LoadKnown:
    """Output: records without a key should now go where `load` says; None: to all of the topic's partitions alike."""

    topic: str
    load: PartitionLoad | None


@dataclass(slots=True, frozen=True)
class BatchClosed:
    """Output: the batch is closed, so no record is added any more; before its outcome, and only with interceptors."""

    batch: SealedBatch


class BatchAcked(Value):
    """Output: stored; with acks=0, handed to the socket.

    `base_offset` is -1 where it is not known (acks=0, or DUPLICATE_SEQUENCE_NUMBER), `log_append_time_ms` with
    CreateTime.
    """

    __slots__ = ("base_offset", "batch", "log_append_time_ms")

    def __init__(self, batch: SealedBatch, base_offset: int, log_append_time_ms: int = -1) -> None:
        self.batch = batch
        self.base_offset = base_offset
        self.log_append_time_ms = log_append_time_ms


@dataclass(slots=True, frozen=True)
class BatchFailed:
    """Output: certainly not stored."""

    batch: SealedBatch
    error: OttlaError


@dataclass(slots=True, frozen=True)
class BatchUnknown:
    """Output: perhaps stored: it was sent, no answer said whether it was appended, and it is not sent again."""

    batch: SealedBatch
    error: OttlaError


@dataclass(slots=True, frozen=True)
class BatchSplit:
    """Output: the broker refused the batch; these parts, in order, are in its place."""

    batch: SealedBatch
    parts: Sequence[SealedBatch]


@dataclass(slots=True, frozen=True)
class Closed:
    """Output: every batch is settled and every connection is closed; the driver may stop."""
