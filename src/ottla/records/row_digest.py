"""A digest of rows that does not depend on their order, nor on how many chunks or tasks they come in (compiled).

Each row is hashed to 64 bits, and the digest is the sum of these, modulo 2^64: digests of parts add up to the digest of
the whole. It shows whether two runs wrote the same rows. It is not safe against rows that are made to have a certain
digest.

Invariants
- A row's hash depends on its values alone, not on how Arrow lays out a column. Text counts as its UTF-8, a missing
  column as one of nulls; a null is not an empty string.
- The digest is stored in Kafka and compared by later versions: its arithmetic must not change (`tests/records` has a
  few digests).
"""

from __future__ import annotations

import cython
from cython.cimports.libc.stdint import int64_t, uint64_t
from cython.cimports.libc.string import memcpy, memset
from cython.cimports.ottla.records.arrow_columns import (
    column_index,
    read_byte_strings,
    read_headers,
    validity_of,
    wrong_type,
)
from cython.cimports.ottla.records.arrow_data import Chunk
from cython.cimports.ottla.records.arrow_layout import (
    ArrowArray,
    ArrowSchema,
    Blobs,
    Lists,
    Numbers,
    blob_at,
    list_at,
    number_at,
)

from ottla.records.arrow_data import chunks

_MULTIPLIER = cython.declare(uint64_t, 0x9E3779B97F4A7C15)
_FINAL_1 = cython.declare(uint64_t, 0xFF51AFD7ED558CCD)
_FINAL_2 = cython.declare(uint64_t, 0xC4CEB9FE1A85EC53)
# Hashed in place of a length where there is no value.
_NULL = cython.declare(uint64_t, 0xFFFFFFFFFFFFFFFF)


def digest_rows(
    data: object,
    *,
    topic: object = None,
    key: object = None,
    value: object = None,
    headers: object = None,
    partition: object = None,
    timestamp: object = None,
) -> int:
    """The sum of the hashes of all rows, 0 to 2^64-1; arguments name columns, `data` is what `send_table` takes."""
    total: uint64_t = 0
    columns: _Columns = _Columns()
    for chunk in chunks(data):
        columns.open(chunk, topic, key, value, headers, partition, timestamp)
        total += columns.digest(chunk)
    return total


@cython.final
@cython.cclass
class _Columns:
    """Where a chunk's columns are."""

    _topic = cython.declare(Blobs)
    _key = cython.declare(Blobs)
    _value = cython.declare(Blobs)
    _headers = cython.declare(Lists)
    _partition = cython.declare(Numbers)
    _timestamp = cython.declare(Numbers)

    @cython.cfunc
    def open(
        self, chunk: Chunk, topic: object, key: object, value: object, headers: object, partition: object, stamp: object
    ) -> object:
        _open_blobs(chunk, cython.address(self._topic), "topic", topic)
        _open_blobs(chunk, cython.address(self._key), "key", key)
        _open_blobs(chunk, cython.address(self._value), "value", value)
        _open_numbers(chunk, cython.address(self._partition), "partition", partition)
        _open_numbers(chunk, cython.address(self._timestamp), "timestamp", stamp)
        memset(cython.address(self._headers), 0, cython.sizeof(Lists))
        i: cython.Py_ssize_t
        if headers is not None:
            i = column_index(chunk, "headers", headers)
            read_headers(
                cython.address(self._headers),
                chunk.schema.c.children[i],
                chunk.c.children[i],
                chunk.c.offset,
                headers,
            )
        return None

    @cython.cfunc
    @cython.exceptval(check=False)
    def digest(self, chunk: Chunk) -> uint64_t:
        total: uint64_t = 0
        hashed: uint64_t
        row: int64_t
        rows: int64_t = chunk.c.length
        with cython.nogil:
            for row in range(rows):
                hashed = _take_blob(0, cython.address(self._topic), row)
                hashed = _take_blob(hashed, cython.address(self._key), row)
                hashed = _take_blob(hashed, cython.address(self._value), row)
                hashed = _take_headers(hashed, cython.address(self._headers), row)
                hashed = _take_number(hashed, cython.address(self._partition), row)
                hashed = _take_number(hashed, cython.address(self._timestamp), row)
                total += _finish(hashed)
        return total


