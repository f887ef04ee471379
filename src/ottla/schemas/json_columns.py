"""Arrow columns -> one column of JSON objects, a row at a time and without an object per row (compiled).

Each selected column becomes a `_Node`, a C struct that knows where its values lie and how they are written; nested
types are trees of nodes. Rows are written straight into the result's buffer.

How values are written: whole numbers, booleans and text as JSON has them; floats by their shortest digits that read
back the same, NaN and infinities (which JSON does not know) as null; decimals as numbers with all their digits;
dates, times and timestamps as ISO 8601 strings (a timestamp with a time zone in UTC, with a Z; a fraction only where
there is one); lists as arrays, structs and maps with text keys as objects. Text is taken to be UTF-8, as Arrow says.
"""

from __future__ import annotations

import json

import cython
from cython.cimports.cpython.mem import PyMem_Free
from cython.cimports.cpython.pycapsule import PyCapsule_GetPointer, PyCapsule_IsValid, PyCapsule_New
from cython.cimports.libc.math import isfinite
from cython.cimports.libc.stdint import int32_t, int64_t, uint8_t, uint64_t
from cython.cimports.libc.stdlib import calloc, free
from cython.cimports.libc.string import memcpy, memset, strlen
from cython.cimports.ottla.records.arrow import (
    NULLABLE,
    OFFSETS_32,
    OFFSETS_64,
    VIEWS,
    ArrowArray,
    ArrowSchema,
    Blobs,
    Growing,
    blob_at,
    is_set,
    reserve,
    share_array,
    share_schema,
    whole_number,
)
from cython.cimports.ottla.schemas.numbers import (
    DOT_ZERO,
    PyOS_double_to_string,
    PyOS_string_to_double,
    civil_from_days,
    put_decimal,
    put_digits,
    put_unsigned,
)

from ottla.errors import RecordError
from ottla.records.columns import chunks

_ALLOWED = "a number, decimal, boolean, text, date, time or timestamp, or a list, struct or map (text keys) of those"

# How a node's values are written.
_NULL = cython.declare(cython.int, 0)
_BOOLEAN = cython.declare(cython.int, 1)
_WHOLE = cython.declare(cython.int, 2)
_UNSIGNED = cython.declare(cython.int, 3)
_FLOAT = cython.declare(cython.int, 4)
_DOUBLE = cython.declare(cython.int, 5)
_TEXT = cython.declare(cython.int, 6)
_DECIMAL = cython.declare(cython.int, 7)
_DATE = cython.declare(cython.int, 8)
_TIME = cython.declare(cython.int, 9)
_TIMESTAMP = cython.declare(cython.int, 10)
_LIST = cython.declare(cython.int, 11)
_STRUCT = cython.declare(cython.int, 12)
_MAP = cython.declare(cython.int, 13)

_UNITS = {"s": (1, 0), "m": (1_000, 3), "u": (1_000_000, 6), "n": (1_000_000_000, 9)}  # per second, digits

# Rows written in one go; with floats among them the interpreter lock is held for so long.
_ROWS_AT_ONCE = cython.declare(int64_t, 1024)


_Node = cython.struct(
    kind=cython.int,
    text=Blobs,
    validity=cython.p_const_uchar,
    values=cython.p_const_void,
    offset=int64_t,
    type=cython.char,
    is_large=cython.bint,
    width=int64_t,
    # Of times: how many to a second (or, of date64, to a day), and digits of the fraction; of decimals: the scale.
    per_second=int64_t,
    digits=cython.int,
    is_utc=cython.bint,
    # A struct's (or the row's) fields; `label` is a field's name in quotes, escaped, with its colon.
    children=cython.p_void,
    child_count=cython.int,
    label=cython.p_const_char,
    label_bytes=int64_t,
)


