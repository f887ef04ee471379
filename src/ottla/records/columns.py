"""Arrow columns <-> record batches, a column at a time and never an object per record (compiled).

`encode_stream` reads Arrow data through the C data interface, whoever made it, and gives finished `SealedBatch`es:
one pass finds every row's partition, a counting sort brings each partition's rows together in their order, one pass
writes them. `decode_columns` goes the other way, from whole record batches as fetched to Arrow's buffers. Neither
needs pyarrow or numpy.

Invariants
- Where batches are cut depends on the input alone: at `batch_size`, at the end of a chunk of the input, and within
  a large chunk at `_SLICE_BYTES`. Rows of one partition stay in input order.
- An error in a chunk is raised before any batch of that slice of it is given.
- `decode_columns` believes nothing it reads: every length, count and number is checked against the bytes that are
  left before it is used, and memory grows with the bytes that are there, never with what they claim.

The file is long because both ways share the Arrow structs' owners, whose C fields only one compiled unit sees.
"""

from __future__ import annotations

from itertools import zip_longest
from time import time_ns

import cython
from crc32c import crc32c
from cython.cimports.cpython.bytearray import (
    PyByteArray_AS_STRING,
    PyByteArray_FromStringAndSize,
    PyByteArray_Resize,
)
from cython.cimports.cpython.bytes import PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cython.cimports.cpython.pycapsule import PyCapsule_GetPointer, PyCapsule_IsValid, PyCapsule_New
from cython.cimports.libc.stdint import int32_t, int64_t, uint8_t, uint32_t, uint64_t
from cython.cimports.libc.stdlib import calloc, free, malloc
from cython.cimports.libc.string import memcpy, memset
from cython.cimports.ottla.records.arrow import (
    ALL_NULL,
    FIXED_WIDTH,
    NULLABLE,
    OFFSETS_32,
    OFFSETS_64,
    VIEWS,
    ArrowArray,
    ArrowArrayStream,
    ArrowSchema,
    Blobs,
    Growing,
    GrowingBlobs,
    Lists,
    Numbers,
    append_blob,
    blob_at,
    extend,
    free_blobs,
    is_set,
    list_at,
    number_at,
    reserve,
    reserve_rows,
    share_array,
    share_schema,
)
from cython.cimports.ottla.records.wire import (
    HEADER_BYTES,
    OFFSET_MAX,
    get_big_endian,
    get_int32_varint,
    get_varint,
    partition_of,
    prefetch,
    put_varint,
    unlikely,
    unzigzag,
    varint_bytes,
    zigzag,
)

from ottla.errors import RecordError
from ottla.records.append import sealed_batch
from ottla.records.batch_header import CorruptBatch, check_crc, read_header
from ottla.records.compression import check_level, compress, decompress
from ottla.records.plain import decode_batches

# How much of a chunk is encoded in one step; a step's batches are in memory together.
_SLICE_BYTES = cython.declare(int64_t, 16 << 20)
_SLICE_ROWS = cython.declare(int64_t, 1 << 20)
_AHEAD = cython.declare(int64_t, 16)

# What a pass over rows stopped for.
_DONE = cython.declare(cython.int, 0)
_CUT = cython.declare(cython.int, 1)
_GROW = cython.declare(cython.int, 2)
_TOO_LARGE = cython.declare(cython.int, 3)
_BAD_PARTITION = cython.declare(cython.int, 4)
_BAD_TIMESTAMP = cython.declare(cython.int, 5)
_BAD_HEADERS = cython.declare(cython.int, 6)
_BAD_LAYOUT = cython.declare(cython.int, 7)

_BYTE_TYPES = "a string or binary type (also large, view, fixed-size or dictionary-encoded)"
_TYPE_NAMES = {
    "n": "null", "b": "bool", "c": "int8", "C": "uint8", "s": "int16", "S": "uint16", "i": "int32", "I": "uint32",
    "l": "int64", "L": "uint64", "e": "half float", "f": "float", "g": "double", "z": "binary", "Z": "large_binary",
    "u": "string", "U": "large_string", "vz": "binary_view", "vu": "string_view", "tdD": "date32", "tdm": "date64",
    "+l": "list", "+L": "large_list", "+s": "struct", "+m": "map", "+r": "run-end encoded",
}  # fmt: skip


# ---------------------------------------------------------------------- Arrow data coming in


@cython.final
@cython.cclass
class _Schema:
    """Owns an ArrowSchema."""

    c = cython.declare(ArrowSchema)

    def __dealloc__(self):
        if self.c.release != cython.NULL:
            self.c.release(cython.address(self.c))


@cython.final
@cython.cclass
class Chunk:
    """One contiguous piece of Arrow data, held in memory; it can be handed on by `__arrow_c_array__`."""

    c = cython.declare(ArrowArray)
    schema = cython.declare(_Schema)

    def __dealloc__(self):
        if self.c.release != cython.NULL:
            self.c.release(cython.address(self.c))

    def __len__(self) -> int:
        return self.c.length

    def __arrow_c_schema__(self) -> object:
        return _schema_capsule(cython.address(self.schema.c), self.schema)

    def __arrow_c_array__(self, requested_schema: object = None) -> tuple:
        return self.__arrow_c_schema__(), _array_capsule(cython.address(self.c), self)


@cython.final
@cython.cclass
class _Stream:
    """Owns an ArrowArrayStream and reads it chunk by chunk."""

    c = cython.declare(ArrowArrayStream)
    schema = cython.declare(_Schema)

    def __dealloc__(self):
        if self.c.release != cython.NULL:
            self.c.release(cython.address(self.c))

    @cython.cfunc
    def open(self, capsule: object) -> object:
        source: cython.pointer(ArrowArrayStream) = cython.cast(
            cython.pointer(ArrowArrayStream), PyCapsule_GetPointer(capsule, b"arrow_array_stream")
        )
        self.c = source[0]
        source.release = cython.NULL
        self.schema = _Schema()
        status: cython.int
        with cython.nogil:
            status = self.c.get_schema(cython.address(self.c), cython.address(self.schema.c))
        self.check(status)
        return None

    @cython.cfunc
    def read(self) -> Chunk:
        chunk: Chunk = Chunk()
        chunk.schema = self.schema
        status: cython.int
        # The stream may run Python code or wait for other threads that do: it takes the lock where it needs it.
        with cython.nogil:
            status = self.c.get_next(cython.address(self.c), cython.address(chunk.c))
        self.check(status)
        return chunk

    @cython.cfunc
    def check(self, status: cython.int) -> object:
        if status == 0:
            return None
        words: cython.p_const_char = self.c.get_last_error(cython.address(self.c))
        text = "no reason given" if words == cython.NULL else cython.cast(bytes, words).decode("utf-8", "replace")
        raise OSError(status, f"The Arrow stream cannot be read on: {text}")


