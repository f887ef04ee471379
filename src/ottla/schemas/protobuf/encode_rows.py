"""A row of Arrow columns -> one Protobuf message, without the interpreter's lock (compiled).

`put_message` appends the fields of a message in the order of their numbers. The length of an inner message is written
before it, but known only after it. So one byte is left for it, mostly enough; if not, what was written is moved.
"""

from __future__ import annotations

import cython
from cython.cimports.libc.math import isfinite
from cython.cimports.libc.stdint import int32_t, int64_t, uint32_t, uint64_t
from cython.cimports.libc.string import memcmp, memcpy, memmove
from cython.cimports.ottla.records.arrow_layout import blob_at, is_set, reserve, whole_number
from cython.cimports.ottla.schemas.protobuf.parts import (
    AS_BOOL,
    AS_BYTES,
    AS_DURATION,
    AS_FIXED32,
    AS_FIXED64,
    AS_GROUP,
    AS_LIST,
    AS_MAP,
    AS_MESSAGE,
    AS_STRING,
    AS_TIMESTAMP,
    AS_WRAPPER,
    AS_ZIGZAG32,
    AS_ZIGZAG64,
    Kind,
)
from cython.cimports.ottla.schemas.protobuf.sources import (
    BAD_LAYOUT,
    FLOAT_TOO_LARGE,
    IS_MISSING,
    MEMORY_SHORT,
    NO_SUCH_NAME,
    NO_TIME,
    NULL_ITEM,
    OF_INT32,
    OF_INT64,
    OF_UINT32,
    OUT_OF_RANGE,
    TWO_OF_ONEOF,
    Fault,
    Source,
    Writing,
)
from cython.cimports.ottla.schemas.protobuf.wire import WIRE_BYTES, put_varint, varint_bytes

