"""A table or a struct column -> a column of Protobuf messages, without an object per row (compiled).

`ProtobufEncoder` makes the plan once per schema. For each chunk, the column of every field is found by name, and
`encode_rows` writes the rows. A field without a column is not set. A column without a field is an error, so no data is
left out silently.
"""

from __future__ import annotations

import cython
from cython.cimports.libc.stdint import int32_t, int64_t
from cython.cimports.libc.stdlib import calloc, free
from cython.cimports.libc.string import memset
from cython.cimports.ottla.records.arrow_columns import read_byte_strings, type_name, validity_of
from cython.cimports.ottla.records.arrow_data import Chunk, array_capsule, schema_capsule
from cython.cimports.ottla.records.arrow_layout import (
    NULLABLE,
    ArrowArray,
    ArrowSchema,
    extend,
    is_set,
    reserve,
    turn_into_offsets,
)
from cython.cimports.ottla.schemas.protobuf.encode_rows import put_message
from cython.cimports.ottla.schemas.protobuf.parts import Kind
from cython.cimports.ottla.schemas.protobuf.sources import MEMORY_SHORT, NONE, Range, Source

from ottla.errors import of_row
from ottla.records.arrow_data import chunks
from ottla.schemas.protobuf.errors import ProtobufDataError
from ottla.schemas.protobuf.plan import plan
from ottla.schemas.protobuf.schema import ProtobufSchema

_KINDS = {
    "bool": Kind.AS_BOOL, "varint32": Kind.AS_VARINT32, "varint64": Kind.AS_VARINT64, "zigzag32": Kind.AS_ZIGZAG32,
    "zigzag64": Kind.AS_ZIGZAG64, "fixed32": Kind.AS_FIXED32, "fixed64": Kind.AS_FIXED64, "string": Kind.AS_STRING,
    "bytes": Kind.AS_BYTES, "enum": Kind.AS_ENUM, "timestamp": Kind.AS_TIMESTAMP, "duration": Kind.AS_DURATION,
    "wrapper": Kind.AS_WRAPPER, "message": Kind.AS_MESSAGE, "group": Kind.AS_GROUP, "list": Kind.AS_LIST,
    "map": Kind.AS_MAP,
}  # fmt: skip
_RANGES = {"i": Range.OF_INT32, "I": Range.OF_UINT32, "l": Range.OF_INT64, "L": Range.OF_UINT64}
_UNITS = {"s": 1, "m": 1_000, "u": 1_000_000, "n": 1_000_000_000}
_TEXTS = ("u", "U", "vu")
_BYTES = ("z", "Z", "vz")
_PROBLEMS = [
    "",
    "is null or has no column, and the field is required",
    "holds a null, which lists and maps of Protobuf cannot",
    "holds a number that the field's type has no room for",
    "holds a text that is no name of the enum",
    "is set, and so is another member of its oneof: set one of them",
    "holds a time that Protobuf's Timestamp (years 1 to 9999) or Duration (10,000 years) cannot hold",
    "holds a number that is too large for a float; make the field a double",
    "is not laid out as Arrow says",
]


