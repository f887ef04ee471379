"""What a broker wants of the records in a batch: their keys and times, and those that compaction leaves (compiled).

No object is made per record or per header, except for a key that is looked up: a batch of a kilobyte may hold a hundred
megabytes of records when it is decompressed, and millions of headers in one of them. What is a record is what plain.py
takes for one.

Invariant: no length, count or number is used before it was checked against the bytes that are left.
"""

from __future__ import annotations

import cython
from cython.cimports.cpython.bytearray import PyByteArray_AS_STRING, PyByteArray_FromStringAndSize
from cython.cimports.libc.stdint import int64_t, uint64_t
from cython.cimports.libc.string import memcpy
from cython.cimports.ottla.records.wire import (
    get_int32_varint,
    get_varint,
    put_varint,
    unzigzag,
    varint_bytes,
    zigzag,
)

from ottla.records.batch_header import CorruptBatch

_RECORD_BYTES_MIN = cython.declare(int64_t, 7)
_NO_TIMESTAMP = cython.declare(int64_t, -1)

# The most bytes by which a record grows that gets another timestamp delta: its length and that delta.
_GROWTH_BYTES = cython.declare(int64_t, 15)

# What is read of a record; sizes of null are -1. `rest` is where it goes on behind the timestamp delta.
_Record = cython.struct(
    attributes=cython.char,
    timestamp_delta=uint64_t,
    offset_delta=int64_t,
    key=cython.p_const_char,
    key_bytes=int64_t,
    value_bytes=int64_t,
    rest=cython.p_const_char,
)


@cython.final
@cython.cclass
class _Walk:
    """Goes over the records of a decompressed section, which they must fill exactly."""

    _view = cython.declare(cython.const[cython.uchar][::1])
    _header = cython.declare(object)
    _begin = cython.declare(cython.p_const_char)
    _at = cython.declare(cython.p_const_char)
    _end = cython.declare(cython.p_const_char)
    _count = cython.declare(int64_t)
    _left = cython.declare(int64_t)
    _last_offset_delta = cython.declare(int64_t)
    _base_timestamp = cython.declare(uint64_t)
    _append_time = cython.declare(int64_t)
    _is_append_time = cython.declare(cython.bint)
    _record = cython.declare(_Record)

    def __cinit__(self, header: object, section: object) -> None:
        size: int64_t = len(section)
        self._view = section if size else b"\0"
        self._header = header
        self._begin = self._at = cython.cast(cython.p_const_char, cython.address(self._view[0]))
        self._end = self._begin + size
        self._count = self._left = header.record_count
        self._last_offset_delta = header.last_offset_delta
        self._base_timestamp = cython.cast(uint64_t, cython.cast(int64_t, header.base_timestamp))
        self._append_time = header.max_timestamp
        self._is_append_time = header.log_append_time
        if self._count * _RECORD_BYTES_MIN > size:
            raise self._corrupt()

    @cython.cfunc
    @cython.inline
    @cython.exceptval(-1)
    def _next(self) -> cython.bint:
        """Read the next record; False where there is none left."""
        at: cython.p_const_char
        if self._left == 0:
            if self._at != self._end:
                raise self._corrupt()
            return False
        at = _read(self._at, self._end, self._last_offset_delta, cython.address(self._record))
        if at == cython.NULL:
            raise self._corrupt()
        self._at = at
        self._left -= 1
        return True

    @cython.cfunc
    @cython.inline
    @cython.exceptval(check=False)
    def _timestamp(self) -> int64_t:
        """The time of the record that was read last, wrapped to 64 bits as in Java and C."""
        if self._is_append_time:
            return self._append_time
        delta: int64_t = unzigzag(self._record.timestamp_delta)
        return cython.cast(int64_t, self._base_timestamp + cython.cast(uint64_t, delta))

    @cython.cfunc
    @cython.inline
    def _key(self) -> bytes:
        """The key of the record that was read last, which has one."""
        return self._record.key[: self._record.key_bytes]

    @cython.cfunc
    def _corrupt(self) -> object:
        return CorruptBatch(
            f"The batch at offset {self._header.base_offset} is not made of {self._count} records: what stands at byte "
            f"{self._at - self._begin} of its records is none."
        )


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _read(
    at: cython.p_const_char, end: cython.p_const_char, last_offset_delta: int64_t, record: cython.pointer(_Record)
) -> cython.p_const_char:
    """Read one record and return its end, or NULL if this is none."""
    number: int64_t = 0
    headers: int64_t = 0
    at = get_int32_varint(at, end, cython.address(number))
    if at == cython.NULL or number < _RECORD_BYTES_MIN - 1 or number > end - at:
        return cython.NULL
    end = at + number
    record.attributes = at[0]
    at = get_varint(at + 1, end, cython.address(record.timestamp_delta))
    if at == cython.NULL:
        return cython.NULL
    record.rest = at
    at = get_int32_varint(at, end, cython.address(record.offset_delta))
    if at == cython.NULL or record.offset_delta < 0 or record.offset_delta > last_offset_delta:
        return cython.NULL
    at = _skip_blob(at, end, cython.address(record.key_bytes))
    if at != cython.NULL:
        record.key = at - record.key_bytes
        at = _skip_blob(at, end, cython.address(record.value_bytes))
    if at != cython.NULL:
        at = get_int32_varint(at, end, cython.address(headers))
    if at == cython.NULL or headers < 0 or headers > (end - at) // 2:
        return cython.NULL
    while headers > 0:
        at = _skip_blob(at, end, cython.address(number))
        if at == cython.NULL or number < 0:  # every header has a name
            return cython.NULL
        at = _skip_blob(at, end, cython.address(number))
        if at == cython.NULL:
            return cython.NULL
        headers -= 1
    return at if at == end else cython.NULL


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _skip_blob(at: cython.p_const_char, end: cython.p_const_char, size: cython.pointer(int64_t)) -> cython.p_const_char:
    """Where a blob ends, and its size (-1: null); NULL if it does not end before `end`."""
    at = get_int32_varint(at, end, size)
    if at == cython.NULL or size[0] < -1 or size[0] > end - at:
        return cython.NULL
    return at + size[0] if size[0] > 0 else at


