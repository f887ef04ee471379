"""The aborted transactions of a partition: a reader of committed records leaves out their records (KIP-98).

A Fetch with `isolation_level` 1 is answered with whole batches, committed or not, and with the aborted transactions
among them; the client leaves those records out. Kafka keeps one `NNN.txnindex` file for each segment, with the
transactions whose marker is in it: `to_bytes` and `load` write and read its format.

Invariants: in the order of their markers; `last_stable_offset` of one is never below that of one before it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable

from ottla.broker.log.files import AbortedTransaction, read_transaction_index, write_transaction_index


class AbortedTransactions:
    """The aborted transactions of one log."""

    __slots__ = ("_rows",)

    def __init__(self) -> None:
        self._rows: list[AbortedTransaction] = []

    def __len__(self) -> int:
        return len(self._rows)

    def add(self, row: AbortedTransaction) -> None:
        """One more, whose marker is behind all others."""
        self._rows.append(row)

    def between(self, fetch_offset: int, upper_offset: int) -> list[AbortedTransaction]:
        """Those that have records or their marker from `fetch_offset` on and begin below `upper_offset`."""
        rows = self._rows
        found: list[AbortedTransaction] = []
        for index in range(bisect_left(rows, fetch_offset, key=_last_offset), len(rows)):
            row = rows[index]
            if row.first_offset < upper_offset:
                found.append(row)
            if row.last_stable_offset >= upper_offset:
                # All transactions aborted later begin at `upper_offset` or behind it.
                break
        return found

    def truncate(self, offset: int) -> None:
        """Forget those whose marker is cut off: it stood at `offset` or behind."""
        del self._rows[bisect_left(self._rows, offset, key=_last_offset) :]

    def forget_below(self, offset: int) -> None:
        """Forget those that end in front of `offset`, where the log begins now."""
        del self._rows[: bisect_left(self._rows, offset, key=_last_offset)]

    def forget_markers(self, offsets: Iterable[int]) -> None:
        """Forget those whose marker is at one of these offsets: none of their records is left."""
        gone = dict.fromkeys(offsets)
        if gone:
            self._rows = [row for row in self._rows if row.last_offset not in gone]

    def ending(self, base_offset: int, next_offset: int) -> list[AbortedTransaction]:
        """Those whose marker is from `base_offset` on and below `next_offset`."""
        begin = bisect_left(self._rows, base_offset, key=_last_offset)
        return self._rows[begin : bisect_left(self._rows, next_offset, key=_last_offset)]

    def to_bytes(self, base_offset: int, next_offset: int) -> bytes:
        """The `.txnindex` of a segment: those whose marker is from `base_offset` on and below `next_offset`."""
        return write_transaction_index(self.ending(base_offset, next_offset))

    def load(self, data: bytes) -> None:
        """Take the `.txnindex` of the next segment; CorruptFile."""
        self._rows += read_transaction_index(data)


def _last_offset(row: AbortedTransaction) -> int:
    return row.last_offset
