"""The 61 bytes in front of every record batch (message format 2, KIP-98), read and written without its records.

For most batches a broker needs the header alone: it checks it and writes offsets into it. (It decodes records for
compaction, for limits of timestamps, for another codec, and to search offsets by time.) All numbers are big-endian. The
CRC-32C covers everything from `attributes` to the end of the batch, so `base_offset` and `partition_leader_epoch` can
be written in place.

Invariant: a header that `read_header` returns has possible sizes (`size_bytes` >= 61, `record_count` >= 0).
`iterate_headers` checks that the records after it are there, and `check_crc` that they are intact.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct

from ottla.errors import OttlaError
from ottla.records.crc import crc32c

Buffer = bytes | bytearray | memoryview

HEADER_BYTES = 61
LOG_OVERHEAD_BYTES = 12  # base_offset and batch_length, which batch_length does not count
CRC_POSITION = 17
CRC_BEGIN = 21  # what the CRC covers begins here, at the attributes
MAGIC = 2
OFFSET_MAX = (1 << 63) - (1 << 32) - 1  # no batch may begin after it: so its last offset fits into 64 bits
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")

LOG_APPEND_TIME = 0x08
TRANSACTIONAL = 0x10
CONTROL = 0x20
_CODEC_MASK = 0x07

_HEADER = Struct(">qiibIhiqqqhii")
_OFFSET = Struct(">q")
_EPOCH = Struct(">i")
_EPOCH_POSITION = 12


class CorruptBatch(OttlaError):
    """Bytes that should be a record batch are not one, or not the one that was written."""


class BatchHeader:
    """One record batch's header; `position` is where in the buffer it was read."""

    __slots__ = (
        "attributes",
        "base_offset",
        "base_sequence",
        "base_timestamp",
        "batch_length",
        "crc",
        "last_offset_delta",
        "magic",
        "max_timestamp",
        "partition_leader_epoch",
        "position",
        "producer_epoch",
        "producer_id",
        "record_count",
    )

    def __init__(
        self,
        base_offset: int,
        batch_length: int,
        partition_leader_epoch: int,
        magic: int,
        crc: int,
        attributes: int,
        last_offset_delta: int,
        base_timestamp: int,
        max_timestamp: int,
        producer_id: int,
        producer_epoch: int,
        base_sequence: int,
        record_count: int,
        position: int = 0,
    ) -> None:
        self.base_offset = base_offset
        self.batch_length = batch_length
        self.partition_leader_epoch = partition_leader_epoch
        self.magic = magic
        self.crc = crc
        self.attributes = attributes
        self.last_offset_delta = last_offset_delta
        self.base_timestamp = base_timestamp
        self.max_timestamp = max_timestamp
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.base_sequence = base_sequence
        self.record_count = record_count
        self.position = position

    @property
    def size_bytes(self) -> int:
        """The whole batch: header and records."""
        return self.batch_length + LOG_OVERHEAD_BYTES

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def codec(self) -> str:
        """The codec's name; CorruptBatch for a number that Kafka does not use."""
        number = self.attributes & _CODEC_MASK
        if number >= len(CODECS):
            raise CorruptBatch(f"The batch at offset {self.base_offset} names compression {number}; 0 to 4 exist.")
        return CODECS[number]

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL)

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & CONTROL)

    @property
    def log_append_time(self) -> bool:
        """Whether `max_timestamp`, the broker's time, is the timestamp of all records (LogAppendTime)."""
        return bool(self.attributes & LOG_APPEND_TIME)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, BatchHeader):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self.__slots__ if name != "position")

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={getattr(self, name)}" for name in self.__slots__)
        return f"BatchHeader({fields})"


def read_header(buffer: Buffer, position: int = 0) -> BatchHeader:
    """Read the header at `position`; CorruptBatch when it is cut short or cannot be a format 2 header.

    The records behind it need not be in the buffer.
    """
    if position < 0 or len(buffer) - position < HEADER_BYTES:
        left = max(0, len(buffer) - position)
        raise CorruptBatch(f"A record batch header needs {HEADER_BYTES} bytes; at position {position} {left} are left.")
    header = BatchHeader(*_HEADER.unpack_from(buffer, position))
    header.position = position
    if header.magic != MAGIC:
        raise CorruptBatch(
            f"The batch at position {position} has message format {header.magic}; only format {MAGIC} is supported."
        )
    if header.batch_length < HEADER_BYTES - LOG_OVERHEAD_BYTES:
        raise CorruptBatch(f"The batch at position {position} claims a length of {header.batch_length} bytes.")
    if not 0 <= header.base_offset <= OFFSET_MAX:
        raise CorruptBatch(f"The batch at position {position} claims to begin at offset {header.base_offset}.")
    if header.record_count < 0 or header.last_offset_delta < -1:
        raise CorruptBatch(
            f"The batch at position {position} claims {header.record_count} records up to offset delta "
            f"{header.last_offset_delta}."
        )
    return header


