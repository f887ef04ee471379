"""Reads a log of transactional records, and says for each record what became of its transaction. Pure.

Both of the sink's topics are read with `read_uncommitted` up to the high watermark: with `read_committed` an open
transaction of one sink would hide later committed records of other sinks. A producer's control marker ends all records
that this producer id has written to the partition since its last control marker, whatever its epoch (from transaction
version 2 on it has the next epoch, KIP-890). Records outside of transactions are left out.

Compaction may remove records and control markers, but never the control marker of a record that it keeps.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import NamedTuple

from ottla.producer.transaction_states import TransactionIdentity
from ottla.records.batch_header import Buffer
from ottla.records.plain import Record, decode_batches

_COMMIT_TYPE = 1


class Fate(Enum):
    """What became of a transaction."""

    OPEN = "open"
    COMMITTED = "committed"
    ABORTED = "aborted"


class Stored(NamedTuple):
    """A record and its transaction; `end_epoch` is the epoch of its control marker."""

    record: Record
    producer_id: int
    producer_epoch: int
    fate: Fate
    end_epoch: int = -1


class TransactionLog:
    """The records of one partition, as far as it was read: `settled` in the order in which they ended, and `open`.

    Only records for which `wanted` is true are kept. Reading began at `first_offset` and continues at `next_offset`.
    """

    def __init__(self, wanted: Callable[[Record], bool], first_offset: int = 0) -> None:
        self.settled: list[Stored] = []
        self.ends: set[int] = set()
        """The offsets of control markers for which `wanted` is true."""
        self.first_offset = self.next_offset = first_offset
        self._wanted = wanted
        self._open: dict[int, list[Stored]] = {}
        self._awaited: TransactionIdentity | None = None
        self.has_awaited = False
        """Whether the control marker for which `await_end` waits has been read."""

    def begin_again(self) -> TransactionLog:
        """An empty log that reads from the first record on."""
        log = TransactionLog(self._wanted)
        log._awaited = self._awaited
        return log

    def await_end(self, identity: TransactionIdentity) -> None:
        """From now on, `has_awaited` says whether a control marker of this identity, or a later one, was read."""
        self._awaited, self.has_awaited = identity, False

    @property
    def open(self) -> list[Stored]:
        """Records whose transactions have not ended, as far as the log was read."""
        return [stored for of_producer in self._open.values() for stored in of_producer]

    @property
    def last_committed(self) -> Stored | None:
        """The newest record that is committed."""
        return next((each for each in reversed(self.settled) if each.fate is Fate.COMMITTED), None)

    def take(self, buffer: Buffer) -> None:
        """Add whole record batches; those that were read before are skipped."""
        for header, records in decode_batches(buffer):
            if header.last_offset < self.next_offset:
                continue
            self.next_offset = header.last_offset + 1
            if header.is_control:
                fate = Fate.COMMITTED if _is_commit(records) else Fate.ABORTED
                ended = self._open.pop(header.producer_id, ())
                self.ends.update(record.offset for record in records if self._wanted(record))
                self.has_awaited = self.has_awaited or self._is_awaited(header.producer_id, header.producer_epoch)
                self.settled += [stored._replace(fate=fate, end_epoch=header.producer_epoch) for stored in ended]
            elif header.is_transactional:
                found = [
                    Stored(record, header.producer_id, header.producer_epoch, Fate.OPEN)
                    for record in records
                    if self._wanted(record)
                ]
                if found:
                    self._open.setdefault(header.producer_id, []).extend(found)

    def _is_awaited(self, producer_id: int, end_epoch: int) -> bool:
        awaited = self._awaited
        return awaited is not None and producer_id == awaited.producer_id and end_epoch >= awaited.producer_epoch

    def forget_old(self) -> None:
        """Drop all settled records but the newest committed one."""
        last = self.last_committed
        self.settled = [] if last is None else [last]


def _is_commit(records: list[Record]) -> bool:
    """Whether this control marker is a commit: its key has a version and a type (0 abort, 1 commit)."""
    key = records[0].key if records else None
    return key is not None and len(key) >= 4 and int.from_bytes(key[2:4], "big") == _COMMIT_TYPE
