"""Arrow columns -> one column of JSON objects, without a Python object per row (compiled).

Each selected column becomes a `Node`, a C struct with the place of its values and how to write them; nested types are
trees of nodes. `json_values` writes the rows directly into the result's buffer.

Invariant: a type or a number that JSON cannot hold is an error before the first row of its chunk is written.
"""

from __future__ import annotations

import json

import cython
from cython.cimports.libc.stdint import int64_t
from cython.cimports.libc.stdlib import calloc, free
from cython.cimports.libc.string import memset
from cython.cimports.ottla.records.arrow_data import Chunk, array_capsule, schema_capsule
from cython.cimports.ottla.records.arrow_layout import (
    NULLABLE,
    OFFSETS_32,
    OFFSETS_64,
    VIEWS,
    ArrowArray,
    ArrowSchema,
    Blobs,
    extend,
    reserve,
    turn_into_offsets,
)
from cython.cimports.ottla.schemas.json_nodes import (
    AS_BOOLEAN,
    AS_DATE,
    AS_DECIMAL,
    AS_DOUBLE,
    AS_FLOAT,
    AS_LIST,
    AS_MAP,
    AS_NULL,
    AS_STRUCT,
    AS_TEXT,
    AS_TIME,
    AS_TIMESTAMP,
    AS_UNSIGNED,
    AS_WHOLE,
    Node,
)
from cython.cimports.ottla.schemas.json_values import first_not_finite, put_value

from ottla.errors import RecordError, of_row
from ottla.records.arrow_data import chunks

_ALLOWED = "a number, decimal, boolean, text, date, time or timestamp, or a list, struct or map (text keys) of those"
_NOT_JSON = {
    "e": "half float", "tD": "duration", "ti": "interval", "+r": "run-end encoded", "+u": "union", "+v": "list view",
}  # fmt: skip

_UNITS = {"s": (1, 0), "m": (1_000, 3), "u": (1_000_000, 6), "n": (1_000_000_000, 9)}  # per second, digits

# How many rows are written at once; if they have floats, the interpreter lock is held meanwhile.
_ROWS_AT_ONCE = cython.declare(int64_t, 1024)


