"""A column of Protobuf messages -> a struct column, without a Python object per row (compiled).

`ProtobufDecoder` makes the plan once per schema. Each `decode` makes a tree of parts from it, `decode_rows` fills them,
and their memory becomes the Arrow arrays, without a copy.
"""

from __future__ import annotations

import cython
from cython.cimports.libc.stdint import int32_t, int64_t, uint8_t, uint64_t
from cython.cimports.libc.stdlib import calloc, free
from cython.cimports.libc.string import memcpy, memset
from cython.cimports.ottla.records.arrow_columns import read_byte_strings
from cython.cimports.ottla.records.arrow_data import Chunk, array_capsule, schema_capsule
from cython.cimports.ottla.records.arrow_layout import (
    NULLABLE,
    ArrowArray,
    ArrowSchema,
    Blobs,
    blob_at,
    reserve,
)
from cython.cimports.ottla.schemas.protobuf.decode_rows import append_row, forget, read_message, truncate
from cython.cimports.ottla.schemas.protobuf.parts import (
    CUT_SHORT,
    FINE,
    IN_4,
    IN_8,
    IN_BITS,
    IN_CHILDREN,
    IN_TEXT,
    NO_MAGIC,
    NO_MEMORY,
    NOT_ARROW,
    OTHER_MESSAGE,
    OTHER_SCHEMA,
    TOO_MUCH,
    VARINT_TOO_LONG,
    Kind,
    Part,
    Reading,
)
from cython.cimports.ottla.schemas.protobuf.wire import get_varint

from ottla.errors import of_row
from ottla.records.arrow_data import chunks
from ottla.schemas.protobuf.errors import ProtobufDataError, ProtobufSchemaError
from ottla.schemas.protobuf.plan import TIME_UNITS, plan
from ottla.schemas.protobuf.schema import ProtobufSchema

_KINDS = {
    "bool": Kind.AS_BOOL, "varint32": Kind.AS_VARINT32, "varint64": Kind.AS_VARINT64, "zigzag32": Kind.AS_ZIGZAG32,
    "zigzag64": Kind.AS_ZIGZAG64, "fixed32": Kind.AS_FIXED32, "fixed64": Kind.AS_FIXED64, "string": Kind.AS_STRING,
    "bytes": Kind.AS_BYTES, "enum": Kind.AS_ENUM, "timestamp": Kind.AS_TIMESTAMP, "duration": Kind.AS_DURATION,
    "wrapper": Kind.AS_WRAPPER, "message": Kind.AS_MESSAGE, "group": Kind.AS_GROUP, "list": Kind.AS_LIST,
    "map": Kind.AS_MAP,
}  # fmt: skip
_NUMERIC = ("bool", "varint32", "varint64", "zigzag32", "zigzag64", "fixed32", "fixed64", "enum")
# Field numbers up to this one are looked up in an array.
_DENSE_MAX = 1023
# The default limit of the columns' memory: so many bytes, plus so many times the payloads' bytes.
_MEMORY_BYTES = 1 << 30
_MEMORY_TIMES = 256
_FAILED_ROWS = 100
_WORDS = [
    "",
    "the bytes end in the middle of a value",
    "a number is longer than ten bytes",
    "there is no field with such a number or wire type in Protobuf",
    "a group ends that was not begun",
    "a group has no end",
    "the bytes of its numbers are not a whole count of them",
    "the text is not UTF-8",
    "it is required, and missing",
    "seconds and nanos are not a time that Protobuf has",
    "the time is before 1677 or after 2262, which nanoseconds do not reach; ProtobufDecoder(time_unit='us') reads it",
    "messages nest more than 100 deep",
    "the row does not begin with the magic byte 0 and a schema's id",
    "the row names another schema",
    "the row holds another message of the schema",
    "the column is not laid out as Arrow says",
]