@cython.cfunc
def _open_blobs(chunk: Chunk, column: cython.pointer(Blobs), role: str, name: object) -> object:
    memset(column, 0, cython.sizeof(Blobs))  # kind 0: all null
    i: cython.Py_ssize_t
    if name is not None:
        i = column_index(chunk, role, name)
        read_byte_strings(column, chunk.schema.c.children[i], chunk.c.children[i], chunk.c.offset, role, name)
    return None


@cython.cfunc
def _open_numbers(chunk: Chunk, column: cython.pointer(Numbers), role: str, name: object) -> object:
    memset(column, 0, cython.sizeof(Numbers))
    if name is None:
        return None
    i: cython.Py_ssize_t = column_index(chunk, role, name)
    schema: cython.pointer(ArrowSchema) = chunk.schema.c.children[i]
    array: cython.pointer(ArrowArray) = chunk.c.children[i]
    kind: str = cython.cast(bytes, schema.format).decode("ascii", "replace")
    if kind == "n":
        return None
    if schema.dictionary != cython.NULL or (kind not in tuple("cCsSiIlL") and kind[:2] != "ts"):
        raise wrong_type(role, name, schema, "a whole-number type or a timestamp")
    column.type = b"l"[0] if kind[:2] == "ts" else schema.format[0]
    column.offset = array.offset + chunk.c.offset
    column.validity = validity_of(array)
    column.values = array.buffers[1]
    return None


# ---------------------------------------------------------------------- one row


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _take(hashed: uint64_t, word: uint64_t) -> uint64_t:
    """Hash a word: different hashes stay different with the same word, and the same hash differs with another word."""
    hashed = (hashed ^ word) * _MULTIPLIER
    return hashed ^ (hashed >> 32)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _finish(hashed: uint64_t) -> uint64_t:
    """Mix all bits of a hash, so that sums of hashes rarely are the same for other rows."""
    hashed = (hashed ^ (hashed >> 33)) * _FINAL_1
    hashed = (hashed ^ (hashed >> 33)) * _FINAL_2
    return hashed ^ (hashed >> 33)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _take_blob(hashed: uint64_t, column: cython.pointer(cython.const[Blobs]), row: int64_t) -> uint64_t:
    data: cython.p_const_char = cython.NULL
    length: int64_t = blob_at(column, row, cython.address(data))
    if length < 0:
        return _take(hashed, _NULL)
    hashed = _take(hashed, length)
    # Two hashes at a time: the processor computes them in parallel.
    other: uint64_t = _MULTIPLIER
    word: uint64_t = 0
    other_word: uint64_t = 0
    while length >= 16:
        memcpy(cython.address(word), data, 8)
        memcpy(cython.address(other_word), data + 8, 8)
        hashed = _take(hashed, word)
        other = _take(other, other_word)
        data += 16
        length -= 16
    if length >= 8:
        memcpy(cython.address(word), data, 8)
        hashed = _take(hashed, word)
        data += 8
        length -= 8
    if length > 0:
        word = 0
        memcpy(cython.address(word), data, length)
        hashed = _take(hashed, word)
    return _take(hashed, other)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _take_headers(hashed: uint64_t, lists: cython.pointer(cython.const[Lists]), row: int64_t) -> uint64_t:
    begin: int64_t = 0
    count: int64_t = list_at(lists, row, cython.address(begin))
    i: int64_t
    hashed = _take(hashed, count)  # no headers and null are the same record
    for i in range(begin, begin + count):
        hashed = _take_blob(hashed, cython.address(lists.keys), i)
        hashed = _take_blob(hashed, cython.address(lists.values), i)
    return hashed


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _take_number(hashed: uint64_t, column: cython.pointer(cython.const[Numbers]), row: int64_t) -> uint64_t:
    number: int64_t = 0
    if not number_at(column, row, cython.address(number)):
        return _take(hashed, _NULL)
    return _take(_take(hashed, 1), number)
