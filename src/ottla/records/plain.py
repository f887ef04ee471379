"""Record batches in plain Python: the compiled modules are tested against it, and it is used where few are read.

Written from Kafka's format description, on purpose without code of the compiled modules. A record:

    length varint | attributes int8 | timestamp delta varlong | offset delta varint | key | value | header count varint
    | per header: key, value

where key and value are a varint length (-1: null) and that many bytes; all varints are zigzag.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from ottla.records.batch_header import (
    CODECS,
    CONTROL,
    HEADER_BYTES,
    LOG_APPEND_TIME,
    TRANSACTIONAL,
    BatchHeader,
    Buffer,
    CorruptBatch,
    check_crc,
    iterate_headers,
    pack_header,
    stamp_crc,
)
from ottla.records.compression import Allowance, compress, decompress

# What a record or a header costs at least, in bytes of the allowance: an object takes memory, however short it is.
OBJECT_BYTES_MIN = 64
_RECORD_BYTES_MIN = 7

Headers = Sequence[tuple[str, bytes | None]]


class Record(NamedTuple):
    """One record as it is stored; `headers` is a tuple of (name, value)."""

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


def encode_batch(
    records: Iterable[Record],
    *,
    base_offset: int | None = None,
    codec: str = "none",
    level: int | None = None,
    partition_leader_epoch: int = -1,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    is_transactional: bool = False,
    is_control: bool = False,
    log_append_time_ms: int | None = None,
) -> bytes:
    """Return one record batch of these records; `base_offset` defaults to the first record's offset."""
    rows = list(records)
    if base_offset is None:
        base_offset = rows[0].offset if rows else 0
    base_timestamp = rows[0].timestamp_ms if rows else -1
    section = b"".join(_encode_record(row, base_offset, base_timestamp) for row in rows)
    attributes = CODECS.index(codec)
    attributes |= TRANSACTIONAL if is_transactional else 0
    attributes |= CONTROL if is_control else 0
    max_timestamp = max((row.timestamp_ms for row in rows), default=-1)
    if log_append_time_ms is not None:
        attributes |= LOG_APPEND_TIME
        max_timestamp = log_append_time_ms
    compressed = compress(codec, level, section)
    batch = pack_header(
        records_bytes=len(compressed),
        record_count=len(rows),
        last_offset_delta=rows[-1].offset - base_offset if rows else 0,
        base_timestamp=base_timestamp,
        max_timestamp=max_timestamp,
        attributes=attributes,
        base_offset=base_offset,
        partition_leader_epoch=partition_leader_epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
    )
    batch += compressed
    stamp_crc(batch)
    return bytes(batch)


def decode_batches(
    buffer: Buffer, verify: bool = True, allowance: Allowance | None = None
) -> Iterator[tuple[BatchHeader, list[Record]]]:
    """Yield the batches in `buffer` with their records; CorruptBatch for anything that is not valid.

    Control batches are among them. The `allowance` is for all of them together; without it, each batch has its own.
    """
    for header in iterate_headers(buffer):
        if verify:
            check_crc(buffer, header)
        section = bytes(buffer[header.position + HEADER_BYTES : header.position + header.size_bytes])
        left = Allowance() if allowance is None else allowance
        section = bytes(decompress(header.codec, section, left))
        yield header, _decode_records(header, section, left)


def _zigzag(number: int) -> bytes:
    number = (number << 1) ^ (number >> 63)
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def _blob(data: bytes | None) -> bytes:
    return _zigzag(-1) if data is None else _zigzag(len(data)) + data


def _encode_record(record: Record, base_offset: int, base_timestamp: int) -> bytes:
    parts = [
        b"\0",
        _zigzag(record.timestamp_ms - base_timestamp),
        _zigzag(record.offset - base_offset),
        _blob(record.key),
        _blob(record.value),
        _zigzag(len(record.headers)),
    ]
    for name, value in record.headers:
        parts += [_blob(name.encode()), _blob(value)]
    body = b"".join(parts)
    return _zigzag(len(body)) + body