@cython.final
@cython.cclass
class JsonColumn:
    """A column of JSON objects, exported by `__arrow_c_array__` as binary (large_binary beyond 2 GiB)."""

    def __dealloc__(self):
        free(self._text.data)
        free(self._ends.data)
        self._free_nodes()

    def __len__(self) -> int:
        return self._length

    def __arrow_c_schema__(self) -> object:
        return schema_capsule(cython.address(self._schema), self)

    def __arrow_c_array__(self, requested_schema: object = None) -> tuple:
        return self.__arrow_c_schema__(), array_capsule(cython.address(self._array), self)

    # ------------------------------------------------------------------ reading the columns' types

    @cython.cfunc
    def _free_nodes(self) -> object:
        if self._allocated is not None:
            for address in self._allocated:
                free(cython.cast(cython.p_void, cython.cast(cython.size_t, address)))
        self._allocated = []
        self._labels = []
        return None

    @cython.cfunc
    def _child_nodes(self, node: cython.pointer(Node), count: cython.Py_ssize_t) -> cython.pointer(Node):
        children: cython.pointer(Node) = cython.cast(cython.pointer(Node), calloc(max(count, 1), cython.sizeof(Node)))
        if children == cython.NULL:
            raise MemoryError
        self._allocated.append(cython.cast(cython.size_t, children))
        node.children = children
        node.child_count = count
        return children

    @cython.cfunc
    def _label(self, node: cython.pointer(Node), name: str) -> object:
        label: bytes = json.dumps(name, ensure_ascii=False).encode("utf-8", "replace") + b":"
        self._labels.append(label)
        node.label = label
        node.label_bytes = len(label)
        return None

    @cython.cfunc
    def _open(self, schema: cython.pointer(ArrowSchema), array: cython.pointer(ArrowArray), columns: object) -> object:
        """Make the nodes for one chunk."""
        if cython.cast(bytes, schema.format) != b"+s":
            raise RecordError("JSON is made of a table's columns; the data given is a single column.")
        self._free_nodes()
        names: list = [_name(schema.children[i]) for i in range(schema.n_children)]
        wanted: list = names if columns is None else list(columns)
        for name in wanted:
            count = names.count(name)
            if count != 1:
                shown = ", ".join(repr(known) for known in names[:20]) + (", ..." if len(names) > 20 else "")
                problem = "There is no" if count == 0 else "There is more than one"
                raise RecordError(f"{problem} column {name!r}; the columns are {shown}.")
            if wanted.count(name) != 1:
                raise RecordError(f"The column {name!r} is named more than once; an object of JSON has it once.")
        self._columns = wanted
        memset(cython.address(self._root), 0, cython.sizeof(Node))
        self._root.form = AS_STRUCT
        fields: cython.pointer(Node) = self._child_nodes(cython.address(self._root), len(wanted))
        i: cython.Py_ssize_t
        j: cython.Py_ssize_t
        for i in range(len(wanted)):
            j = names.index(wanted[i])
            self._label(cython.address(fields[i]), wanted[i])
            self._read(cython.address(fields[i]), schema.children[j], array.children[j], array.offset, wanted[i])
            if fields[i].has_floats:
                self._root.has_floats = True
        return None

    @cython.cfunc
    def _check_floats(self, rows: int64_t, first_row: int64_t) -> object:
        """RecordError for NaN and infinities in a chunk, whose first row has the number `first_row`."""
        fields: cython.pointer(Node) = self._root.children
        value: cython.double = 0.0
        row: int64_t
        i: cython.Py_ssize_t
        for i in range(self._root.child_count):
            with cython.nogil:
                row = first_not_finite(cython.address(fields[i]), 0, rows, cython.address(value))
            if row >= 0:
                raise of_row(
                    RecordError,
                    first_row + row,
                    ", which JSON does not have: make it null or text first.",
                    before=f"Column {self._columns[i]!r} holds {value} in ",
                )
        return None

    @cython.cfunc
    def _read(
        self,
        node: cython.pointer(Node),
        schema: cython.pointer(ArrowSchema),
        array: cython.pointer(ArrowArray),
        parent_offset: int64_t,
        column: str,
    ) -> object:
        """Fill in a node for a column or a part of a nested one."""
        kind: str = cython.cast(bytes, schema.format).decode("ascii", "replace")
        node.offset = array.offset + parent_offset
        if array.null_count != 0 and array.n_buffers > 0 and kind != "n":
            node.validity = cython.cast(cython.p_const_uchar, array.buffers[0])
        if array.n_buffers > 1:
            node.values = array.buffers[1]
        if kind in ("u", "U", "vu") or schema.dictionary != cython.NULL:
            self._read_text(node, schema, array, column)
        elif kind == "n":
            node.form = AS_NULL
        elif kind == "b":
            node.form = AS_BOOLEAN
        elif kind in tuple("cCsSiIl"):
            node.form = AS_WHOLE
            node.type = schema.format[0]
        elif kind == "L":
            node.form = AS_UNSIGNED
        elif kind in ("f", "g"):
            node.form = AS_FLOAT if kind == "f" else AS_DOUBLE
            node.has_floats = True
        elif kind[:2] == "d:":
            self._read_decimal(node, kind, schema, column)
        elif kind[:2] in ("td", "tt", "ts"):
            self._read_time(node, kind)
        else:
            self._read_nested(node, kind, schema, array, column)
        return None

    @cython.cfunc
    def _read_text(
        self,
        node: cython.pointer(Node),
        schema: cython.pointer(ArrowSchema),
        array: cython.pointer(ArrowArray),
        column: str,
    ) -> object:
        text: cython.pointer(Blobs) = cython.address(node.text)
        values: cython.pointer(ArrowArray) = array
        values_schema: cython.pointer(ArrowSchema) = schema
        node.form = AS_TEXT
        text.offset = node.offset
        text.validity = node.validity
        if schema.dictionary != cython.NULL:
            values = array.dictionary
            values_schema = schema.dictionary
            text.indices = array.buffers[1]
            text.index_validity = node.validity
            text.index_offset = node.offset
            text.index_type = schema.format[0]
            text.length = values.length
            text.offset = values.offset
            text.validity = cython.NULL
            if values.null_count != 0:
                text.validity = cython.cast(cython.p_const_uchar, values.buffers[0])
        kind: str = cython.cast(bytes, values_schema.format).decode("ascii", "replace")
        if kind not in ("u", "U", "vu"):
            raise RecordError(f"Column {column!r} is a dictionary of something else than text; decode it first.")
        text.kind = OFFSETS_32 if kind == "u" else OFFSETS_64 if kind == "U" else VIEWS
        text.offsets = values.buffers[1]
        if kind == "vu":
            text.buffers = values.buffers
        else:
            text.data = cython.cast(cython.p_const_char, values.buffers[2])
        return None

    @cython.cfunc
    def _read_decimal(
        self, node: cython.pointer(Node), kind: str, schema: cython.pointer(ArrowSchema), column: str
    ) -> object:
        parts = kind[2:].split(",")
        node.form = AS_DECIMAL
        node.digits = int(parts[1])
        node.width = (int(parts[2]) if len(parts) > 2 else 128) // 8
        if node.width not in (4, 8, 16, 32) or not -100 <= node.digits <= 100:
            raise _not_json(column, kind)
        return None

    @cython.cfunc
    def _read_time(self, node: cython.pointer(Node), kind: str) -> object:
        if kind[:2] == "td":
            if kind not in ("tdD", "tdm"):
                raise _not_json(kind, kind)
            node.form = AS_DATE
            node.type = b"i"[0] if kind == "tdD" else b"l"[0]
            node.per_second = 1 if kind == "tdD" else 86_400_000  # to a day
            return None
        node.per_second, node.digits = _UNITS[kind[2]]
        if kind[:2] == "tt":
            node.form = AS_TIME
            node.type = b"i"[0] if kind in ("tts", "ttm") else b"l"[0]
        else:
            node.form = AS_TIMESTAMP
            node.type = b"l"[0]
            node.is_utc = len(kind) > 4
        return None

    @cython.cfunc
    def _read_nested(
        self,
        node: cython.pointer(Node),
        kind: str,
        schema: cython.pointer(ArrowSchema),
        array: cython.pointer(ArrowArray),
        column: str,
    ) -> object:
        children: cython.pointer(Node)
        entries: cython.pointer(ArrowArray)
        i: cython.Py_ssize_t
        if kind == "+s":
            node.form = AS_STRUCT
            children = self._child_nodes(node, schema.n_children)
            for i in range(schema.n_children):
                self._label(cython.address(children[i]), _name(schema.children[i]))
                self._read(cython.address(children[i]), schema.children[i], array.children[i], node.offset, column)
        elif kind in ("+l", "+L") or kind[:3] == "+w:":
            node.form = AS_LIST
            node.is_large = kind == "+L"
            # Lists of no items have no offsets either.
            node.width = (int(kind[3:]) or -1) if kind[:3] == "+w:" else 0
            children = self._child_nodes(node, 1)
            self._read(children, schema.children[0], array.children[0], 0, column)
        elif kind == "+m":
            node.form = AS_MAP
            children = self._child_nodes(node, 2)
            entries = array.children[0]
            for i in range(2):
                self._read(
                    cython.address(children[i]),
                    schema.children[0].children[i],
                    entries.children[i],
                    entries.offset,
                    column,
                )
            if children[0].form != AS_TEXT:
                raise RecordError(f"Column {column!r} is a map whose keys are not text; JSON cannot hold it.")
        else:
            raise _not_json(column, kind)
        for i in range(node.child_count):
            if children[i].has_floats:
                node.has_floats = True
        return None

    # ------------------------------------------------------------------ writing rows

    @cython.cfunc
    def _write_chunk(self, rows: int64_t) -> object:
        row: int64_t = 0
        until: int64_t
        fine: cython.bint
        while row < rows:
            until = min(rows, row + _ROWS_AT_ONCE)
            if self._root.has_floats:
                fine = self._write_rows(row, until)
                with cython.nogil:
                    pass  # other threads may run now
            else:
                with cython.nogil:
                    fine = self._write_rows(row, until)
            if not fine:
                raise MemoryError
            row = until
        return None

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _write_rows(self, row: int64_t, until: int64_t) -> cython.bint:
        if not reserve(cython.address(self._ends), 8 * (until - row)):
            return False
        while row < until:
            if not extend(cython.address(self._text), self._prefix_data, self._prefix_bytes):
                return False
            if not put_value(cython.address(self._text), cython.address(self._root), row):
                return False
            cython.cast(cython.pointer(int64_t), self._ends.data)[self._length] = self._text.size
            self._ends.size += 8
            self._length += 1
            row += 1
        return True

    @cython.cfunc
    def _finish(self) -> object:
        """Turn the rows' ends into Arrow's offsets, of 32 bits if that is enough, and fill in what is exported."""
        width: cython.int = turn_into_offsets(cython.address(self._ends), self._length, self._text.size)
        if width < 0 or not reserve(cython.address(self._text), 1):
            raise MemoryError
        self._free_nodes()
        self._buffers[0] = cython.NULL
        self._buffers[1] = self._ends.data
        self._buffers[2] = self._text.data
        self._array.length = self._length
        self._array.n_buffers = 3
        self._array.buffers = self._buffers
        self._schema.format = b"Z" if width else b"z"
        self._schema.name = b""
        self._schema.flags = NULLABLE
        return None