@cython.final
@cython.cclass
class DecodedMessages:
    """A struct column, exported by `__arrow_c_array__`; it owns the memory.

    `failed_rows` are those that hold no message and are null (mode "null"): the first hundred, each with the reason.
    `failed_count` is how many there are.
    """

    def __cinit__(self):
        self._allocated = []
        self._kept = []
        self._paths = []
        self.failed_rows = []

    def __dealloc__(self):
        self._free(cython.address(self._root))
        if self._allocated is not None:
            for address in self._allocated:
                free(cython.cast(cython.p_void, cython.cast(cython.size_t, address)))

    def __len__(self) -> int:
        return self._root.length

    def __arrow_c_schema__(self) -> object:
        return schema_capsule(cython.address(self._root.schema), self)

    def __arrow_c_array__(self, requested_schema: object = None) -> tuple:
        return self.__arrow_c_schema__(), array_capsule(cython.address(self._root.array), self)

    # ------------------------------------------------------------------ making the parts

    @cython.cfunc
    def _zeroed(self, count: cython.size_t, size: cython.size_t) -> cython.p_void:
        memory: cython.p_void = calloc(max(count, 1), size)
        if memory == cython.NULL:
            raise MemoryError
        self._allocated.append(cython.cast(cython.size_t, memory))
        return memory

    @cython.cfunc
    def _text(self, text: bytes) -> cython.p_const_char:
        self._kept.append(text)
        return text

    @cython.cfunc
    def _open(self, part: cython.pointer(Part), plan: object) -> object:
        part.kind = _KINDS[plan.kind]
        part.inner = _KINDS[plan.inner] if plan.inner else part.kind
        part.wire = plan.wire
        part.packable = plan.kind in _NUMERIC
        part.nullable = plan.nullable
        part.required = plan.required
        part.closed = plan.closed
        part.number = plan.number
        part.oneof = plan.oneof
        part.per_second = 1_000_000 if plan.format[2:3] == "u" else 1_000_000_000
        part.index = len(self._paths)
        self._paths.append(plan.path)
        part.schema.format = self._text(plan.format.encode())
        part.schema.name = self._text(plan.name.encode())
        part.schema.flags = NULLABLE if plan.nullable else 0
        if plan.format in ("+s", "+l", "+m"):
            part.store = IN_CHILDREN
        elif plan.format in ("u", "z"):
            part.store = IN_TEXT
        elif plan.format == "b":
            part.store = IN_BITS
        else:
            part.store = IN_4 if plan.format in ("i", "I", "f") else IN_8
        if plan.format in ("u", "z", "+l", "+m"):
            # The first offset, 0.
            if not reserve(cython.address(part.values), 64):
                raise MemoryError
            memset(part.values.data, 0, 4)
            part.values.size = 4
        if plan.names:
            self._open_names(part, plan)
        self._open_children(part, plan)
        return None

    @cython.cfunc
    def _open_names(self, part: cython.pointer(Part), plan: object) -> object:
        part.default_number = next(iter(plan.names))
        part.name_count = len(plan.names)
        part.name_numbers = cython.cast(cython.pointer(int32_t), self._zeroed(part.name_count, cython.sizeof(int32_t)))
        part.names = cython.cast(
            cython.pointer(cython.p_const_char), self._zeroed(part.name_count, cython.sizeof(cython.p_char))
        )
        part.name_bytes = cython.cast(cython.pointer(int64_t), self._zeroed(part.name_count, cython.sizeof(int64_t)))
        i: cython.Py_ssize_t
        for i, number in enumerate(sorted(plan.names)):
            part.name_numbers[i] = number
            part.names[i] = self._text(plan.names[number])
            part.name_bytes[i] = len(plan.names[number])
        return None

    @cython.cfunc
    def _open_children(self, part: cython.pointer(Part), plan: object) -> object:
        count: cython.Py_ssize_t = len(plan.children)
        pointer_bytes: cython.size_t = cython.sizeof(cython.p_void)
        i: cython.Py_ssize_t
        part.children = cython.cast(cython.pointer(Part), self._zeroed(count, cython.sizeof(Part)))
        part.child_arrays = cython.cast(cython.pointer(cython.pointer(ArrowArray)), self._zeroed(count, pointer_bytes))
        part.child_schemas = cython.cast(
            cython.pointer(cython.pointer(ArrowSchema)), self._zeroed(count, pointer_bytes)
        )
        for i in range(count):
            part.child_arrays[i] = cython.address(part.children[i].array)
            part.child_schemas[i] = cython.address(part.children[i].schema)
            # From now on `_free` reaches this child.
            part.child_count = i + 1
            self._open(cython.address(part.children[i]), plan.children[i])
        if part.kind == Kind.AS_LIST or part.kind == Kind.AS_MAP:
            return None
        numbers: list = [child.number for child in plan.children]
        largest = max(numbers, default=0)
        part.chosen_count = len(plan.oneof_names)
        part.chosen = cython.cast(cython.pointer(cython.pointer(Part)), self._zeroed(part.chosen_count, pointer_bytes))
        part.dense_count = min(largest, _DENSE_MAX) + 1
        part.dense = cython.cast(cython.pointer(int32_t), self._zeroed(part.dense_count, cython.sizeof(int32_t)))
        for i in range(part.dense_count):
            part.dense[i] = -1
        for i in range(count):
            if numbers[i] <= _DENSE_MAX:
                part.dense[numbers[i]] = i
        if largest > _DENSE_MAX:
            part.sorted = cython.cast(cython.pointer(int32_t), self._zeroed(count, cython.sizeof(int32_t)))
            for i, index in enumerate(sorted(range(count), key=numbers.__getitem__)):
                part.sorted[i] = index
        return None

    @cython.cfunc
    @cython.exceptval(check=False)
    def _free(self, part: cython.pointer(Part)) -> cython.void:
        i: cython.int
        for i in range(part.child_count):
            self._free(cython.address(part.children[i]))
        free(part.values.data)
        free(part.data.data)
        free(part.valid.data)
        free(part.entries.data)

    # ------------------------------------------------------------------ decoding

    @cython.cfunc
    def _decode(
        self, column: cython.pointer(Blobs), rows: int64_t, frame: object, nulls: cython.bint, first_row: int64_t
    ) -> object:
        root: cython.pointer(Part) = cython.address(self._root)
        reading: cython.pointer(Reading) = cython.address(self._reading)
        data: cython.p_const_char = cython.NULL
        size: int64_t
        row: int64_t = 0
        skip: int64_t = frame[0]
        framed: cython.bint = frame[1]
        schema_id: int64_t = frame[2]
        indexes = cython.declare(int64_t[32])
        index_count: int64_t = len(frame[3])
        fine: cython.bint = True
        i: int64_t
        for i in range(index_count):
            indexes[i] = frame[3][i]
        while row < rows:
            with cython.nogil:
                while row < rows:
                    reading.status = FINE
                    size = blob_at(column, row, cython.address(data))
                    if size >= skip:
                        reading.bytes_left += size * self._times
                        data += skip
                        size -= skip
                        if framed:
                            size = _unframed(reading, cython.address(data), size, schema_id, indexes, index_count)
                        fine = size >= 0 and read_message(reading, root, data, size) and append_row(reading, root)
                    elif size == -1:
                        fine = append_row(reading, root)
                    else:
                        reading.status = CUT_SHORT if size >= 0 else NOT_ARROW
                        fine = False
                    if not fine:
                        break
                    row += 1
            if fine:
                break
            if reading.status == NO_MEMORY:
                raise MemoryError
            if reading.status == TOO_MUCH:
                raise of_row(
                    ProtobufDataError,
                    first_row + row,
                    ": the rows up to this one hold too much for one column (2 GiB of text, or 'memory_bytes_max' in "
                    "all); decode fewer rows at a time.",
                )
            reason: str = self._reason()
            if not nulls:
                told = f"{', ' if reason[:6] == 'field ' else ': '}{reason}."
                raise of_row(ProtobufDataError, first_row + row, told)
            if self.failed_count < _FAILED_ROWS:
                self.failed_rows.append((first_row + row, reason))
            self.failed_count += 1
            root.seen = True
            forget(root)
            truncate(root, root.length)
            if not append_row(reading, root):
                raise MemoryError
            row += 1
        return None

    @cython.cfunc
    def _reason(self) -> object:
        part: cython.pointer(Part) = self._reading.part
        path = "" if part == cython.NULL else self._paths[part.index]
        self._reading.part = cython.NULL
        return (f"field {path!r}: " if path else "") + _WORDS[self._reading.status]

    # ------------------------------------------------------------------ handing on

    @cython.cfunc
    def _finish(self, part: cython.pointer(Part)) -> object:
        """Fill in what is exported of a part."""
        i: cython.int
        array: cython.pointer(ArrowArray) = cython.address(part.array)
        # Buffers of no bytes must exist, too.
        if not reserve(cython.address(part.values), 8) or not reserve(cython.address(part.data), 8):
            raise MemoryError
        array.length = part.length
        if part.nullable and part.length:
            array.null_count = part.length - _pack(part.valid.data, part.length)
            if array.null_count:
                part.buffers[0] = part.valid.data
        if part.store == IN_BITS:
            _pack(part.values.data, part.length)
        part.buffers[1] = part.values.data
        part.buffers[2] = part.data.data
        array.buffers = part.buffers
        array.n_buffers = 3 if part.store == IN_TEXT else 2
        if part.kind == Kind.AS_MESSAGE or part.kind == Kind.AS_GROUP:
            array.n_buffers = 1
        array.n_children = part.child_count
        array.children = part.child_arrays
        part.schema.n_children = part.child_count
        part.schema.children = part.child_schemas
        for i in range(part.child_count):
            self._finish(cython.address(part.children[i]))
        return None


