"""A column of Avro payloads -> Arrow columns, a payload at a time and never an object per row (compiled).

`AvroDecoder` turns a writer's schema, and a reader's where there is one, into steps (`resolution.py`); `decode` runs
them for every payload, without the interpreter lock (`reading.pxd`). Decoders keep no state between two calls, so
threads may share one.

Invariant: what a payload says is checked before it is believed, and the columns take no more memory than
`memory_bytes_max` says, whatever payloads and schemas claim.
"""

from __future__ import annotations

import cython
from cython.cimports.libc.stdint import int64_t, uint8_t
from cython.cimports.libc.stdlib import free
from cython.cimports.libc.string import memcpy, memset
from cython.cimports.ottla.records.arrow_columns import read_byte_strings
from cython.cimports.ottla.records.arrow_data import Chunk, array_capsule, schema_capsule
from cython.cimports.ottla.records.arrow_layout import ArrowArray, Blobs, blob_at
from cython.cimports.ottla.schemas.avro.building import (
    BYTES_LEFT,
    FINE,
    NO_MEMORY,
    NO_OFFSETS,
    SHORT_FRAME,
    STORE_BITS,
    STORE_BLOBS,
    STORE_FIELDS,
    STORE_NOTHING,
    Building,
    Reading,
    Step,
    cut,
    grow,
    put_null,
)
from cython.cimports.ottla.schemas.avro.program import Layout, Program, zeroed
from cython.cimports.ottla.schemas.avro.reading import read_value

from ottla.errors import RecordError
from ottla.records.arrow_data import chunks
from ottla.schemas.avro.columns import ColumnTree
from ottla.schemas.avro.reasons import told
from ottla.schemas.avro.resolution import Resolver
from ottla.schemas.avro.schema import SchemaError, parse_schema

# Items that take no bytes (of type null, say): so many are believed, of a row's payload and all before it.
_EMPTY_ITEMS_MAX = cython.declare(int64_t, 1 << 20)
_MEMORY_BYTES = 1 << 30
_MEMORY_FACTOR = 256


@cython.final
@cython.cclass
class DecodedRows:
    """Rows decoded from payloads, exported by `__arrow_c_array__`.

    `failed_rows` are those that could not be decoded and are null (mode "null"): the first hundred, with the reason.
    """

    failed_rows = cython.declare(list, visibility="readonly")
    failed_count = cython.declare(int64_t, visibility="readonly")
    _layout = cython.declare(Layout)
    _columns = cython.declare(cython.pointer(Building))
    _arrays = cython.declare(cython.pointer(ArrowArray))
    _pointers = cython.declare(cython.pointer(cython.pointer(ArrowArray)))
    _buffers = cython.declare(cython.pointer(cython.p_const_void))

    def __dealloc__(self):
        i: cython.int
        if self._columns != cython.NULL:
            for i in range(self._layout.count):
                free(self._columns[i].validity.data)
                free(self._columns[i].values.data)
                free(self._columns[i].data.data)
        free(self._columns)
        free(self._arrays)
        free(self._pointers)
        free(self._buffers)

    def __len__(self) -> int:
        return self._columns[0].length

    def __arrow_c_schema__(self) -> object:
        return schema_capsule(cython.address(self._layout.schemas[0]), self._layout)

    def __arrow_c_array__(self, requested_schema: object = None) -> tuple:
        return self.__arrow_c_schema__(), array_capsule(cython.address(self._arrays[0]), self)

    @cython.cfunc
    def _begin(self, layout: Layout, reading: cython.pointer(Reading), rows: int64_t) -> object:
        i: cython.int
        size: int64_t
        column: cython.pointer(Building)
        self._layout = layout
        self._columns = cython.cast(cython.pointer(Building), zeroed(layout.count, cython.sizeof(Building)))
        memcpy(self._columns, layout.columns, layout.count * cython.sizeof(Building))
        reading.columns = self._columns
        for i in range(layout.count):
            column = cython.address(self._columns[i])
            if column.storage in (STORE_NOTHING, STORE_FIELDS):
                continue
            size = 64
            if layout.is_row[i] and column.width <= 16:
                # As many as there are rows.
                size += rows // 8 if column.storage == STORE_BITS else rows * (column.width if column.width else 4)
            if size > reading.room_bytes // layout.count:
                size = 64
            if not grow(cython.address(column.values), size, reading):
                raise _cannot_grow(reading.reason, 0)
            memset(column.values.data, 0, 64)
        return None

    @cython.cfunc
    def _finish(self) -> object:
        """Fill in what is exported."""
        count: cython.int = self._layout.count
        i: cython.int
        k: cython.int
        column: cython.pointer(Building)
        array: cython.pointer(ArrowArray)
        self._arrays = cython.cast(cython.pointer(ArrowArray), zeroed(count, cython.sizeof(ArrowArray)))
        self._pointers = cython.cast(
            cython.pointer(cython.pointer(ArrowArray)), zeroed(count, cython.sizeof(cython.p_void))
        )
        self._buffers = cython.cast(
            cython.pointer(cython.p_const_void), zeroed(3 * count, cython.sizeof(cython.p_void))
        )
        for i in range(count):
            column = cython.address(self._columns[i])
            array = cython.address(self._arrays[i])
            array.length = column.length
            array.buffers = cython.address(self._buffers[3 * i])
            array.n_children = column.child_count
            array.children = cython.address(self._pointers[column.first_child])
            for k in range(column.child_count):
                self._pointers[column.first_child + k] = cython.address(self._arrays[column.first_child + k])
            if column.storage == STORE_NOTHING:
                array.null_count = column.length
                continue
            if column.is_nullable:
                array.null_count = _null_count(column)
                if array.null_count:
                    array.buffers[0] = column.validity.data
            array.n_buffers = 1 if column.storage == STORE_FIELDS else 3 if column.storage == STORE_BLOBS else 2
            if column.storage != STORE_FIELDS:
                array.buffers[1] = column.values.data
            if column.storage == STORE_BLOBS:
                # Some readers want a place even for no bytes.
                array.buffers[2] = column.data.data if column.data.data != cython.NULL else column.values.data
        return None


