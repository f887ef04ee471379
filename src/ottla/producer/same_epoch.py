"""Going on under the same epoch after an abort, where the coordinator gives no other (brokers before 2.5).

Since KIP-360 (InitProducerId 3) a producer says which epoch it has and gets the next one, unless a newer producer of
its transactional id is at work. An older coordinator would just give it one, and fence that newer producer; so, as in
Java, it is not asked. What remains: batches that are certainly not stored leave their numbers to those that come after
the abort. Once one is in doubt, nobody knows which number comes next, and the producer cannot go on.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ottla.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from ottla.errors import OttlaError
    from ottla.producer.accumulator import PartitionQueue
    from ottla.records.delivery import SealedBatch

# The version of InitProducerId from which on an epoch can be had for one's own.
BUMPS_FROM_VERSION = 3
_SEQUENCE_MASK = 0x7FFFFFFF


class LostNumbers:
    """The sequence numbers of a transaction's batches that were not stored."""

    __slots__ = ("_doubt", "_first")

    def __init__(self) -> None:
        self._doubt: OttlaError | None = None
        # Partition -> the sequence numbers of batches that are not stored.
        self._first: dict[tuple[str, int], list[int]] = {}

    def lose(self, sealed: SealedBatch, error: OttlaError, *, unknown: bool) -> None:
        """A batch was given up: certainly not stored, or `unknown`."""
        if sealed.base_sequence < 0:
            return
        if unknown and self._doubt is None:
            self._doubt = error
        # A leader that has forgotten the producer takes it up again at 0 only.
        forgotten = getattr(error, "code", None) == ErrorCode.UNKNOWN_PRODUCER_ID
        number = 0 if forgotten else sealed.base_sequence
        self._first.setdefault((sealed.topic, sealed.partition), []).append(number)

    def reuse(self, queues: Mapping[tuple[str, int], PartitionQueue]) -> OttlaError | None:
        """Have each partition go on with the first number that was not stored; the error where that is not known."""
        if self._doubt is not None:
            return self._doubt
        for place, numbers in self._first.items():
            queue = queues[place]
            # The numbers begin again at 0 after the highest: what is furthest behind the next one comes first.
            after = queue.next_sequence
            queue.next_sequence = 0 if 0 in numbers else max(numbers, key=lambda n: (after - n) & _SEQUENCE_MASK)
            queue.hole = queue.established = False
        self.forget()
        return None

    def forget(self) -> None:
        """The next transaction begins, or there is a new epoch."""
        self._doubt = None
        self._first.clear()