def chunks(data: object) -> object:
    """Iterate over Arrow data as `Chunk`s.

    `data` has `__arrow_c_stream__` or `__arrow_c_array__`, or is an iterable of such objects.
    """
    if hasattr(data, "__arrow_c_stream__"):
        stream: _Stream = _Stream()
        stream.open(data.__arrow_c_stream__())
        while True:
            chunk: Chunk = stream.read()
            if chunk.c.release == cython.NULL:
                return
            yield chunk
    elif hasattr(data, "__arrow_c_array__"):
        yield _import_array(data)
    elif hasattr(data, "__iter__") and not isinstance(data, (str, bytes, dict)):
        for piece in data:
            if not hasattr(piece, "__arrow_c_stream__") and not hasattr(piece, "__arrow_c_array__"):
                raise _not_arrow(piece)
            yield from chunks(piece)
    else:
        raise _not_arrow(data)


@cython.cfunc
def _not_arrow(data: object) -> object:
    return RecordError(
        f"The data is Arrow data (a table or record batch of pyarrow, polars, pandas or duckdb, or an iterator of "
        f"record batches), not {type(data).__name__}."
    )


@cython.cfunc
def _import_array(data: object) -> Chunk:
    schema_capsule, array_capsule = data.__arrow_c_array__()
    chunk: Chunk = Chunk()
    chunk.schema = _Schema()
    schema: cython.pointer(ArrowSchema) = cython.cast(
        cython.pointer(ArrowSchema), PyCapsule_GetPointer(schema_capsule, b"arrow_schema")
    )
    array: cython.pointer(ArrowArray) = cython.cast(
        cython.pointer(ArrowArray), PyCapsule_GetPointer(array_capsule, b"arrow_array")
    )
    chunk.schema.c = schema[0]
    schema.release = cython.NULL
    chunk.c = array[0]
    array.release = cython.NULL
    return chunk


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


@cython.cfunc
def _schema_capsule(source: cython.pointer(ArrowSchema), owner: object) -> object:
    schema: cython.pointer(ArrowSchema) = cython.cast(
        cython.pointer(ArrowSchema), calloc(1, cython.sizeof(ArrowSchema))
    )
    if schema == cython.NULL:
        raise MemoryError
    try:
        share_schema(source, owner, schema)
    except BaseException:
        free(schema)
        raise
    return PyCapsule_New(schema, b"arrow_schema", _free_schema_capsule)


@cython.cfunc
def _array_capsule(source: cython.pointer(ArrowArray), owner: object) -> object:
    array: cython.pointer(ArrowArray) = cython.cast(cython.pointer(ArrowArray), calloc(1, cython.sizeof(ArrowArray)))
    if array == cython.NULL:
        raise MemoryError
    try:
        share_array(source, owner, array)
    except BaseException:
        free(array)
        raise
    return PyCapsule_New(array, b"arrow_array", _free_array_capsule)


# ---------------------------------------------------------------------- columns of a chunk


@cython.cfunc
def _type_name(schema: cython.pointer(ArrowSchema)) -> str:
    text = cython.cast(bytes, schema.format).decode("utf-8", "replace")
    if schema.dictionary != cython.NULL:
        return f"dictionary of {_type_name(schema.dictionary)}"
    if text[:2] == "ts":
        return "timestamp"
    return _TYPE_NAMES.get(text, f"Arrow type {text!r}")


@cython.cfunc
def _wrong_type(role: str, name: str, schema: cython.pointer(ArrowSchema), allowed: str) -> object:
    return RecordError(f"Column {name!r}, named as {role}, is of type {_type_name(schema)}; it has to be {allowed}.")


@cython.cfunc
def _column_names(chunk: Chunk) -> list:
    schema: cython.pointer(ArrowSchema) = cython.address(chunk.schema.c)
    names: list = []
    i: int64_t
    for i in range(schema.n_children):
        if schema.children[i].name == cython.NULL:
            names.append("")
        else:
            names.append(cython.cast(bytes, schema.children[i].name).decode("utf-8", "replace"))
    return names


@cython.cfunc
@cython.exceptval(-1)
def _column_index(chunk: Chunk, role: str, name: str) -> cython.Py_ssize_t:
    names = _column_names(chunk)
    count = names.count(name)
    if count == 1:
        return names.index(name)
    if count:
        raise RecordError(f"Column {name!r}, named as {role}, is there {count} times.")
    shown = ", ".join(repr(known) for known in names[:20]) + (", ..." if len(names) > 20 else "")
    raise RecordError(f"There is no column {name!r}, named as {role}; the columns are {shown}.")


@cython.cfunc
def _read_blobs(
    column: cython.pointer(Blobs),
    schema: cython.pointer(ArrowSchema),
    array: cython.pointer(ArrowArray),
    parent_offset: int64_t,
    role: str,
    name: str,
) -> object:
    """Find a byte string column's buffers; RecordError when it is of another type."""
    memset(column, 0, cython.sizeof(Blobs))
    values: cython.pointer(ArrowArray) = array
    values_schema: cython.pointer(ArrowSchema) = schema
    if schema.dictionary != cython.NULL:
        column.indices = array.buffers[1]
        column.index_validity = _validity(array)
        column.index_offset = array.offset + parent_offset
        column.index_type = schema.format[0]
        values = array.dictionary
        values_schema = schema.dictionary
        column.length = values.length
        parent_offset = 0
        if values_schema.dictionary != cython.NULL:
            raise _wrong_type(role, name, schema, _BYTE_TYPES)
    column.offset = values.offset + parent_offset
    kind: str = cython.cast(bytes, values_schema.format).decode("ascii", "replace")
    if kind == "n":
        column.kind = ALL_NULL
        return None
    column.validity = _validity(values)
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
        raise _wrong_type(role, name, schema, _BYTE_TYPES)
    return None


@cython.cfunc
def _validity(array: cython.pointer(ArrowArray)) -> cython.pointer(cython.const[uint8_t]):
    if array.null_count == 0:
        return cython.NULL
    return cython.cast(cython.pointer(cython.const[uint8_t]), array.buffers[0])


@cython.cfunc
def _read_headers(
    column: cython.pointer(Lists),
    schema: cython.pointer(ArrowSchema),
    array: cython.pointer(ArrowArray),
    parent_offset: int64_t,
    name: str,
) -> object:
    """Find the buffers of a column of list<struct<key, value>> or map<key, value>."""
    allowed = "list<struct<key: string, value: binary>> or map<string, binary>"
    kind: str = cython.cast(bytes, schema.format).decode("ascii", "replace")
    if kind not in ("+l", "+L", "+m") or cython.cast(bytes, schema.children[0].format) != b"+s":
        raise _wrong_type("headers", name, schema, allowed)
    entry_schema: cython.pointer(ArrowSchema) = schema.children[0]
    entries: cython.pointer(ArrowArray) = array.children[0]
    if entry_schema.n_children != 2:
        raise _wrong_type("headers", name, schema, allowed)
    column.is_large = kind == "+L"
    column.offset = array.offset + parent_offset
    column.validity = _validity(array)
    column.item_validity = _validity(entries)
    column.item_offset = entries.offset
    _read_blobs(
        cython.address(column.keys), entry_schema.children[0], entries.children[0], entries.offset, "headers", name
    )
    _read_blobs(
        cython.address(column.values), entry_schema.children[1], entries.children[1], entries.offset, "headers", name
    )
    column.offsets = array.buffers[1]
    return None


