"""One Avro payload -> one Python object (compiled): for schemas that columns cannot hold, and for few records.

Records and maps become dicts, arrays lists; logical types become Python's own objects (`objects.py`). The steps are
those of `resolution.py`; for a type that contains itself they form a cycle.

Invariant: a payload that `AvroDecoder` refuses is refused here, too.
"""

from __future__ import annotations

import cython
from cython.cimports.cpython.bytes import PyBytes_FromStringAndSize
from cython.cimports.cpython.unicode import PyUnicode_DecodeUTF8
from cython.cimports.libc.stdint import int64_t, uint8_t
from cython.cimports.libc.string import memcpy, memset
from cython.cimports.ottla.schemas.avro.building import (
    EMPTY_ITEMS,
    NO_BRANCH,
    NO_PLACE,
    NO_SYMBOL,
    NOT_BOOLEAN,
    NOT_TEXT,
    NOT_TIME,
    OP_ARRAY,
    OP_BOOLEAN,
    OP_BYTES,
    OP_DOUBLE,
    OP_ENUM,
    OP_FIXED,
    OP_FLOAT,
    OP_INT,
    OP_LONG,
    OP_MAP,
    OP_NULL,
    OP_OPTIONAL,
    OP_RECORD,
    OP_STRING,
    OP_TIME,
    OP_UNION,
    TOO_DEEP,
    UNKNOWN_SYMBOL,
    WIDE_DECIMAL,
    WRONG_BLOCK,
    Reading,
    Step,
)
from cython.cimports.ottla.schemas.avro.reading import get_count, get_int, get_long, get_sized, has

from ottla.errors import RecordError
from ottla.schemas.avro.columns import row_column
from ottla.schemas.avro.objects import FROM_AVRO, decimal_of
from ottla.schemas.avro.reasons import told
from ottla.schemas.avro.resolution import Resolver, is_empty
from ottla.schemas.avro.schema import parse_pair

_DEPTH_MAX = cython.declare(cython.int, 200)
_EMPTY_ITEMS_MAX = cython.declare(int64_t, 1 << 20)
# So many bytes of a default count as one such item: 64 MiB of defaults at most.
_EMPTY_ITEM_BYTES = cython.declare(int64_t, 64)
# A payload may have so many fields that take no bytes, and so many more for each of its bytes.
_EMPTY_FIELDS_MAX = cython.declare(int64_t, 1 << 20)
_EMPTY_FIELDS_PER_BYTE = cython.declare(int64_t, 256)


@cython.final
@cython.cclass
class _RowStep:
    """A step of `resolution.py`, for decoding to a Python object."""

    op = cython.declare(str)
    code = cython.declare(cython.int)
    plan = cython.declare(object)
    children = cython.declare(list)
    names = cython.declare(list)
    symbols = cython.declare(list)
    convert = cython.declare(object)
    number = cython.declare(int64_t)
    scale = cython.declare(cython.int)
    bound = cython.declare(object)
    # For `get_count`: whether an item takes bytes.
    counting = cython.declare(Step)

    def __init__(self, plan: object) -> None:
        self.plan = plan
        self.op = plan.op
        self.code = _CODES.get(plan.op, _OTHER)
        self.children = []
        self.names = plan.names
        self.number = plan.number
        self.symbols = [None if symbol is None else symbol.decode() for symbol in plan.symbols]
        kind = "" if plan.column is None else plan.column.format
        if self.op in ("int", "long", "int_long", "time"):
            self.convert = FROM_AVRO.get(kind)
        if self.op.startswith("decimal"):
            digits, scale = kind[2:].split(",")[:2]
            self.scale, self.bound = int(scale), 10 ** int(digits)
        memset(cython.address(self.counting), 0, cython.sizeof(Step))