@cython.cfunc
@cython.exceptval(check=False)
def _pack(data: cython.p_char, count: int64_t) -> int64_t:
    """Turn bytes of 0 and 1 into bits, in place (each byte is read before it is overwritten); return how many are 1."""
    word: uint64_t = 0
    ones: int64_t = 0
    bits: uint8_t
    i: int64_t
    whole: int64_t = count & ~cython.cast(int64_t, 7)
    for i in range(0, whole, 8):
        memcpy(cython.address(word), data + i, 8)
        bits = cython.cast(uint8_t, (word * cython.cast(uint64_t, 0x0102040810204080)) >> 56)
        ones += cython.cast(int64_t, (word * cython.cast(uint64_t, 0x0101010101010101)) >> 56)
        data[i >> 3] = bits
    if count > whole:
        bits = 0
        for i in range(whole, count):
            bits |= cython.cast(uint8_t, data[i]) << (i & 7)
            ones += data[i]
        data[whole >> 3] = bits
    return ones


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _unframed(
    reading: cython.pointer(Reading),
    data: cython.pointer(cython.p_const_char),
    size: int64_t,
    schema_id: int64_t,
    indexes: cython.pointer(int64_t),
    index_count: int64_t,
) -> int64_t:
    """Skip the magic byte, the id and the message indexes; return how many bytes are left, or -1."""
    at: cython.p_const_char = data[0]
    end: cython.p_const_char = at + size
    number: uint64_t = 0
    given: int64_t = 0
    i: int64_t
    reading.part = cython.NULL
    if size < 5 or at[0] != 0:
        reading.status = NO_MAGIC
        return -1
    for i in range(1, 5):
        given = given << 8 | cython.cast(uint8_t, at[i])
    if schema_id >= 0 and given != schema_id:
        reading.status = OTHER_SCHEMA
        return -1
    at += 5
    for i in range(index_count + 1):
        at = get_varint(at, end, cython.address(number))
        if at == cython.NULL or at > end:
            reading.status = CUT_SHORT if at == cython.NULL else VARINT_TOO_LONG
            return -1
        if i == 0:
            # A single 0 means the first message.
            if number == 0 and index_count == 1 and indexes[0] == 0:
                break
            if number != cython.cast(uint64_t, index_count << 1):
                reading.status = OTHER_MESSAGE
                return -1
        elif number != cython.cast(uint64_t, indexes[i - 1] << 1):
            reading.status = OTHER_MESSAGE
            return -1
    data[0] = at
    return end - at