@cython.final
@cython.cclass
class JsonColumn:
    """A column of JSON objects, exported by `__arrow_c_array__` as binary (large_binary beyond 2 GiB)."""

    _text = cython.declare(Growing)
    _ends = cython.declare(Growing)
    _length = cython.declare(int64_t)
    _array = cython.declare(ArrowArray)
    _schema = cython.declare(ArrowSchema)
    _buffers = cython.declare(cython.p_const_void[3])
    _root = cython.declare(_Node)
    _allocated = cython.declare(list)  # the addresses of child nodes
    _labels = cython.declare(list)
    _has_floats = cython.declare(cython.bint)

    def __dealloc__(self):
        free(self._text.data)
        free(self._ends.data)
        self._free_nodes()

    def __len__(self) -> int:
        return self._length

    def __arrow_c_schema__(self) -> object:
        schema: cython.pointer(ArrowSchema) = cython.cast(
            cython.pointer(ArrowSchema), calloc(1, cython.sizeof(ArrowSchema))
        )
        if schema == cython.NULL:
            raise MemoryError
        share_schema(cython.address(self._schema), self, schema)
        return PyCapsule_New(schema, b"arrow_schema", _free_schema_capsule)

    def __arrow_c_array__(self, requested_schema: object = None) -> tuple:
        array: cython.pointer(ArrowArray) = cython.cast(
            cython.pointer(ArrowArray), calloc(1, cython.sizeof(ArrowArray))
        )
        if array == cython.NULL:
            raise MemoryError
        share_array(cython.address(self._array), self, array)
        return self.__arrow_c_schema__(), PyCapsule_New(array, b"arrow_array", _free_array_capsule)

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
    def _child_nodes(self, node: cython.pointer(_Node), count: cython.Py_ssize_t) -> cython.pointer(_Node):
        children: cython.pointer(_Node) = cython.cast(
            cython.pointer(_Node), calloc(max(count, 1), cython.sizeof(_Node))
        )
        if children == cython.NULL:
            raise MemoryError
        self._allocated.append(cython.cast(cython.size_t, children))
        node.children = children
        node.child_count = count
        return children

    @cython.cfunc
    def _label(self, node: cython.pointer(_Node), name: str) -> object:
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
        self._has_floats = False
        names: list = [_name(schema.children[i]) for i in range(schema.n_children)]
        wanted: list = names if columns is None else list(columns)
        for name in wanted:
            count = names.count(name)
            if count != 1:
                shown = ", ".join(repr(known) for known in names[:20]) + (", ..." if len(names) > 20 else "")
                problem = "There is no" if count == 0 else "There is more than one"
                raise RecordError(f"{problem} column {name!r}; the columns are {shown}.")
        memset(cython.address(self._root), 0, cython.sizeof(_Node))
        self._root.kind = _STRUCT
        fields: cython.pointer(_Node) = self._child_nodes(cython.address(self._root), len(wanted))
        i: cython.Py_ssize_t
        j: cython.Py_ssize_t
        for i in range(len(wanted)):
            j = names.index(wanted[i])
            self._label(cython.address(fields[i]), wanted[i])
            self._read(cython.address(fields[i]), schema.children[j], array.children[j], array.offset, wanted[i])
        return None

    @cython.cfunc
    def _read(
        self,
        node: cython.pointer(_Node),
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
            node.kind = _NULL
        elif kind == "b":
            node.kind = _BOOLEAN
        elif kind in tuple("cCsSiIl"):
            node.kind = _WHOLE
            node.type = schema.format[0]
        elif kind == "L":
            node.kind = _UNSIGNED
        elif kind in ("f", "g"):
            node.kind = _FLOAT if kind == "f" else _DOUBLE
            self._has_floats = True
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
        node: cython.pointer(_Node),
        schema: cython.pointer(ArrowSchema),
        array: cython.pointer(ArrowArray),
        column: str,
    ) -> object:
        text: cython.pointer(Blobs) = cython.address(node.text)
        values: cython.pointer(ArrowArray) = array
        values_schema: cython.pointer(ArrowSchema) = schema
        node.kind = _TEXT
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
        self, node: cython.pointer(_Node), kind: str, schema: cython.pointer(ArrowSchema), column: str
    ) -> object:
        parts = kind[2:].split(",")
        node.kind = _DECIMAL
        node.digits = int(parts[1])
        node.width = (int(parts[2]) if len(parts) > 2 else 128) // 8
        if node.width not in (4, 8, 16, 32) or not -100 <= node.digits <= 100:
            raise _not_json(column, kind)
        return None

    @cython.cfunc
    def _read_time(self, node: cython.pointer(_Node), kind: str) -> object:
        if kind[:2] == "td":
            if kind not in ("tdD", "tdm"):
                raise _not_json(kind, kind)
            node.kind = _DATE
            node.type = b"i"[0] if kind == "tdD" else b"l"[0]
            node.per_second = 1 if kind == "tdD" else 86_400_000  # to a day
            return None
        node.per_second, node.digits = _UNITS[kind[2]]
        if kind[:2] == "tt":
            node.kind = _TIME
            node.type = b"i"[0] if kind in ("tts", "ttm") else b"l"[0]
        else:
            node.kind = _TIMESTAMP
            node.type = b"l"[0]
            node.is_utc = len(kind) > 4
        return None

    @cython.cfunc
    def _read_nested(
        self,
        node: cython.pointer(_Node),
        kind: str,
        schema: cython.pointer(ArrowSchema),
        array: cython.pointer(ArrowArray),
        column: str,
    ) -> object:
        children: cython.pointer(_Node)
        entries: cython.pointer(ArrowArray)
        i: cython.Py_ssize_t
        if kind == "+s":
            node.kind = _STRUCT
            children = self._child_nodes(node, schema.n_children)
            for i in range(schema.n_children):
                self._label(cython.address(children[i]), _name(schema.children[i]))
                self._read(cython.address(children[i]), schema.children[i], array.children[i], node.offset, column)
        elif kind in ("+l", "+L") or kind[:3] == "+w:":
            node.kind = _LIST
            node.is_large = kind == "+L"
            node.width = int(kind[3:]) if kind[:3] == "+w:" else 0
            children = self._child_nodes(node, 1)
            self._read(children, schema.children[0], array.children[0], 0, column)
        elif kind == "+m":
            node.kind = _MAP
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
            if children[0].kind != _TEXT:
                raise RecordError(f"Column {column!r} is a map whose keys are not text; JSON cannot hold it.")
        else:
            raise _not_json(column, kind)
        return None

    # ------------------------------------------------------------------ writing rows

    @cython.cfunc
    def _write_chunk(self, rows: int64_t) -> object:
        row: int64_t = 0
        until: int64_t
        fine: cython.bint
        while row < rows:
            until = min(rows, row + _ROWS_AT_ONCE)
            if self._has_floats:
                fine = self._write_rows(row, until)
                with cython.nogil:
                    pass  # others may run
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
            if not _put_value(cython.address(self._text), cython.address(self._root), row):
                return False
            cython.cast(cython.pointer(int64_t), self._ends.data)[self._length] = self._text.size
            self._ends.size += 8
            self._length += 1
            row += 1
        return True

    @cython.cfunc
    def _finish(self) -> object:
        """Turn the rows' ends into Arrow's offsets, 32 bits wide where that will do, and fill in what is exported."""
        if not reserve(cython.address(self._ends), 8) or not reserve(cython.address(self._text), 1):
            raise MemoryError
        ends: cython.pointer(int64_t) = cython.cast(cython.pointer(int64_t), self._ends.data)
        narrow: cython.pointer(int32_t) = cython.cast(cython.pointer(int32_t), self._ends.data)
        is_large: cython.bint = self._text.size > 0x7FFFFFFF
        before: int64_t = 0
        end: int64_t
        i: int64_t
        with cython.nogil:
            # In place, front to back: a slot is read before anything is written over it.
            for i in range(self._length + 1):
                end = ends[i] if i < self._length else 0
                if is_large:
                    ends[i] = before
                else:
                    narrow[i] = cython.cast(int32_t, before)
                before = end
        if self._length == 0:
            memset(self._ends.data, 0, 8)
        self._free_nodes()
        self._buffers[0] = cython.NULL
        self._buffers[1] = self._ends.data
        self._buffers[2] = self._text.data
        self._array.length = self._length
        self._array.n_buffers = 3
        self._array.buffers = self._buffers
        self._schema.format = b"Z" if is_large else b"z"
        self._schema.name = b""
        self._schema.flags = NULLABLE
        return None


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _put_value(out: cython.pointer(Growing), node: cython.pointer(_Node), row: int64_t) -> cython.bint:
    """Write one value; False when memory is short."""
    i: int64_t = row + node.offset
    # Whatever is of a bounded size fits; decimals of a large negative scale are the longest.
    if not reserve(out, 256):
        return False
    if node.kind == _TEXT:
        return _put_text(out, cython.address(node.text), row)
    if node.kind == _NULL or not is_set(node.validity, i):
        return _put_word(out, b"null", 4)
    if node.kind == _WHOLE:
        out.size = _end(out, put_digits(_at(out), whole_number(node.values, node.type, i)))
    elif node.kind == _UNSIGNED:
        out.size = _end(out, put_unsigned(_at(out), cython.cast(cython.pointer(uint64_t), node.values)[i]))
    elif node.kind == _BOOLEAN:
        if is_set(cython.cast(cython.p_const_uchar, node.values), i):
            return _put_word(out, b"true", 4)
        return _put_word(out, b"false", 5)
    elif node.kind == _DOUBLE:
        return _put_double(out, cython.cast(cython.pointer(cython.double), node.values)[i], False)
    elif node.kind == _FLOAT:
        return _put_double(out, cython.cast(cython.pointer(cython.float), node.values)[i], True)
    elif node.kind == _DECIMAL:
        out.size = _end(
            out,
            put_decimal(
                _at(out),
                cython.cast(cython.p_const_uchar, node.values) + i * node.width,
                cython.cast(cython.int, node.width),
                node.digits,
            ),
        )
    elif node.kind == _DATE or node.kind == _TIME or node.kind == _TIMESTAMP:
        _put_time(out, node, whole_number(node.values, node.type, i))
    elif node.kind == _STRUCT:
        return _put_struct(out, node, row)
    elif node.kind == _LIST:
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
def _put_text(out: cython.pointer(Growing), column: cython.pointer(Blobs), row: int64_t) -> cython.bint:
    data: cython.p_const_char = cython.NULL
    size: int64_t = blob_at(column, row, cython.address(data))
    if size < 0:
        return _put_word(out, b"null", 4)
    # An escape takes at most six bytes for one.
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
    """The shortest digits that read back as the same number."""
    to: cython.p_char = _at(out)
    if not isfinite(value):
        return _put_word(out, b"null", 4)
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
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _put_padded(to: cython.p_char, number: int64_t, width: cython.int) -> cython.p_char:
    """A number that is not negative, with zeros in front."""
    i: cython.int
    for i in range(width - 1, -1, -1):
        to[i] = cython.cast(cython.char, 48 + number % 10)
        number //= 10
    return to + width


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _put_time(out: cython.pointer(Growing), node: cython.pointer(_Node), value: int64_t) -> cython.void:
    to: cython.p_char = _at(out)
    days: int64_t = 0
    rest: int64_t = value
    unit: int64_t = node.per_second if node.kind == _DATE else node.per_second * 86400
    if node.kind != _TIME:
        # C divides towards zero; days begin before.
        days = value // unit
        rest = value % unit
        if rest < 0:
            rest += unit
            days -= 1
    to[0] = b'"'
    to += 1
    if node.kind != _TIME:
        to = civil_from_days(to, days)
    if node.kind == _TIMESTAMP:
        to[0] = b"T"
        to += 1
    if node.kind != _DATE:
        to = _put_clock(to, rest, node.per_second, node.digits)
    if node.is_utc:
        to[0] = b"Z"
        to += 1
    to[0] = b'"'
    out.size = _end(out, to + 1)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _put_clock(to: cython.p_char, since: int64_t, per_second: int64_t, digits: cython.int) -> cython.p_char:
    seconds: int64_t = since // per_second
    fraction: int64_t = since % per_second
    if since < 0 or seconds >= 360000:  # Arrow does not allow it; two digits have to do
        seconds = fraction = 0
    to = _put_padded(to, seconds // 3600, 2)
    to[0] = b":"
    to = _put_padded(to + 1, seconds // 60 % 60, 2)
    to[0] = b":"
    to = _put_padded(to + 1, seconds % 60, 2)
    if fraction != 0:
        to[0] = b"."
        to = _put_padded(to + 1, fraction, digits)
    return to


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _put_struct(out: cython.pointer(Growing), node: cython.pointer(_Node), row: int64_t) -> cython.bint:
    fields: cython.pointer(_Node) = cython.cast(cython.pointer(_Node), node.children)
    i: cython.int
    if not _put_word(out, b"{", 1):
        return False
    for i in range(node.child_count):
        if not reserve(out, fields[i].label_bytes + 1):
            return False
        if i > 0:
            _put_word(out, b",", 1)
        _put_word(out, fields[i].label, fields[i].label_bytes)
        # The fields' own offsets already hold this node's.
        if not _put_value(out, cython.address(fields[i]), row):
            return False
    return _put_word(out, b"}", 1)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _items(node: cython.pointer(_Node), i: int64_t, begin: cython.pointer(int64_t)) -> int64_t:
    """Where a list's items begin, and where they end."""
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
def _put_list(out: cython.pointer(Growing), node: cython.pointer(_Node), i: int64_t) -> cython.bint:
    item: cython.pointer(_Node) = cython.cast(cython.pointer(_Node), node.children)
    begin: int64_t = 0
    end: int64_t = _items(node, i, cython.address(begin))
    j: int64_t
    if not _put_word(out, b"[", 1):
        return False
    for j in range(begin, end):
        if j > begin and not _put_word(out, b",", 1):
            return False
        if not _put_value(out, item, j):
            return False
    return _put_word(out, b"]", 1)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _put_map(out: cython.pointer(Growing), node: cython.pointer(_Node), i: int64_t) -> cython.bint:
    entry: cython.pointer(_Node) = cython.cast(cython.pointer(_Node), node.children)
    begin: int64_t = 0
    end: int64_t = _items(node, i, cython.address(begin))
    j: int64_t
    if not _put_word(out, b"{", 1):
        return False
    for j in range(begin, end):
        if j > begin and not _put_word(out, b",", 1):
            return False
        if not _put_value(out, entry, j) or not _put_word(out, b":", 1):
            return False
        if not _put_value(out, cython.address(entry[1]), j):
            return False
    return _put_word(out, b"}", 1)


# ---------------------------------------------------------------------- the way in


@cython.cfunc
def _name(schema: cython.pointer(ArrowSchema)) -> str:
    return "" if schema.name == cython.NULL else cython.cast(bytes, schema.name).decode("utf-8", "replace")


@cython.cfunc
def _not_json(column: str, kind: str) -> object:
    if kind in ("z", "Z", "vz") or kind[:2] == "w:":
        return RecordError(f"Column {column!r} holds bytes, which JSON cannot; cast it to text (or to base64) first.")
    return RecordError(f"Column {column!r} is of Arrow type {kind!r}; JSON takes {_ALLOWED}.")


@cython.cfunc
@cython.exceptval(check=False)
def _free_schema_capsule(capsule: object) -> cython.void:
    if not PyCapsule_IsValid(capsule, b"arrow_schema"):
        return
    schema: cython.pointer(ArrowSchema) = cython.cast(
        cython.pointer(ArrowSchema), PyCapsule_GetPointer(capsule, b"arrow_schema")
    )
    if schema.release != cython.NULL:
        schema.release(schema)
    free(schema)


@cython.cfunc
@cython.exceptval(check=False)
def _free_array_capsule(capsule: object) -> cython.void:
    if not PyCapsule_IsValid(capsule, b"arrow_array"):
        return
    array: cython.pointer(ArrowArray) = cython.cast(
        cython.pointer(ArrowArray), PyCapsule_GetPointer(capsule, b"arrow_array")
    )
    if array.release != cython.NULL:
        array.release(array)
    free(array)


def json_column(data: object, columns: object = None) -> JsonColumn:
    """Make one JSON object of each row: all columns, or those named, in that order.

    `data` is what `ottla.records.columns.chunks` takes; the result has `__arrow_c_array__` and is of type binary.
    Raises RecordError, naming the column, for a type JSON cannot hold.
    """
    made: JsonColumn = JsonColumn()
    for chunk in chunks(data):
        schema_capsule, array_capsule = chunk.__arrow_c_array__()
        schema: cython.pointer(ArrowSchema) = cython.cast(
            cython.pointer(ArrowSchema), PyCapsule_GetPointer(schema_capsule, b"arrow_schema")
        )
        array: cython.pointer(ArrowArray) = cython.cast(
            cython.pointer(ArrowArray), PyCapsule_GetPointer(array_capsule, b"arrow_array")
        )
        made._open(schema, array, columns)
        made._write_chunk(array.length)
    made._finish()
    return made