@cython.final
@cython.cclass
class EncodedMessages:
    """A column of bytes, exported by `__arrow_c_array__` as binary (large_binary beyond 2 GiB)."""

    def __cinit__(self):
        self._allocated = []
        self._kept = []
        self._paths = []

    def __dealloc__(self):
        free(self._writing.out.data)
        free(self._ends.data)
        free(self._valid.data)
        self._free_sources()

    def __len__(self) -> int:
        return self._length

    def __arrow_c_schema__(self) -> object:
        return schema_capsule(cython.address(self._schema), self)

    def __arrow_c_array__(self, requested_schema: object = None) -> tuple:
        return self.__arrow_c_schema__(), array_capsule(cython.address(self._array), self)

    # ------------------------------------------------------------------ finding columns

    @cython.cfunc
    def _free_sources(self) -> object:
        if self._allocated is not None:
            for address in self._allocated:
                free(cython.cast(cython.p_void, cython.cast(cython.size_t, address)))
        self._allocated = []
        self._kept = []
        self._paths = []
        return None

    @cython.cfunc
    def _zeroed(self, count: cython.size_t, size: cython.size_t) -> cython.p_void:
        memory: cython.p_void = calloc(count + 1, size)
        if memory == cython.NULL:
            raise MemoryError
        self._allocated.append(cython.cast(cython.size_t, memory))
        return memory

    @cython.cfunc
    def _open(
        self, schema: cython.pointer(ArrowSchema), array: cython.pointer(ArrowArray), plan: object, columns: object
    ) -> object:
        """Make the sources for one chunk."""
        if cython.cast(bytes, schema.format) != b"+s":
            raise ProtobufDataError(
                f"Messages are made of a table's columns or of a struct; the data given is of type {type_name(schema)}."
            )
        self._free_sources()
        memset(cython.address(self._root), 0, cython.sizeof(Source))
        self._root.kind = Kind.AS_MESSAGE
        self._root.validity = validity_of(array)
        self._root.offset = array.offset
        self._paths.append("")
        self._read_fields(cython.address(self._root), schema, array, array.offset, plan, columns)
        return None

    @cython.cfunc
    def _read_fields(
        self,
        source: cython.pointer(Source),
        schema: cython.pointer(ArrowSchema),
        array: cython.pointer(ArrowArray),
        parent_offset: int64_t,
        plan: object,
        columns: object,
    ) -> object:
        """Find the column of each field of a message; `schema` is None if there are no columns."""
        fields: list = sorted(plan.children, key=_by_number)
        names: list = []
        i: cython.Py_ssize_t
        if schema != cython.NULL:
            names = [_name(schema.children[i]) for i in range(schema.n_children)]
        wanted: list = names if columns is None else list(columns)
        known: dict = {field.name: field for field in fields}
        for name in wanted:
            shown = f"{plan.path}.{name}" if plan.path else name
            if names.count(name) != 1:
                problem = "There is no" if names.count(name) == 0 else "There is more than one"
                raise ProtobufDataError(f"{problem} column {shown!r}; the columns are {_listed(names)}.")
            if wanted.count(name) != 1:
                raise ProtobufDataError(f"The column {shown!r} is named more than once.")
            if name not in known:
                raise ProtobufDataError(
                    f"Column {shown!r} is no field of the message; its fields are {_listed(list(known))}. "
                    "Leave the column out, or choose columns."
                )
        source.child_count = len(fields)
        source.children = cython.cast(cython.pointer(Source), self._zeroed(len(fields), cython.sizeof(Source)))
        source.chosen_count = len(plan.oneof_names)
        source.chosen = cython.cast(
            cython.pointer(cython.int), self._zeroed(source.chosen_count, cython.sizeof(cython.int))
        )
        for i in range(len(fields)):
            self._field(cython.address(source.children[i]), fields[i])
            if fields[i].name in wanted:
                j: cython.Py_ssize_t = names.index(fields[i].name)
                self._read(
                    cython.address(source.children[i]), schema.children[j], array.children[j], parent_offset, fields[i]
                )
        return None

    @cython.cfunc
    def _field(self, source: cython.pointer(Source), plan: object) -> object:
        """Set up a source from the schema of its field."""
        source.kind = _KINDS[plan.kind]
        source.inner = _KINDS[plan.inner] if plan.inner else source.kind
        source.tag = plan.number << 3 | plan.wire
        source.range = _RANGES.get(plan.format, Range.OF_INT32)
        source.implicit = plan.implicit
        source.required = plan.required
        source.packed = plan.packed
        source.is_single_float = plan.format == "f"
        source.oneof = plan.oneof
        source.index = len(self._paths)
        self._paths.append(plan.path)
        return None

    @cython.cfunc
    def _read(
        self,
        source: cython.pointer(Source),
        schema: cython.pointer(ArrowSchema),
        array: cython.pointer(ArrowArray),
        parent_offset: int64_t,
        plan: object,
    ) -> object:
        """Find the buffers of a field's column; ProtobufDataError if its type does not fit."""
        kind: str = cython.cast(bytes, schema.format).decode("ascii", "replace")
        values_kind: str = kind
        if schema.dictionary != cython.NULL:
            values_kind = cython.cast(bytes, schema.dictionary.format).decode("ascii", "replace")
        if values_kind == "n":
            return None
        source.has_column = True
        source.offset = array.offset + parent_offset
        source.validity = validity_of(array)
        if array.n_buffers > 1:
            source.values = array.buffers[1]
        source.type = schema.format[0]
        shape: str = plan.format
        is_text: bool = values_kind in _TEXTS
        if plan.kind in ("string", "bytes", "enum") or (plan.kind == "wrapper" and shape in ("u", "z")):
            is_bytes: bool = values_kind in _BYTES or values_kind[:2] == "w:"
            if is_text or (is_bytes and shape == "z"):
                read_byte_strings(cython.address(source.text), schema, array, parent_offset, "a field", plan.path)
                if plan.kind == "enum":
                    source.by_name = True
                    self._read_names(source, plan)
                elif schema.dictionary != cython.NULL:
                    source.validity = source.text.index_validity
            elif plan.kind != "enum" or kind not in tuple("cCsSiIlL") or schema.dictionary != cython.NULL:
                raise _does_not_fit(plan, schema)
        elif schema.dictionary != cython.NULL:
            raise _does_not_fit(plan, schema)
        elif plan.kind == "timestamp" or plan.kind == "duration":
            if kind[:2] != ("ts" if plan.kind == "timestamp" else "tD"):
                raise _does_not_fit(plan, schema)
            source.per_second = _UNITS[kind[2:3]]
        elif plan.kind in ("message", "group", "list", "map"):
            self._read_nested(source, schema, array, plan, kind)
        elif shape == "b":
            if kind != "b":
                raise _does_not_fit(plan, schema)
        elif shape in ("f", "g"):
            if kind not in ("f", "g"):
                raise _does_not_fit(plan, schema)
        elif kind not in tuple("cCsSiIlL"):
            raise _does_not_fit(plan, schema)
        return None

    @cython.cfunc
    def _read_nested(
        self,
        source: cython.pointer(Source),
        schema: cython.pointer(ArrowSchema),
        array: cython.pointer(ArrowArray),
        plan: object,
        kind: str,
    ) -> object:
        item: object
        entry: cython.pointer(Source)
        i: cython.Py_ssize_t
        if plan.kind in ("message", "group"):
            if kind != "+s":
                raise _does_not_fit(plan, schema)
            self._read_fields(source, schema, array, source.offset, plan, None)
            return None
        if kind not in ("+l", "+L", "+m") and kind[:3] != "+w:":
            raise _does_not_fit(plan, schema)
        source.is_large = kind == "+L"
        source.width = int(kind[3:]) if kind[:3] == "+w:" else 0
        if kind[:3] == "+w:" and source.width == 0:
            source.has_column = False
        item = plan.children[0]
        source.child_count = 1
        source.children = cython.cast(cython.pointer(Source), self._zeroed(1, cython.sizeof(Source)))
        self._field(source.children, item)
        if plan.kind == "list":
            if kind == "+m":
                raise _does_not_fit(plan, schema)
            self._read(source.children, schema.children[0], array.children[0], 0, item)
            # A column of nulls alone.
            if not source.children.has_column:
                source.packed = False
            return None
        # A map, or instead of one a list of structs of a key and a value.
        if cython.cast(bytes, schema.children[0].format) != b"+s" or schema.children[0].n_children != 2:
            raise _does_not_fit(plan, schema)
        entry = source.children
        entry.child_count = 2
        entry.children = cython.cast(cython.pointer(Source), self._zeroed(2, cython.sizeof(Source)))
        for i in range(2):
            self._field(cython.address(entry.children[i]), item.children[i])
            self._read(
                cython.address(entry.children[i]),
                schema.children[0].children[i],
                array.children[0].children[i],
                array.children[0].offset,
                item.children[i],
            )
        return None

    @cython.cfunc
    def _read_names(self, source: cython.pointer(Source), plan: object) -> object:
        names: list = sorted(plan.numbers)
        i: cython.Py_ssize_t
        source.name_count = len(names)
        source.names = cython.cast(
            cython.pointer(cython.p_const_char), self._zeroed(len(names), cython.sizeof(cython.p_char))
        )
        source.name_bytes = cython.cast(cython.pointer(int64_t), self._zeroed(len(names), cython.sizeof(int64_t)))
        source.name_numbers = cython.cast(cython.pointer(int32_t), self._zeroed(len(names), cython.sizeof(int32_t)))
        for i in range(len(names)):
            name: bytes = names[i]
            self._kept.append(name)
            source.names[i] = name
            source.name_bytes[i] = len(name)
            source.name_numbers[i] = plan.numbers[name]
        return None

    # ------------------------------------------------------------------ writing rows

    @cython.cfunc
    def _write(self, rows: int64_t, prefix: bytes, first_row: int64_t) -> object:
        row: int64_t = 0
        fine: cython.bint = True
        prefix_bytes: int64_t = len(prefix)
        prefix_data: cython.p_const_char = prefix
        is_valid: cython.bint
        self._writing.fault = NONE
        if not reserve(cython.address(self._ends), 8 * (rows + 1)) or not reserve(
            cython.address(self._valid), rows + 8
        ):
            raise MemoryError
        with cython.nogil:
            while row < rows:
                is_valid = is_set(self._root.validity, row + self._root.offset)
                if is_valid:
                    fine = extend(cython.address(self._writing.out), prefix_data, prefix_bytes)
                    if not fine:
                        self._writing.fault = MEMORY_SHORT
                        break
                    fine = put_message(cython.address(self._writing), cython.address(self._root), row)
                    if not fine:
                        break
                else:
                    self._null_count += 1
                self._valid.data[self._length] = is_valid
                cython.cast(cython.pointer(int64_t), self._ends.data)[self._length] = self._writing.out.size
                self._valid.size += 1
                self._ends.size += 8
                self._length += 1
                row += 1
        if not fine:
            if self._writing.fault == MEMORY_SHORT:
                raise MemoryError
            raise of_row(ProtobufDataError, first_row + row, self._problem())
        return None

    @cython.cfunc
    def _problem(self) -> object:
        path = self._paths[self._writing.source.index]
        return f": column {path!r} {_PROBLEMS[self._writing.fault]}."

    @cython.cfunc
    def _finish(self) -> object:
        """Turn the rows' ends into Arrow's offsets, of 32 bits if that is enough, and fill in what is exported."""
        width: cython.int = turn_into_offsets(cython.address(self._ends), self._length, self._writing.out.size)
        if width < 0 or not reserve(cython.address(self._writing.out), 1):
            raise MemoryError
        i: int64_t
        with cython.nogil:
            for i in range(self._length):
                # In place: each byte is read before the bits at its position are written.
                if i & 7 == 0:
                    self._valid.data[i >> 3] = self._valid.data[i]
                elif self._valid.data[i]:
                    self._valid.data[i >> 3] |= 1 << (i & 7)
        self._free_sources()
        self._buffers[0] = self._valid.data if self._null_count else cython.NULL
        self._buffers[1] = self._ends.data
        self._buffers[2] = self._writing.out.data
        self._array.length = self._length
        self._array.null_count = self._null_count
        self._array.n_buffers = 3
        self._array.buffers = self._buffers
        self._schema.format = b"Z" if width else b"z"
        self._schema.name = b""
        self._schema.flags = NULLABLE
        return None


