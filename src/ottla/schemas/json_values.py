"""Values of Arrow columns as JSON text, one at a time and without the interpreter's lock (compiled).

`put_value` appends the value of a `Node` in one row to the text so far; for a nested type it writes the children. The
lock is taken only for floats: Python's own function finds their shortest digits. (Whole floats below 1e15, except zero,
need no lock.)

How values are written: whole numbers, booleans and text as in JSON; floats with the fewest digits that read back the
same; decimals as numbers with all their digits; dates, times and timestamps as ISO 8601 strings (a timestamp with a
time zone in UTC, with a Z; a fraction only if it is not zero); lists as arrays, structs and maps with text keys as
objects. Text is not checked: in Arrow it must be UTF-8.

JSON has neither NaN nor infinities: `first_not_finite` finds them before anything is written.
"""

from __future__ import annotations

import cython
from cython.cimports.cpython.mem import PyMem_Free
from cython.cimports.libc.math import isfinite
from cython.cimports.libc.stdint import int32_t, int64_t, uint8_t, uint64_t
from cython.cimports.libc.string import memcpy, strlen
from cython.cimports.ottla.records.arrow_layout import Blobs, Growing, blob_at, is_set, reserve, whole_number
from cython.cimports.ottla.schemas.json_nodes import (
    AS_BOOLEAN,
    AS_DATE,
    AS_DECIMAL,
    AS_DOUBLE,
    AS_FLOAT,
    AS_LIST,
    AS_NULL,
    AS_STRUCT,
    AS_TEXT,
    AS_TIME,
    AS_TIMESTAMP,
    AS_UNSIGNED,
    AS_WHOLE,
    Node,
)
from cython.cimports.ottla.schemas.numbers import (
    DOT_ZERO,
    PyOS_double_to_string,
    PyOS_string_to_double,
    put_clock,
    put_date,
    put_decimal,
    put_digits,
    put_unsigned,
)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def put_value(out: cython.pointer(Growing), node: cython.pointer(cython.const[Node]), row: int64_t) -> cython.bint:
    """Write one value; False if there is no memory."""
    i: int64_t = row + node.offset
    # Room for any value of a bounded size; the longest are decimals with a large negative scale.
    if not reserve(out, 256):
        return False
    if node.form == AS_TEXT:
        return _put_text(out, cython.address(node.text), row)
    if node.form == AS_NULL or not is_set(node.validity, i):
        return _put_word(out, b"null", 4)
    if node.form == AS_WHOLE:
        out.size = _end(out, put_digits(_at(out), whole_number(node.values, node.type, i)))
    elif node.form == AS_UNSIGNED:
        out.size = _end(out, put_unsigned(_at(out), cython.cast(cython.pointer(uint64_t), node.values)[i]))
    elif node.form == AS_BOOLEAN:
        if is_set(cython.cast(cython.p_const_uchar, node.values), i):
            return _put_word(out, b"true", 4)
        return _put_word(out, b"false", 5)
    elif node.form == AS_DOUBLE:
        return _put_double(out, cython.cast(cython.pointer(cython.double), node.values)[i], False)
    elif node.form == AS_FLOAT:
        return _put_double(out, cython.cast(cython.pointer(cython.float), node.values)[i], True)
    elif node.form == AS_DECIMAL:
        out.size = _end(
            out,
            put_decimal(
                _at(out),
                cython.cast(cython.p_const_uchar, node.values) + i * node.width,
                cython.cast(cython.int, node.width),
                node.digits,
            ),
        )
    elif node.form == AS_DATE or node.form == AS_TIME or node.form == AS_TIMESTAMP:
        _put_time(out, node, whole_number(node.values, node.type, i))
    elif node.form == AS_STRUCT:
        return _put_struct(out, node, row)
    elif node.form == AS_LIST:
        return _put_list(out, node, i)
    else:
        return _put_map(out, node, i)
    return True


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _at(out: cython.pointer(Growing)) -> cython.p_char:
    return out.data + out.size


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _end(out: cython.pointer(Growing), at: cython.p_char) -> int64_t:
    return at - out.data


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _put_word(out: cython.pointer(Growing), word: cython.p_const_char, size: int64_t) -> cython.bint:
    if not reserve(out, size):
        return False
    memcpy(_at(out), word, size)
    out.size += size
    return True


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _put_text(out: cython.pointer(Growing), column: cython.pointer(cython.const[Blobs]), row: int64_t) -> cython.bint:
    data: cython.p_const_char = cython.NULL
    size: int64_t = blob_at(column, row, cython.address(data))
    if size < 0:
        return _put_word(out, b"null", 4)
    # An escape takes at most six bytes for one byte.
    if not reserve(out, 6 * size + 2):
        return False
    to: cython.p_char = _at(out)
    hexadecimal: cython.p_const_char = b"0123456789abcdef"
    byte: uint8_t
    i: int64_t
    to[0] = b'"'
    to += 1
    for i in range(size):
        byte = cython.cast(uint8_t, data[i])
        if byte >= 0x20 and byte != 0x22 and byte != 0x5C:
            to[0] = cython.cast(cython.char, byte)
            to += 1
            continue
        to[0] = b"\\"
        to[1] = cython.cast(cython.char, byte)
        if byte == 10:
            to[1] = b"n"
        elif byte == 13:
            to[1] = b"r"
        elif byte == 9:
            to[1] = b"t"
        elif byte < 0x20:
            memcpy(to + 1, cython.cast(cython.p_const_char, b"u00"), 3)
            to[4] = hexadecimal[byte >> 4]
            to[5] = hexadecimal[byte & 15]
            to += 4
        to += 2
    to[0] = b'"'
    out.size = _end(out, to + 1)
    return True


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _put_double(out: cython.pointer(Growing), value: cython.double, is_single: cython.bint) -> cython.bint:
    """Write a float with the fewest digits that read back as the same number."""
    to: cython.p_char = _at(out)
    if -1e15 < value < 1e15 and value == cython.cast(cython.double, cython.cast(int64_t, value)) and value != 0.0:
        to = put_digits(to, cython.cast(int64_t, value))
        to[0] = b"."
        to[1] = b"0"
        out.size = _end(out, to + 2)
        return True
    with cython.gil:
        return _put_digits_of_double(out, value, is_single)


