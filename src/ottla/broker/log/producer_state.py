"""What a partition remembers of each idempotent producer: its epoch and its last five batches (KIP-98, KIP-360).

A batch is appended only where its first sequence number follows the last one appended; one of the last five again is
a duplicate, answered with the offset it has. Followers keep the same state from the batches they copy, and it is
built again from the log when a broker starts, so that a new leader knows what the old one knew.

Invariant: `check` never changes anything; `note` is called exactly once for each batch in the log.
"""

from __future__ import annotations

from typing import NamedTuple

from ottla.protocol.error_codes import ErrorCode
from ottla.records.batch_header import BatchHeader

# As many batches as a producer may have in flight on one connection.
BATCHES_REMEMBERED = 5
SEQUENCE_MODULO = 1 << 31


class Verdict(NamedTuple):
    """`error_code` (0: none) and, for a batch that is stored already, its `base_offset` (otherwise -1)."""

    error_code: int
    base_offset: int
    detail: str | None


NEW_BATCH = Verdict(0, -1, None)


class ProducerEntry:
    """One producer's epoch and last batches, oldest first, as (first sequence, last sequence, base offset)."""

    __slots__ = ("batches", "epoch")

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        self.batches: list[tuple[int, int, int]] = []


class ProducerStates:
    """All producers of one partition by producer id."""

    __slots__ = ("_entries",)

    def __init__(self) -> None:
        self._entries: dict[int, ProducerEntry] = {}

    def check(self, header: BatchHeader) -> Verdict:
        """Whether a batch with a producer id may be appended, is stored already, or is out of order."""
        entry = self._entries.get(header.producer_id)
        if entry is None:
            # Nothing known (a new partition of an old producer, or its records are gone): any sequence may begin.
            return NEW_BATCH
        first = header.base_sequence
        if header.producer_epoch != entry.epoch:
            if header.producer_epoch < entry.epoch:
                detail = f"producer {header.producer_id} has epoch {entry.epoch} now, not {header.producer_epoch}"
                return Verdict(ErrorCode.INVALID_PRODUCER_EPOCH, -1, detail)
            if first != 0:
                detail = f"producer {header.producer_id} begins epoch {header.producer_epoch} with sequence {first}"
                return Verdict(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1, detail)
            return NEW_BATCH
        batches = entry.batches
        last_appended = batches[-1][1]
        if first == (last_appended + 1) % SEQUENCE_MODULO:
            return NEW_BATCH
        last = (first + header.last_offset_delta) % SEQUENCE_MODULO
        for known_first, known_last, base_offset in batches:
            if known_first == first and known_last == last:
                return Verdict(0, base_offset, None)
        detail = f"producer {header.producer_id} sent sequence {first} after {last_appended}"
        return Verdict(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1, detail)

    def note(self, header: BatchHeader, base_offset: int) -> None:
        """Remember an appended batch; those without a producer id are of no interest."""
        if header.producer_id < 0:
            return
        entry = self._entries.get(header.producer_id)
        if entry is None or entry.epoch != header.producer_epoch:
            entry = self._entries[header.producer_id] = ProducerEntry(header.producer_epoch)
        batches = entry.batches
        first = header.base_sequence
        batches.append((first, (first + header.last_offset_delta) % SEQUENCE_MODULO, base_offset))
        if len(batches) > BATCHES_REMEMBERED:
            del batches[0]
