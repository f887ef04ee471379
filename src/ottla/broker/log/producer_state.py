"""What a partition remembers of each producer: epoch, last five batches, open transaction (KIP-98, KIP-360, KIP-890).

A batch is appended only if its first sequence number follows the last one appended. One of the last five again is a
duplicate, answered with the offset it has. A new epoch begins with sequence 0; a producer that is not known here may
begin with any. An older epoch is INVALID_PRODUCER_EPOCH, any other sequence OUT_OF_ORDER_SEQUENCE_NUMBER: as in Kafka
since 2.5, DUPLICATE_SEQUENCE_NUMBER and UNKNOWN_PRODUCER_ID are not given.

A transaction is open from its first batch to its marker. What may be read as committed ends in front of the first
open transaction, and in front of those whose marker is not replicated yet (`stable_end`). Before the first batch the
broker asks the transaction's coordinator whether the transaction is open. `begin_verification` gives a number for this
request, the guard. A batch or a marker that is appended meanwhile makes the guard invalid: otherwise a late batch could
open a transaction again that has ended.

Followers keep the same state from the batches they copy, and a start builds it from a snapshot and the log. So a new
leader has what the old one had, except the guards, which only the leader that asked has.

Invariant: `check` and `check_marker` change nothing; `note` is called exactly once for each batch in the log.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from ottla.broker.log.files import ProducerSnapshotEntry
from ottla.protocol.error_codes import ErrorCode
from ottla.records.batch_header import TRANSACTIONAL, BatchHeader

# As many batches as a producer may have in flight on one connection.
BATCHES_REMEMBERED = 5
SEQUENCE_MODULO = 1 << 31
NO_EPOCH = -1
# Guards are counted from 1.
NO_GUARD = 0
NO_OFFSET = -1
# From this transaction version on (KIP-890) every transaction has an epoch of its own, which its marker ends.
EPOCH_PER_TRANSACTION = 2


class SequenceCheck(NamedTuple):
    """`error_code` (0: none) and, of a batch that is stored already, base offset and largest timestamp (else -1)."""

    error_code: int
    base_offset: int
    detail: str | None
    timestamp_ms: int = -1


NEW_BATCH = SequenceCheck(0, -1, None)


class EndMarker(NamedTuple):
    """What a control batch says: the transaction is committed (or aborted), by a coordinator of this epoch."""

    committed: bool
    coordinator_epoch: int


class EndedTransaction(NamedTuple):
    """A transaction that had records here: from `first_offset` to its marker at `last_offset`.

    `last_stable_offset` is where what can be read as committed ends without it.
    """

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int
    committed: bool


class ProducerEntry:
    """One producer's epoch and last batches, oldest first, as (first, last sequence, base offset, largest timestamp).

    `transaction_offset` is where its open transaction begins, NO_OFFSET while there is none.
    """

    __slots__ = ("batches", "coordinator_epoch", "epoch", "last_timestamp_ms", "transaction_offset")

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        self.batches: list[tuple[int, int, int, int]] = []
        self.coordinator_epoch = NO_EPOCH
        self.last_timestamp_ms = -1
        self.transaction_offset = NO_OFFSET


class _Verification:
    """A request to the coordinator that no batch or marker has ended yet; `guard` is its number."""

    __slots__ = ("epoch", "guard", "lowest_sequence", "new_epochs", "timestamp_ms")

    def __init__(self, guard: int, epoch: int, sequence: int, new_epochs: bool, timestamp_ms: int) -> None:
        self.guard = guard
        self.epoch = epoch
        self.lowest_sequence = sequence
        self.new_epochs = new_epochs
        self.timestamp_ms = timestamp_ms


class ProducerStates:
    """All producers of one partition by producer id."""

    __slots__ = ("_ended", "_entries", "_guards_given", "_open", "_verifications")

    def __init__(self) -> None:
        self._entries: dict[int, ProducerEntry] = {}
        # First offset -> producer, ascending: transactions begin at the log's end.
        self._open: dict[int, int] = {}
        # First offset -> offset of the marker, for markers that may not be replicated yet.
        self._ended: dict[int, int] = {}
        self._verifications: dict[int, _Verification] = {}
        self._guards_given = 0

    def check(self, header: BatchHeader) -> SequenceCheck:
        """Whether a batch with a producer id may be appended, is stored already, or is out of order."""
        entry = self._entries.get(header.producer_id)
        if entry is None:
            # Nothing known (a new partition of an old producer, or its records are gone): any sequence may begin.
            return self._verified(header, known=False)
        first = header.base_sequence
        if header.producer_epoch != entry.epoch:
            if header.producer_epoch < entry.epoch:
                detail = f"producer {header.producer_id} has epoch {entry.epoch} now, not {header.producer_epoch}"
                return SequenceCheck(ErrorCode.INVALID_PRODUCER_EPOCH, -1, detail)
            if first != 0:
                detail = f"producer {header.producer_id} begins epoch {header.producer_epoch} with sequence {first}"
                return SequenceCheck(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1, detail)
        else:
            batches = entry.batches
            last_appended = batches[-1][1] if batches else -1
            if first != (last_appended + 1) % SEQUENCE_MODULO:
                last = (first + header.last_offset_delta) % SEQUENCE_MODULO
                for known_first, known_last, base_offset, timestamp_ms in batches:
                    if known_first == first and known_last == last:
                        return SequenceCheck(0, base_offset, None, timestamp_ms)
                detail = f"producer {header.producer_id} sent sequence {first} after {last_appended}"
                return SequenceCheck(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1, detail)
        if entry.transaction_offset >= 0 and not header.attributes & TRANSACTIONAL:
            detail = f"producer {header.producer_id} has a transaction open since offset {entry.transaction_offset}"
            return SequenceCheck(ErrorCode.INVALID_TXN_STATE, -1, detail)
        return self._verified(header, known=True) if self._verifications else NEW_BATCH

    def _verified(self, header: BatchHeader, *, known: bool) -> SequenceCheck:
        """Check the batch against the verification of its producer, if one is under way."""
        found = self._verifications.get(header.producer_id)
        first = header.base_sequence
        if found is None:
            return NEW_BATCH
        if found.new_epochs and first != 0 and not known:
            detail = f"producer {header.producer_id} is not known here and begins with sequence {first}"
            return SequenceCheck(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1, detail)
        if first > found.lowest_sequence:
            detail = f"producer {header.producer_id} sent sequence {first} before {found.lowest_sequence} was appended"
            return SequenceCheck(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1, detail)
        return NEW_BATCH

    def check_epoch(self, producer_id: int, epoch: int) -> int:
        """The error code for records without sequence numbers, as coordinators write them; 0 for none."""
        entry = self._entries.get(producer_id)
        return ErrorCode.INVALID_PRODUCER_EPOCH if entry is not None and epoch < entry.epoch else 0

    def check_marker(self, producer_id: int, epoch: int, coordinator_epoch: int, transaction_version: int) -> int:
        """The error code that keeps a marker from being written; 0 for none.

        From transaction version 2 on a marker's epoch is above that of the transaction's records (KIP-890); the same
        one again is a repeated marker, which does no harm where no transaction is open.
        """
        entry = self._entries.get(producer_id)
        if entry is None:
            return 0
        too_old = epoch < entry.epoch
        if transaction_version >= EPOCH_PER_TRANSACTION and epoch == entry.epoch:
            too_old = entry.transaction_offset >= 0
        if too_old:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        if entry.coordinator_epoch > coordinator_epoch:
            return ErrorCode.TRANSACTION_COORDINATOR_FENCED
        return 0

    def note(
        self, header: BatchHeader, base_offset: int, end_marker: EndMarker | None = None
    ) -> EndedTransaction | None:
        """Remember an appended batch; returns the transaction that it ended, if that had records here.

        Batches without a producer id are of no interest, nor are control batches that are no end of a transaction.
        """
        producer_id = header.producer_id
        if producer_id < 0:
            return None
        if header.is_control:
            return self._note_marker(header, base_offset, end_marker) if end_marker is not None else None
        entry = self._entry_in(header)
        batches = entry.batches
        first = header.base_sequence
        last = first + header.last_offset_delta
        last = last if last < SEQUENCE_MODULO else last - SEQUENCE_MODULO
        batches.append((first, last, base_offset, header.max_timestamp))
        if len(batches) > BATCHES_REMEMBERED:
            del batches[0]
        entry.last_timestamp_ms = header.max_timestamp
        if header.attributes & TRANSACTIONAL:
            if entry.transaction_offset < 0:
                entry.transaction_offset = base_offset
                self._open[base_offset] = producer_id
            if self._verifications:
                self._verifications.pop(producer_id, None)
        return None

    def _entry_in(self, header: BatchHeader) -> ProducerEntry:
        """The entry of a batch's producer in the batch's epoch; a new epoch forgets the batches of the old one."""
        entry = self._entries.get(header.producer_id)
        if entry is None:
            entry = self._entries[header.producer_id] = ProducerEntry(header.producer_epoch)
        elif entry.epoch != header.producer_epoch:
            entry.epoch = header.producer_epoch
            entry.batches = []
        return entry

    def _note_marker(self, header: BatchHeader, offset: int, marker: EndMarker) -> EndedTransaction | None:
        producer_id = header.producer_id
        entry = self._entry_in(header)
        entry.coordinator_epoch = marker.coordinator_epoch
        entry.last_timestamp_ms = header.max_timestamp
        found = self._verifications.get(producer_id)
        # With an epoch for each transaction, a marker has the epoch of the next one, whose verification may have begun.
        if found is not None and not (found.new_epochs and found.epoch == header.producer_epoch):
            del self._verifications[producer_id]
        first = entry.transaction_offset
        if first < 0:
            return None
        entry.transaction_offset = NO_OFFSET
        self._open.pop(first, None)
        self._ended[first] = offset
        stable = next(iter(self._open), offset + 1)
        return EndedTransaction(producer_id, first, offset, stable, marker.committed)

    # Transactions.

    @property
    def first_unstable_offset(self) -> int | None:
        """Where the first transaction begins that is open, or whose marker may not be replicated; None for none."""
        open_offset = next(iter(self._open), None)
        if not self._ended:
            return open_offset
        ended_offset = min(self._ended)
        return ended_offset if open_offset is None else min(open_offset, ended_offset)

    def stable_end(self, high_watermark: int) -> int:
        """The last stable offset under this high watermark: what can be read as committed ends there."""
        if not self._open and not self._ended:
            return high_watermark
        for first in [first for first, last in self._ended.items() if last < high_watermark]:
            del self._ended[first]
        unstable = self.first_unstable_offset
        return high_watermark if unstable is None else min(unstable, high_watermark)

    def has_open_transaction(self, producer_id: int, epoch: int) -> bool:
        """Whether this producer has a transaction open here in this epoch."""
        entry = self._entries.get(producer_id)
        return entry is not None and entry.transaction_offset >= 0 and entry.epoch == epoch

    def begin_verification(self, producer_id: int, epoch: int, sequence: int, *, new_epochs: bool, wall_ms: int) -> int:
        """A guard for asking the coordinator about this batch's transaction; the same one until that is over.

        `sequence`: the batch's first, -1 where it has none. `new_epochs`: the producer begins every transaction with a
        new epoch (transaction version 2). A producer that was fenced here gets 0, no guard: what it sends is refused
        for its epoch, and must not block its successor.
        """
        entry = self._entries.get(producer_id)
        if entry is not None and epoch < entry.epoch:
            return NO_GUARD
        found = self._verifications.get(producer_id)
        if found is None:
            self._guards_given += 1
            found = _Verification(self._guards_given, epoch, sequence, new_epochs, wall_ms)
            self._verifications[producer_id] = found
        elif epoch > found.epoch:
            found.epoch, found.lowest_sequence = epoch, sequence
        elif epoch == found.epoch:
            # A batch with a lower sequence may be sent again: those behind it must wait for it.
            found.lowest_sequence = min(found.lowest_sequence, sequence)
        return found.guard

    def is_verified(self, producer_id: int, guard: int) -> bool:
        """Whether the guard is still valid: no batch or marker has ended its verification."""
        found = self._verifications.get(producer_id)
        return found is not None and found.guard == guard

    # Snapshots, expiry, and what DescribeProducers returns.

    def entries(self) -> list[ProducerSnapshotEntry]:
        """What a snapshot holds: every producer with its last batch and where its open transaction begins."""
        return [_snapshot_entry(producer_id, entry) for producer_id, entry in self._entries.items()]

    def restore(self, entries: Iterable[ProducerSnapshotEntry]) -> None:
        """Begin with what a snapshot held; batches behind it are to be noted next."""
        self._entries = {}
        self._ended = {}
        self._verifications = {}
        begun: list[tuple[int, int]] = []
        for row in entries:
            entry = self._entries[row.producer_id] = ProducerEntry(row.producer_epoch)
            entry.coordinator_epoch = row.coordinator_epoch
            entry.last_timestamp_ms = row.timestamp_ms
            entry.transaction_offset = row.current_txn_first_offset
            if row.last_offset >= 0:
                first = row.last_sequence - row.offset_delta
                if row.last_sequence >= 0 > first:
                    first += SEQUENCE_MODULO
                entry.batches.append((first, row.last_sequence, row.last_offset - row.offset_delta, row.timestamp_ms))
            if row.current_txn_first_offset >= 0:
                begun.append((row.current_txn_first_offset, row.producer_id))
        self._open = dict(sorted(begun))

    def expire(self, wall_ms: int, expiration_ms: int) -> None:
        """Forget producers without an open transaction that have written nothing for so long."""
        for producer_id, entry in list(self._entries.items()):
            if entry.transaction_offset < 0 and wall_ms - entry.last_timestamp_ms >= expiration_ms:
                del self._entries[producer_id]
        for producer_id, found in list(self._verifications.items()):
            if wall_ms - found.timestamp_ms >= expiration_ms:
                del self._verifications[producer_id]


def _snapshot_entry(producer_id: int, entry: ProducerEntry) -> ProducerSnapshotEntry:
    first, last, base_offset, _ = entry.batches[-1] if entry.batches else (-1, -1, NO_OFFSET, -1)
    delta = (last - first) % SEQUENCE_MODULO
    return ProducerSnapshotEntry(
        producer_id=producer_id,
        producer_epoch=entry.epoch,
        last_sequence=last,
        last_offset=base_offset + delta,
        offset_delta=delta,
        timestamp_ms=entry.last_timestamp_ms,
        coordinator_epoch=entry.coordinator_epoch,
        current_txn_first_offset=entry.transaction_offset,
    )