# ---------------------------------------------------------------------- columns -> record batches


@cython.final
@cython.cclass
class StickyPartition:
    """Where keyless rows go at the moment: keep one for each topic and give it to every call for that topic."""

    partition = cython.declare(int32_t, visibility="readonly")
    sent_bytes = cython.declare(int64_t, visibility="readonly")

    def __init__(self, partition: int = 0) -> None:
        if partition < 0:
            raise ValueError(f"There is no partition {partition}.")
        self.partition = partition


@cython.final
@cython.cclass
class TableEncoder:
    """Iterates over lists of SealedBatches, one list for each step through the input; see `encode_stream`."""

    _source = cython.declare(object)
    _topic = cython.declare(str)
    _partition_count = cython.declare(int32_t)
    _names = cython.declare(tuple)  # value, key, headers, partition, timestamp
    _batch_size = cython.declare(int64_t)
    _max_request_size = cython.declare(int64_t)
    _compression = cython.declare(str)
    _level = cython.declare(object)
    _ignore_keys = cython.declare(cython.bint)
    _sticky = cython.declare(StickyPartition)
    _sticky_partition = cython.declare(int32_t)
    _sticky_bytes = cython.declare(int64_t)
    _clock_ms = cython.declare(object)
    _busy = cython.declare(cython.bint)
    # The chunk being encoded, and where its columns are.
    _chunk = cython.declare(Chunk)
    _made = cython.declare(list)  # what the functions given for value or key made of the chunk
    _row = cython.declare(int64_t)  # the next row of the chunk
    _first_row = cython.declare(int64_t)  # the chunk's first row, counted through the whole input
    _key = cython.declare(Blobs)
    _value = cython.declare(Blobs)
    _headers = cython.declare(Lists)
    _partition = cython.declare(Numbers)
    _timestamp = cython.declare(Numbers)
    _timestamp_numerator = cython.declare(int64_t)
    _timestamp_divisor = cython.declare(int64_t)
    _timestamp_max = cython.declare(int64_t)
    _now_ms = cython.declare(int64_t)
    # The batch being written.
    _data = cython.declare(cython.p_char)
    _capacity = cython.declare(int64_t)
    _position = cython.declare(int64_t)
    _wanted = cython.declare(int64_t)
    _count = cython.declare(int32_t)
    _base_timestamp = cython.declare(int64_t)
    _max_timestamp = cython.declare(int64_t)
    _stopped_at = cython.declare(int64_t)  # the row a pass stopped at

    def __iter__(self) -> TableEncoder:
        return self

    def __next__(self) -> list:
        if self._busy:
            raise ValueError("A TableEncoder is for one thread at a time.")
        self._busy = True
        try:
            while self._chunk is None or self._row >= self._chunk.c.length:
                if self._chunk is not None:
                    self._first_row += self._chunk.c.length
                    self._chunk = None
                self._open(next(self._source))
            return self._step()
        finally:
            self._busy = False

    @cython.cfunc
    def _open(self, chunk: Chunk) -> object:
        """Find the named columns in the next chunk."""
        root: cython.pointer(ArrowArray) = cython.address(chunk.c)
        if cython.cast(bytes, chunk.schema.c.format) != b"+s":
            raise RecordError(
                f"The data has to be a table, not a column of {_type_name(cython.address(chunk.schema.c))}."
            )
        if root.null_count != 0 and root.n_buffers > 0 and root.buffers[0] != cython.NULL:
            raise RecordError("The data has rows that are null as a whole; drop them first.")
        value, key, headers, partition, timestamp = self._names
        self._made = []
        self._open_blobs(chunk, cython.address(self._value), "value", value)
        self._open_blobs(chunk, cython.address(self._key), "key", key)
        i: cython.Py_ssize_t
        memset(cython.address(self._headers), 0, cython.sizeof(Lists))
        if headers is not None:
            i = _column_index(chunk, "headers", headers)
            _read_headers(
                cython.address(self._headers), chunk.schema.c.children[i], root.children[i], root.offset, headers
            )
        self._open_numbers(chunk, cython.address(self._partition), "partition", partition)
        self._open_numbers(chunk, cython.address(self._timestamp), "timestamp", timestamp)
        self._now_ms = time_ns() // 1000000 if self._clock_ms is None else self._clock_ms()
        self._chunk = chunk
        self._row = 0
        return None

    @cython.cfunc
    def _open_blobs(self, chunk: Chunk, column: cython.pointer(Blobs), role: str, given: object) -> object:
        memset(column, 0, cython.sizeof(Blobs))
        if given is None:
            return None
        if callable(given):
            made: Chunk = _import_array(given(chunk))
            if made.c.length != chunk.c.length:
                raise RecordError(f"The function given as {role} made {made.c.length} values of {chunk.c.length} rows.")
            self._made.append(made)
            _read_blobs(column, cython.address(made.schema.c), cython.address(made.c), 0, role, role)
            return None
        i: cython.Py_ssize_t = _column_index(chunk, role, given)
        _read_blobs(column, chunk.schema.c.children[i], chunk.c.children[i], chunk.c.offset, role, given)
        return None

    @cython.cfunc
    def _open_numbers(self, chunk: Chunk, column: cython.pointer(Numbers), role: str, given: object) -> object:
        memset(column, 0, cython.sizeof(Numbers))
        if given is None:
            return None
        i: cython.Py_ssize_t = _column_index(chunk, role, given)
        schema: cython.pointer(ArrowSchema) = chunk.schema.c.children[i]
        array: cython.pointer(ArrowArray) = chunk.c.children[i]
        kind: str = cython.cast(bytes, schema.format).decode("ascii", "replace")
        allowed = "of a whole-number type"
        if role == "timestamp":
            allowed = "a timestamp, date64, or int64 of milliseconds since 1970"
            self._timestamp_numerator, self._timestamp_divisor = {
                "tss": (1000, 1), "tsm": (1, 1), "tsu": (1, 1000), "tsn": (1, 1000000), "l": (1, 1), "tdm": (1, 1),
            }.get(kind[:3] if kind[:2] == "ts" else kind, (0, 0))  # fmt: skip
        if schema.dictionary != cython.NULL or (
            self._timestamp_divisor == 0 if role == "timestamp" else kind not in tuple("cCsSiIlL")
        ):
            raise _wrong_type(role, given, schema, allowed)
        self._timestamp_max = ((1 << 63) - 1) // max(self._timestamp_numerator, 1)
        column.type = b"l"[0] if role == "timestamp" else schema.format[0]
        column.offset = array.offset + chunk.c.offset
        column.validity = _validity(array)
        column.values = array.buffers[1]
        return None

    # ------------------------------------------------------------------ one step

    @cython.cfunc
    def _step(self) -> list:
        """Encode the next slice of the chunk."""
        rows: int64_t = min(self._chunk.c.length - self._row, _SLICE_ROWS)
        partitions: cython.pointer(int32_t) = cython.cast(cython.pointer(int32_t), malloc(rows * 8 + 8))
        starts: cython.pointer(int64_t) = cython.cast(
            cython.pointer(int64_t), calloc(self._partition_count + 1, cython.sizeof(int64_t))
        )
        try:
            if partitions == cython.NULL or starts == cython.NULL:
                raise MemoryError
            return self._encode_slice(rows, partitions, starts)
        finally:
            free(partitions)
            free(starts)

    @cython.cfunc
    def _encode_slice(
        self, rows: int64_t, partitions: cython.pointer(int32_t), starts: cython.pointer(int64_t)
    ) -> list:
        size: int64_t = 0
        status: cython.int
        self._sticky_partition = self._sticky.partition % self._partition_count
        self._sticky_bytes = self._sticky.sent_bytes
        with cython.nogil:
            status = self._find_partitions(partitions, starts, cython.address(rows), cython.address(size))
        if status != _DONE:
            raise self._row_error(status)
        order: cython.pointer(int32_t) = partitions + rows
        with cython.nogil:
            _sort_by_partition(partitions, starts, order, self._partition_count, rows)
        # After the sort, starts[p] is where the rows of p end.
        bytes_per_row: int64_t = size // rows + 1
        lanes: list = []
        begin: int64_t = 0
        p: int32_t
        for p in range(self._partition_count):
            if starts[p] > begin:
                lanes.append(self._encode_partition(p, order + begin, starts[p] - begin, bytes_per_row))
            begin = starts[p]
        self._row += rows
        self._sticky.partition = self._sticky_partition
        self._sticky.sent_bytes = self._sticky_bytes
        # The partitions' batches take turns, so that all brokers have something to do from the start.
        return [batch for tier in zip_longest(*lanes) for batch in tier if batch is not None]

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _find_partitions(
        self,
        partitions: cython.pointer(int32_t),
        counts: cython.pointer(int64_t),
        rows: cython.pointer(int64_t),
        size: cython.pointer(int64_t),
    ) -> cython.int:
        """Fill in every row's partition and each partition's count; `rows` and `size` become the slice's."""
        data: cython.p_const_char = cython.NULL
        i: int64_t
        row: int64_t
        number: int64_t = 0
        key_bytes: int64_t
        value_bytes: int64_t
        header_bytes: int64_t
        total: int64_t = 0
        p: int32_t
        for i in range(rows[0]):
            row = self._row + i
            value_bytes = blob_at(cython.address(self._value), row, cython.address(data))
            key_bytes = blob_at(cython.address(self._key), row, cython.address(data))
            header_bytes = 1 if self._headers.offsets == cython.NULL else self._header_bytes(row)
            if unlikely(key_bytes == -2 or value_bytes == -2 or header_bytes < 0):
                self._stopped_at = row
                return _BAD_HEADERS if header_bytes == -1 else _BAD_LAYOUT
            if number_at(cython.address(self._partition), row, cython.address(number)):
                if number < 0 or number >= self._partition_count:
                    self._stopped_at = row
                    return _BAD_PARTITION
                p = cython.cast(int32_t, number)
            elif key_bytes >= 0 and not self._ignore_keys:
                p = partition_of(data, key_bytes, self._partition_count)
            else:
                p = self._stick(row, key_bytes, value_bytes, header_bytes)
            partitions[i] = p
            counts[p] += 1
            total += (key_bytes if key_bytes > 0 else 0) + (value_bytes if value_bytes > 0 else 0) + header_bytes + 12
            if total >= _SLICE_BYTES:
                rows[0] = i + 1
                break
        size[0] = total
        return _DONE

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _stick(self, row: int64_t, key_bytes: int64_t, value_bytes: int64_t, header_bytes: int64_t) -> int32_t:
        """The sticky partition, which moves on when a batch's worth of rows went to it."""
        # 4: attributes, a timestamp delta of one byte, an offset delta of two.
        body: int64_t = 4 + varint_bytes(zigzag(key_bytes)) + varint_bytes(zigzag(value_bytes)) + header_bytes
        body += (key_bytes if key_bytes > 0 else 0) + (value_bytes if value_bytes > 0 else 0)
        need: int64_t = body + varint_bytes(zigzag(body))
        if self._sticky_bytes > 0 and self._sticky_bytes + need + HEADER_BYTES > self._batch_size:
            self._sticky_partition = (self._sticky_partition + 1) % self._partition_count
            self._sticky_bytes = 0
        self._sticky_bytes += need
        return self._sticky_partition

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _header_bytes(self, row: int64_t) -> int64_t:
        """What a row's headers take on the wire; -1 where a header or its name is null, -2 for bad layout."""
        headers: cython.pointer(Lists) = cython.address(self._headers)
        data: cython.p_const_char = cython.NULL
        begin: int64_t = 0
        count: int64_t = list_at(headers, row, cython.address(begin))
        if count < 0:
            return -2
        size: int64_t = varint_bytes(zigzag(count))
        length: int64_t
        i: int64_t
        for i in range(begin, begin + count):
            length = blob_at(cython.address(headers.keys), i, cython.address(data))
            if length < 0 or not is_set(headers.item_validity, headers.item_offset + i):
                return -2 if length == -2 else -1
            size += varint_bytes(zigzag(length)) + length
            length = blob_at(cython.address(headers.values), i, cython.address(data))
            if length == -2:
                return -2
            size += varint_bytes(zigzag(length)) + (length if length > 0 else 0)
        return size

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _put_headers(self, to: cython.p_char, row: int64_t) -> cython.p_char:
        headers: cython.pointer(Lists) = cython.address(self._headers)
        data: cython.p_const_char = cython.NULL
        begin: int64_t = 0
        count: int64_t = list_at(headers, row, cython.address(begin))
        length: int64_t
        i: int64_t
        to = put_varint(to, zigzag(count))
        for i in range(begin, begin + count):
            length = blob_at(cython.address(headers.keys), i, cython.address(data))
            to = _put_blob(to, data, length)
            length = blob_at(cython.address(headers.values), i, cython.address(data))
            to = _put_blob(to, data, length)
        return to

    # ------------------------------------------------------------------ one partition's rows

    @cython.cfunc
    def _encode_partition(
        self, partition: int32_t, order: cython.pointer(int32_t), rows: int64_t, bytes_per_row: int64_t
    ) -> list:
        """The batches of one partition's rows of the slice."""
        sealed: list = []
        done: int64_t = 0
        begin: int64_t
        status: cython.int = _CUT
        buffer: bytearray
        while status == _CUT:
            begin = done
            self._capacity = min(self._batch_size, HEADER_BYTES + bytes_per_row * (rows - done) + 256)
            buffer = PyByteArray_FromStringAndSize(cython.NULL, self._capacity)
            self._position = HEADER_BYTES
            self._count = 0
            while True:
                self._data = PyByteArray_AS_STRING(buffer)
                with cython.nogil:
                    status = self._write_rows(order, rows, cython.address(done))
                if status != _GROW:
                    break
                self._capacity = max(self._wanted, min(2 * self._capacity, self._batch_size))
                PyByteArray_Resize(buffer, self._capacity)
            if status != _DONE and status != _CUT:
                raise self._row_error(status)
            PyByteArray_Resize(buffer, self._position)
            sealed.append(self._seal(partition, buffer, order + begin, done - begin))
        return sealed

    @cython.cfunc
    def _seal(self, partition: int32_t, buffer: bytearray, order: cython.pointer(int32_t), count: int64_t) -> object:
        codec: str = "none"
        if self._compression != "none":
            with memoryview(buffer) as whole:
                packed = compress(self._compression, self._level, whole[HEADER_BYTES:])
            if len(packed) < len(buffer) - HEADER_BYTES:
                buffer[HEADER_BYTES:] = packed
                codec = self._compression
        first: int64_t = self._first_row + self._row
        rows: object = None
        i: int64_t
        numbers: cython.pointer(int64_t)
        if order[count - 1] - order[0] != count - 1:  # they ascend: without a gap they are first, first + 1, ...
            rows = PyBytes_FromStringAndSize(cython.NULL, 8 * count)
            numbers = cython.cast(cython.pointer(int64_t), PyBytes_AS_STRING(rows))
            for i in range(count):
                numbers[i] = first + order[i]
        return sealed_batch(
            self._topic,
            partition,
            buffer,
            count,
            self._base_timestamp,
            self._max_timestamp,
            codec,
            first + order[0],
            rows,
        )

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _write_rows(self, order: cython.pointer(int32_t), rows: int64_t, done: cython.pointer(int64_t)) -> cython.int:
        """Write rows `order[done:rows]` into the batch until they are done, or it is full or too small."""
        data: cython.p_const_char = cython.NULL
        key_data: cython.p_const_char = cython.NULL
        to: cython.p_char
        timestamp: int64_t
        body: int64_t
        end: int64_t
        key_bytes: int64_t
        value_bytes: int64_t
        header_bytes: int64_t
        row: int64_t
        while done[0] < rows:
            if done[0] + _AHEAD < rows:
                # The rows of one partition lie scattered: have the memory of the rows to come fetched meanwhile.
                row = self._row + order[done[0] + _AHEAD]
                if blob_at(cython.address(self._value), row, cython.address(data)) > 0:
                    prefetch(data)
                    prefetch(data + 64)
            row = self._row + order[done[0]]
            key_bytes = blob_at(cython.address(self._key), row, cython.address(key_data))
            value_bytes = blob_at(cython.address(self._value), row, cython.address(data))
            header_bytes = 1 if self._headers.offsets == cython.NULL else self._header_bytes(row)
            timestamp = self._timestamp_of(row)
            if self._count == 0:
                self._base_timestamp = self._max_timestamp = timestamp
            body = 1 + varint_bytes(zigzag(timestamp - self._base_timestamp)) + varint_bytes(zigzag(self._count))
            body += varint_bytes(zigzag(key_bytes)) + (key_bytes if key_bytes > 0 else 0)
            body += varint_bytes(zigzag(value_bytes)) + (value_bytes if value_bytes > 0 else 0) + header_bytes
            end = self._position + varint_bytes(zigzag(body)) + body
            if unlikely(timestamp < 0):
                self._stopped_at = row
                return _BAD_TIMESTAMP
            if unlikely(end > self._capacity):
                if self._count > 0 and end > self._batch_size:
                    return _CUT
                self._wanted = end
                self._stopped_at = row
                return _TOO_LARGE if end > self._max_request_size else _GROW
            if timestamp > self._max_timestamp:
                self._max_timestamp = timestamp
            to = put_varint(self._data + self._position, zigzag(body))
            to[0] = 0
            to = put_varint(to + 1, zigzag(timestamp - self._base_timestamp))
            to = put_varint(to, zigzag(self._count))
            to = _put_blob(to, key_data, key_bytes)
            to = _put_blob(to, data, value_bytes)
            if self._headers.offsets == cython.NULL:
                to[0] = 0
            else:
                self._put_headers(to, row)
            self._position = end
            self._count += 1
            done[0] += 1
        return _DONE

    @cython.cfunc
    @cython.inline
    @cython.nogil
    @cython.exceptval(check=False)
    def _timestamp_of(self, row: int64_t) -> int64_t:
        """In milliseconds; negative for one that Kafka cannot hold."""
        number: int64_t = 0
        if not number_at(cython.address(self._timestamp), row, cython.address(number)):
            return self._now_ms
        if number > self._timestamp_max:
            return -1
        return number * self._timestamp_numerator // self._timestamp_divisor if number >= 0 else -1

    @cython.cfunc
    def _row_error(self, status: cython.int) -> object:
        row = self._first_row + self._stopped_at
        names: tuple = self._names
        number: int64_t = 0
        if status == _TOO_LARGE:
            return RecordError(
                f"Row {row} needs {self._wanted} bytes with its batch; max.request.size allows "
                f"{self._max_request_size}. Send less in one record, or raise max.request.size (and the topic's "
                "max.message.bytes)."
            )
        if status == _BAD_PARTITION:
            number_at(cython.address(self._partition), self._stopped_at, cython.address(number))
            return RecordError(
                f"Column {names[3]!r} names partition {number} in row {row}; topic {self._topic} has partitions 0 to "
                f"{self._partition_count - 1}."
            )
        if status == _BAD_TIMESTAMP:
            return RecordError(f"Column {names[4]!r} has a time in row {row} that is before 1970 or out of range.")
        if status == _BAD_HEADERS:
            return RecordError(f"Column {names[2]!r} has a null header, or one without a name, in row {row}.")
        return RecordError(f"The data is not laid out as Arrow says it is, at row {row}.")


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _put_blob(to: cython.p_char, data: cython.p_const_char, length: int64_t) -> cython.p_char:
    to = put_varint(to, zigzag(length))
    if length > 0:
        memcpy(to, data, length)
        to += length
    return to


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _sort_by_partition(
    partitions: cython.pointer(int32_t),
    starts: cython.pointer(int64_t),
    order: cython.pointer(int32_t),
    partition_count: int32_t,
    rows: int64_t,
) -> cython.void:
    """Counting sort: `starts` holds counts and becomes where each partition's rows end in `order`."""
    before: int64_t = 0
    count: int64_t
    p: int32_t
    i: int64_t
    for p in range(partition_count):
        count = starts[p]
        starts[p] = before
        before += count
    for i in range(rows):
        p = partitions[i]
        order[starts[p]] = cython.cast(int32_t, i)
        starts[p] += 1


