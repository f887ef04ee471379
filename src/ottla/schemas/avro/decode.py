"""A column of Avro payloads -> Arrow columns, without a Python object per row (compiled).

`AvroDecoder` turns a writer's schema, and a reader's where there is one, into steps (`resolution.py`); `decode` runs
them for every payload, without the interpreter lock (`reading.pxd`). Decoders keep no state between two calls, so
threads may share one.

Invariant: every length and count in a payload is checked before it is used, and the columns take no more memory than
`memory_bytes_max`, whatever payloads and schemas say.
"""

from __future__ import annotations

import cython
from cython.cimports.libc.stdint import int64_t, uint8_t, uint64_t
from cython.cimports.libc.stdlib import free
from cython.cimports.libc.string import memcpy, memset
from cython.cimports.ottla.records.arrow_columns import is_byte_strings, read_byte_strings, type_name
from cython.cimports.ottla.records.arrow_data import Chunk, array_capsule, schema_capsule
from cython.cimports.ottla.records.arrow_layout import ArrowArray, ArrowSchema, Blobs, blob_at
from cython.cimports.ottla.records.wire import get_big_endian, get_varint, unzigzag
from cython.cimports.ottla.schemas.avro.building import (
    BYTES_LEFT,
    FINE,
    NO_ID,
    NO_MEMORY,
    NO_OFFSETS,
    SHORT_FRAME,
    STORE_BITS,
    STORE_BLOBS,
    STORE_FIELDS,
    STORE_NOTHING,
    UNKNOWN_ID,
    UNKNOWN_SYMBOL,
    Building,
    Reading,
    Step,
    cut,
    grow,
    put_null,
)
from cython.cimports.ottla.schemas.avro.program import Layout, Program, zeroed
from cython.cimports.ottla.schemas.avro.reading import read_value

from ottla.errors import RecordError, of_row
from ottla.records.arrow_data import chunks
from ottla.schemas.avro.columns import ColumnTree
from ottla.schemas.avro.reasons import told
from ottla.schemas.avro.resolution import Resolver
from ottla.schemas.avro.schema import SchemaError, parse_pair, parse_schema

# Limits of items that take no bytes (of type null, say): for a row, and what each row adds for all rows together.
_EMPTY_ITEMS_MAX = cython.declare(int64_t, 1 << 20)
_EMPTY_ITEMS_ROW = cython.declare(int64_t, 1 << 10)
_NO_ID = -(1 << 40)
_PREFIX_BYTES = cython.declare(cython.int, 5)
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
                # It has a value for each row.
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
                # Some readers need a pointer even for no bytes.
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
        told = " hold more than 2 GiB in one column; decode fewer rows at a time."
    else:
        told = " take more memory than 'memory_bytes_max' allows; decode fewer rows at a time, or allow more."
    return of_row(RecordError, row, told, before="The rows up to ")