@cython.cfunc
@cython.exceptval(check=False)
def _null_count(column: cython.pointer(Building)) -> int64_t:
    bits: cython.pointer(uint8_t) = cython.cast(cython.pointer(uint8_t), column.validity.data)
    nulls: int64_t = 0
    i: int64_t
    for i in range(column.length):
        nulls += 1 - ((bits[i >> 3] >> (i & 7)) & 1)
    return nulls


def _cannot_grow(reason: int, row: int) -> object:
    if reason == NO_MEMORY:
        return MemoryError()
    if reason == NO_OFFSETS:
        return RecordError(f"The rows up to row {row} hold more than 2 GiB in one column; decode fewer rows at a time.")
    return RecordError(
        f"The rows up to row {row} take more memory than 'memory_bytes_max' allows; decode fewer rows at a time, or "
        "allow more."
    )


@cython.final
@cython.cclass
class AvroDecoder:
    """Decodes payloads written with one schema, as another where one is given.

    `references` are the schemas that either names without defining them: name to text. SchemaError for schemas that
    cannot be used, or cannot be read as one another.
    """

    _layout = cython.declare(Layout)
    _program = cython.declare(Program)

    def __init__(self, writer_text: str, reader_text: object = None, *, references: object = None) -> None:
        writer = parse_schema(writer_text, references)
        reader = writer if reader_text is None else parse_schema(reader_text, references)
        # A row can be null: a tombstone has no payload.
        root = ColumnTree().make(reader, "", is_nullable=True)
        self._layout = Layout(root)
        self._program = Program(Resolver().resolve(writer, reader, root), self._layout)

    def __arrow_c_schema__(self) -> object:
        """The type of what `decode` gives."""
        return schema_capsule(cython.address(self._layout.schemas[0]), self._layout)

    def decode(
        self, column: object, *, skip: int = 0, mode: str = "fail", memory_bytes_max: object = None
    ) -> DecodedRows:
        """Decode a column of byte strings: a row for each, null where it is null.

        `skip` bytes in front of each payload are passed over (5 for what names a schema by its id). A payload that is
        not of the schema raises RecordError with its row and field, or with mode "null" becomes a null row.
        `memory_bytes_max` limits what the columns take: by default 1 GiB, or 256 times the payloads' bytes if that is
        more.
        """
        if mode not in ("fail", "null"):
            raise SchemaError(f"The mode is 'fail' or 'null', not {mode!r}.")
        if skip < 0:
            raise SchemaError(f"'skip' is a number of bytes, from 0 on, not {skip}.")
        given: list = list(chunks(column))
        rows: DecodedRows = DecodedRows()
        reading = cython.declare(Reading)
        memset(cython.address(reading), 0, cython.sizeof(Reading))
        reading.empty_items = _EMPTY_ITEMS_MAX
        reading.room_bytes = _room(given) if memory_bytes_max is None else memory_bytes_max
        rows._begin(self._layout, cython.address(reading), sum([len(chunk) for chunk in given]))
        rows.failed_rows = []
        chunk: Chunk
        first: int64_t = 0
        for chunk in given:
            self._decode_chunk(rows, cython.address(reading), chunk, first, skip, mode == "null")
            first += chunk.c.length
        rows._finish()
        return rows

    @cython.cfunc
    def _decode_chunk(
        self,
        rows: DecodedRows,
        reading: cython.pointer(Reading),
        chunk: Chunk,
        first: int64_t,
        skip: int64_t,
        is_lenient: cython.bint,
    ) -> object:
        payloads = cython.declare(Blobs)
        read_byte_strings(
            cython.address(payloads), cython.address(chunk.schema.c), cython.address(chunk.c), 0, "payloads", ""
        )
        row: int64_t = 0
        begin: cython.p_const_char = cython.NULL
        while row < chunk.c.length:
            with cython.nogil:
                row = _decode_rows(
                    cython.address(payloads),
                    row,
                    chunk.c.length,
                    skip,
                    self._program.steps,
                    reading,
                    cython.address(begin),
                )
            if row == chunk.c.length:
                break
            if reading.reason >= NO_MEMORY:
                raise _cannot_grow(reading.reason, first + row)
            reason = self._reason(reading, begin)
            if not is_lenient:
                raise RecordError(f"Row {first + row} cannot be decoded: {reason}.")
            if len(rows.failed_rows) < 100:
                rows.failed_rows.append((first + row, reason))
            rows.failed_count += 1
            cut(reading.columns, reading.columns, first + row)
            if not put_null(reading.columns, reading):
                raise _cannot_grow(reading.reason, first + row)
            row += 1
        return None

    @cython.cfunc
    def _reason(self, reading: cython.pointer(Reading), begin: cython.p_const_char) -> str:
        plan = None if reading.failed == cython.NULL else self._program.plans[reading.failed.number]
        return told(
            cython.cast(cython.int, reading.reason),
            "" if plan is None else plan.path,
            "" if plan is None else plan.message,
            reading.at - begin,
            reading.end - begin,
        )