def encode_stream(
    data: object,
    *,
    topic: str,
    partition_count: int,
    value: object,
    key: object = None,
    headers: object = None,
    partition: object = None,
    timestamp: object = None,
    batch_size: int = 16384,
    max_request_size: int = 1048576,
    compression: str = "none",
    compression_level: object = None,
    ignore_keys: bool = False,
    sticky: object = None,
    clock_ms: object = None,
) -> TableEncoder:
    """Encode Arrow data as record batches, one list of SealedBatches for each step through the input.

    `data` is what `chunks` takes. `value`, `key`, `headers`, `partition` and `timestamp` name columns; `value` and
    `key` may also be functions that take a `Chunk` and return Arrow data of one byte string for each row. A null
    value is a tombstone; a row without a key or partition goes to `sticky`'s partition, one without a timestamp
    gets the time at which its chunk is read. Raises RecordError, naming column and row, for what cannot be sent.
    """
    check_level(compression, compression_level)
    encoder: TableEncoder = TableEncoder()
    encoder._source = chunks(data)
    encoder._topic = topic
    encoder._partition_count = partition_count
    if encoder._partition_count < 1:
        raise ValueError(f"Topic {topic!r} cannot have {partition_count} partitions.")
    encoder._names = (value, key, headers, partition, timestamp)
    encoder._batch_size = max(batch_size, HEADER_BYTES)
    encoder._max_request_size = max_request_size
    encoder._compression = compression
    encoder._level = compression_level
    encoder._ignore_keys = ignore_keys
    encoder._sticky = StickyPartition() if sticky is None else sticky
    encoder._clock_ms = clock_ms
    return encoder