@cython.final
@cython.cclass
class _Job:
    """One decoding: the columns that it fills, and the writers' programs; without ids there is one for all rows."""

    rows = cython.declare(DecodedRows)
    programs = cython.declare(list)
    is_lenient = cython.declare(cython.bint)
    skip = cython.declare(int64_t)
    # How many items that take no bytes are allowed in all rows that are still to come.
    empty_left = cython.declare(int64_t)
    reading = cython.declare(Reading)
    # The ids of the writers' schemas, and the steps of each.
    ids = cython.declare(cython.pointer(int64_t))
    roots = cython.declare(cython.pointer(cython.pointer(Step)))
    count = cython.declare(cython.int)
    # The writer of the current row, and where its payload begins.
    writer = cython.declare(cython.int)
    begin = cython.declare(cython.p_const_char)

    def __dealloc__(self):
        free(self.ids)
        free(self.roots)

    def __init__(
        self, layout: Layout, programs: list, ids: list, given: list, skip: int, mode: str, room: object
    ) -> None:
        program: Program
        k: cython.int
        if mode not in ("fail", "null"):
            raise SchemaError(f"The mode is 'fail' or 'null', not {mode!r}.")
        if not 0 <= skip < 1 << 31:
            raise SchemaError(f"'skip' is a number of bytes, from 0 on, not {skip}.")
        self.programs = programs
        self.is_lenient = mode == "null"
        self.skip = skip
        self.count = len(ids)
        self.ids = cython.cast(cython.pointer(int64_t), zeroed(self.count, cython.sizeof(int64_t)))
        self.roots = cython.cast(
            cython.pointer(cython.pointer(Step)), zeroed(len(programs), cython.sizeof(cython.p_void))
        )
        for k in range(self.count):
            self.ids[k] = ids[k]
        for k in range(len(programs)):
            program = programs[k]
            self.roots[k] = program.steps
        count: int64_t = sum([len(chunk) for chunk in given])
        self.empty_left = _EMPTY_ITEMS_MAX + count * _EMPTY_ITEMS_ROW
        self.reading.room_bytes = _room(given) if room is None else room
        self.rows = DecodedRows()
        self.rows._begin(layout, cython.address(self.reading), count)
        self.rows.failed_rows = []

    @cython.cfunc
    def run(self, given: list) -> DecodedRows:
        chunk: Chunk
        first: int64_t = 0
        for chunk in given:
            self._decode_chunk(chunk, first)
            first += chunk.c.length
        self.rows._finish()
        return self.rows

    @cython.cfunc
    def _decode_chunk(self, chunk: Chunk, first: int64_t) -> object:
        payloads = cython.declare(Blobs)
        _read_payloads(cython.address(payloads), chunk)
        reading: cython.pointer(Reading) = cython.address(self.reading)
        row: int64_t = 0
        while row < chunk.c.length:
            with cython.nogil:
                row = self._decode_rows(cython.address(payloads), row, chunk.c.length)
            if row == chunk.c.length:
                break
            if reading.reason >= NO_MEMORY:
                raise _cannot_grow(reading.reason, first + row)
            if not self.is_lenient:
                raise of_row(RecordError, first + row, f" cannot be decoded: {self._reason()}.")
            if self.rows.failed_count < 100:
                self.rows.failed_rows.append((first + row, self._reason()))
            self.rows.failed_count += 1
            cut(reading.columns, reading.columns, first + row)
            if not put_null(reading.columns, reading):
                raise _cannot_grow(reading.reason, first + row)
            row += 1
        return None

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _decode_rows(self, payloads: cython.pointer(Blobs), row: int64_t, until: int64_t) -> int64_t:
        """Decode up to the first row that cannot be decoded; return its number, or `until`."""
        reading: cython.pointer(Reading) = cython.address(self.reading)
        data: cython.p_const_char = cython.NULL
        behind: cython.p_const_char
        size: int64_t
        empty_items: int64_t
        while row < until:
            empty_items = self.empty_left if self.empty_left < _EMPTY_ITEMS_MAX else _EMPTY_ITEMS_MAX
            reading.empty_items = empty_items
            reading.reason = FINE
            reading.failed = cython.NULL
            reading.depth = 0
            size = blob_at(payloads, row, cython.address(data))
            if size == -1:
                if not put_null(reading.columns, reading):
                    return row
                row += 1
                continue
            self.begin = data
            reading.at = data
            reading.end = data + size
            if size < self.skip:
                reading.reason = SHORT_FRAME
                return row
            if self.count and not self._find_writer(data):
                return row
            behind = read_value(self.roots[self.writer], data + self.skip, reading)
            if behind == cython.NULL:
                return row
            if behind != reading.end:
                reading.at = behind
                reading.reason = BYTES_LEFT
                return row
            # Items of a row that fails are not counted.
            self.empty_left -= empty_items - reading.empty_items
            row += 1
        return until

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _find_writer(self, data: cython.p_const_char) -> cython.bint:
        """Look up the schema id in front of a payload; mostly it is that of the row before."""
        schema_id: int64_t = get_big_endian(data + 1, 4)
        k: cython.int
        if data[0] != 0:
            self.reading.reason = NO_ID
            return False
        if self.ids[self.writer] == schema_id:
            return True
        for k in range(self.count):
            if self.ids[k] == schema_id:
                self.writer = k
                return True
        self.reading.reason = UNKNOWN_ID
        return False

    @cython.cfunc
    def _reason(self) -> str:
        program: Program = self.programs[self.writer]
        plan = None if self.reading.failed == cython.NULL else program.plans[self.reading.failed.number]
        if self.reading.reason == UNKNOWN_ID:
            return f"its schema has the id {get_big_endian(self.begin + 1, 4)}, which was not given"
        number: uint64_t = 0
        symbol = ""
        if self.reading.reason == UNKNOWN_SYMBOL:
            get_varint(self.reading.at, self.reading.end, cython.address(number))
            symbol = plan.names[unzigzag(number)]
        return told(
            cython.cast(cython.int, self.reading.reason),
            "" if plan is None else plan.path,
            "" if plan is None else plan.message,
            self.reading.at - self.begin,
            self.reading.end - self.begin,
            symbol,
        )


