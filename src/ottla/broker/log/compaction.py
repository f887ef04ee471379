"""What is left of a record batch when its log is compacted: batch in, batch or nothing out.

A record stays unless it has no key, or a later record of the mapped part has the same one. A tombstone (a record
without a value) stays until the batch's delete horizon: the time of the first pass that met it, plus
`delete.retention.ms`, written into the batch as its base timestamp (attribute bit 6). The marker of a transaction gets
its horizon from the first pass that meets no batch of the transaction before it, and stays until then. Records of
aborted transactions go at once. The last batch of each producer that the log still knows stays, empty if need be, for
its sequence number and epoch (KIP-98, KIP-280, KIP-534).

Records are moved as bytes: only length and timestamp delta are ever written anew. So header names that are not text
stay as they are.

Invariants: offsets, base offset, last offset, producer fields and leader epoch of a batch never change; batches are
given in the log's order, each once in a pass.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable

from ottla.broker.log.end_markers import read_end_marker
from ottla.broker.log.files import AbortedTransaction, ProducerSnapshotEntry
from ottla.broker.storage import Buffer
from ottla.records.batch_header import HEADER_BYTES, BatchHeader, pack_like, stamp_crc
from ottla.records.compression import Allowance, compress, decompress
from ottla.records.record_walk import map_keys, rewritten, staying

DELETE_HORIZON = 0x40
_KEPT_WHEN_EMPTY = 0x38  # timestamp type, transactional, control: not the compression, nothing is left to compress
_NO_TIMESTAMP = -1


class Aborted:
    """Which batches belong to aborted transactions."""

    def __init__(self, rows: Iterable[AbortedTransaction]) -> None:
        self._of: dict[int, list[AbortedTransaction]] = {}
        for row in rows:
            self._of.setdefault(row.producer_id, []).append(row)

    def holds(self, header: BatchHeader) -> bool:
        """Whether the records of this batch were aborted."""
        if not header.is_transactional or header.is_control:
            return False
        rows = self._of.get(header.producer_id)
        if rows is None:
            return False
        # One producer's transactions follow one another.
        found = bisect_left(rows, header.base_offset, key=_last_offset)
        return found < len(rows) and rows[found].first_offset <= header.base_offset


class Pass:
    """One pass over a log from its beginning; `latest` maps each key of the part to be cleaned to its last offset.

    `discarded_markers` holds the offsets of markers whose transactions are gone.
    """

    def __init__(
        self,
        latest: dict[bytes, int],
        aborted: Aborted,
        producers: Iterable[ProducerSnapshotEntry],
        *,
        now_ms: int,
        delete_retention_ms: int,
    ) -> None:
        self.discarded_markers: list[int] = []
        self._latest = latest
        self._aborted = aborted
        self._producers = {entry.producer_id: entry for entry in producers}
        self._now_ms = now_ms
        self._horizon_ms = now_ms + delete_retention_ms
        # Producers with batches since their last marker.
        self._met: dict[int, None] = {}

    def compact(self, header: BatchHeader, batch: Buffer, *, keep: bool = False) -> Buffer | None:
        """What is left of the next batch: itself, another one, or None. `keep`: an empty one rather than None.

        CorruptBatch.
        """
        keep = keep or self._is_last_of_producer(header)
        if header.is_control:
            return self._compact_marker(header, batch, keep=keep)
        if header.is_transactional:
            self._met[header.producer_id] = None
        if self._aborted.holds(header):
            return _empty(header, batch) if keep else None
        horizon_ms = horizon_of(header)
        expired = horizon_ms is not None and horizon_ms <= self._now_ms
        section = _section(header, batch)
        flags, count, has_tombstone = staying(header, section, self._latest, expired)
        if not count:
            return _empty(header, batch) if keep else None
        wants_horizon = horizon_ms is None and has_tombstone
        if count == header.record_count and not wants_horizon:
            return batch
        return _rewrite(header, section, flags, self._horizon_ms if wants_horizon else None)

    def _compact_marker(self, header: BatchHeader, batch: Buffer, *, keep: bool) -> Buffer | None:
        if not header.record_count:
            return batch if keep else None
        if read_end_marker(batch) is None:
            return batch  # no end of a transaction
        if header.producer_id in self._met:
            del self._met[header.producer_id]
            return batch
        self.discarded_markers.append(header.base_offset)
        horizon_ms = horizon_of(header)
        if horizon_ms is None:
            every = bytearray(b"\1") * header.record_count
            return _rewrite(header, _section(header, batch), every, self._horizon_ms)
        if horizon_ms > self._now_ms:
            return batch
        return _empty(header, batch) if keep else None

    def _is_last_of_producer(self, header: BatchHeader) -> bool:
        entry = self._producers.get(header.producer_id)
        if entry is None:
            return False
        if entry.last_offset >= 0:
            return header.last_offset == entry.last_offset
        return header.is_control and header.producer_epoch == entry.producer_epoch


def _last_offset(row: AbortedTransaction) -> int:
    return row.last_offset


def horizon_of(header: BatchHeader) -> int | None:
    """When the tombstones or the marker in a batch may go; None where no pass has set a time yet."""
    return header.base_timestamp if header.attributes & DELETE_HORIZON else None


def take_keys(header: BatchHeader, batch: Buffer, begin: int, latest: dict[bytes, int]) -> tuple[int, int]:
    """Note the last offset of each key, from offset `begin` on: (keys that are new, their bytes); CorruptBatch."""
    return map_keys(header, _section(header, batch), begin, latest)


def _section(header: BatchHeader, batch: Buffer) -> Buffer:
    return decompress(header.codec, bytes(batch[HEADER_BYTES:]), Allowance())


def _empty(header: BatchHeader, batch: Buffer) -> Buffer:
    if not header.record_count:
        return batch
    out = _pack(header, b"", 0, header.attributes & _KEPT_WHEN_EMPTY, _NO_TIMESTAMP, header.max_timestamp)
    return bytes(out)


def _rewrite(header: BatchHeader, section: Buffer, flags: bytearray, horizon_ms: int | None) -> bytes:
    """The batch with these of its records; `horizon_ms` is its new delete horizon, where it gets one."""
    base, attributes = header.base_timestamp, header.attributes
    if horizon_ms is not None:
        base, attributes = horizon_ms, attributes | DELETE_HORIZON
    left, newest = rewritten(header, section, flags, base)
    if header.log_append_time:
        newest = header.max_timestamp
    packed = bytes(compress(header.codec, None, left))
    return bytes(_pack(header, packed, sum(flags), attributes, base, newest))


def _pack(
    header: BatchHeader, section: bytes, count: int, attributes: int, base_timestamp: int, max_timestamp: int
) -> bytearray:
    batch = pack_like(
        header,
        len(section),
        attributes=attributes,
        max_timestamp=max_timestamp,
        base_timestamp=base_timestamp,
        record_count=count,
    )
    batch += section
    stamp_crc(batch)
    return batch