# ---------------------------------------------------------------------- record batches -> columns

# What parsing a records section stopped for, beside _DONE.
_CORRUPT = cython.declare(cython.int, 1)
_NO_MEMORY = cython.declare(cython.int, 2)
_TOO_MUCH = cython.declare(cython.int, 3)

_RECORD_BYTES_MIN = cython.declare(int64_t, 7)


@cython.final
@cython.cclass
class DecodedColumns:
    """Records as Arrow columns, exported by `__arrow_c_array__`: `pyarrow.record_batch(decoded)`.

    Columns: key binary, value binary, offset int64, timestamp timestamp[ms, UTC], timestamp_type int32 (0 the
    producer's clock, 1 the broker's), headers list<struct<key: string, value: binary>>. `next_offset` is the offset
    to read on from, past control and left-out records too; `tail_bytes` counts the bytes of a last batch that was
    cut short, as fetches may end.
    """

    next_offset = cython.declare(int64_t, visibility="readonly")
    tail_bytes = cython.declare(int64_t, visibility="readonly")
    _start = cython.declare(int64_t)
    _end = cython.declare(int64_t)
    _length = cython.declare(int64_t)
    _offsets = cython.declare(Growing)
    _timestamps = cython.declare(Growing)
    _timestamp_types = cython.declare(Growing)
    _keys = cython.declare(GrowingBlobs)
    _values = cython.declare(GrowingBlobs)
    _header_offsets = cython.declare(Growing)
    _header_keys = cython.declare(GrowingBlobs)
    _header_values = cython.declare(GrowingBlobs)
    _failed_at = cython.declare(int64_t)
    # What is exported: the root, its columns, then the header struct and its two columns.
    _arrays = cython.declare(ArrowArray[10])
    _children = cython.declare(cython.pointer(ArrowArray)[9])
    _buffers = cython.declare(cython.p_const_void[24])

    def __dealloc__(self):
        free(self._offsets.data)
        free(self._timestamps.data)
        free(self._timestamp_types.data)
        free(self._header_offsets.data)
        free_blobs(cython.address(self._keys))
        free_blobs(cython.address(self._values))
        free_blobs(cython.address(self._header_keys))
        free_blobs(cython.address(self._header_values))

    def __len__(self) -> int:
        return self._length

    @property
    def num_rows(self) -> int:
        return self._length

    @property
    def size_bytes(self) -> int:
        """The bytes of keys and values."""
        return self._keys.data.size + self._values.data.size

    def __arrow_c_schema__(self) -> object:
        return _schema_capsule(cython.address(_decoded_schema.schemas[0]), _decoded_schema)

    def __arrow_c_array__(self, requested_schema: object = None) -> tuple:
        return self.__arrow_c_schema__(), _array_capsule(cython.address(self._arrays[0]), self)

    # ------------------------------------------------------------------ parsing

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _reserve(self, rows: int64_t) -> cython.bint:
        """Make room for `rows` more records but for their bytes."""
        self._header_offsets.size = 4 * (self._length + 1)
        if not reserve(cython.address(self._header_offsets), 4 * rows):
            return False
        if self._length == 0:
            cython.cast(cython.pointer(int32_t), self._header_offsets.data)[0] = 0
        return (
            reserve(cython.address(self._offsets), 8 * rows)
            and reserve(cython.address(self._timestamps), 8 * rows)
            and reserve(cython.address(self._timestamp_types), 4 * rows)
            and reserve_rows(cython.address(self._keys), rows)
            and reserve_rows(cython.address(self._values), rows)
        )

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _parse(
        self,
        begin: cython.p_const_char,
        end: cython.p_const_char,
        count: int64_t,
        base_offset: int64_t,
        last_offset_delta: int64_t,
        base_timestamp: int64_t,
        append_timestamp: int64_t,
        is_append_time: cython.bint,
    ) -> cython.int:
        """Parse the `count` records that have to make up [begin, end)."""
        at: cython.p_const_char = begin
        record_end: cython.p_const_char
        number: int64_t = 0
        timestamp_delta: uint64_t = 0
        offset: int64_t
        row: int64_t
        status: cython.int
        _: int64_t
        if count * _RECORD_BYTES_MIN > end - begin:
            return _CORRUPT
        if not self._reserve(count):
            return _NO_MEMORY
        for _ in range(count):
            self._failed_at = at - begin
            at = get_int32_varint(at, end, cython.address(number))
            if at == cython.NULL or number < _RECORD_BYTES_MIN - 1 or number > end - at:
                return _CORRUPT
            record_end = at + number
            at = get_varint(at + 1, record_end, cython.address(timestamp_delta))
            if at == cython.NULL:
                return _CORRUPT
            at = get_int32_varint(at, record_end, cython.address(number))
            if at == cython.NULL or number < 0 or number > last_offset_delta:
                return _CORRUPT
            offset = cython.cast(int64_t, cython.cast(uint64_t, base_offset) + cython.cast(uint64_t, number))
            if offset < self._start or offset >= self._end:
                at = record_end
                continue
            row = self._length
            cython.cast(cython.pointer(int64_t), self._offsets.data)[row] = offset
            cython.cast(cython.pointer(int64_t), self._timestamps.data)[row] = (
                append_timestamp
                if is_append_time
                else cython.cast(
                    int64_t,
                    cython.cast(uint64_t, base_timestamp) + cython.cast(uint64_t, unzigzag(timestamp_delta)),
                )
            )
            cython.cast(cython.pointer(int32_t), self._timestamp_types.data)[row] = is_append_time
            status = _take_blob(cython.address(self._keys), cython.address(at), record_end)
            if status == _DONE:
                status = _take_blob(cython.address(self._values), cython.address(at), record_end)
            if status == _DONE:
                status = self._parse_headers(cython.address(at), record_end)
            if unlikely(status != _DONE):
                return status
            if unlikely(at != record_end):
                return _CORRUPT
            self._length = row + 1
            self._offsets.size += 8
            self._timestamps.size += 8
            self._timestamp_types.size += 4
            if unlikely(self._header_keys.length > 0x7FFFFFFF):
                return _TOO_MUCH
            cython.cast(cython.pointer(int32_t), self._header_offsets.data)[row + 1] = cython.cast(
                int32_t, self._header_keys.length
            )
        self._failed_at = at - begin
        return _DONE if at == end else _CORRUPT

    @cython.cfunc
    @cython.inline
    @cython.nogil
    @cython.exceptval(check=False)
    def _parse_headers(self, position: cython.pointer(cython.p_const_char), end: cython.p_const_char) -> cython.int:
        number: int64_t = 0
        at: cython.p_const_char = get_int32_varint(position[0], end, cython.address(number))
        if at == cython.NULL:
            return _CORRUPT
        position[0] = at
        if number == 0:
            return _DONE
        return self._parse_some_headers(position, end, number)

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _parse_some_headers(
        self, position: cython.pointer(cython.p_const_char), end: cython.p_const_char, count: int64_t
    ) -> cython.int:
        status: cython.int
        before: int64_t
        _: int64_t
        if count < 0 or count > (end - position[0]) // 2:
            return _CORRUPT
        if not (
            reserve_rows(cython.address(self._header_keys), count)
            and reserve_rows(cython.address(self._header_values), count)
        ):
            return _NO_MEMORY
        for _ in range(count):
            before = self._header_keys.null_count
            status = _take_blob(cython.address(self._header_keys), position, end)
            if status == _DONE and self._header_keys.null_count != before:
                return _CORRUPT
            if status == _DONE:
                status = _take_blob(cython.address(self._header_values), position, end)
            if status != _DONE:
                return status
        return _DONE

    @cython.cfunc
    def _finish(self) -> object:
        """Point the exported arrays at the buffers."""
        if not self._reserve(1) or not (
            reserve_rows(cython.address(self._header_keys), 1) and reserve_rows(cython.address(self._header_values), 1)
        ):
            raise MemoryError
        self._mend_names()
        rows: int64_t = self._length
        headers: int64_t = self._header_keys.length
        i: cython.int
        for i in range(6):
            self._children[i] = cython.address(self._arrays[1 + i])
        self._children[6] = cython.address(self._arrays[7])
        self._children[7] = cython.address(self._arrays[8])
        self._children[8] = cython.address(self._arrays[9])
        self._export(0, 0, 1, rows, 0, 6, 0)
        self._export_blobs(1, 1, cython.address(self._keys))
        self._export_blobs(2, 4, cython.address(self._values))
        self._buffers[8] = self._offsets.data
        self._export(3, 7, 2, rows, 0, 0, 0)
        self._buffers[10] = self._timestamps.data
        self._export(4, 9, 2, rows, 0, 0, 0)
        self._buffers[12] = self._timestamp_types.data
        self._export(5, 11, 2, rows, 0, 0, 0)
        self._buffers[14] = self._header_offsets.data
        self._export(6, 13, 2, rows, 0, 1, 6)
        self._export(7, 15, 1, headers, 0, 2, 7)
        self._export_blobs(8, 16, cython.address(self._header_keys))
        self._export_blobs(9, 19, cython.address(self._header_values))
        return None

    @cython.cfunc
    def _export_blobs(self, i: cython.int, buffer: cython.int, column: cython.pointer(GrowingBlobs)) -> object:
        # A column of no bytes still has a buffer: some consumers trip over NULL.
        if not reserve(cython.address(column.data), 1):
            raise MemoryError
        self._buffers[buffer] = column.validity.data if column.null_count else cython.NULL
        self._buffers[buffer + 1] = column.offsets.data
        self._buffers[buffer + 2] = column.data.data
        self._export(i, buffer, 3, column.length, column.null_count, 0, 0)
        return None

    @cython.cfunc
    def _export(
        self,
        i: cython.int,
        buffer: cython.int,
        buffers: cython.int,
        length: int64_t,
        null_count: int64_t,
        children: cython.int,
        child: cython.int,
    ) -> object:
        array: cython.pointer(ArrowArray) = cython.address(self._arrays[i])
        array.length = length
        array.null_count = null_count
        array.n_buffers = buffers
        array.buffers = cython.address(self._buffers[buffer])
        array.n_children = children
        array.children = cython.address(self._children[child])
        return None

    @cython.cfunc
    def _mend_names(self) -> object:
        """Header names are strings in Arrow: where one is not UTF-8, its bad bytes are replaced, as Java does."""
        names: cython.pointer(GrowingBlobs) = cython.address(self._header_keys)
        size: int64_t = names.data.size
        if size == 0:
            return None
        everything: bytes = names.data.data[:size]
        offsets: cython.pointer(int32_t) = cython.cast(cython.pointer(int32_t), names.offsets.data)
        i: int64_t
        if everything.isascii():
            return None
        mended: list = []
        for i in range(names.length):
            mended.append(everything[offsets[i] : offsets[i + 1]].decode("utf-8", "replace").encode())
        joined: bytes = b"".join(mended)
        names.data.size = 0
        if len(joined) > 0x7FFFFFFF or not extend(cython.address(names.data), joined, len(joined)):
            raise MemoryError
        size = 0
        for i in range(names.length):
            size += len(mended[i])
            offsets[i + 1] = cython.cast(int32_t, size)
        return None


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _take_blob(
    column: cython.pointer(GrowingBlobs), position: cython.pointer(cython.p_const_char), end: cython.p_const_char
) -> cython.int:
    """Move a length and that many bytes (-1: null) from `position` to the column."""
    size: int64_t = 0
    at: cython.p_const_char = get_int32_varint(position[0], end, cython.address(size))
    if unlikely(at == cython.NULL or size < -1 or size > end - at):
        return _CORRUPT
    if unlikely(not append_blob(column, at, size)):
        return _TOO_MUCH if column.data.size + size > 0x7FFFFFFF else _NO_MEMORY
    position[0] = at + size if size > 0 else at
    return _DONE


