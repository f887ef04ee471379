"""Reads a log of transactional records as it is stored, and says of each record what became of its transaction. Pure.

Both of the sink's topics are read uncommitted up to the high watermark, never by `read_committed`: an open transaction
of any sink would hide what another one has committed behind it. What decides is a producer's own control marker: it
ends all that this producer id has written to the partition since its last one, whatever epoch the marker carries
(from transaction version 2 on it is the next one, KIP-890). Records outside of transactions are nobody's, and left out.

Compaction may take records and markers away, but never the marker of a record it leaves.
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
    """A record and its transaction; `end_epoch` is what the control marker carries."""

    record: Record
    producer_id: int
    producer_epoch: int
    fate: Fate
    end_epoch: int = -1


class TransactionLog:
    """What has been read of one partition: `settled` in the order of their ends, `open` those without.

    Only records that are `wanted` are kept. `next_offset` is where reading goes on, `first_offset` where it began.
    """

    def __init__(self, wanted: Callable[[Record], bool], first_offset: int = 0) -> None:
        self.settled: list[Stored] = []
        self.first_offset = self.next_offset = first_offset
        self._wanted = wanted
        self._open: dict[int, list[Stored]] = {}
        self._awaited: TransactionIdentity | None = None
        self.has_awaited = False
        """Whether the end of `await_end` has been read."""

    def begin_again(self) -> TransactionLog:
        """An empty one that reads from the first record on."""
        log = TransactionLog(self._wanted)
        log._awaited = self._awaited
        return log

    def await_end(self, identity: TransactionIdentity) -> None:
        """From now on, tell by `has_awaited` whether an end of this transaction, or a later one, has been read."""
        self._awaited, self.has_awaited = identity, False

    @property
    def open(self) -> list[Stored]:
        """Records whose transactions have not ended, as far as has been read."""
        return [stored for of_producer in self._open.values() for stored in of_producer]

    @property
    def last_committed(self) -> Stored | None:
        """The newest record that is committed."""
        return next((each for each in reversed(self.settled) if each.fate is Fate.COMMITTED), None)

    def take(self, buffer: Buffer) -> None:
        """Take in whole record batches; what has been read before is passed over."""
        for header, records in decode_batches(buffer):
            if header.last_offset < self.next_offset:
                continue
            self.next_offset = header.last_offset + 1
            if header.is_control:
                fate = Fate.COMMITTED if _is_commit(records) else Fate.ABORTED
                ended = self._open.pop(header.producer_id, ())
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
        """Keep only the newest committed record of those that are settled."""
        last = self.last_committed
        self.settled = [] if last is None else [last]


def _is_commit(records: list[Record]) -> bool:
    """A control record's key is its version and its type: 0 abort, 1 commit."""
    key = records[0].key if records else None
    return key is not None and len(key) >= 4 and int.from_bytes(key[2:4], "big") == _COMMIT_TYPE