_OTHER = cython.declare(cython.int, 1000)
_FROM_WHOLE = frozenset({"int_long", "int_float", "int_double", "long_float", "long_double", "skip_varint"})
_CODES = {
    "long": OP_LONG, "int": OP_INT, "string": OP_STRING, "double": OP_DOUBLE, "float": OP_FLOAT, "boolean": OP_BOOLEAN,
    "record": OP_RECORD, "optional": OP_OPTIONAL, "union": OP_UNION, "array": OP_ARRAY, "map": OP_MAP,
    "time": OP_TIME, "enum": OP_ENUM, "null": OP_NULL, "bytes": OP_BYTES, "fixed": OP_FIXED,
}  # fmt: skip


@cython.cfunc
def _row_step(plan: object, made: dict) -> _RowStep:
    if plan in made:
        return made[plan]
    step: _RowStep = _RowStep(plan)
    made[plan] = step
    for child in plan.children:
        step.children.append(_row_step(child, made))
    # An entry of a map always takes bytes: its key does.
    step.counting.size = 0 if plan.op == "array" and is_empty(plan.children[0]) else 1
    return step


@cython.final
@cython.cclass
class AvroRowDecoder:
    """Decodes payloads written with one schema to Python objects, as a reader's schema if one is given.

    SchemaError for schemas that cannot be used, or if payloads of the writer's cannot be read as the reader's.
    """

    _root = cython.declare(_RowStep)

    def __init__(
        self,
        writer_text: object,
        reader_text: object = None,
        *,
        references: object = None,
        reader_references: object = None,
    ) -> None:
        writer, reader = parse_pair(writer_text, reader_text, references, reader_references)
        self._root = _row_step(Resolver().resolve(writer, reader, row_column(reader, {})), {})

    def decode_one(self, payload: object, skip: int = 0) -> object:
        """The object of a payload after its first `skip` bytes; RecordError if it does not fit the schema."""
        data: bytes = payload if isinstance(payload, bytes) else bytes(payload)
        begin: cython.p_const_char = data
        reading = cython.declare(Reading)
        if skip < 0 or skip > len(data):
            raise RecordError(f"The payload has {len(data)} bytes, fewer than the {skip} in front of it.")
        memset(cython.address(reading), 0, cython.sizeof(Reading))
        reading.empty_items = _EMPTY_ITEMS_MAX
        reading.empty_fields = _EMPTY_FIELDS_MAX + _EMPTY_FIELDS_PER_BYTE * len(data)
        reading.at = begin + cython.cast(int64_t, skip)
        reading.end = begin + len(data)
        made = _read(self._root, cython.address(reading), begin)
        if reading.at != reading.end:
            raise RecordError(
                "The payload cannot be decoded: bytes are left behind the value; it was perhaps written with another "
                "schema."
            )
        return made


@cython.cfunc
def _refused(
    step: _RowStep, reading: cython.pointer(Reading), begin: cython.p_const_char, reason: cython.int, symbol: str = ""
) -> object:
    if reason == 0:
        reason = cython.cast(cython.int, reading.reason)
    why = told(reason, step.plan.path, step.plan.message, reading.at - begin, reading.end - begin, symbol)
    return RecordError(f"The payload cannot be decoded: {why}.")