# ---------------------------------------------------------------------- functions for callers


@cython.cfunc
def _name(schema: cython.pointer(ArrowSchema)) -> str:
    return "" if schema.name == cython.NULL else cython.cast(bytes, schema.name).decode("utf-8", "replace")


@cython.cfunc
def _not_json(column: str, kind: str) -> object:
    if kind in ("z", "Z", "vz") or kind[:2] == "w:":
        return RecordError(f"Column {column!r} holds bytes, which JSON cannot; cast it to text (or to base64) first.")
    known = _NOT_JSON.get(kind) or _NOT_JSON.get(kind[:2]) or f"Arrow type {kind!r}"
    return RecordError(f"Column {column!r} is of type {known}; JSON takes {_ALLOWED}.")


def json_column(data: object, columns: object = None, first_row: int = 0, prefix: bytes = b"") -> JsonColumn:
    """Make one JSON object of each row, after `prefix`, of all columns, or of those named, in that order.

    `data` is what `ottla.records.arrow_data.chunks` takes; the result has `__arrow_c_array__` and is of type binary.
    RecordError, with the column, for a type that JSON cannot hold. RecordError, with column and row (counted from
    `first_row`), for NaN and infinities.
    """
    made: JsonColumn = JsonColumn()
    made._prefix = prefix
    made._prefix_data = prefix
    made._prefix_bytes = len(prefix)
    chunk: Chunk
    for chunk in chunks(data):
        made._open(cython.address(chunk.schema.c), cython.address(chunk.c), columns)
        made._check_floats(chunk.c.length, first_row + made._length)
        made._write_chunk(chunk.c.length)
    made._finish()
    return made


def check_json(data: object, columns: object = None) -> None:
    """Raise what `json_column` would raise for the same data, without making the JSON."""
    reader: JsonColumn = JsonColumn()
    chunk: Chunk
    row: int64_t = 0
    for chunk in chunks(data):
        reader._open(cython.address(chunk.schema.c), cython.address(chunk.c), columns)
        reader._check_floats(chunk.c.length, row)
        row += chunk.c.length