@cython.cfunc
def _room(given: list) -> int64_t:
    """How much memory the columns may take."""
    chunk: Chunk
    payloads = cython.declare(Blobs)
    total: int64_t = 0
    data: cython.p_const_char = cython.NULL
    size: int64_t
    row: int64_t
    for chunk in given:
        read_byte_strings(
            cython.address(payloads), cython.address(chunk.schema.c), cython.address(chunk.c), 0, "payloads", ""
        )
        with cython.nogil:
            for row in range(chunk.c.length):
                size = blob_at(cython.address(payloads), row, cython.address(data))
                if size > 0:
                    total += size
    return max(_MEMORY_BYTES, _MEMORY_FACTOR * total)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _decode_rows(
    payloads: cython.pointer(Blobs),
    row: int64_t,
    until: int64_t,
    skip: int64_t,
    root: cython.pointer(Step),
    reading: cython.pointer(Reading),
    begin: cython.pointer(cython.p_const_char),
) -> int64_t:
    """Decode up to the first row that cannot be; its number, or `until`."""
    data: cython.p_const_char = cython.NULL
    behind: cython.p_const_char
    size: int64_t
    empty_items: int64_t
    while row < until:
        empty_items = reading.empty_items
        reading.reason = FINE
        reading.failed = cython.NULL
        reading.depth = 0
        size = blob_at(payloads, row, cython.address(data))
        if size < 0:
            if not put_null(reading.columns, reading):
                return row
        else:
            begin[0] = data
            reading.at = data
            reading.end = data + size
            if size < skip:
                reading.reason = SHORT_FRAME
                return row
            behind = read_value(root, data + skip, reading)
            if behind == cython.NULL:
                # Those of a row that fails do not count.
                reading.empty_items = empty_items
                return row
            if behind != reading.end:
                reading.at = behind
                reading.reason = BYTES_LEFT
                return row
        row += 1
    return until
