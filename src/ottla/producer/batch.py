"""One batch from its first record to its outcome, and what is known of it at any moment.

WAITING: certainly not stored. SENT: in flight, and all earlier attempts were answered with "not appended". DOUBTED:
waiting again, and an earlier attempt may be stored, or may be stored later: a request can reach the log long after its
connection is gone. RESENT: in flight after DOUBTED. So a batch that is given up is FAILED only if it was WAITING,
and else UNKNOWN. After DOUBTED, no answer to a later attempt shows that the batch is not stored; only ACK ends the
doubt. With sequences DISPROVE does so, too: a batch cannot be stored after one that certainly is not. SPLIT: the broker
refused the batch because it is too large, or because of some records. Its records go on in two or more batches, which
are WAITING (or DOUBTED, where an earlier attempt of the whole may be stored).
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING

from ottla.errors import OttlaError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ottla.producer.accumulator import PartitionQueue
    from ottla.records.delivery import SealedBatch


class BatchState(IntEnum):
    """What is known of a batch."""

    WAITING = 0
    SENT = 1
    DOUBTED = 2
    RESENT = 3
    ACKED = 4
    FAILED = 5
    UNKNOWN = 6
    SPLIT = 7


class BatchEvent(IntEnum):
    """What happens to a batch."""

    SEND = 0
    ACK = 1
    REFUSE = 2
    LOSE = 3
    DISPROVE = 4
    GIVE_UP = 5
    SPLIT = 6


# REFUSE: the answer says "not appended" (or the request was not sent). LOSE: no answer came, or it does not say.
TRANSITIONS: dict[tuple[BatchState, BatchEvent], BatchState] = {
    (BatchState.WAITING, BatchEvent.SEND): BatchState.SENT,
    (BatchState.WAITING, BatchEvent.GIVE_UP): BatchState.FAILED,
    (BatchState.SENT, BatchEvent.ACK): BatchState.ACKED,
    (BatchState.SENT, BatchEvent.REFUSE): BatchState.WAITING,
    (BatchState.SENT, BatchEvent.LOSE): BatchState.DOUBTED,
    (BatchState.SENT, BatchEvent.GIVE_UP): BatchState.UNKNOWN,
    (BatchState.SENT, BatchEvent.SPLIT): BatchState.SPLIT,
    (BatchState.DOUBTED, BatchEvent.SEND): BatchState.RESENT,
    (BatchState.DOUBTED, BatchEvent.DISPROVE): BatchState.WAITING,
    (BatchState.DOUBTED, BatchEvent.GIVE_UP): BatchState.UNKNOWN,
    (BatchState.RESENT, BatchEvent.ACK): BatchState.ACKED,
    (BatchState.RESENT, BatchEvent.REFUSE): BatchState.DOUBTED,
    (BatchState.RESENT, BatchEvent.LOSE): BatchState.DOUBTED,
    (BatchState.RESENT, BatchEvent.GIVE_UP): BatchState.UNKNOWN,
    (BatchState.RESENT, BatchEvent.SPLIT): BatchState.SPLIT,
}

# The table again as lists, because hashing two enum members for each move takes longer than two indices.
_NEXT: list[list[BatchState | None]] = [
    [TRANSITIONS.get((state, event)) for event in BatchEvent] for state in BatchState
]


# The number of a batch that is not closed yet: larger than all others.
UNNUMBERED = 1 << 62

_ACKED = BatchState.ACKED
_WAITING = BatchState.WAITING


class Batch:
    """A batch and the state of its delivery.

    `ready_us`: when an open batch may be closed to be sent; 0: at once. `number` is how many records of the partition
    came before this batch. Batches must be stored in this order, and the parts of a split batch fit into it. `numbered`
    says that its header (with idempotence: its sequence) is written. `attempts` counts how often it was sent, without
    the times when it was refused only because a batch before it was.
    """

    __slots__ = (
        "attempts",
        "deadline_us",
        "error",
        "is_settled",
        "is_timed",
        "number",
        "numbered",
        "queue",
        "ready_us",
        "sealed",
        "size_bytes",
        "state",
    )

    def __init__(self, sealed: SealedBatch, queue: PartitionQueue, number: int, deadline_us: int) -> None:
        self.sealed = sealed
        self.queue = queue
        self.number = number
        self.deadline_us = deadline_us
        self.ready_us = 0
        # Of an open batch it is known once it is closed.
        self.size_bytes = sealed.size_bytes
        self.state = _WAITING
        self.is_settled = False
        # Whether the accumulator will check it at `ready_us`.
        self.is_timed = False
        self.numbered = False
        self.attempts = 0
        # Why the last attempt did not succeed.
        self.error: OttlaError | None = None

    def divide(self, sealed_parts: Sequence[SealedBatch]) -> list[Batch]:
        """Return these parts as batches with the same place, deadline and doubt; the refusal counts as no attempt."""
        state = BatchState.DOUBTED if self.state is BatchState.RESENT else BatchState.WAITING
        self.move(BatchEvent.SPLIT)
        parts = []
        number = self.number
        for sealed in sealed_parts:
            part = Batch(sealed, self.queue, number, self.deadline_us)
            part.state = state
            part.numbered = True
            part.attempts = self.attempts - 1
            part.error = self.error
            parts.append(part)
            number += sealed.record_count
        return parts

    def move(self, event: BatchEvent) -> BatchState:
        """Follow the transition table and return the new state; `RuntimeError` for a move that is not in it."""
        state = _NEXT[self.state][event]
        if state is None:
            raise RuntimeError(f"batch {self.number} of {self.queue}: {event.name} cannot happen in {self.state.name}")
        self.state = state
        if state >= _ACKED:
            self.is_settled = True
        return state