@cython.final
@cython.cclass
class _DecodedSchema:
    """The ArrowSchema of every DecodedColumns, made once; all its strings are constants."""

    schemas = cython.declare(ArrowSchema[10])
    children = cython.declare(cython.pointer(ArrowSchema)[9])

    def __cinit__(self):
        self.fill(0, b"+s", b"", 6, 0)
        self.fill(1, b"z", b"key", 0, 0)
        self.fill(2, b"z", b"value", 0, 0)
        self.fill(3, b"l", b"offset", 0, 0)
        self.fill(4, b"tsm:UTC", b"timestamp", 0, 0)
        self.fill(5, b"i", b"timestamp_type", 0, 0)
        self.fill(6, b"+l", b"headers", 1, 6)
        self.fill(7, b"+s", b"item", 2, 7)
        self.fill(8, b"u", b"key", 0, 0)
        self.fill(9, b"z", b"value", 0, 0)
        i: cython.int
        for i in range(9):
            self.children[i] = cython.address(self.schemas[i + 1])
        self.schemas[0].flags = 0

    @cython.cfunc
    def fill(
        self,
        i: cython.int,
        format: cython.p_const_char,
        name: cython.p_const_char,
        children: cython.int,
        child: cython.int,
    ) -> object:
        schema: cython.pointer(ArrowSchema) = cython.address(self.schemas[i])
        schema.format = format
        schema.name = name
        schema.flags = NULLABLE
        schema.n_children = children
        schema.children = cython.address(self.children[child])
        return None


