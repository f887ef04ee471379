"""Which transaction a record is in, and how that has ended; and the batch that it came in.

A batch says whether it belongs to a transaction, not how that has ended. For a range that is read with
`read_committed`, brokers list the aborted transactions. Other transactions of the range that end before the last stable
offset are committed. Behind that offset all are called open: readers of committed records do not get them yet, for
their own transaction or for an earlier one.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import Any

from ottla.console.kafka import Kafka
from ottla.errors import OttlaError
from ottla.reader.events import Fetched
from ottla.records.batch_header import BatchHeader, iterate_headers

COMMITTED, ABORTED, OPEN, UNKNOWN = "committed", "aborted", "open", "unknown"
_PATIENCE_S = 5.0


class Batches:
    """The headers of one partition's batches that were read, in the order of their offsets."""

    def __init__(self, topic: str, partition: int) -> None:
        self._topic, self.partition = topic, partition
        self._headers: list[BatchHeader] = []
        self._begins: list[int] = []
        self._stable_offset = 0
        # Aborted transactions by producer id: their first offsets, ascending.
        self._aborted: dict[int, list[int]] = {}
        # Markers by producer id: their offsets, ascending.
        self._markers: dict[int, list[int]] = {}
        self._is_known = True

    def take(self, fetched: Fetched, *, is_decided: bool = True) -> None:
        """Note the batches of a buffer; those that are not `is_decided` are behind the last stable offset."""
        if is_decided:
            self._stable_offset = max(self._stable_offset, fetched.last_stable_offset)
            self._note_aborted(fetched)
        for header in iterate_headers(fetched.records):
            if self._begins and header.base_offset <= self._begins[-1]:
                continue
            self._headers.append(header)
            self._begins.append(header.base_offset)
            if header.is_control:
                self._markers.setdefault(header.producer_id, []).append(header.base_offset)

    def look_up(self, kafka: Kafka) -> None:
        """Ask which transactions were aborted, where any batch is in one."""
        inside = [each for each in self._headers if each.is_transactional and not each.is_control]
        inside = [each for each in inside if each.base_offset < self._stable_offset]
        if not inside:
            return
        first, end = inside[0].base_offset, min(inside[-1].last_offset + 1, self._stable_offset)
        place = self._topic, self.partition
        try:
            with kafka.reader({place: (first, end)}, committed=True, long=False) as reader:
                for fetched in reader.iter_raw(patience_s=_PATIENCE_S):
                    self._note_aborted(fetched)
        except OttlaError:
            self._is_known = False

    def _note_aborted(self, fetched: Fetched) -> None:
        for producer_id, first in fetched.aborted_transactions:
            firsts = self._aborted.setdefault(producer_id, [])
            place = bisect_left(firsts, first)
            if firsts[place : place + 1] != [first]:
                firsts.insert(place, first)

    @property
    def has_transactions(self) -> bool:
        """Whether any record is in one."""
        return any(each.is_transactional and not each.is_control for each in self._headers)

    def of(self, offset: int) -> BatchHeader | None:
        """The batch of a record."""
        number = bisect_right(self._begins, offset) - 1
        found = self._headers[number] if number >= 0 else None
        return found if found is not None and offset <= found.last_offset else None

    def transaction(self, offset: int) -> str | None:
        """How the transaction of a record has ended; None where it is in none."""
        batch = self.of(offset)
        if batch is None or not batch.is_transactional:
            return None
        if batch.base_offset >= self._stable_offset:
            return OPEN
        if not self._is_known:
            return UNKNOWN
        # The last of this producer's that had begun by then, unless its marker stands in between.
        firsts = self._aborted.get(batch.producer_id, [])
        number = bisect_right(firsts, offset) - 1
        if number < 0:
            return COMMITTED
        markers = self._markers.get(batch.producer_id, [])
        ended = bisect_right(markers, firsts[number]) < bisect_left(markers, offset)
        return COMMITTED if ended else ABORTED

    def described(self, offset: int) -> dict[str, Any] | None:
        """What a record's batch says."""
        batch = self.of(offset)
        if batch is None:
            return None
        has_producer = batch.producer_id >= 0
        return {
            "base_offset": batch.base_offset,
            "last_offset": batch.last_offset,
            "records": batch.record_count,
            "bytes": batch.size_bytes,
            "compression": batch.codec,
            "leader_epoch": batch.partition_leader_epoch,
            "producer_id": batch.producer_id if has_producer else None,
            "producer_epoch": batch.producer_epoch if has_producer else None,
            "sequence": _sequence(batch, offset) if has_producer and batch.base_sequence >= 0 else None,
        }


def _sequence(batch: BatchHeader, offset: int) -> int:
    """Sequence numbers begin anew behind 2,147,483,647."""
    return (batch.base_sequence + offset - batch.base_offset) % (1 << 31)