@cython.cfunc
def _read(step: _RowStep, reading: cython.pointer(Reading), begin: cython.p_const_char) -> object:
    code: cython.int = step.code
    number: int64_t = 0
    at: cython.p_const_char = reading.at
    wide: cython.double = 0
    single: cython.float = 0
    if code in (OP_LONG, OP_INT, OP_TIME):
        at = (
            get_int(at, reading, cython.address(number))
            if code == OP_INT
            else get_long(at, reading, cython.address(number))
        )
        if at == cython.NULL:
            raise _refused(step, reading, begin, 0)
        if code == OP_TIME and not 0 <= number < step.number:
            raise _refused(step, reading, begin, NOT_TIME)
        reading.at = at
        return number if step.convert is None else step.convert(number)
    if code in (OP_STRING, OP_BYTES):
        at = get_sized(at, reading, cython.address(number))
        if at == cython.NULL:
            raise _refused(step, reading, begin, 0)
        made = PyBytes_FromStringAndSize(at, number) if code == OP_BYTES else _text(step, at, number, reading, begin)
        reading.at = at + number
        return made
    if code in (OP_OPTIONAL, OP_UNION):
        at = get_long(at, reading, cython.address(number))
        if at == cython.NULL or number < 0 or number >= len(step.children):
            raise _refused(step, reading, begin, NO_BRANCH if at != cython.NULL else 0)
        reading.at = at
        return _read(step.children[number], reading, begin)
    if code == OP_NULL:
        return None
    if code == OP_RECORD:
        return _read_record(step, reading, begin)
    if code == OP_DOUBLE:
        if not has(at, 8, reading):
            raise _refused(step, reading, begin, 0)
        memcpy(cython.address(wide), at, 8)
        reading.at = at + 8
        return wide
    if code == OP_FLOAT:
        if not has(at, 4, reading):
            raise _refused(step, reading, begin, 0)
        memcpy(cython.address(single), at, 4)
        reading.at = at + 4
        return single
    if code == OP_BOOLEAN:
        if not has(at, 1, reading):
            raise _refused(step, reading, begin, 0)
        if cython.cast(uint8_t, at[0]) > 1:
            raise _refused(step, reading, begin, NOT_BOOLEAN)
        reading.at = at + 1
        return at[0] == 1
    if code == OP_ENUM:
        at = get_int(at, reading, cython.address(number))
        if at == cython.NULL:
            raise _refused(step, reading, begin, 0)
        if number < 0 or number >= len(step.symbols):
            raise _refused(step, reading, begin, NO_SYMBOL)
        if step.symbols[number] is None:
            raise _refused(step, reading, begin, UNKNOWN_SYMBOL, step.names[number])
        reading.at = at
        return step.symbols[number]
    if code in (OP_ARRAY, OP_MAP):
        return _read_items(step, reading, begin)
    return _read_other(step, reading, begin)


@cython.cfunc
def _text(
    step: _RowStep, at: cython.p_const_char, size: int64_t, reading: cython.pointer(Reading), begin: cython.p_const_char
) -> object:
    try:
        return PyUnicode_DecodeUTF8(at, size, cython.NULL)
    except UnicodeDecodeError:
        raise _refused(step, reading, begin, NOT_TEXT) from None


@cython.cfunc
def _read_record(step: _RowStep, reading: cython.pointer(Reading), begin: cython.p_const_char) -> object:
    made: dict = {}
    i: cython.Py_ssize_t
    at: cython.p_const_char
    _go_deeper(step, reading, begin)
    for i in range(len(step.children)):
        at = reading.at
        name = step.names[i] if step.names else None
        if name is None:
            _read(step.children[i], reading, begin)
        else:
            made[name] = _read(step.children[i], reading, begin)
        # Without a limit, few bytes make many fields: think of record types that each contain the next one twice.
        if reading.at == at:
            reading.empty_fields -= 1
            if reading.empty_fields < 0:
                raise _refused(step, reading, begin, EMPTY_ITEMS)
    reading.depth -= 1
    return made


@cython.cfunc
@cython.exceptval(-1)
def _go_deeper(step: _RowStep, reading: cython.pointer(Reading), begin: cython.p_const_char) -> cython.int:
    reading.depth += 1
    if reading.depth > _DEPTH_MAX:
        raise _refused(step, reading, begin, TOO_DEEP)
    return 0


