"""Finds the columns that a caller names in a chunk of Arrow data (compiled).

This is done once per chunk: a column becomes a C struct of arrow_layout.pxd with the addresses of its buffers, and rows
are read without a Python object. For a column that cannot be sent, RecordError names the column, the part of the record
that it was named for, its type and the types that are allowed.
"""

from __future__ import annotations

import cython
from cython.cimports.libc.stdint import int64_t, uint8_t
from cython.cimports.libc.string import memset
from cython.cimports.ottla.records.arrow_data import Chunk
from cython.cimports.ottla.records.arrow_layout import (
    ALL_NULL,
    FIXED_WIDTH,
    OFFSETS_32,
    OFFSETS_64,
    VIEWS,
    ArrowArray,
    ArrowSchema,
    Blobs,
    Lists,
)

from ottla.errors import RecordError

_BYTE_TYPES = "a string or binary type (also large, view, fixed-size or dictionary-encoded)"
_TYPE_NAMES = {
    "n": "null", "b": "bool", "c": "int8", "C": "uint8", "s": "int16", "S": "uint16", "i": "int32", "I": "uint32",
    "l": "int64", "L": "uint64", "e": "half float", "f": "float", "g": "double", "z": "binary", "Z": "large_binary",
    "u": "string", "U": "large_string", "vz": "binary_view", "vu": "string_view", "tdD": "date32", "tdm": "date64",
    "+l": "list", "+L": "large_list", "+s": "struct", "+m": "map", "+r": "run-end encoded",
}  # fmt: skip


@cython.cfunc
def type_name(schema: cython.pointer(cython.const[ArrowSchema])) -> str:
    text = cython.cast(bytes, schema.format).decode("utf-8", "replace")
    if schema.dictionary != cython.NULL:
        return f"dictionary of {type_name(schema.dictionary)}"
    if text[:2] == "ts":
        return "timestamp"
    return _TYPE_NAMES.get(text, f"Arrow type {text!r}")


@cython.cfunc
def wrong_type(role: str, name: str, schema: cython.pointer(cython.const[ArrowSchema]), allowed: str) -> object:
    return RecordError(f"Column {name!r}, named as {role}, is of type {type_name(schema)}; it has to be {allowed}.")


def column_names(chunk: Chunk) -> list:
    """The names of a table's columns; [] if the data is a single column."""
    schema: cython.pointer(cython.const[ArrowSchema]) = cython.address(chunk.schema.c)
    return [_field_name(schema, i) for i in range(schema.n_children)]


@cython.cfunc
def _field_name(schema: cython.pointer(cython.const[ArrowSchema]), i: int64_t) -> str:
    name: cython.p_const_char = schema.children[i].name
    return "" if name == cython.NULL else cython.cast(bytes, name).decode("utf-8", "replace")


@cython.cfunc
@cython.exceptval(-1)
def column_index(chunk: Chunk, role: str, name: str) -> cython.Py_ssize_t:
    names = column_names(chunk)
    count = names.count(name)
    if count == 1:
        return names.index(name)
    if count:
        raise RecordError(f"Column {name!r}, named as {role}, is there {count} times.")
    shown = ", ".join(repr(known) for known in names[:20]) + (", ..." if len(names) > 20 else "")
    raise RecordError(f"There is no column {name!r}, named as {role}; the columns are {shown}.")


@cython.cfunc
@cython.exceptval(-1)
def is_byte_strings(schema: cython.pointer(cython.const[ArrowSchema])) -> cython.bint:
    """Whether `read_byte_strings` takes a column of this type."""
    if schema.dictionary != cython.NULL:
        schema = schema.dictionary
    kind: str = cython.cast(bytes, schema.format).decode("ascii", "replace")
    return kind in ("n", "u", "z", "U", "Z", "vu", "vz") or kind[:2] == "w:"


@cython.cfunc
def read_byte_strings(
    column: cython.pointer(Blobs),
    schema: cython.pointer(cython.const[ArrowSchema]),
    array: cython.pointer(cython.const[ArrowArray]),
    parent_offset: int64_t,
    role: str,
    name: str,
) -> object:
    """Find a byte string column's buffers; RecordError when it is of another type."""
    memset(column, 0, cython.sizeof(Blobs))
    values: cython.pointer(cython.const[ArrowArray]) = array
    values_schema: cython.pointer(cython.const[ArrowSchema]) = schema
    if schema.dictionary != cython.NULL:
        column.indices = array.buffers[1]
        column.index_validity = validity_of(array)
        column.index_offset = array.offset + parent_offset
        column.index_type = schema.format[0]
        values = array.dictionary
        values_schema = schema.dictionary
        column.length = values.length
        parent_offset = 0
        if values_schema.dictionary != cython.NULL:
            raise wrong_type(role, name, schema, _BYTE_TYPES)
    column.offset = values.offset + parent_offset
    kind: str = cython.cast(bytes, values_schema.format).decode("ascii", "replace")
    if kind == "n":
        column.kind = ALL_NULL
        return None
    column.validity = validity_of(values)
    if kind in ("u", "z", "U", "Z"):
        column.kind = OFFSETS_32 if kind in ("u", "z") else OFFSETS_64
        column.offsets = values.buffers[1]
        column.data = cython.cast(cython.p_const_char, values.buffers[2])
    elif kind in ("vu", "vz"):
        column.kind = VIEWS
        column.offsets = values.buffers[1]
        column.buffers = values.buffers
    elif kind[:2] == "w:":
        column.kind = FIXED_WIDTH
        column.offsets = values.buffers[1]
        column.width = int(kind[2:])
    else:
        raise wrong_type(role, name, schema, _BYTE_TYPES)
    return None


@cython.cfunc
@cython.exceptval(check=False)
def validity_of(array: cython.pointer(cython.const[ArrowArray])) -> cython.pointer(cython.const[uint8_t]):
    if array.null_count == 0:
        return cython.NULL
    return cython.cast(cython.pointer(cython.const[uint8_t]), array.buffers[0])


@cython.cfunc
def read_headers(
    column: cython.pointer(Lists),
    schema: cython.pointer(cython.const[ArrowSchema]),
    array: cython.pointer(cython.const[ArrowArray]),
    parent_offset: int64_t,
    name: str,
) -> object:
    """Find the buffers of a column of list<struct<key, value>> or map<key, value>."""
    allowed = "list<struct<key: string, value: binary>> or map<string, binary>"
    kind: str = cython.cast(bytes, schema.format).decode("ascii", "replace")
    if kind == "n":
        return None
    if kind not in ("+l", "+L", "+m") or cython.cast(bytes, schema.children[0].format) != b"+s":
        raise wrong_type("headers", name, schema, allowed)
    entry_schema: cython.pointer(cython.const[ArrowSchema]) = schema.children[0]
    entries: cython.pointer(cython.const[ArrowArray]) = array.children[0]
    if entry_schema.n_children != 2:
        raise wrong_type("headers", name, schema, allowed)
    # In this order, unless their names show the other one.
    i: int64_t = 1 if [_field_name(entry_schema, at) for at in range(2)] == ["value", "key"] else 0
    column.is_large = kind == "+L"
    column.offset = array.offset + parent_offset
    column.validity = validity_of(array)
    column.item_validity = validity_of(entries)
    column.item_offset = entries.offset
    read_byte_strings(
        cython.address(column.keys), entry_schema.children[i], entries.children[i], entries.offset, "headers", name
    )
    i = 1 - i
    read_byte_strings(
        cython.address(column.values), entry_schema.children[i], entries.children[i], entries.offset, "headers", name
    )
    column.offsets = array.buffers[1]
    return None