def refused_rows(
    header: object, section: object, *, keyed: bool, oldest_ms: int64_t, newest_ms: int64_t, named_max: int64_t
) -> tuple:
    """Return (records that are refused, those of them for their time, [(number in the batch, time)]); CorruptBatch.

    A record is refused if it has no key and `keyed` asks for one (its time is told as None), or if its time is neither
    -1 nor between the two. The list ends after `named_max`.
    """
    walk: _Walk = _Walk(header, section)
    wants_keys: cython.bint = keyed
    named: list = []
    refused: int64_t = 0
    late: int64_t = 0
    row: int64_t = -1
    timestamp: int64_t
    while walk._next():
        row += 1
        timestamp = walk._timestamp()
        if wants_keys and walk._record.key_bytes < 0:
            refused += 1
            if refused <= named_max:
                named.append((row, None))
        elif timestamp != _NO_TIMESTAMP and (timestamp < oldest_ms or timestamp > newest_ms):
            refused += 1
            late += 1
            if refused <= named_max:
                named.append((row, timestamp))
    return refused, late, named


def first_since(header: object, section: object, timestamp_ms: int64_t, offset: int64_t) -> object:
    """The (offset, time) of the first record from this time and this offset on; None without one. CorruptBatch."""
    walk: _Walk = _Walk(header, section)
    base_offset: int64_t = header.base_offset
    found: object = None
    while walk._next():
        if found is None and walk._timestamp() >= timestamp_ms and base_offset + walk._record.offset_delta >= offset:
            found = base_offset + walk._record.offset_delta, walk._timestamp()
    return found


def map_keys(header: object, section: object, begin: int64_t, latest: dict) -> tuple:
    """Note each key's last offset, from offset `begin` on; (number of keys that are new, their bytes). CorruptBatch."""
    walk: _Walk = _Walk(header, section)
    base_offset: int64_t = header.base_offset
    before: cython.Py_ssize_t = len(latest)
    known: cython.Py_ssize_t = before
    new_bytes: int64_t = 0
    while walk._next():
        if walk._record.key_bytes < 0 or base_offset + walk._record.offset_delta < begin:
            continue
        latest[walk._key()] = base_offset + walk._record.offset_delta
        if len(latest) != known:
            known = len(latest)
            new_bytes += walk._record.key_bytes
    return known - before, new_bytes


def staying(header: object, section: object, latest: dict, expired: cython.bint) -> tuple:
    """Return (a byte for each record: whether it stays, how many do, whether there is a tombstone among these).

    A record stays if it has a key, `latest` has no later offset of that key, and it is no tombstone that is `expired`.
    CorruptBatch.
    """
    walk: _Walk = _Walk(header, section)
    base_offset: int64_t = header.base_offset
    flags: bytearray = bytearray(walk._count)
    flag: cython.p_char = PyByteArray_AS_STRING(flags)
    count: int64_t = 0
    tombstones: int64_t = 0
    row: int64_t = -1
    while walk._next():
        row += 1
        if walk._record.key_bytes < 0 or (expired and walk._record.value_bytes < 0):
            continue
        last = latest.get(walk._key())
        if last is None or base_offset + walk._record.offset_delta >= cython.cast(int64_t, last):
            flag[row] = 1
            count += 1
            tombstones += walk._record.value_bytes < 0
    return flags, count, tombstones > 0


def rewritten(header: object, section: object, flags: bytearray, base_timestamp: int64_t) -> tuple:
    """The records whose flag is set, with deltas from another base timestamp; (their section, the latest time)."""
    walk: _Walk = _Walk(header, section)
    flag: cython.p_char = PyByteArray_AS_STRING(flags)
    if len(flags) != walk._count:
        raise ValueError(f"{len(flags)} flags for {walk._count} records")
    room: cython.Py_ssize_t = (walk._end - walk._begin) + _GROWTH_BYTES * cython.cast(int64_t, flags.count(1))
    made: bytearray = PyByteArray_FromStringAndSize(cython.NULL, room)
    to: cython.p_char = PyByteArray_AS_STRING(made)
    shift: uint64_t = walk._base_timestamp - cython.cast(uint64_t, base_timestamp)
    newest: int64_t = cython.cast(int64_t, cython.cast(uint64_t, 1) << 63)
    timestamp: int64_t
    delta: uint64_t
    rest: int64_t
    row: int64_t = -1
    while walk._next():
        row += 1
        if not flag[row]:
            continue
        delta = cython.cast(uint64_t, unzigzag(walk._record.timestamp_delta))
        timestamp = cython.cast(int64_t, walk._base_timestamp + delta)
        newest = max(newest, timestamp)
        delta = zigzag(cython.cast(int64_t, delta + shift))
        rest = walk._at - walk._record.rest
        to = put_varint(to, zigzag(1 + varint_bytes(delta) + rest))
        to[0] = walk._record.attributes
        to = put_varint(to + 1, delta)
        memcpy(to, walk._record.rest, rest)
        to += rest
    del made[to - PyByteArray_AS_STRING(made) :]
    return made, newest
