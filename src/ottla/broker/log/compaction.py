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
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from ottla.broker.log.end_markers import read_end_marker
from ottla.broker.log.files import AbortedTransaction, ProducerSnapshotEntry
from ottla.broker.storage import Buffer
from ottla.records.batch_header import HEADER_BYTES, BatchHeader, CorruptBatch, pack_like, stamp_crc
from ottla.records.compression import Allowance, compress, decompress

DELETE_HORIZON = 0x40
_KEPT_WHEN_EMPTY = 0x38  # timestamp type, transactional, control: not the compression, nothing is left to compress
_NO_TIMESTAMP = -1


class StoredRecord(NamedTuple):
    """A record as it lies in its batch; `rest` is everything behind the timestamp delta, as bytes."""

    offset: int
    timestamp_delta: int
    attributes: int
    key: bytes | None
    is_tombstone: bool
    rest: bytes


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
        latest: Mapping[bytes, int],
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
        records = [record for record in stored_records(header, section) if self._stays(record, expired=expired)]
        if not records:
            return _empty(header, batch) if keep else None
        wants_horizon = horizon_ms is None and any(record.is_tombstone for record in records)
        if len(records) == header.record_count and not wants_horizon:
            return batch
        return _rewrite(header, records, self._horizon_ms if wants_horizon else None)

    def _stays(self, record: StoredRecord, *, expired: bool) -> bool:
        key = record.key
        return key is not None and record.offset >= self._latest.get(key, -1) and not (record.is_tombstone and expired)

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
            return _rewrite(header, list(stored_records(header, _section(header, batch))), self._horizon_ms)
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


def keys_of(header: BatchHeader, batch: Buffer) -> Iterator[tuple[bytes, int]]:
    """The (key, offset) of each record that has a key; CorruptBatch."""
    for record in stored_records(header, _section(header, batch)):
        if record.key is not None:
            yield record.key, record.offset


def stored_records(header: BatchHeader, section: bytes) -> Iterator[StoredRecord]:
    """The records in a batch's decompressed section; CorruptBatch."""
    at = 0
    try:
        for _ in range(header.record_count):
            size, at = _read_varint(section, at)
            end = at + size
            timestamp_delta, behind = _read_varint(section, at + 1)
            offset_delta, position = _read_varint(section, behind)
            key_size, position = _read_varint(section, position)
            key = None if key_size < 0 else section[position : position + key_size]
            value_size, _ = _read_varint(section, position + max(0, key_size))
            if not behind < end <= len(section) or not 0 <= offset_delta <= header.last_offset_delta:
                raise _corrupt(header)
            offset = header.base_offset + offset_delta
            yield StoredRecord(offset, timestamp_delta, section[at], key, value_size < 0, section[behind:end])
            at = end
    except IndexError:
        raise _corrupt(header) from None
    if at != len(section):
        raise _corrupt(header)


def _corrupt(header: BatchHeader) -> CorruptBatch:
    return CorruptBatch(f"The batch at offset {header.base_offset} does not hold the records it claims.")


def _section(header: BatchHeader, batch: Buffer) -> bytes:
    return bytes(decompress(header.codec, bytes(batch[HEADER_BYTES:]), Allowance()))


def _empty(header: BatchHeader, batch: Buffer) -> Buffer:
    if not header.record_count:
        return batch
    out = _pack(header, b"", 0, header.attributes & _KEPT_WHEN_EMPTY, _NO_TIMESTAMP, header.max_timestamp)
    return bytes(out)


def _rewrite(header: BatchHeader, records: list[StoredRecord], horizon_ms: int | None) -> bytes:
    """The batch with these of its records; `horizon_ms` is its new delete horizon, where it gets one."""
    base, attributes = header.base_timestamp, header.attributes
    if horizon_ms is not None:
        base, attributes = horizon_ms, attributes | DELETE_HORIZON
    shift = header.base_timestamp - base
    parts: list[bytes] = []
    for record in records:
        delta = _varint(record.timestamp_delta + shift)
        parts += (_varint(1 + len(delta) + len(record.rest)), bytes((record.attributes,)), delta, record.rest)
    newest = header.max_timestamp
    if not header.log_append_time:
        newest = max(header.base_timestamp + record.timestamp_delta for record in records)
    section = bytes(compress(header.codec, None, b"".join(parts)))
    return bytes(_pack(header, section, len(records), attributes, base, newest))


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


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    """A zigzag number and where it ends; IndexError where the data end first."""
    number = shift = 0
    while True:
        byte = data[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (number >> 1) ^ -(number & 1), at
        shift += 7


def _varint(number: int) -> bytes:
    number = (number << 1) ^ (number >> 63)
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)