_SECONDS_MAX = cython.declare(int64_t, 253402300799)
_SECONDS_MIN = cython.declare(int64_t, -62135596800)
_DURATION_MAX = cython.declare(int64_t, 315576000000)
_INT32_MIN = cython.declare(int64_t, -2147483648)
_UINT32_MAX = cython.declare(int64_t, 4294967295)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def put_message(writing: cython.pointer(Writing), message: cython.pointer(Source), row: int64_t) -> cython.bint:
    """Write the fields of a message; False, with the reason in `writing`, if that is not possible."""
    i: cython.int
    before: int64_t
    child: cython.pointer(Source)
    for i in range(message.chosen_count):
        message.chosen[i] = -1
    for i in range(message.child_count):
        child = cython.address(message.children[i])
        before = writing.out.size
        if child.has_column and not _put_field(writing, child, row):
            return False
        if writing.out.size == before:
            if child.required:
                return _fail(writing, child, row, IS_MISSING)
        elif child.oneof >= 0:
            if message.chosen[child.oneof] >= 0:
                return _fail(writing, child, row, TWO_OF_ONEOF)
            message.chosen[child.oneof] = i
    return True


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _fail(writing: cython.pointer(Writing), source: cython.pointer(Source), row: int64_t, fault: Fault) -> cython.bint:
    writing.fault = fault
    writing.source = source
    writing.row = row
    return False


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _put_field(writing: cython.pointer(Writing), source: cython.pointer(Source), row: int64_t) -> cython.bint:
    """Write a field with its tag; nothing where it is null."""
    data: cython.p_const_char = cython.NULL
    if not reserve(cython.address(writing.out), 32):
        return _fail(writing, source, row, MEMORY_SHORT)
    if source.kind == AS_LIST or source.kind == AS_MAP:
        return _put_items(writing, source, row)
    if _is_text(source):
        return _put_text(writing, source, row, source.tag, source.implicit)
    if not is_set(source.validity, row + source.offset):
        return True
    # A value of a dictionary may be null, too.
    if source.text.indices != cython.NULL and blob_at(cython.address(source.text), row, cython.address(data)) == -1:
        return True
    return _put_one(writing, source, row, source.tag, source.implicit)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _is_text(source: cython.pointer(Source)) -> cython.bint:
    """Whether the source is a column of text or bytes that is written as it is."""
    return source.kind == AS_STRING or source.kind == AS_BYTES


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _put_number(writing: cython.pointer(Writing), number: uint64_t) -> cython.void:
    writing.out.size = put_varint(writing.out.data + writing.out.size, number) - writing.out.data


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _put_text(
    writing: cython.pointer(Writing), source: cython.pointer(Source), row: int64_t, tag: uint64_t, implicit: cython.bint
) -> cython.bint:
    data: cython.p_const_char = cython.NULL
    size: int64_t = blob_at(cython.address(source.text), row, cython.address(data))
    if size < 0:
        return True if size == -1 else _fail(writing, source, row, BAD_LAYOUT)
    if implicit and size == 0:
        return True
    if not reserve(cython.address(writing.out), size + 32):
        return _fail(writing, source, row, MEMORY_SHORT)
    _put_number(writing, tag)
    _put_number(writing, size)
    memcpy(writing.out.data + writing.out.size, data, size)
    writing.out.size += size
    return True


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _put_one(
    writing: cython.pointer(Writing), source: cython.pointer(Source), row: int64_t, tag: uint64_t, implicit: cython.bint
) -> cython.bint:
    """Write a value that is not null, with its tag."""
    bits: uint64_t = 0
    begin: int64_t
    if source.kind == AS_MESSAGE:
        begin = _begin(writing, tag)
        return put_message(writing, source, row) and _end(writing, source, row, begin)
    if source.kind == AS_GROUP:
        _put_number(writing, tag)
        if not put_message(writing, source, row):
            return False
        if not reserve(cython.address(writing.out), 16):
            return _fail(writing, source, row, MEMORY_SHORT)
        _put_number(writing, tag + 1)
        return True
    if source.kind == AS_TIMESTAMP or source.kind == AS_DURATION:
        return _put_time(writing, source, row, tag)
    if source.kind == AS_WRAPPER:
        begin = _begin(writing, tag)
        if not _put_inner(writing, source, row):
            return False
        return _end(writing, source, row, begin)
    if not _bits_of(writing, source, source.kind, row, cython.address(bits)):
        return False
    if implicit and bits == 0:
        return True
    _put_number(writing, tag)
    _put_bits(writing, source.kind, bits)
    return True


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _put_inner(writing: cython.pointer(Writing), source: cython.pointer(Source), row: int64_t) -> cython.bint:
    """Write the value in a wrapper: field number 1; its default is not written."""
    bits: uint64_t = 0
    if source.inner == AS_STRING or source.inner == AS_BYTES:
        return _put_text(writing, source, row, 8 + WIRE_BYTES, True)
    if not _bits_of(writing, source, source.inner, row, cython.address(bits)):
        return False
    if bits != 0:
        _put_number(writing, 8 + (1 if source.inner == AS_FIXED64 else 5 if source.inner == AS_FIXED32 else 0))
        _put_bits(writing, source.inner, bits)
    return True