def pack_header(
    *,
    records_bytes: int,
    record_count: int,
    last_offset_delta: int,
    base_timestamp: int,
    max_timestamp: int,
    attributes: int = 0,
    base_offset: int = 0,
    partition_leader_epoch: int = -1,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    crc: int = 0,
) -> bytearray:
    """Return the header of a batch whose records section is `records_bytes` long; `stamp_crc` completes it."""
    header = bytearray(HEADER_BYTES)
    _HEADER.pack_into(
        header,
        0,
        base_offset,
        HEADER_BYTES - LOG_OVERHEAD_BYTES + records_bytes,
        partition_leader_epoch,
        MAGIC,
        crc,
        attributes,
        last_offset_delta,
        base_timestamp,
        max_timestamp,
        producer_id,
        producer_epoch,
        base_sequence,
        record_count,
    )
    return header


def iterate_headers(buffer: Buffer) -> Iterator[BatchHeader]:
    """Yield the headers of the batches in `buffer`; CorruptBatch where one is cut short."""
    position = 0
    while position < len(buffer):
        header = read_header(buffer, position)
        if header.size_bytes > len(buffer) - position:
            raise CorruptBatch(
                f"The batch at position {position} claims {header.size_bytes} bytes; {len(buffer) - position} are left."
            )
        yield header
        position += header.size_bytes


def stamp_offset(buffer: bytearray | memoryview, position: int, base_offset: int, leader_epoch: int) -> None:
    """Write the offset and the leader's epoch into the batch at `position`, in place; the CRC stays valid."""
    _OFFSET.pack_into(buffer, position, base_offset)
    _EPOCH.pack_into(buffer, position + _EPOCH_POSITION, leader_epoch)


def stamp_crc(buffer: bytearray | memoryview, position: int = 0, size_bytes: int | None = None) -> None:
    """Compute the CRC of the batch at `position` (to the buffer's end, or `size_bytes` long) and write it."""
    end = len(buffer) if size_bytes is None else position + size_bytes
    with memoryview(buffer) as view:
        crc = crc32c(view[position + CRC_BEGIN : end])
    buffer[position + CRC_POSITION : position + CRC_BEGIN] = crc.to_bytes(4, "big")


def check_crc(buffer: Buffer, header: BatchHeader, position: int | None = None) -> None:
    """Raise CorruptBatch unless the whole batch is in the buffer and its CRC is right.

    `position` defaults to where the header was read.
    """
    if position is None:
        position = header.position
    end = position + header.size_bytes
    if end > len(buffer):
        raise CorruptBatch(f"The batch at position {position} claims {header.size_bytes} bytes and is cut short.")
    with memoryview(buffer) as view:
        crc = crc32c(view[position + CRC_BEGIN : end])
    if crc != header.crc:
        raise CorruptBatch(
            f"The batch at position {position} (offset {header.base_offset}) has CRC {crc:#010x}; "
            f"its header says {header.crc:#010x}."
        )


def pack_like(
    header: BatchHeader,
    records_bytes: int,
    *,
    attributes: int,
    max_timestamp: int,
    base_timestamp: int | None = None,
    record_count: int | None = None,
) -> bytearray:
    """Return `header` packed, with other records or attributes; offsets, epochs and sequence stay.

    Arguments that are None stay, too. The CRC is 0: call `stamp_crc` once the records are behind it.
    """
    return pack_header(
        records_bytes=records_bytes,
        record_count=header.record_count if record_count is None else record_count,
        last_offset_delta=header.last_offset_delta,
        base_timestamp=header.base_timestamp if base_timestamp is None else base_timestamp,
        max_timestamp=max_timestamp,
        attributes=attributes,
        base_offset=header.base_offset,
        partition_leader_epoch=header.partition_leader_epoch,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
    )