_decoded_schema = cython.declare(_DecodedSchema, _DecodedSchema())


def decode_columns(
    buffer: object,
    *,
    start_offset: int = 0,
    end_offset: object = None,
    verify_crc: bool = True,
    committed: object = None,
    decompressed_bytes_max: int = 1 << 28,
) -> DecodedColumns:
    """Decode record batches, as fetched, into finished Arrow columns without an object per record.

    Control batches and records outside [start_offset, end_offset) are left out; a last batch that is cut short is
    left for the next fetch (`tail_bytes`). `committed`: the aborted transactions a fetch listed, as (producer id,
    first offset), to leave their records out; None reads everything. Raises CorruptBatch for bytes that are not
    record batches, or hold more than `decompressed_bytes_max` in one of them.
    """
    decoded: DecodedColumns = DecodedColumns()
    decoded._start = max(start_offset, -(1 << 63))
    decoded._end = (1 << 63) - 1 if end_offset is None else end_offset
    decoded.next_offset = start_offset
    aborted: _Aborted = None if committed is None else _Aborted(committed)
    with memoryview(buffer) as given, given.cast("B") as view:
        _decode_all(decoded, view, verify_crc, aborted, decompressed_bytes_max)
    decoded._finish()
    return decoded


@cython.cfunc
def _decode_all(
    decoded: DecodedColumns, view: object, verify_crc: cython.bint, aborted: object, limit_bytes: int64_t
) -> object:
    whole: cython.const[cython.uchar][::1] = view if len(view) else b"\0"
    size: int64_t = len(view)
    data: cython.p_const_char = cython.cast(cython.p_const_char, cython.address(whole[0]))
    at: cython.p_const_char
    position: int64_t = 0
    batch_bytes: int64_t
    attributes: cython.int
    base_offset: int64_t
    last_offset_delta: int64_t
    transactions: _Aborted = aborted
    # A first guess at the room for the values; it grows with what is really there.
    if size and not reserve(cython.address(decoded._values.data), size):
        raise MemoryError
    while size - position >= HEADER_BYTES:
        at = data + position
        batch_bytes = get_big_endian(at + 8, 4) + 12
        if at[16] != 2 or batch_bytes < HEADER_BYTES or get_big_endian(at + 57, 4) < 0:
            read_header(view, position)
        if get_big_endian(at, 8) < 0 or get_big_endian(at, 8) > OFFSET_MAX or get_big_endian(at + 23, 4) < -1:
            read_header(view, position)
        if batch_bytes > size - position:
            break
        if verify_crc and cython.cast(uint32_t, get_big_endian(at + 17, 4)) != crc32c(
            view[position + 21 : position + batch_bytes]
        ):
            check_crc(view, read_header(view, position))
        base_offset = get_big_endian(at, 8)
        last_offset_delta = get_big_endian(at + 23, 4)
        attributes = cython.cast(cython.int, get_big_endian(at + 21, 2))
        if attributes & 0x20:
            if aborted is not None:
                transactions.control(view[position : position + batch_bytes])
        elif aborted is None or not attributes & 0x10 or transactions.keeps(base_offset, get_big_endian(at + 43, 8)):
            _decode_batch(decoded, view, at, position, batch_bytes, attributes, limit_bytes)
        if base_offset + last_offset_delta >= decoded.next_offset:
            decoded.next_offset = base_offset + last_offset_delta + 1
        position += batch_bytes
    if decoded.next_offset > decoded._end:
        decoded.next_offset = decoded._end
    decoded.tail_bytes = size - position
    return None