# ---------------------------------------------------------------------- numbers


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _put_bits(writing: cython.pointer(Writing), kind: Kind, bits: uint64_t) -> cython.void:
    narrow: uint32_t = cython.cast(uint32_t, bits)
    if kind == AS_FIXED64:
        memcpy(writing.out.data + writing.out.size, cython.address(bits), 8)
        writing.out.size += 8
    elif kind == AS_FIXED32:
        memcpy(writing.out.data + writing.out.size, cython.address(narrow), 4)
        writing.out.size += 4
    elif kind == AS_ZIGZAG64:
        _put_number(writing, (bits << 1) ^ cython.cast(uint64_t, cython.cast(int64_t, bits) >> 63))
    elif kind == AS_ZIGZAG32:
        _put_number(
            writing, cython.cast(uint32_t, (narrow << 1) ^ cython.cast(uint32_t, cython.cast(int32_t, narrow) >> 31))
        )
    else:
        _put_number(writing, bits)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _bits_of(
    writing: cython.pointer(Writing),
    source: cython.pointer(Source),
    kind: Kind,
    row: int64_t,
    bits: cython.pointer(uint64_t),
) -> cython.bint:
    """A number's bits as they are written; for a varint the sign is extended to 64 bits."""
    i: int64_t = row + source.offset
    number: int64_t
    single: cython.float
    double: cython.double
    if kind == AS_BOOL:
        bits[0] = is_set(cython.cast(cython.p_const_uchar, source.values), i)
        return True
    if source.type == b"f"[0] or source.type == b"g"[0]:
        if source.type == b"f"[0]:
            single = cython.cast(cython.pointer(cython.float), source.values)[i]
            double = single
        else:
            double = cython.cast(cython.pointer(cython.double), source.values)[i]
            single = cython.cast(cython.float, double)
        bits[0] = 0
        if not source.is_single_float:
            memcpy(bits, cython.address(double), 8)
        elif isfinite(double) and not isfinite(single):
            return _fail(writing, source, row, FLOAT_TOO_LARGE)
        else:
            memcpy(bits, cython.address(single), 4)
        return True
    if source.by_name:
        return _number_of(writing, source, row, bits)
    number = whole_number(source.values, source.type, i)
    bits[0] = cython.cast(uint64_t, number)
    if source.type == b"L"[0] and number < 0:
        if source.range == OF_INT64 or source.range == OF_INT32 or source.range == OF_UINT32:
            return _fail(writing, source, row, OUT_OF_RANGE)
    elif source.range == OF_INT32:
        if number < _INT32_MIN or number > 0x7FFFFFFF:
            return _fail(writing, source, row, OUT_OF_RANGE)
    elif source.range == OF_UINT32:
        if number < 0 or number > _UINT32_MAX:
            return _fail(writing, source, row, OUT_OF_RANGE)
    elif source.range != OF_INT64 and number < 0:
        return _fail(writing, source, row, OUT_OF_RANGE)
    return True


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _number_of(
    writing: cython.pointer(Writing), source: cython.pointer(Source), row: int64_t, bits: cython.pointer(uint64_t)
) -> cython.bint:
    """The number of an enum's name, or of a text of digits."""
    data: cython.p_const_char = cython.NULL
    size: int64_t = blob_at(cython.address(source.text), row, cython.address(data))
    low: int64_t = 0
    high: int64_t = source.name_count
    middle: int64_t
    order: cython.int
    number: int64_t = 0
    i: int64_t
    if size < 0:
        return _fail(writing, source, row, NULL_ITEM if size == -1 else BAD_LAYOUT)
    while low < high:
        middle = (low + high) >> 1
        order = memcmp(source.names[middle], data, min(size, source.name_bytes[middle]))
        if order == 0:
            order = (source.name_bytes[middle] > size) - (source.name_bytes[middle] < size)
        if order == 0:
            bits[0] = cython.cast(uint64_t, cython.cast(int64_t, source.name_numbers[middle]))
            return True
        if order < 0:
            low = middle + 1
        else:
            high = middle
    i = 1 if size > 0 and data[0] == b"-"[0] else 0
    if size <= i or size > 11:
        return _fail(writing, source, row, NO_SUCH_NAME)
    low = i
    while i < size:
        if data[i] < b"0"[0] or data[i] > b"9"[0]:
            return _fail(writing, source, row, NO_SUCH_NAME)
        number = 10 * number + (data[i] - b"0"[0])
        i += 1
    if low == 1:
        number = -number
    if number < _INT32_MIN or number > 0x7FFFFFFF:
        return _fail(writing, source, row, OUT_OF_RANGE)
    bits[0] = cython.cast(uint64_t, number)
    return True


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _put_time(
    writing: cython.pointer(Writing), source: cython.pointer(Source), row: int64_t, tag: uint64_t
) -> cython.bint:
    value: int64_t = whole_number(source.values, b"l"[0], row + source.offset)
    seconds: int64_t = value // source.per_second
    nanos: int64_t = (value - seconds * source.per_second) * (1_000_000_000 // source.per_second)
    begin: int64_t
    if source.kind == AS_TIMESTAMP:
        if nanos < 0:
            nanos += 1_000_000_000
            seconds -= 1
        if seconds < _SECONDS_MIN or seconds > _SECONDS_MAX:
            return _fail(writing, source, row, NO_TIME)
    elif seconds < -_DURATION_MAX or seconds > _DURATION_MAX:
        return _fail(writing, source, row, NO_TIME)
    begin = _begin(writing, tag)
    if seconds != 0:
        _put_number(writing, 8)
        _put_number(writing, cython.cast(uint64_t, seconds))
    if nanos != 0:
        _put_number(writing, 16)
        _put_number(writing, cython.cast(uint64_t, nanos))
    return _end(writing, source, row, begin)


# ---------------------------------------------------------------------- lengths, lists and maps


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _begin(writing: cython.pointer(Writing), tag: uint64_t) -> int64_t:
    """Write a tag and leave a byte for a length; return where the contents begin."""
    _put_number(writing, tag)
    writing.out.size += 1
    return writing.out.size


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _end(writing: cython.pointer(Writing), source: cython.pointer(Source), row: int64_t, begin: int64_t) -> cython.bint:
    """Write the length of what was written since `_begin`."""
    size: int64_t = writing.out.size - begin
    more: int64_t = varint_bytes(size) - 1
    if more > 0:
        if not reserve(cython.address(writing.out), more + 32):
            return _fail(writing, source, row, MEMORY_SHORT)
        memmove(writing.out.data + begin + more, writing.out.data + begin, size)
        writing.out.size += more
    put_varint(writing.out.data + begin - 1, size)
    return True


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _put_items(writing: cython.pointer(Writing), source: cython.pointer(Source), row: int64_t) -> cython.bint:
    i: int64_t = row + source.offset
    at: int64_t
    end: int64_t
    begin: int64_t = 0
    bits: uint64_t = 0
    item: cython.pointer(Source) = source.children
    if not is_set(source.validity, i):
        return True
    if source.width > 0:
        at = i * source.width
        end = at + source.width
    elif source.is_large:
        at = cython.cast(cython.pointer(int64_t), source.values)[i]
        end = cython.cast(cython.pointer(int64_t), source.values)[i + 1]
    else:
        at = cython.cast(cython.pointer(int32_t), source.values)[i]
        end = cython.cast(cython.pointer(int32_t), source.values)[i + 1]
    if at >= end:
        return True
    if source.packed:
        begin = _begin(writing, source.tag)
        while at < end:
            if not reserve(cython.address(writing.out), 32):
                return _fail(writing, source, row, MEMORY_SHORT)
            if not item.by_name and not is_set(item.validity, at + item.offset):
                return _fail(writing, source, row, NULL_ITEM)
            if not _bits_of(writing, item, item.kind, at, cython.address(bits)):
                return False
            _put_bits(writing, item.kind, bits)
            at += 1
        return _end(writing, source, row, begin)
    while at < end:
        if source.kind == AS_MAP:
            if not reserve(cython.address(writing.out), 32):
                return _fail(writing, source, row, MEMORY_SHORT)
            begin = _begin(writing, source.tag)
            if not _put_item(writing, cython.address(item.children[0]), at, item.children[0].tag):
                return False
            if not _put_item(writing, cython.address(item.children[1]), at, item.children[1].tag):
                return False
            if not _end(writing, source, row, begin):
                return False
        elif not _put_item(writing, item, at, source.tag):
            return False
        at += 1
    return True


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _put_item(
    writing: cython.pointer(Writing), item: cython.pointer(Source), row: int64_t, tag: uint64_t
) -> cython.bint:
    """Write an item, or the key or value of an entry; a null is an error."""
    before: int64_t = writing.out.size
    if not reserve(cython.address(writing.out), 32):
        return _fail(writing, item, row, MEMORY_SHORT)
    if _is_text(item):
        if not _put_text(writing, item, row, tag, False):
            return False
    elif item.has_column and is_set(item.validity, row + item.offset) and not _put_one(writing, item, row, tag, False):
        return False
    if writing.out.size == before:
        return _fail(writing, item, row, NULL_ITEM)
    return True
