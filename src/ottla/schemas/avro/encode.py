"""Arrow columns -> a column of Avro payloads, without a Python object per row (compiled).

Fields are found by name. For each chunk the columns and the schema become a tree of `Source`s: C structs with the place
of the values and how to write them. The rows are then written without the interpreter lock (`writing.pxd`).

Invariant: nothing is lost or guessed. A column without a field, a type that could only be converted with a loss, and a
value that does not fit the schema's type are errors with the column and the row.
"""

from __future__ import annotations

import cython
from cython.cimports.libc.stdint import int64_t, uint8_t
from cython.cimports.libc.stdlib import calloc, free
from cython.cimports.libc.string import memset
from cython.cimports.ottla.records.arrow_columns import read_byte_strings, type_name, validity_of
from cython.cimports.ottla.records.arrow_data import Chunk, array_capsule, schema_capsule
from cython.cimports.ottla.records.arrow_layout import (
    NULLABLE,
    ArrowArray,
    ArrowSchema,
    Growing,
    extend,
    reserve,
    turn_into_offsets,
)
from cython.cimports.ottla.schemas.avro.writing import (
    MEMORY_SHORT,
    PUT_ARRAY,
    PUT_BOOLEAN,
    PUT_CONSTANT,
    PUT_DECIMAL_BYTES,
    PUT_DECIMAL_FIXED,
    PUT_DOUBLE,
    PUT_FIXED,
    PUT_FLOAT,
    PUT_MAP,
    PUT_MEMBER,
    PUT_NOTHING,
    PUT_PLAIN,
    PUT_RECORD,
    PUT_SIZED,
    PUT_SYMBOL,
    PUT_WHOLE,
    PUT_WIDENED,
    Source,
    Writing,
    is_null,
    put_source,
)

from ottla.errors import RecordError
from ottla.records.arrow_data import chunks
from ottla.schemas.avro.columns import members
from ottla.schemas.avro.defaults import Defaults
from ottla.schemas.avro.reasons import no_field, unfit_value
from ottla.schemas.avro.schema import MISSING, TIMES_OF_DAY, SchemaError, parse_schema
from ottla.schemas.avro.units import ALLOWED, whole_numbers

_SOURCES_MAX = cython.declare(cython.int, 100_000)
_TEXTS = ("u", "U", "vu")
_BYTES = ("z", "Z", "vz")


