"""Two batches out of one that a broker calls too large (compiled; KIP-126).

The records are divided where half of their bytes are over, so that halving again and again ends with single records.
The first part's records are copied as they are; those of the second get new offset and timestamp deltas. Both parts
are compressed as the whole was meant to be, and keep the producer's identity: a sequence number counts records, so
each record has the number it had.

Invariant: the whole is untouched until both parts are finished; then they stand for it at one stroke, see delivery.py.
"""

from __future__ import annotations

import cython
from cython.cimports.cpython.bytearray import PyByteArray_AS_STRING, PyByteArray_FromStringAndSize
from cython.cimports.libc.stdint import int32_t, int64_t, uint64_t
from cython.cimports.libc.string import memcpy
from cython.cimports.ottla.records.delivery import SealedBatch, sealed_batch
from cython.cimports.ottla.records.wire import (
    ATTRIBUTES_POSITION,
    HEADER_BYTES,
    TRANSACTIONAL,
    get_int32_varint,
    get_varint,
    put_varint,
    unzigzag,
    varint_bytes,
    zigzag,
)

from ottla.errors import ClosedError
from ottla.records.compression import CODEC_IDS, compress, decompress

_SECTION_BYTES_MAX = 1 << 31
# A record's length and timestamp delta may take more bytes than before: up to five and ten.
_GROWTH_BYTES = cython.declare(cython.Py_ssize_t, 15)
_SEQUENCE_MASK = cython.declare(int64_t, 0x7FFFFFFF)


@cython.cclass
class _Cut:
    """Where a records section is divided, and what is known of the two sides."""

    position = cython.declare(cython.Py_ssize_t)
    count = cython.declare(int32_t)
    largest = cython.declare(int64_t)
    second_base = cython.declare(int64_t)
    second_largest = cython.declare(int64_t)


def split(batch: SealedBatch, compression: str = "none", level: object = None) -> list:
    """Divide a batch of two records or more into two; its Deliveries and their callbacks move to the parts."""
    if batch._buffer is None:
        raise ClosedError("This batch is settled; its bytes are gone.")
    if batch.record_count < 2:
        raise ValueError("A batch of a single record cannot be split.")
    whole: bytearray = batch._buffer
    section: bytes = bytes(decompress(batch.codec, memoryview(whole)[HEADER_BYTES:], _SECTION_BYTES_MAX))
    cut: _Cut = _find_cut(batch, section)
    first: bytearray = bytearray(HEADER_BYTES) + section[: cut.position]
    second: bytearray = _renumbered(batch, section, cut)
    parts: list = [
        _part(batch, first, 0, cut.count, batch.base_timestamp, cut.largest, compression, level),
        _part(
            batch,
            second,
            cut.count,
            batch.record_count - cut.count,
            cut.second_base,
            cut.second_largest,
            compression,
            level,
        ),
    ]
    batch._divide(parts)
    return parts


@cython.cfunc
def _find_cut(batch: SealedBatch, section: bytes) -> _Cut:
    start: cython.p_const_char = section
    at: cython.p_const_char = start
    end: cython.p_const_char = start + len(section)
    half: cython.p_const_char = start + len(section) // 2
    row: int32_t = 0
    size: int64_t = 0
    delta: uint64_t = 0
    timestamp: int64_t
    cut: _Cut = _Cut()
    cut.count = 0
    while row < batch.record_count:
        record: cython.p_const_char = at
        at = get_int32_varint(at, end, cython.address(size))
        get_varint(at + 1, end, cython.address(delta))
        timestamp = batch.base_timestamp + unzigzag(delta)
        if cut.count == 0 and row > 0 and (at + size > half or row == batch.record_count - 1):
            cut.count = row
            cut.position = record - start
            cut.second_base = cut.second_largest = timestamp
        if cut.count:
            cut.second_largest = max(cut.second_largest, timestamp)
        else:
            cut.largest = timestamp if row == 0 else max(cut.largest, timestamp)
        at += size
        row += 1
    return cut


@cython.cfunc
def _renumbered(batch: SealedBatch, section: bytes, cut: _Cut) -> bytearray:
    """A header's room and the records behind the cut, with deltas of their own."""
    count: int32_t = batch.record_count - cut.count
    length: cython.Py_ssize_t = len(section)
    room: cython.Py_ssize_t = HEADER_BYTES + length - cut.position + _GROWTH_BYTES * count
    made: bytearray = PyByteArray_FromStringAndSize(cython.NULL, room)
    to: cython.p_char = PyByteArray_AS_STRING(made) + HEADER_BYTES
    at: cython.p_const_char = cython.cast(cython.p_const_char, section) + cut.position
    end: cython.p_const_char = cython.cast(cython.p_const_char, section) + length
    size: int64_t = 0
    offset_delta: int64_t = 0
    delta: uint64_t = 0
    row: int32_t
    rest: cython.Py_ssize_t
    for row in range(count):
        at = get_int32_varint(at, end, cython.address(size))
        record_end: cython.p_const_char = at + size
        attributes: cython.char = at[0]
        at = get_varint(at + 1, end, cython.address(delta))
        at = get_int32_varint(at, end, cython.address(offset_delta))
        delta = zigzag(batch.base_timestamp + unzigzag(delta) - cut.second_base)
        rest = record_end - at
        to = put_varint(to, zigzag(1 + varint_bytes(delta) + varint_bytes(zigzag(row)) + rest))
        to[0] = attributes
        to = put_varint(to + 1, delta)
        to = put_varint(to, zigzag(row))
        memcpy(to, at, rest)
        to += rest
        at = record_end
    del made[to - PyByteArray_AS_STRING(made) :]
    return made


@cython.cfunc
def _part(
    batch: SealedBatch,
    buffer: bytearray,
    first: int32_t,
    count: int32_t,
    base_timestamp: int64_t,
    max_timestamp: int64_t,
    compression: str,
    level: object,
) -> SealedBatch:
    uncompressed_bytes: cython.Py_ssize_t = len(buffer)
    codec: str = "none"
    if CODEC_IDS[compression]:
        packed = compress(compression, level, memoryview(buffer)[HEADER_BYTES:])
        if HEADER_BYTES + len(packed) < uncompressed_bytes:
            buffer = bytearray(HEADER_BYTES) + packed
            codec = compression
    rows: bytes = None if batch._rows is None else batch._rows[8 * first : 8 * (first + count)]
    first_row: int64_t = -1 if batch.first_row < 0 else batch.first_row + first
    part: SealedBatch = sealed_batch(
        batch.topic, batch.partition, buffer, count, base_timestamp, max_timestamp, codec, first_row, rows
    )
    part.uncompressed_bytes = uncompressed_bytes
    # Its share of what the callbacks take.
    part.buffer_bytes += (batch.buffer_bytes - batch.size_bytes) * count // batch.record_count
    part.created_us = batch.created_us
    part._hooks = batch._hooks
    part._landing = batch._landing
    part._first = first
    if batch.producer_id >= 0:
        at: cython.p_char = PyByteArray_AS_STRING(batch._buffer)
        sequence: int64_t = (batch.base_sequence + cython.cast(int64_t, first)) & _SEQUENCE_MASK
        transactional: cython.bint = (at[ATTRIBUTES_POSITION + 1] & TRANSACTIONAL) != 0
        part.assign(batch.producer_id, batch.producer_epoch, sequence, transactional)
    return part