@cython.cfunc
def _read_items(step: _RowStep, reading: cython.pointer(Reading), begin: cython.p_const_char) -> object:
    """Read an array to a list, a map to a dict."""
    items: list = []
    entries: dict = {}
    block_end: cython.p_const_char = cython.NULL
    at: cython.p_const_char
    count: int64_t = 0
    size: int64_t = 0
    _go_deeper(step, reading, begin)
    while True:
        at = get_count(
            cython.address(step.counting), reading.at, reading, cython.address(count), cython.address(block_end)
        )
        if at == cython.NULL:
            raise _refused(step, reading, begin, 0)
        reading.at = at
        if count == 0:
            reading.depth -= 1
            return items if step.code == OP_ARRAY else entries
        if step.plan.column is None and block_end != cython.NULL:
            # The reader's schema has no place for it.
            reading.at = block_end
            continue
        while count > 0:
            count -= 1
            if step.code == OP_ARRAY:
                items.append(_read(step.children[0], reading, begin))
                continue
            at = get_sized(reading.at, reading, cython.address(size))
            if at == cython.NULL:
                raise _refused(step, reading, begin, 0)
            key = None if step.plan.column is None else _text(step, at, size, reading, begin)
            reading.at = at + size
            entries[key] = _read(step.children[0], reading, begin)
        if block_end != cython.NULL and block_end != reading.at:
            raise _refused(step, reading, begin, WRONG_BLOCK)


@cython.cfunc
def _read_other(step: _RowStep, reading: cython.pointer(Reading), begin: cython.p_const_char) -> object:
    """The rarer steps: promotions, decimals, defaults, and values that are skipped."""
    op: str = step.op
    number: int64_t = 0
    single: cython.float = 0
    at: cython.p_const_char = reading.at
    if op in ("fixed", "skip_bytes", "decimal_fixed"):
        number = step.number
        at = at if has(at, number, reading) else cython.NULL
    elif op in ("decimal_bytes", "skip_sized"):
        at = get_sized(at, reading, cython.address(number))
    elif op in ("int_long", "int_float", "int_double"):
        at = get_int(at, reading, cython.address(number))
    elif op in ("long_float", "long_double", "skip_varint"):
        at = get_long(at, reading, cython.address(number))
    elif op == "float_double":
        at = at if has(at, 4, reading) else cython.NULL
    elif op == "constant":
        return _read_default(step, reading, begin)
    elif op == "member":
        return _read(step.children[0], reading, begin)
    elif op == "fail":
        raise _refused(step, reading, begin, NO_PLACE)
    else:
        return None
    if at == cython.NULL:
        raise _refused(step, reading, begin, 0)
    if op == "float_double":
        memcpy(cython.address(single), at, 4)
        reading.at = at + 4
        return single
    if op in _FROM_WHOLE:
        reading.at = at
        if op == "int_long":
            return number if step.convert is None else step.convert(number)
        if op in ("int_float", "long_float"):
            return cython.cast(cython.double, cython.cast(cython.float, number))
        return cython.cast(cython.double, number)
    made = PyBytes_FromStringAndSize(at, number)
    if step.bound is not None:
        if abs(int.from_bytes(made, "big", signed=True)) >= step.bound:
            raise _refused(step, reading, begin, WIDE_DECIMAL)
        made = decimal_of(made, step.scale)
    reading.at = at + number
    return made


@cython.cfunc
def _read_default(step: _RowStep, whole: cython.pointer(Reading), whole_begin: cython.p_const_char) -> object:
    """Decode a default anew each time: the object may be a list, which its user may change."""
    reading = cython.declare(Reading)
    constant: bytes = step.plan.constant
    begin: cython.p_const_char = constant
    # A default takes no bytes of the payload, but makes new objects for each item.
    whole.empty_items -= len(constant) // _EMPTY_ITEM_BYTES
    if whole.empty_items < 0:
        raise _refused(step, whole, whole_begin, EMPTY_ITEMS)
    memset(cython.address(reading), 0, cython.sizeof(Reading))
    reading.at = begin
    reading.end = begin + len(constant)
    reading.empty_items = whole.empty_items
    reading.empty_fields = whole.empty_fields
    reading.depth = whole.depth
    made = _read(step.children[0], cython.address(reading), begin)
    whole.empty_items = reading.empty_items
    whole.empty_fields = reading.empty_fields
    return made
