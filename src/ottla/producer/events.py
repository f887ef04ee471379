"""What the producer core and its driver say to each other, beside `connection.events`.

Events go in by `ProducerCore.receive(event, now_us)`, outputs come out of `ProducerCore.outputs()`. Every
`SealedBatch` that went in by `BatchesReady` comes out in exactly one of `BatchAcked`, `BatchFailed`,
`BatchUnknown`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ottla.errors import KafkaError, OttlaError

if TYPE_CHECKING:
    from ottla.records.delivery import SealedBatch


@dataclass(slots=True, frozen=True)
class BatchesReady:
    """Event: sealed batches, in the order in which they must be stored within each partition."""

    batches: Sequence[SealedBatch]


@dataclass(slots=True, frozen=True)
class TopicWanted:
    """Event: somebody waits to learn this topic's partitions; answered by `TopicKnown`, again after changes."""

    topic: str


@dataclass(slots=True, frozen=True)
class CloseRequested:
    """Event: no more batches will come; what is not settled at `deadline_us` is given up (failed or unknown)."""

    deadline_us: int


@dataclass(slots=True, frozen=True)
class TopicKnown:
    """Output: the topic has this many partitions, or (`partition_count` 0) why it cannot be had for now.

    Repeated whenever metadata shows a change. A retriable error may be followed by a good answer later.
    """

    topic: str
    partition_count: int
    error: KafkaError | None = None


@dataclass(slots=True, frozen=True)
class BatchAcked:
    """Output: stored. `base_offset` is -1 with acks=0; `log_append_time_ms` is -1 with CreateTime."""

    batch: SealedBatch
    base_offset: int
    log_append_time_ms: int = -1


@dataclass(slots=True, frozen=True)
class BatchFailed:
    """Output: certainly not stored."""

    batch: SealedBatch
    error: OttlaError


@dataclass(slots=True, frozen=True)
class BatchUnknown:
    """Output: perhaps stored: the request left, no answer came, and nothing settles it any more."""

    batch: SealedBatch
    error: OttlaError


@dataclass(slots=True, frozen=True)
class Closed:
    """Output: every batch is settled and every connection is closed; the driver may stop."""