class _Section:
    """A bounded cursor over one records section."""

    def __init__(self, header: BatchHeader, data: bytes, allowance: Allowance) -> None:
        self.header = header
        self.data = data
        self.position = 0
        self.allowance = allowance
        # What the bytes have paid for.
        self.spare_bytes = len(data)

    def pay(self, count: int) -> None:
        """Take so many objects from the allowance, before they are made; those that the bytes pay for are free."""
        self.spare_bytes -= OBJECT_BYTES_MIN * count
        if self.spare_bytes < 0:
            over, self.spare_bytes = -self.spare_bytes, 0
            self.allowance.spend(over, self.header.codec)

    def corrupt(self, what: str) -> CorruptBatch:
        return CorruptBatch(f"The batch at offset {self.header.base_offset}: {what} at byte {self.position}.")

    def varint(self, bits: int = 32) -> int:
        if self.position < len(self.data):
            byte = self.data[self.position]
            if byte < 0x80:
                # Nearly all numbers have one byte: lengths, deltas, -1 for null.
                self.position += 1
                return (byte >> 1) ^ -(byte & 1)
        number = shift = 0
        while True:
            if self.position >= len(self.data):
                raise self.corrupt("a number is cut short")
            byte = self.data[self.position]
            self.position += 1
            number |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
            shift += 7
            if shift >= bits:
                raise self.corrupt("a number is too long")
        if number >> bits:
            raise self.corrupt("a number is too large")
        return (number >> 1) ^ -(number & 1)

    def take(self, size: int) -> bytes:
        if size < 0 or size > len(self.data) - self.position:
            raise self.corrupt(f"{size} bytes are claimed, {len(self.data) - self.position} are left")
        self.position += size
        return self.data[self.position - size : self.position]

    def blob(self) -> bytes | None:
        size = self.varint()
        return None if size == -1 else self.take(size)


def _decode_records(header: BatchHeader, data: bytes, allowance: Allowance) -> list[Record]:
    section = _Section(header, data, allowance)
    if header.record_count * _RECORD_BYTES_MIN > len(data):
        raise section.corrupt(f"{header.record_count} records are claimed in {len(data)} bytes")
    section.pay(header.record_count)
    records = [_decode_record(header, section) for _ in range(header.record_count)]
    if section.position != len(data):
        raise section.corrupt("bytes follow the last record")
    return records


def _decode_record(header: BatchHeader, section: _Section) -> Record:
    size = section.varint()
    body = section.position
    if size < _RECORD_BYTES_MIN - 1 or size > len(section.data) - body:
        raise section.corrupt(f"a record claims {size} bytes")
    section.take(1)
    timestamp_delta = section.varint(64)
    offset_delta = section.varint()
    if not 0 <= offset_delta <= header.last_offset_delta:
        raise section.corrupt(f"a record has offset delta {offset_delta}")
    key = section.blob()
    value = section.blob()
    header_count = section.varint()
    if not 0 <= header_count <= (len(section.data) - section.position) // 2:
        raise section.corrupt(f"a record claims {header_count} headers")
    if header_count:
        section.pay(header_count)
    headers: list[tuple[str, bytes | None]] = []
    for _ in range(header_count):
        name = section.blob()
        if name is None:
            raise section.corrupt("a header has no name")
        headers.append((name.decode("utf-8", "replace"), section.blob()))
    if section.position != body + size:
        raise section.corrupt("a record is not as long as it says")
    timestamp = header.max_timestamp if header.log_append_time else _wrap(header.base_timestamp + timestamp_delta)
    return Record(_wrap(header.base_offset + offset_delta), timestamp, key, value, tuple(headers))


def _wrap(number: int) -> int:
    """Wrap a number to 64 bits, as Java and C do: deltas that another client wrote may leave the range."""
    return (number + (1 << 63)) % (1 << 64) - (1 << 63)


def murmur2(key: bytes) -> int:
    """Kafka's 32-bit Murmur 2 of a key, signed as in Java."""
    mask = 0xFFFFFFFF
    multiplier = 0x5BD1E995
    digest = 0x9747B28C ^ len(key)
    whole = len(key) - len(key) % 4
    for start in range(0, whole, 4):
        word = int.from_bytes(key[start : start + 4], "little") * multiplier & mask
        word = (word ^ word >> 24) * multiplier & mask
        digest = digest * multiplier & mask ^ word
    if whole < len(key):
        digest = (digest ^ int.from_bytes(key[whole:], "little")) * multiplier & mask
    digest = (digest ^ digest >> 13) * multiplier & mask
    digest ^= digest >> 15
    return digest - (1 << 32) if digest >> 31 else digest


def partition_for_key(key: bytes, count: int) -> int:
    """The partition Kafka's default partitioner gives a key."""
    return (murmur2(key) & 0x7FFFFFFF) % count