@cython.final
@cython.cclass
class _Sources:
    """The sources of one chunk, and the memory they point to."""

    root = cython.declare(Source)
    paths = cython.declare(list)  # of each source its path and its Avro type
    _allocated = cython.declare(list)
    _kept = cython.declare(list)
    _defaults = cython.declare(object)

    def __dealloc__(self):
        for address in self._allocated or ():
            free(cython.cast(cython.p_void, cython.cast(cython.size_t, address)))

    def __init__(self) -> None:
        self.paths = []
        self._allocated = []
        self._kept = []
        self._defaults = Defaults()

    @cython.cfunc
    def _memory(self, count: cython.size_t, size: cython.size_t) -> cython.p_void:
        memory: cython.p_void = calloc(count if count else 1, size)
        if memory == cython.NULL:
            raise MemoryError
        self._allocated.append(cython.cast(cython.size_t, memory))
        return memory

    @cython.cfunc
    def _children(self, source: cython.pointer(Source), count: cython.Py_ssize_t) -> cython.pointer(Source):
        source.children = cython.cast(cython.pointer(Source), self._memory(count, cython.sizeof(Source)))
        source.child_count = count
        return source.children

    @cython.cfunc
    def _keep(self, source: cython.pointer(Source), data: bytes) -> object:
        self._kept.append(data)
        source.data = data
        source.data_bytes = len(data)
        return None

    @cython.cfunc
    def fill(
        self,
        source: cython.pointer(Source),
        type_: object,
        schema: cython.pointer(ArrowSchema),
        array: cython.pointer(ArrowArray),
        parent_offset: int64_t,
        path: str,
    ) -> object:
        """Set how a column's values are written as this type; RecordError if they cannot be."""
        memset(source, 0, cython.sizeof(Source))
        source.branch = -1
        source.null_branch = -1
        source.number = len(self.paths)
        if source.number > _SOURCES_MAX:
            raise SchemaError(f"The Avro schema has more than {_SOURCES_MAX} parts.")
        self.paths.append((path, type_))
        if type_.kind == "union":
            return self._fill_union(source, type_, schema, array, parent_offset, path)
        kind: str = cython.cast(bytes, schema.format).decode("ascii", "replace")
        is_dictionary: cython.bint = schema.dictionary != cython.NULL
        source.offset = array.offset + parent_offset
        if kind != "n" and array.n_buffers > 0:
            source.validity = validity_of(array)
        if array.n_buffers > 1:
            source.values = array.buffers[1]
        source.may_be_null = kind == "n" or source.validity != cython.NULL or is_dictionary
        if type_.kind == "null" and kind == "n":
            source.put = PUT_NOTHING
        elif type_.kind in ("string", "enum", "bytes", "fixed") and not kind.startswith("d:"):
            self._fill_bytes(source, type_, schema, array, parent_offset, path)
        elif is_dictionary:
            raise _unfit_column(path, type_, schema)
        elif type_.logical == "decimal":
            self._fill_decimal(source, type_, kind, schema, path)
        elif type_.kind in ("int", "long"):
            self._fill_whole(source, type_, kind, schema, path)
        elif type_.kind == "boolean" and kind == "b":
            source.put = PUT_BOOLEAN
        elif type_.kind == "float" and kind == "f":
            source.put = PUT_FLOAT
        elif type_.kind == "double" and kind in ("f", "g"):
            source.put = PUT_DOUBLE if kind == "g" else PUT_WIDENED
        elif type_.kind == "record" and kind == "+s":
            self._fill_record(source, type_, schema, array, path)
        elif type_.kind == "array" and (kind in ("+l", "+L") or kind[:3] == "+w:"):
            source.put = PUT_ARRAY
            source.is_large = kind == "+L"
            source.width = int(kind[3:]) if kind[:3] == "+w:" else 0
            if source.width == 0 and kind[:3] == "+w:":
                raise _unfit_column(path, type_, schema)
            self.fill(self._children(source, 1), type_.items, schema.children[0], array.children[0], 0, path + "[]")
        elif type_.kind == "map" and kind == "+m":
            self._fill_map(source, type_, schema, array, path)
        else:
            raise _unfit_column(path, type_, schema)
        return None

    # ------------------------------------------------------------------ types with parts

    @cython.cfunc
    def _fill_union(
        self,
        source: cython.pointer(Source),
        type_: object,
        schema: cython.pointer(ArrowSchema),
        array: cython.pointer(ArrowArray),
        parent_offset: int64_t,
        path: str,
    ) -> object:
        held: list = members(type_)
        kinds: list = [branch.kind for branch in type_.branches]
        null_branch: cython.int = kinds.index("null") if "null" in kinds else -1
        children: cython.pointer(Source)
        i: cython.Py_ssize_t
        if null_branch >= 0 and cython.cast(bytes, schema.format) == b"n":
            source.put = PUT_NOTHING
            source.may_be_null = True
            source.null_branch = null_branch
            return None
        if len(held) > 1 and _names(schema) == [f"member{i}" for i in range(len(held))]:
            source.put = PUT_MEMBER
            source.may_be_null = True
            source.offset = array.offset + parent_offset
            source.validity = validity_of(array)
            source.null_branch = null_branch
            children = self._children(source, len(held))
            for i in range(len(held)):
                self.fill(cython.address(children[i]), held[i], schema.children[i], array.children[i], 0, path)
                children[i].branch = type_.branches.index(held[i])
            return None
        ordered: list = held
        if cython.cast(bytes, schema.format) in (b"l", b"L", b"I"):
            # A column of wide numbers is a long where the union has both: its values may be beyond an int.
            ordered = [each for each in held if each.kind != "int"] + [each for each in held if each.kind == "int"]
        for branch in ordered:
            try:
                self.fill(source, branch, schema, array, parent_offset, path)
            except RecordError:
                if len(held) == 1:
                    raise
                continue
            source.branch = type_.branches.index(branch)
            source.null_branch = null_branch
            return None
        raise _unfit_column(path, type_, schema)

    @cython.cfunc
    def _fill_record(
        self,
        source: cython.pointer(Source),
        type_: object,
        schema: cython.pointer(ArrowSchema),
        array: cython.pointer(ArrowArray),
        path: str,
    ) -> object:
        names: list = _names(schema)
        children: cython.pointer(Source) = self._children(source, len(type_.fields))
        fields: tuple = type_.fields
        i: cython.Py_ssize_t
        k: cython.Py_ssize_t
        source.put = PUT_RECORD
        known = {each.name for each in fields}
        places: dict = {}
        for k in range(len(names)):
            name = names[k]
            at = f"{path}.{name}" if path else name
            if name not in known:
                raise RecordError(
                    f"The Avro schema has no field for the column {at!r}: {no_field(name, known.difference(names))}."
                )
            if name in places:
                raise RecordError(f"The column {at!r} is there more than once.")
            places[name] = k
        for i in range(len(fields)):
            each = fields[i]
            at = f"{path}.{each.name}" if path else each.name
            if each.name in places:
                k = places[each.name]
                self.fill(cython.address(children[i]), each.type, schema.children[k], array.children[k], 0, at)
                continue
            if each.default is MISSING:
                raise RecordError(f"There is no column {at!r}, and the Avro schema has no default for the field.")
            children[i].put = PUT_CONSTANT
            children[i].branch = -1
            children[i].number = len(self.paths)
            self.paths.append((at, each.type))
            self._keep(cython.address(children[i]), self._defaults.encoded(each, at))
        return None

    @cython.cfunc
    def _fill_map(
        self,
        source: cython.pointer(Source),
        type_: object,
        schema: cython.pointer(ArrowSchema),
        array: cython.pointer(ArrowArray),
        path: str,
    ) -> object:
        children: cython.pointer(Source) = self._children(source, 2)
        entries_schema: cython.pointer(ArrowSchema) = schema.children[0]
        entries: cython.pointer(ArrowArray) = array.children[0]
        source.put = PUT_MAP
        self.fill(children, _KEYS, entries_schema.children[0], entries.children[0], entries.offset, path + "{key}")
        self.fill(
            cython.address(children[1]),
            type_.items,
            entries_schema.children[1],
            entries.children[1],
            entries.offset,
            path + "{}",
        )
        return None

    # ------------------------------------------------------------------ types without parts

    @cython.cfunc
    def _fill_bytes(
        self,
        source: cython.pointer(Source),
        type_: object,
        schema: cython.pointer(ArrowSchema),
        array: cython.pointer(ArrowArray),
        parent_offset: int64_t,
        path: str,
    ) -> object:
        held: cython.pointer(ArrowSchema) = schema.dictionary if schema.dictionary != cython.NULL else schema
        kind: str = cython.cast(bytes, held.format).decode("ascii", "replace")
        if type_.kind in ("string", "enum"):
            if kind not in _TEXTS:
                raise _unfit_column(path, type_, schema)
            source.put = PUT_SIZED if type_.kind == "string" else PUT_SYMBOL
        else:
            if (kind not in _BYTES and kind[:2] != "w:") or type_.logical == "decimal":
                raise _unfit_column(path, type_, schema)
            source.put = PUT_SIZED if type_.kind == "bytes" else PUT_FIXED
            source.width = type_.size
        read_byte_strings(cython.address(source.blobs), schema, array, parent_offset, "value", path)
        if source.put == PUT_SIZED and schema.dictionary == cython.NULL and kind in ("u", "z"):
            source.put = PUT_PLAIN
        if type_.kind == "enum":
            self._fill_symbols(source, type_.symbols)
        return None

    @cython.cfunc
    def _fill_symbols(self, source: cython.pointer(Source), symbols: tuple) -> object:
        """Make the table of symbols: size, place and number of each, sorted by size and then by bytes."""
        ordered = sorted((len(symbol), symbol.encode(), number) for number, symbol in enumerate(symbols))
        table: cython.pointer(int64_t) = cython.cast(
            cython.pointer(int64_t), self._memory(3 * len(symbols), cython.sizeof(int64_t))
        )
        place: int64_t = 0
        k: cython.Py_ssize_t
        for k in range(len(ordered)):
            size, _, number = ordered[k]
            table[3 * k] = size
            table[3 * k + 1] = place
            table[3 * k + 2] = number
            place += table[3 * k]
        source.symbols = table
        source.symbol_count = len(ordered)
        self._keep(source, b"".join([data for _, data, _ in ordered]))
        return None

    @cython.cfunc
    def _fill_decimal(
        self,
        source: cython.pointer(Source),
        type_: object,
        kind: str,
        schema: cython.pointer(ArrowSchema),
        path: str,
    ) -> object:
        if kind[:2] != "d:":
            raise _unfit_column(path, type_, schema)
        parts = kind[2:].split(",")
        width: cython.int = (int(parts[2]) if len(parts) > 2 else 128) // 8
        if int(parts[1]) != type_.scale or width not in (4, 8, 16, 32):
            raise RecordError(
                f"The column {path!r} has decimals of scale {parts[1]}, the Avro schema of scale {type_.scale}: cast "
                f"it to decimal({type_.precision}, {type_.scale})."
            )
        source.put = PUT_DECIMAL_BYTES if type_.kind == "bytes" else PUT_DECIMAL_FIXED
        source.width = width
        source.high = type_.size
        most = int.from_bytes(b"\xff" * width, "little")
        self._keep(source, min(10**type_.precision, most).to_bytes(width, "little"))
        return None

    @cython.cfunc
    def _fill_whole(
        self,
        source: cython.pointer(Source),
        type_: object,
        kind: str,
        schema: cython.pointer(ArrowSchema),
        path: str,
    ) -> object:
        held = whole_numbers(type_, kind)
        if held is None:
            raise _unfit_column(path, type_, schema)
        letter, source.multiply, source.divide = held
        source.type = ord(letter)
        source.put = PUT_WHOLE
        source.high = 0x7FFFFFFF if type_.kind == "int" else 0x7FFFFFFFFFFFFFFF
        source.low = -source.high - 1
        is_time: cython.bint = type_.logical in TIMES_OF_DAY
        if is_time:
            source.low, source.high = 0, TIMES_OF_DAY[type_.logical] - 1
        is_long: cython.bint = letter == "l" and type_.kind == "long"
        source.is_plain = is_long and not is_time and source.multiply == 1 and source.divide == 1
        return None