@cython.final
@cython.cclass
class AvroDecoder:
    """Decodes payloads written with one schema, as a reader's schema if one is given.

    `references` are the schemas that either names without defining them: name to text. SchemaError for schemas that
    cannot be used, or if payloads of the writer's cannot be read as the reader's.
    """

    _layout = cython.declare(Layout)
    _program = cython.declare(Program)

    def __init__(
        self,
        writer_text: object,
        reader_text: object = None,
        *,
        references: object = None,
        reader_references: object = None,
    ) -> None:
        writer, reader = parse_pair(writer_text, reader_text, references, reader_references)
        # A row can be null: a tombstone has no payload.
        root = ColumnTree().make(reader, "", is_nullable=True)
        self._layout = Layout(root)
        self._program = Program(Resolver().resolve(writer, reader, root), self._layout)

    def __arrow_c_schema__(self) -> object:
        """The Arrow type of the result of `decode`."""
        return schema_capsule(cython.address(self._layout.schemas[0]), self._layout)

    def decode(
        self, column: object, *, skip: int = 0, mode: str = "fail", memory_bytes_max: object = None
    ) -> DecodedRows:
        """Decode a column of byte strings: a row for each, null where it is null.

        `skip` bytes in front of each payload are passed over (5 for the prefix with a schema id). A payload that does
        not fit the schema raises RecordError with its row and field, or with mode "null" becomes a null row.
        `memory_bytes_max` limits the memory of the columns: by default 1 GiB, or 256 times the payloads' bytes if that
        is more.
        """
        given: list = list(chunks(column))
        return _Job(self._layout, [self._program], [], given, skip, mode, memory_bytes_max).run(given)


@cython.final
@cython.cclass
class FramedAvroDecoder:
    """Decodes payloads that name their schemas by ids in front of them, as one reader's schema.

    `add` adds the schema of an id; `missing` returns the ids in a column that were not added yet.
    """

    _reader = cython.declare(object)
    _root = cython.declare(object)
    _layout = cython.declare(Layout)
    _programs = cython.declare(dict)

    def __init__(self, reader_text: object, *, references: object = None) -> None:
        self._reader = parse_schema(reader_text, references)
        self._root = ColumnTree().make(self._reader, "", is_nullable=True)
        self._layout = Layout(self._root)
        # A program that no payload uses (ids are not negative): `_Job` needs at least one.
        self._programs = {_NO_ID: Program(Resolver().resolve(self._reader, self._reader, self._root), self._layout)}

    def __arrow_c_schema__(self) -> object:
        """The Arrow type of the result of `decode`."""
        return schema_capsule(cython.address(self._layout.schemas[0]), self._layout)

    def add(self, schema_id: int, writer_text: object, *, references: object = None) -> None:
        """Add the schema of payloads with this id; SchemaError if they cannot be read as the reader's schema."""
        writer = parse_schema(writer_text, references)
        program: Program = Program(Resolver().resolve(writer, self._reader, self._root), self._layout)
        # A new dict: another thread may be decoding.
        self._programs = {**self._programs, schema_id: program}

    def missing(self, column: object) -> list:
        """The ids in a column that `add` was not called for, in the order in which they come."""
        return [each for each in _ids(list(chunks(column))) if each not in self._programs]

    def decode(self, column: object, *, mode: str = "fail", memory_bytes_max: object = None) -> DecodedRows:
        """Decode a column of byte strings, as `AvroDecoder.decode` does; an unknown id is an error of its row."""
        given: list = list(chunks(column))
        programs: dict = self._programs
        return _Job(
            self._layout, list(programs.values()), list(programs), given, _PREFIX_BYTES, mode, memory_bytes_max
        ).run(given)


@cython.cfunc
def _ids(given: list) -> list:
    """The schema ids in front of payloads; payloads without an id are left out."""
    chunk: Chunk
    payloads = cython.declare(Blobs)
    data: cython.p_const_char = cython.NULL
    found: dict = {}
    last: int64_t = -1
    schema_id: int64_t
    row: int64_t
    for chunk in given:
        _read_payloads(cython.address(payloads), chunk)
        for row in range(chunk.c.length):
            if blob_at(cython.address(payloads), row, cython.address(data)) < _PREFIX_BYTES or data[0] != 0:
                continue
            schema_id = get_big_endian(data + 1, 4)
            if schema_id != last:
                last = schema_id
                found[schema_id] = None
    return list(found)


@cython.cfunc
def _read_payloads(payloads: cython.pointer(Blobs), chunk: Chunk) -> object:
    schema: cython.pointer(ArrowSchema) = cython.address(chunk.schema.c)
    if not is_byte_strings(schema):
        raise RecordError(
            f"The payloads are of type {type_name(schema)}; they have to be of type binary (also large, view, "
            "fixed-size or dictionary-encoded)."
        )
    return read_byte_strings(payloads, schema, cython.address(chunk.c), 0, "payloads", "")


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
        _read_payloads(cython.address(payloads), chunk)
        with cython.nogil:
            for row in range(chunk.c.length):
                size = blob_at(cython.address(payloads), row, cython.address(data))
                if size > 0:
                    total += size
    return max(_MEMORY_BYTES, _MEMORY_FACTOR * total)
