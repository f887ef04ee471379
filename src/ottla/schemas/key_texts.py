"""A column of numbers, booleans or times as keys: each value's JSON text, without quotes (compiled).

A key then has the same text as such a field in a JSON value: 7 is `7`, a date `2013-01-01`. A null stays a null.
"""

from __future__ import annotations

import cython
from cython.cimports.libc.stdint import int64_t
from cython.cimports.libc.stdlib import free
from cython.cimports.libc.string import memset
from cython.cimports.ottla.records.arrow_columns import column_index, validity_of, wrong_type
from cython.cimports.ottla.records.arrow_data import Chunk
from cython.cimports.ottla.records.arrow_layout import (
    ArrowArray,
    ArrowSchema,
    Growing,
    Numbers,
    append_blob,
    is_set,
    number_at,
    reserve_rows,
)
from cython.cimports.ottla.records.key_column import KeyColumn
from cython.cimports.ottla.schemas.json_columns import JsonColumn
from cython.cimports.ottla.schemas.json_nodes import AS_LIST, AS_MAP, AS_NULL, AS_STRUCT, AS_TEXT, Node
from cython.cimports.ottla.schemas.json_values import first_not_finite, put_value

from ottla.errors import RecordError, of_row

_ALLOWED = "text or binary, or a number, decimal, boolean, date, time or timestamp, which is sent as text"


def key_texts(chunk: Chunk, name: str, first_row: int = 0) -> KeyColumn:
    """The keys from a table's column that is neither text nor binary.

    RecordError, with the column, for types that cannot be keys. RecordError, with column and row (counted from
    `first_row`), for NaN and infinities.
    """
    i: cython.Py_ssize_t = column_index(chunk, "key", name)
    schema: cython.pointer(ArrowSchema) = chunk.schema.c.children[i]
    array: cython.pointer(ArrowArray) = chunk.c.children[i]
    indices = cython.declare(Numbers)
    rows: int64_t = chunk.c.length
    offset: int64_t = chunk.c.offset
    memset(cython.address(indices), 0, cython.sizeof(indices))
    if schema.dictionary != cython.NULL:
        indices.type = schema.format[0]
        indices.offset = array.offset + offset
        indices.validity = validity_of(array)
        indices.values = array.buffers[1]
        schema = schema.dictionary
        array = array.dictionary
        offset = 0
    reader: JsonColumn = JsonColumn()
    node = cython.declare(Node)
    memset(cython.address(node), 0, cython.sizeof(node))
    reader._free_nodes()
    try:
        reader._read(cython.address(node), schema, array, offset, name)
    except RecordError:
        node.form = AS_STRUCT
    if node.form in (AS_LIST, AS_MAP, AS_STRUCT, AS_TEXT):
        raise wrong_type("key", name, chunk.schema.c.children[i], _ALLOWED)
    made: KeyColumn = KeyColumn.__new__(KeyColumn)
    if not reserve_rows(cython.address(made._blobs), rows + 1):
        raise MemoryError
    row: int64_t = _write(made, cython.address(node), cython.address(indices), rows, array.length, first_row)
    if row < rows:
        raise of_row(
            RecordError,
            first_row + row,
            ": make it null or text first.",
            before=f"Column {name!r}, named as key, holds NaN or an infinity in ",
        )
    made._close()
    return made


@cython.cfunc
@cython.exceptval(-1)
def _write(
    made: KeyColumn,
    node: cython.pointer(Node),
    indices: cython.pointer(Numbers),
    rows: int64_t,
    distinct: int64_t,
    first_row: int64_t,
) -> int64_t:
    """Write the keys up to the first NaN or infinity, and return its row; `rows` if there is none."""
    text = cython.declare(Growing)
    value: cython.double = 0.0
    at: int64_t
    row: int64_t
    quotes: int64_t
    memset(cython.address(text), 0, cython.sizeof(text))
    try:
        for row in range(rows):
            at = row
            if indices.values != cython.NULL:
                if not number_at(indices, row, cython.address(at)):
                    append_blob(cython.address(made._blobs), cython.NULL, -1)
                    continue
                if at < 0 or at >= distinct:
                    raise of_row(
                        RecordError, first_row + row, ".", before="The data is not laid out as Arrow says it is, at "
                    )
            if node.form == AS_NULL or not is_set(node.validity, at + node.offset):
                append_blob(cython.address(made._blobs), cython.NULL, -1)
                continue
            if first_not_finite(node, at, at + 1, cython.address(value)) >= 0:
                return row
            text.size = 0
            if not put_value(cython.address(text), node, at):
                raise MemoryError
            quotes = 1 if text.data[0] == b'"'[0] else 0
            if not append_blob(cython.address(made._blobs), text.data + quotes, text.size - 2 * quotes):
                raise RecordError("The keys of one chunk take more than 2 GiB: send it in smaller chunks.")
    finally:
        free(text.data)
    return rows