@cython.cfunc
@cython.exceptval(check=False)
def _put_digits_of_double(out: cython.pointer(Growing), value: cython.double, is_single: cython.bint) -> cython.bint:
    digits: cython.p_char = cython.NULL
    precision: cython.int
    size: int64_t
    if is_single:
        for precision in range(6, 10):
            PyMem_Free(digits)
            digits = PyOS_double_to_string(value, b"g"[0], precision, DOT_ZERO, cython.NULL)
            if digits == cython.NULL:
                return False
            if cython.cast(cython.float, PyOS_string_to_double(digits, cython.NULL, cython.NULL)) == cython.cast(
                cython.float, value
            ):
                break
    else:
        digits = PyOS_double_to_string(value, b"r"[0], 0, DOT_ZERO, cython.NULL)
        if digits == cython.NULL:
            return False
    size = strlen(digits)
    memcpy(_at(out), digits, size)
    out.size += size
    PyMem_Free(digits)
    return True


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _put_time(out: cython.pointer(Growing), node: cython.pointer(cython.const[Node]), value: int64_t) -> cython.void:
    to: cython.p_char = _at(out)
    days: int64_t = 0
    rest: int64_t = value
    unit: int64_t = node.per_second if node.form == AS_DATE else node.per_second * 86400
    if node.form != AS_TIME:
        # C rounds a quotient towards zero, but a day begins before its times.
        days = value // unit
        rest = value % unit
        if rest < 0:
            rest += unit
            days -= 1
    to[0] = b'"'
    to += 1
    if node.form != AS_TIME:
        to = put_date(to, days)
    if node.form == AS_TIMESTAMP:
        to[0] = b"T"
        to += 1
    if node.form != AS_DATE:
        to = put_clock(to, rest, node.per_second, node.digits)
    if node.is_utc:
        to[0] = b"Z"
        to += 1
    to[0] = b'"'
    out.size = _end(out, to + 1)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _put_struct(out: cython.pointer(Growing), node: cython.pointer(cython.const[Node]), row: int64_t) -> cython.bint:
    fields: cython.pointer(cython.const[Node]) = node.children
    i: cython.int
    if not _put_word(out, b"{", 1):
        return False
    for i in range(node.child_count):
        if not reserve(out, fields[i].label_bytes + 1):
            return False
        if i > 0:
            _put_word(out, b",", 1)
        _put_word(out, fields[i].label, fields[i].label_bytes)
        # The fields' offsets include this node's offset.
        if not put_value(out, cython.address(fields[i]), row):
            return False
    return _put_word(out, b"}", 1)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _items(node: cython.pointer(cython.const[Node]), i: int64_t, begin: cython.pointer(int64_t)) -> int64_t:
    """Write where a list's items begin into `begin`; return where they end."""
    if node.width < 0:
        begin[0] = 0
        return 0
    if node.width:
        begin[0] = i * node.width
        return begin[0] + node.width
    if node.is_large:
        begin[0] = cython.cast(cython.pointer(int64_t), node.values)[i]
        return cython.cast(cython.pointer(int64_t), node.values)[i + 1]
    begin[0] = cython.cast(cython.pointer(int32_t), node.values)[i]
    return cython.cast(cython.pointer(int32_t), node.values)[i + 1]


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _put_list(out: cython.pointer(Growing), node: cython.pointer(cython.const[Node]), i: int64_t) -> cython.bint:
    item: cython.pointer(cython.const[Node]) = node.children
    begin: int64_t = 0
    end: int64_t = _items(node, i, cython.address(begin))
    j: int64_t
    if not _put_word(out, b"[", 1):
        return False
    for j in range(begin, end):
        if j > begin and not _put_word(out, b",", 1):
            return False
        if not put_value(out, item, j):
            return False
    return _put_word(out, b"]", 1)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _put_map(out: cython.pointer(Growing), node: cython.pointer(cython.const[Node]), i: int64_t) -> cython.bint:
    entry: cython.pointer(cython.const[Node]) = node.children
    begin: int64_t = 0
    end: int64_t = _items(node, i, cython.address(begin))
    j: int64_t
    if not _put_word(out, b"{", 1):
        return False
    for j in range(begin, end):
        if j > begin and not _put_word(out, b",", 1):
            return False
        if not put_value(out, entry, j) or not _put_word(out, b":", 1):
            return False
        if not put_value(out, cython.address(entry[1]), j):
            return False
    return _put_word(out, b"}", 1)


# ---------------------------------------------------------------------- numbers that JSON does not have


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def first_not_finite(
    node: cython.pointer(cython.const[Node]), begin: int64_t, end: int64_t, value: cython.pointer(cython.double)
) -> int64_t:
    """The first row with NaN or an infinity, which is written into `value`; -1 if there is none."""
    row: int64_t
    i: int64_t
    first: int64_t = 0
    last: int64_t
    child: cython.int
    if not node.has_floats:
        return -1
    for row in range(begin, end):
        i = row + node.offset
        if not is_set(node.validity, i):
            continue
        if node.form == AS_DOUBLE or node.form == AS_FLOAT:
            value[0] = (
                cython.cast(cython.pointer(cython.double), node.values)[i]
                if node.form == AS_DOUBLE
                else cython.cast(cython.pointer(cython.float), node.values)[i]
            )
            if not isfinite(value[0]):
                return row
            continue
        # A struct's fields have the same rows (their offsets include its own); a list's or map's child has the items.
        first, last = row, row + 1
        if node.form != AS_STRUCT:
            last = _items(node, i, cython.address(first))
        for child in range(node.child_count):
            if first_not_finite(cython.address(node.children[child]), first, last, value) >= 0:
                return row
    return -1
