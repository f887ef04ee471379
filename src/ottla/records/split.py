"""Splits a batch that a broker refuses (compiled).

A batch that is too large (KIP-126) is divided in the middle of its bytes, and its parts again if needed. In a batch
with records that the broker refuses (KIP-467), each of these becomes a batch of its own; the records between two of
them stay together.

The first part's records are copied as they are; those of the others get new offset and timestamp deltas. All parts
are compressed with the given codec, and keep the producer id and epoch. Sequence numbers count records, so each record
keeps the number it had.

Invariant: the batch is unchanged until all parts are finished; then they replace it in one step, see delivery.py.
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
from ottla.records.compression import CODEC_IDS, Allowance, compress, decompress

_SECTION_BYTES_MAX = 1 << 31
# A record's length and timestamp delta may take more bytes than before: up to five and ten.
_GROWTH_BYTES = cython.declare(cython.Py_ssize_t, 15)
_SEQUENCE_MASK = cython.declare(int64_t, 0x7FFFFFFF)


@cython.cclass
class _Run:
    """Consecutive records that become one part: their place in the records section, and values for its header."""

    position = cython.declare(cython.Py_ssize_t)
    end = cython.declare(cython.Py_ssize_t)
    first = cython.declare(int32_t)
    count = cython.declare(int32_t)
    base = cython.declare(int64_t)
    largest = cython.declare(int64_t)


def split(batch: SealedBatch, compression: str = "none", level: object = None) -> list:
    """Divide a batch of two records or more into two; its Deliveries and their callbacks move to the parts."""
    if batch.record_count < 2:
        raise ValueError("A batch of a single record cannot be split.")
    section: bytes = _section(batch)
    return _divided(batch, section, [_middle(batch, section)], compression, level)


def split_out(batch: SealedBatch, rows: object, compression: str = "none", level: object = None) -> list:
    """Divide a batch so that each of these rows (from 0) is a part of its own; Deliveries and callbacks move along.

    Parts come in the order of their records. ValueError for a row that is not there, or nothing to divide.
    """
    bounds: set = set()
    for row in rows:
        if not 0 <= row < batch.record_count:
            raise ValueError(f"A batch of {batch.record_count} records has no row {row}.")
        bounds.update((row, row + 1))
    bounds -= {0, batch.record_count}
    if not bounds:
        raise ValueError("A batch cannot be divided in front of its first record or behind its last.")
    return _divided(batch, _section(batch), sorted(bounds), compression, level)


@cython.cfunc
def _section(batch: SealedBatch) -> bytes:
    """The records section, decompressed."""
    if batch._buffer is None:
        raise ClosedError("This batch is settled; its bytes are gone.")
    return bytes(decompress(batch.codec, memoryview(batch._buffer)[HEADER_BYTES:], Allowance(_SECTION_BYTES_MAX)))


@cython.cfunc
def _divided(batch: SealedBatch, section: bytes, bounds: list, compression: str, level: object) -> list:
    """The parts: one begins at the first record, and one at each of `bounds`."""
    run: _Run
    parts: list = []
    for run in _runs(batch, section, bounds):
        buffer = bytearray(HEADER_BYTES) + section[: run.end] if run.first == 0 else _renumbered(batch, section, run)
        parts.append(_part(batch, buffer, run.first, run.count, run.base, run.largest, compression, level))
    batch._divide(parts)
    return parts


@cython.cfunc
def _middle(batch: SealedBatch, section: bytes) -> int32_t:
    """The first record after record 0 that ends after the middle of the bytes; the last one if none does."""
    start: cython.p_const_char = section
    at: cython.p_const_char = start
    end: cython.p_const_char = start + len(section)
    half: cython.p_const_char = start + len(section) // 2
    row: int32_t
    size: int64_t = 0
    for row in range(batch.record_count - 1):
        at = get_int32_varint(at, end, cython.address(size))
        if row > 0 and at + size > half:
            return row
        at += size
    return batch.record_count - 1


@cython.cfunc
def _runs(batch: SealedBatch, section: bytes, bounds: list) -> list:
    """The runs of records: one begins at the first record, and one at each of `bounds`."""
    start: cython.p_const_char = section
    at: cython.p_const_char = start
    end: cython.p_const_char = start + len(section)
    row: int32_t
    size: int64_t = 0
    delta: uint64_t = 0
    timestamp: int64_t
    run: _Run = None
    runs: list = []
    begin: set = {0, *bounds}
    for row in range(batch.record_count):
        record: cython.p_const_char = at
        at = get_int32_varint(at, end, cython.address(size))
        get_varint(at + 1, end, cython.address(delta))
        timestamp = batch.base_timestamp + unzigzag(delta)
        if row in begin:
            run = _Run()
            run.position = record - start
            run.first = row
            run.count = 0
            run.base = run.largest = timestamp
            runs.append(run)
        at += size
        run.count += 1
        run.end = at - start
        run.largest = max(run.largest, timestamp)
    return runs


@cython.cfunc
def _renumbered(batch: SealedBatch, section: bytes, run: _Run) -> bytearray:
    """Space for a header, and the records of the run with new deltas."""
    count: int32_t = run.count
    room: cython.Py_ssize_t = HEADER_BYTES + run.end - run.position + _GROWTH_BYTES * count
    made: bytearray = PyByteArray_FromStringAndSize(cython.NULL, room)
    to: cython.p_char = PyByteArray_AS_STRING(made) + HEADER_BYTES
    at: cython.p_const_char = cython.cast(cython.p_const_char, section) + run.position
    end: cython.p_const_char = cython.cast(cython.p_const_char, section) + run.end
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
        delta = zigzag(batch.base_timestamp + unzigzag(delta) - run.base)
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
    # Its share of the callbacks' memory.
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
