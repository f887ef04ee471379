"""Going on under the same epoch after an abort, where the coordinator gives no other (brokers before 2.5).

Since KIP-360 (InitProducerId 3) a producer names its epoch and gets the next one, unless there is a newer producer of
its transactional id. An older coordinator would give it one in any case, and so fence that newer producer: as in Java,
it is not asked. Instead the sequence numbers of batches that are certainly not stored are used again after the abort.
If a batch is unknown, the next number is not known either, and the producer cannot go on.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ottla.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from ottla.errors import OttlaError
    from ottla.producer.accumulator import PartitionQueue
    from ottla.records.delivery import SealedBatch

# The first version of InitProducerId in which a producer names its epoch and gets the next one.
BUMPS_FROM_VERSION = 3
_SEQUENCE_MASK = 0x7FFFFFFF


class LostNumbers:
    """The sequence numbers of a transaction's batches that were not stored."""

    __slots__ = ("_doubt", "_first")

    def __init__(self) -> None:
        self._doubt: OttlaError | None = None
        # (topic, partition) -> the sequence numbers of batches that are not stored.
        self._first: dict[tuple[str, int], list[int]] = {}

    def lose(self, sealed: SealedBatch, error: OttlaError, *, unknown: bool) -> None:
        """Note a batch that was given up: certainly not stored, or `unknown`."""
        if sealed.base_sequence < 0:
            return
        if unknown and self._doubt is None:
            self._doubt = error
        # A leader without state of the producer accepts only 0 as its next number.
        forgotten = getattr(error, "code", None) == ErrorCode.UNKNOWN_PRODUCER_ID
        number = 0 if forgotten else sealed.base_sequence
        self._first.setdefault((sealed.topic, sealed.partition), []).append(number)

    def reuse(self, queues: Mapping[tuple[str, int], PartitionQueue]) -> OttlaError | None:
        """Have each partition go on with the first number that was not stored; the error where that is not known."""
        if self._doubt is not None:
            return self._doubt
        for place, numbers in self._first.items():
            queue = queues[place]
            # After the highest number comes 0, so the first number is the one with the largest distance to the next.
            after = queue.next_sequence
            queue.next_sequence = 0 if 0 in numbers else max(numbers, key=lambda n: (after - n) & _SEQUENCE_MASK)
            queue.hole = queue.established = False
        self.forget()
        return None

    def forget(self) -> None:
        """Forget all numbers: the transaction is over, or there is a new epoch."""
        self._doubt = None
        self._first.clear()