def _by_number(field: object) -> int:
    return field.number


@cython.cfunc
def _name(schema: cython.pointer(ArrowSchema)) -> str:
    return "" if schema.name == cython.NULL else cython.cast(bytes, schema.name).decode("utf-8", "replace")


@cython.cfunc
def _listed(names: list) -> str:
    return (", ".join(repr(name) for name in names[:20]) or "none") + (", ..." if len(names) > 20 else "")


_TAKES = {
    "string": "text", "bytes": "bytes or text", "enum": "text (names of the enum) or whole numbers",
    "timestamp": "a timestamp", "duration": "a duration", "message": "a struct", "group": "a struct", "list": "a list",
    "map": "a map (or a list of structs of a key and a value)",
}  # fmt: skip
_TAKES_NUMBERS = {"b": "booleans", "f": "float or double", "g": "float or double", "u": "text", "z": "bytes or text"}


@cython.cfunc
def _does_not_fit(plan: object, schema: cython.pointer(ArrowSchema)) -> object:
    takes = _TAKES.get(plan.kind) or _TAKES_NUMBERS.get(plan.format, "whole numbers")
    return ProtobufDataError(f"Column {plan.path!r} is of type {type_name(schema)}; the field takes {takes}.")


@cython.cclass
class ProtobufEncoder:
    """Encodes tables and struct columns as one message of a schema.

    `message` is its full name, or its name in the schema's package; by default it is the schema's first one.
    """

    _plan = cython.declare(object)

    def __init__(self, schema: object, message: object = None, *, references: object = None) -> None:
        made = ProtobufSchema(schema, references=references) if isinstance(schema, str) else schema
        self._plan = plan(made.message(message))

    def encode(
        self, data: object, *, prefix: bytes = b"", columns: object = None, first_row: int = 0
    ) -> EncodedMessages:
        """Encode each row as a message after `prefix`, of all columns, or of those named. A null struct stays null.

        `data` is what `ottla.records.arrow_data.chunks` takes. ProtobufDataError, with the column and the row (counted
        from `first_row`), for types and values that the message cannot hold.
        """
        made: EncodedMessages = EncodedMessages()
        chunk: Chunk
        for chunk in chunks(data):
            made._open(cython.address(chunk.schema.c), cython.address(chunk.c), self._plan, columns)
            made._write(chunk.c.length, prefix, first_row + made._length)
        made._finish()
        return made
