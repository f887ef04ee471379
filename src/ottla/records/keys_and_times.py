"""What a broker wants to know of the records in a batch: which have no key, and which times they have (compiled).

No object is made per record or per header, and nothing is copied: a batch of a kilobyte may hold a hundred megabytes
of records when it is decompressed, and millions of headers in one of them. What is a record is what plain.py takes for
one.

Invariant: no length, count or number is used before it was checked against the bytes that are left.
"""

from __future__ import annotations

import cython
from cython.cimports.libc.stdint import int64_t, uint64_t
from cython.cimports.ottla.records.wire import get_int32_varint, get_varint, unzigzag

from ottla.records.batch_header import CorruptBatch

_RECORD_BYTES_MIN = cython.declare(int64_t, 7)
_NO_TIMESTAMP = cython.declare(int64_t, -1)

# What is read of a record.
_Record = cython.struct(timestamp_delta=uint64_t, offset_delta=int64_t, key_bytes=int64_t)


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
    at = get_varint(at + 1, end, cython.address(record.timestamp_delta))
    if at == cython.NULL:
        return cython.NULL
    at = get_int32_varint(at, end, cython.address(record.offset_delta))
    if at == cython.NULL or record.offset_delta < 0 or record.offset_delta > last_offset_delta:
        return cython.NULL
    at = _skip_blob(at, end, cython.address(record.key_bytes))
    if at != cython.NULL:
        at = _skip_blob(at, end, cython.address(number))
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