_KEYS = parse_schema('"string"')


@cython.cfunc
def _names(schema: cython.pointer(ArrowSchema)) -> list:
    """The names of a struct's fields; [] for other types."""
    if cython.cast(bytes, schema.format) != b"+s":
        return []
    return [
        "" if schema.children[i].name == cython.NULL else cython.cast(bytes, schema.children[i].name).decode()
        for i in range(schema.n_children)
    ]


@cython.cfunc
def _unfit_column(path: str, type_: object, schema: cython.pointer(ArrowSchema)) -> object:
    allowed = ALLOWED.get(type_.logical) or ALLOWED[type_.kind]
    place = f"The column {path!r}" if path else "The data"
    return RecordError(f"{place} is of type {type_name(schema)}; the Avro type {type_.shown} takes {allowed}.")


@cython.final
@cython.cclass
class EncodedRows:
    """A column of payloads, exported by `__arrow_c_array__` as binary (large_binary beyond 2 GiB)."""

    _text = cython.declare(Growing)
    _ends = cython.declare(Growing)
    _validity = cython.declare(Growing)
    _length = cython.declare(int64_t)
    _nulls = cython.declare(int64_t)
    _array = cython.declare(ArrowArray)
    _schema = cython.declare(ArrowSchema)
    _buffers = cython.declare(cython.p_const_void[3])

    def __dealloc__(self):
        free(self._text.data)
        free(self._ends.data)
        free(self._validity.data)

    def __len__(self) -> int:
        return self._length

    def __arrow_c_schema__(self) -> object:
        return schema_capsule(cython.address(self._schema), self)

    def __arrow_c_array__(self, requested_schema: object = None) -> tuple:
        return self.__arrow_c_schema__(), array_capsule(cython.address(self._array), self)

    @cython.cfunc
    def write(self, sources: _Sources, rows: int64_t, prefix: bytes) -> object:
        """Write the rows of a chunk."""
        fine: cython.bint
        prefix_data: cython.p_const_char = prefix
        prefix_bytes: int64_t = len(prefix)
        writing = cython.declare(Writing)
        memset(cython.address(writing), 0, cython.sizeof(Writing))
        writing.text = self._text
        with cython.nogil:
            fine = self._write_rows(
                cython.address(sources.root), rows, prefix_data, prefix_bytes, cython.address(writing)
            )
        self._text = writing.text
        if fine:
            return None
        if writing.failed == cython.NULL or writing.reason == MEMORY_SHORT:
            raise MemoryError
        path, type_ = sources.paths[writing.failed.number]
        symbol: bytes = writing.symbol[: writing.symbol_bytes]
        raise unfit_value(
            cython.cast(cython.int, writing.reason), self._length, path, type_, symbol.decode("utf-8", "replace")
        )

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _write_rows(
        self,
        root: cython.pointer(Source),
        rows: int64_t,
        prefix: cython.p_const_char,
        prefix_bytes: int64_t,
        writing: cython.pointer(Writing),
    ) -> cython.bint:
        row: int64_t
        if not reserve(cython.address(self._ends), 8 * rows):
            return False
        for row in range(rows):
            if root.null_branch < 0 and root.put != PUT_NOTHING and is_null(root, row):
                if not self._mark_null():
                    return False
            else:
                if prefix_bytes > 0 and not extend(cython.address(writing.text), prefix, prefix_bytes):
                    return False
                if not put_source(root, row, writing):
                    return False
            cython.cast(cython.pointer(int64_t), self._ends.data)[self._length] = writing.text.size
            self._ends.size += 8
            self._length += 1
            if (
                self._nulls
                and self._validity.size <= (self._length - 1) >> 3
                and not extend(cython.address(self._validity), b"\xff", 1)
            ):
                return False
        return True

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _mark_null(self) -> cython.bint:
        """Mark the next row as null."""
        bits: cython.pointer(uint8_t)
        while self._validity.size <= self._length >> 3:
            if not extend(cython.address(self._validity), b"\xff", 1):
                return False
        bits = cython.cast(cython.pointer(uint8_t), self._validity.data)
        bits[self._length >> 3] = bits[self._length >> 3] & ~(1 << (self._length & 7))
        self._nulls += 1
        return True

    @cython.cfunc
    def finish(self) -> object:
        """Turn the rows' ends into Arrow's offsets, of 32 bits if that is enough, and fill in what is exported."""
        width: cython.int = turn_into_offsets(cython.address(self._ends), self._length, self._text.size)
        if width < 0 or not reserve(cython.address(self._text), 1):
            raise MemoryError
        self._buffers[0] = self._validity.data if self._nulls else cython.NULL
        self._buffers[1] = self._ends.data
        self._buffers[2] = self._text.data
        self._array.length = self._length
        self._array.null_count = self._nulls
        self._array.n_buffers = 3
        self._array.buffers = self._buffers
        self._schema.format = b"Z" if width else b"z"
        self._schema.name = b""
        self._schema.flags = NULLABLE
        return None


@cython.final
@cython.cclass
class AvroEncoder:
    """Encodes the rows of a table, or of a column where the schema is not a record, by one schema.

    `references` are the schemas that it names without defining them: name to text. SchemaError for a schema that cannot
    be used.
    """

    _type = cython.declare(object)

    def __init__(self, schema_text: object, *, references: object = None) -> None:
        self._type = parse_schema(schema_text, references)

    def encode(self, data: object, *, prefix: bytes = b"") -> EncodedRows:
        """Encode each row, with `prefix` in front; a null row of a struct column becomes a null.

        RecordError, with the column and the row, for what does not fit the schema.
        """
        rows: EncodedRows = EncodedRows()
        chunk: Chunk
        sources: _Sources
        for chunk in chunks(data):
            sources = _Sources()
            sources.fill(
                cython.address(sources.root),
                self._type,
                cython.address(chunk.schema.c),
                cython.address(chunk.c),
                0,
                "",
            )
            rows.write(sources, chunk.c.length, prefix)
        rows.finish()
        return rows