@cython.cfunc
def _decode_batch(
    decoded: DecodedColumns,
    view: object,
    at: cython.p_const_char,
    position: int64_t,
    batch_bytes: int64_t,
    attributes: cython.int,
    limit_bytes: int64_t,
) -> object:
    base_offset: int64_t = get_big_endian(at, 8)
    last_offset_delta: int64_t = get_big_endian(at + 23, 4)
    base_timestamp: int64_t = get_big_endian(at + 27, 8)
    max_timestamp: int64_t = get_big_endian(at + 35, 8)
    count: int64_t = get_big_endian(at + 57, 4)
    begin: cython.p_const_char = at + HEADER_BYTES
    end: cython.p_const_char = at + batch_bytes
    unpacked: object = None
    status: cython.int
    if base_offset + last_offset_delta < decoded._start or base_offset >= decoded._end:
        return None
    if attributes & 7:
        codec = read_header(view, position).codec
        packed = view[position + HEADER_BYTES : position + batch_bytes]
        unpacked = bytes(decompress(codec, packed, limit_bytes))
        begin = PyBytes_AS_STRING(unpacked)
        end = begin + len(unpacked)
    with cython.nogil:
        status = decoded._parse(
            begin,
            end,
            count,
            base_offset,
            last_offset_delta,
            base_timestamp,
            max_timestamp,
            attributes & 8 != 0,
        )
    if status == _NO_MEMORY:
        raise MemoryError
    if status == _TOO_MUCH:
        raise CorruptBatch("The batches hold more than 2 GiB of keys, values or headers; decode fewer at a time.")
    if status == _CORRUPT:
        raise CorruptBatch(
            f"The batch at offset {base_offset} is not made of {count} records: what stands at byte "
            f"{decoded._failed_at} of its records is none."
        )
    return None


@cython.final
@cython.cclass
class _Aborted:
    """Which transactions' records a reader of committed records leaves out, batch after batch."""

    _coming = cython.declare(list)  # (first offset, producer id)
    _next = cython.declare(cython.Py_ssize_t)
    _producers = cython.declare(dict)

    def __init__(self, aborted: object) -> None:
        self._coming = sorted((first, producer) for producer, first in aborted)
        self._producers = {}

    @cython.cfunc
    @cython.exceptval(-1)
    def keeps(self, base_offset: int64_t, producer_id: int64_t) -> cython.bint:
        while self._next < len(self._coming) and self._coming[self._next][0] <= base_offset:
            self._producers[self._coming[self._next][1]] = True
            self._next += 1
        return producer_id not in self._producers

    @cython.cfunc
    def control(self, batch: object) -> object:
        """A transaction's end marker: after an abort, the producer's records count again."""
        for header, records in decode_batches(batch, False):
            if records and records[0].key is not None and records[0].key[2:4] == b"\0\0":
                self._producers.pop(header.producer_id, None)
        return None