@cython.cclass
class ProtobufDecoder:
    """Decodes columns of one message of a schema.

    `message` is its full name, or its name in the schema's package; by default it is the schema's first one. Times are
    in `time_unit`: "ns" is exact, but has no times before 1677 and after 2262; "us" cuts off nanoseconds.
    """

    _schema = cython.declare(object)
    _descriptor = cython.declare(object)
    _plan = cython.declare(object)

    def __init__(
        self, schema: object, message: object = None, *, references: object = None, time_unit: object = "ns"
    ) -> None:
        if time_unit not in TIME_UNITS:
            raise ProtobufDataError(f"time_unit is 'ns' or 'us', not {time_unit!r}.")
        self._schema = ProtobufSchema(schema, references=references) if isinstance(schema, str) else schema
        self._descriptor = self._schema.message(message)
        self._plan = plan(self._descriptor, time_unit)
        self._plan.nullable = True

    def decode(
        self,
        column: object,
        *,
        skip: int = 0,
        framed: bool = False,
        schema_id: object = None,
        mode: str = "fail",
        first_row: int = 0,
        memory_bytes_max: object = None,
    ) -> DecodedMessages:
        """Decode a column of bytes; a null row stays null.

        Each row's first `skip` bytes are passed over. With `framed` each row has the prefix of a schema registry's wire
        format, which must name this message (and the schema `schema_id`, if that is given). A row that is no message
        raises ProtobufDataError, which counts rows from `first_row`, or in mode "null" becomes null.
        `memory_bytes_max` limits the memory of the columns: by default 1 GiB plus 256 times the payloads' bytes.
        """
        if mode not in ("fail", "null"):
            raise ProtobufDataError(f"mode is 'fail' or 'null', not {mode!r}.")
        decoded: DecodedMessages = DecodedMessages()
        blobs = cython.declare(Blobs)
        chunk: Chunk
        indexes = self._schema.indexes_of(self._descriptor) if framed else ()
        if len(indexes) > 32:
            raise ProtobufSchemaError(
                f"{self._descriptor.full_name} lies inside {len(indexes) - 1} other messages: with the prefix of a "
                "schema registry, messages inside at most 31 others are decoded (protoc allows no more either)."
            )
        frame = (skip, framed, -1 if schema_id is None else schema_id, indexes)
        decoded._open(cython.address(decoded._root), self._plan)
        decoded._reading.bytes_left = _MEMORY_BYTES if memory_bytes_max is None else memory_bytes_max
        decoded._times = _MEMORY_TIMES if memory_bytes_max is None else 0
        for chunk in chunks(column):
            read_byte_strings(
                cython.address(blobs),
                cython.address(chunk.schema.c),
                cython.address(chunk.c),
                0,
                "the messages",
                "",
            )
            decoded._decode(
                cython.address(blobs), chunk.c.length, frame, mode == "null", first_row + decoded._root.length
            )
        decoded._finish(cython.address(decoded._root))
        return decoded
