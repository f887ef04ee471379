"""One Python object -> one Avro payload (compiled): for `send`.

Records and maps are dicts, arrays lists or tuples; logical types take Python's own objects (`objects.py`). A schema
becomes a tree of nodes once; for a type that contains itself it has a cycle.

Invariant: as with columns, nothing is lost or guessed. A key without a field, a number out of range and an object of
another type are errors with the path.
"""

from __future__ import annotations

import datetime
import sys
from numbers import Integral, Real

import cython
from cython.cimports.cpython.bytes import PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cython.cimports.cpython.datetime import (
    PyDate_CheckExact,
    PyDateTime_CheckExact,
    PyDateTime_DATE_GET_HOUR,
    PyDateTime_DATE_GET_MICROSECOND,
    PyDateTime_DATE_GET_MINUTE,
    PyDateTime_DATE_GET_SECOND,
    date_day,
    date_month,
    date_year,
    datetime_tzinfo,
    import_datetime,
)
from cython.cimports.cpython.dict import PyDict_GetItemWithError, PyDict_Next, PyDict_Size
from cython.cimports.cpython.float import PyFloat_AS_DOUBLE, PyFloat_CheckExact
from cython.cimports.cpython.long import PyLong_AsLongLongAndOverflow, PyLong_CheckExact
from cython.cimports.cpython.object import PyObject
from cython.cimports.cpython.unicode import PyUnicode_AsUTF8AndSize, PyUnicode_CheckExact, PyUnicode_GET_LENGTH
from cython.cimports.libc.stdint import int32_t, int64_t
from cython.cimports.libc.stdlib import free
from cython.cimports.libc.string import memcpy, memset
from cython.cimports.ottla.records.arrow_layout import Growing, reserve
from cython.cimports.ottla.records.intake import RowEncoder
from cython.cimports.ottla.records.wire import put_varint, zigzag
from cython.cimports.ottla.schemas.avro.building import (
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
    OP_UNION,
    PyUnicode_IS_COMPACT_ASCII,
)

from ottla.errors import RecordError
from ottla.schemas.avro.defaults import Defaults
from ottla.schemas.avro.objects import TO_AVRO
from ottla.schemas.avro.reasons import not_of_type
from ottla.schemas.avro.schema import MISSING, parse_schema

import_datetime()
_UTC = cython.declare(object, datetime.UTC)
_DEPTH_MAX = cython.declare(cython.int, 200)
# An encoder keeps memory of this size at most from one object to the next.
_KEPT_BYTES_MAX = cython.declare(int64_t, 1 << 16)
# A record has a byte for each field's type, see `_plain`: the `op` of a type that `_write_plain` can write (_OTHER for
# others), and for a union with null the number of the branch null.
_OTHER = cython.declare(cython.int, 31)
_NULL_FIRST = cython.declare(cython.int, 32)
_NULL_SECOND = cython.declare(cython.int, 64)
# The unit of a logical time type, as in `_Node.time`.
_DAYS = cython.declare(cython.int, 1)
_TIMES = {
    "date": (_DAYS, False),
    "timestamp-millis": (1_000, True),
    "timestamp-micros": (1_000_000, True),
    "local-timestamp-millis": (1_000, False),
    "local-timestamp-micros": (1_000_000, False),
}
_KINDS = {
    "null": OP_NULL, "boolean": OP_BOOLEAN, "int": OP_INT, "long": OP_LONG, "float": OP_FLOAT, "double": OP_DOUBLE,
    "bytes": OP_BYTES, "string": OP_STRING, "fixed": OP_FIXED, "enum": OP_ENUM, "record": OP_RECORD,
    "array": OP_ARRAY, "map": OP_MAP, "union": OP_UNION,
}  # fmt: skip


@cython.final
@cython.cclass
class _Node:
    """A type, with what is needed to write its values."""

    op = cython.declare(cython.int)
    type_ = cython.declare(object)
    path = cython.declare(str)
    convert = cython.declare(object)
    children = cython.declare(list)
    # Of a record: the names of its fields, and the encoded defaults (None for none).
    names = cython.declare(list)
    constants = cython.declare(list)
    # A byte for each child, see `_plain`.
    plain = cython.declare(bytes)
    symbols = cython.declare(dict)
    size = cython.declare(int64_t)
    null_branch = cython.declare(cython.int)
    # Of types that take datetime's objects: units in a second (`_DAYS` for dates), 0 for other types.
    time = cython.declare(int64_t)
    is_instant = cython.declare(cython.bint)

    def __init__(self, type_: object, path: str) -> None:
        self.type_ = type_
        self.path = path
        self.op = _KINDS[type_.kind]
        self.convert = TO_AVRO.get(type_.logical)
        self.children = []
        self.names = []
        self.constants = []
        self.size = type_.size
        self.null_branch = -1
        self.time, self.is_instant = _TIMES.get(type_.logical, (0, False))
        self.symbols = {symbol: number for number, symbol in enumerate(type_.symbols)}


@cython.cfunc
def _node(type_: object, path: str, made: dict, defaults: object) -> _Node:
    if type_ in made:
        return made[type_]
    node: _Node = _Node(type_, path)
    made[type_] = node
    for each in type_.fields:
        at = f"{path}.{each.name}" if path else each.name
        # Keys in a program's source are interned, too: then comparing pointers is enough.
        node.names.append(sys.intern(each.name))
        node.children.append(_node(each.type, at, made, defaults))
        node.constants.append(None if each.default is MISSING else defaults.encoded(each, at))
    for branch in type_.branches:
        node.children.append(_node(branch, path, made, defaults))
    if type_.items is not None:
        node.children.append(_node(type_.items, path + ("[]" if type_.kind == "array" else "{}"), made, defaults))
    kinds: list = [branch.kind for branch in type_.branches]
    if "null" in kinds:
        node.null_branch = kinds.index("null")
        if len(kinds) == 2:
            node.op = OP_OPTIONAL
    node.plain = bytes([_plain(child) for child in node.children])
    return node


@cython.cfunc
def _plain(node: _Node) -> object:
    """The byte for a field's type."""
    inner: _Node = node
    null: cython.int = 0
    if node.op == OP_OPTIONAL:
        inner = node.children[1 - node.null_branch]
        null = _NULL_SECOND if node.null_branch else _NULL_FIRST
    is_plain = inner.convert is None and inner.op in (OP_STRING, OP_LONG, OP_INT, OP_DOUBLE, OP_BOOLEAN)
    return null | (inner.op if is_plain else _OTHER)


@cython.final
@cython.cclass
class AvroRowEncoder(RowEncoder):
    """Encodes objects by a schema; SchemaError for a schema that cannot be used."""

    _root = cython.declare(_Node)
    # The buffer of the last object, to be used again; NULL while another thread uses it.
    _kept = cython.declare(Growing)

    def __cinit__(self) -> None:
        memset(cython.address(self._kept), 0, cython.sizeof(Growing))

    def __dealloc__(self) -> None:
        free(self._kept.data)

    def __init__(self, schema_text: object, *, references: object = None) -> None:
        self._root = _node(parse_schema(schema_text, references), "", {}, Defaults())

    def encode_one(self, value: object, prefix: bytes = b"") -> bytes:
        """The payload of an object, with `prefix` in front; RecordError for what does not fit the schema."""
        return self.encode(value, prefix)

    @cython.cfunc
    def encode(self, value: object, prefix: bytes) -> bytes:
        to: Growing = self._kept
        memset(cython.address(self._kept), 0, cython.sizeof(Growing))
        to.size = 0
        try:
            _extend(cython.address(to), prefix, len(prefix))
            _write(self._root, value, cython.address(to), 0)
            return PyBytes_FromStringAndSize(to.data, to.size)
        finally:
            if self._kept.data == cython.NULL and to.capacity <= _KEPT_BYTES_MAX:
                self._kept = to
            else:
                free(to.data)


@cython.cfunc
@cython.inline
@cython.exceptval(-1)
def _extend(to: cython.pointer(Growing), data: cython.p_const_char, size: int64_t) -> cython.int:
    # With room for a number after it.
    if not reserve(to, size + 128):
        raise MemoryError
    memcpy(to.data + to.size, data, size)
    to.size += size
    return 0


@cython.cfunc
@cython.inline
@cython.exceptval(-1)
def _put(to: cython.pointer(Growing), number: int64_t) -> cython.int:
    if to.capacity - to.size < 10 and not reserve(to, 128):
        raise MemoryError
    to.size = put_varint(to.data + to.size, zigzag(number)) - to.data
    return 0


@cython.cfunc
@cython.exceptval(-1)
def _write(node: _Node, value: object, to: cython.pointer(Growing), depth: cython.int) -> cython.int:
    op: cython.int = node.op
    wide: cython.double
    single: cython.float
    byte: cython.char
    data: bytes
    if op == OP_OPTIONAL:
        _put(to, node.null_branch if value is None else 1 - node.null_branch)
        if value is None:
            return 0
        return _write(node.children[1 - node.null_branch], value, to, depth)
    if node.convert is not None:
        if node.time and _write_time(node, value, to):
            return 0
        value = _converted(node, value)
    if op == OP_STRING:
        if not isinstance(value, str):
            raise _not_of(node, value)
        return _write_text(node, value, to)
    if op in (OP_LONG, OP_INT):
        return _put(to, _whole(node, value))
    if op in (OP_DOUBLE, OP_FLOAT):
        if PyFloat_CheckExact(value):
            wide = PyFloat_AS_DOUBLE(value)
        elif isinstance(value, bool) or not isinstance(value, (float, int, Real)):
            raise _not_of(node, value)
        else:
            wide = _float(node, value)
        if op == OP_DOUBLE:
            return _extend(to, cython.cast(cython.p_const_char, cython.address(wide)), 8)
        single = cython.cast(cython.float, wide)
        if single - single != 0 and wide - wide == 0:
            raise _not_of(node, value)
        return _extend(to, cython.cast(cython.p_const_char, cython.address(single)), 4)
    if op == OP_RECORD:
        return _write_record(node, value, to, depth)
    if op == OP_BOOLEAN:
        if not isinstance(value, bool):
            raise _not_of(node, value)
        byte = value is True
        return _extend(to, cython.address(byte), 1)
    if op == OP_ENUM:
        number = node.symbols.get(value) if isinstance(value, str) else None
        if number is None:
            raise _not_of(node, value)
        return _put(to, number)
    if op in (OP_BYTES, OP_FIXED):
        if not isinstance(value, (bytes, bytearray, memoryview)):
            raise _not_of(node, value)
        data = bytes(value)
        if op == OP_BYTES:
            _put(to, len(data))
        elif len(data) != node.size:
            raise _not_of(node, value)
        return _extend(to, data, len(data))
    if op == OP_NULL:
        if value is not None:
            raise _not_of(node, value)
        return 0
    if op == OP_UNION:
        number = _branch(node, value)
        _put(to, number)
        if isinstance(value, tuple):
            value = value[1]
        return _write(node.children[number], value, to, depth)
    return _write_items(node, value, to, depth)


@cython.cfunc
@cython.exceptval(-1)
def _write_record(node: _Node, value: object, to: cython.pointer(Growing), depth: cython.int) -> cython.int:
    found: cython.pointer(PyObject)
    key: cython.pointer(PyObject) = cython.NULL
    place: cython.Py_ssize_t = 0
    used: cython.Py_ssize_t = 0
    i: cython.Py_ssize_t
    child: _Node
    plain: cython.p_const_char = PyBytes_AS_STRING(node.plain)
    is_in_order: cython.bint = True
    if not isinstance(value, dict):
        if not hasattr(value, "keys"):
            raise _not_of(node, value)
        value = dict(value)
    if depth >= _DEPTH_MAX:
        raise RecordError(f"The value of '{node.path}' is nested deeper than {_DEPTH_MAX} records.")
    for i in range(len(node.names)):
        found = cython.NULL
        if is_in_order:
            # Most dicts have the schema's order: then no key is looked up.
            is_in_order = PyDict_Next(
                value, cython.address(place), cython.address(key), cython.address(found)
            ) and key == cython.cast(cython.pointer(PyObject), node.names[i])
        if not is_in_order:
            found = PyDict_GetItemWithError(value, node.names[i])
        if found != cython.NULL:
            used += 1
            item = cython.cast(object, found)
            if not _write_plain(plain[i], item, to):
                _write(node.children[i], item, to, depth + 1)
            continue
        child = node.children[i]
        if node.constants[i] is not None:
            _extend(to, node.constants[i], len(node.constants[i]))
        elif child.null_branch >= 0:
            _put(to, child.null_branch)
        elif child.op != OP_NULL:
            raise RecordError(f"The value has no field '{child.path or node.names[i]}', and the schema no default.")
    if used != PyDict_Size(value):
        raise _no_field(node, value)
    return 0


@cython.cfunc
def _no_field(node: _Node, value: object) -> object:
    # In a function of its own: a generator would slow down the whole function that contains it.
    other = next(key for key in value if key not in node.names)
    shown = f"{node.path}.{other}" if node.path else str(other)
    return RecordError(f"The Avro schema has no field for '{shown[:200]}': leave it out.")


@cython.cfunc
@cython.inline
@cython.exceptval(-1)
def _write_plain(plain: cython.int, value: object, to: cython.pointer(Growing)) -> cython.int:
    """Write a value that is simply copied, as most are; 0, with nothing written, for other values."""
    op: cython.int = plain & _OTHER
    null: cython.int = plain & (_NULL_FIRST | _NULL_SECOND)
    size: int64_t = 0
    number: int64_t = 0
    overflow: cython.int = 0
    wide: cython.double = 0
    if null and value is None:
        return _put_branch(to, 0 if null == _NULL_FIRST else 1)
    if op == OP_STRING:
        if not PyUnicode_CheckExact(value) or not PyUnicode_IS_COMPACT_ASCII(value):
            return 0
        size = PyUnicode_GET_LENGTH(value)
    elif op in (OP_LONG, OP_INT):
        if not PyLong_CheckExact(value):
            return 0
        number = PyLong_AsLongLongAndOverflow(value, cython.address(overflow))
        if overflow or (op == OP_INT and number != cython.cast(int32_t, number)):
            return 0
    elif op == OP_DOUBLE:
        if not PyFloat_CheckExact(value):
            return 0
        wide = PyFloat_AS_DOUBLE(value)
    elif op != OP_BOOLEAN or (value is not True and value is not False):
        return 0
    # A branch, a number of at most ten bytes, and the text.
    if not reserve(to, size + 16):
        raise MemoryError
    if null:
        _put_branch(to, 1 if null == _NULL_FIRST else 0)
    if op == OP_STRING:
        to.size = put_varint(to.data + to.size, zigzag(size)) - to.data
        memcpy(to.data + to.size, PyUnicode_AsUTF8AndSize(value, cython.NULL), size)
        to.size += size
    elif op == OP_DOUBLE:
        memcpy(to.data + to.size, cython.address(wide), 8)
        to.size += 8
    elif op == OP_BOOLEAN:
        to.data[to.size] = value is True
        to.size += 1
    else:
        to.size = put_varint(to.data + to.size, zigzag(number)) - to.data
    return 1


@cython.cfunc
@cython.inline
@cython.exceptval(-1)
def _put_branch(to: cython.pointer(Growing), branch: cython.int) -> cython.int:
    if not reserve(to, 1):
        raise MemoryError
    to.data[to.size] = 2 * branch
    to.size += 1
    return 1


@cython.cfunc
@cython.exceptval(-1)
def _write_items(node: _Node, value: object, to: cython.pointer(Growing), depth: cython.int) -> cython.int:
    child: _Node = node.children[0]
    plain: cython.int = PyBytes_AS_STRING(node.plain)[0]
    if depth >= _DEPTH_MAX:
        raise RecordError(f"The value of '{node.path}' is nested deeper than {_DEPTH_MAX} values.")
    if node.op == OP_ARRAY:
        if not isinstance(value, (list, tuple)):
            raise _not_of(node, value)
        if value:
            _put(to, len(value))
        for item in value:
            if not _write_plain(plain, item, to):
                _write(child, item, to, depth + 1)
    else:
        if not isinstance(value, dict):
            raise _not_of(node, value)
        if value:
            _put(to, len(value))
        for key, item in value.items():
            if not isinstance(key, str):
                raise _not_of(node, key)
            _write_text(node, key, to)
            if not _write_plain(plain, item, to):
                _write(child, item, to, depth + 1)
    return _put(to, 0)


@cython.cfunc
@cython.exceptval(-1, check=True)
def _whole(node: _Node, value: object) -> int64_t:
    number: int64_t
    overflow: cython.int = 0
    if PyLong_CheckExact(value):
        number = PyLong_AsLongLongAndOverflow(value, cython.address(overflow))
        if overflow or (node.op == OP_INT and number != cython.cast(int32_t, number)):
            raise _not_of(node, value)
        return number
    if not isinstance(value, int):
        # For example a number of numpy's.
        if not isinstance(value, Integral):
            raise _not_of(node, value)
        value = int(value)
    elif isinstance(value, bool):
        raise _not_of(node, value)
    try:
        number = value
    except OverflowError:
        raise _not_of(node, value) from None
    if node.op == OP_INT and number != cython.cast(int32_t, number):
        raise _not_of(node, value)
    return number


@cython.cfunc
@cython.exceptval(-1, check=True)
def _float(node: _Node, value: object) -> cython.double:
    try:
        return float(value)
    except OverflowError:
        raise _not_of(node, value) from None


@cython.cfunc
@cython.exceptval(-1)
def _write_text(node: _Node, given: object, to: cython.pointer(Growing)) -> cython.int:
    size: cython.Py_ssize_t = 0
    # A member of an enum of texts, or a text of numpy's, is of a class of its own.
    value: str = given if PyUnicode_CheckExact(given) else str.__str__(given)
    try:
        data: cython.p_const_char = PyUnicode_AsUTF8AndSize(value, cython.address(size))
    except UnicodeEncodeError:
        raise _not_of(node, value) from None
    _put(to, size)
    return _extend(to, data, size)


@cython.cfunc
@cython.exceptval(-1)
def _write_time(node: _Node, value: object, to: cython.pointer(Growing)) -> cython.int:
    """Write a date or datetime; 0 if `_converted` has to do it: other objects, time zones, and roundings."""
    days: int64_t
    micros: int64_t
    if node.time == _DAYS:
        if not PyDate_CheckExact(value):
            return 0
        _put(to, _days(value))
        return 1
    if not PyDateTime_CheckExact(value):
        return 0
    if datetime_tzinfo(value) is not (_UTC if node.is_instant else None):
        return 0
    days = _days(value)
    micros = (
        (days * 24 + PyDateTime_DATE_GET_HOUR(value)) * 60 + PyDateTime_DATE_GET_MINUTE(value)
    ) * 60 + PyDateTime_DATE_GET_SECOND(value)
    micros = micros * 1_000_000 + PyDateTime_DATE_GET_MICROSECOND(value)
    if node.time == 1_000_000:
        _put(to, micros)
        return 1
    if PyDateTime_DATE_GET_MICROSECOND(value) % 1_000:
        return 0
    _put(to, micros // 1_000)
    return 1


@cython.cfunc
def _days(value: object) -> int64_t:
    """Days since 1970, from a date of the Gregorian calendar, counted in years that begin with March."""
    month: int64_t = date_month(value)
    year: int64_t = date_year(value) - (month <= 2)
    day_of_year: int64_t = (153 * ((month + 9) % 12) + 2) // 5 + date_day(value) - 1
    return year * 365 + year // 4 - year // 100 + year // 400 + day_of_year - 719_468


@cython.cfunc
def _converted(node: _Node, value: object) -> object:
    try:
        return node.convert(value, node.type_)
    except (ValueError, TypeError) as error:
        place = f"The value of '{node.path}'" if node.path else "The value"
        raise RecordError(f"{place} {error}.") from None


@cython.cfunc
def _not_of(node: _Node, value: object) -> object:
    kind = f"{node.type_.shown} ({node.size} bytes)" if node.op == OP_FIXED else node.type_.shown
    return RecordError(not_of_type(value, node.path, kind))


@cython.cfunc
@cython.exceptval(-1)
def _branch(node: _Node, value: object) -> cython.int:
    """A union's branch: the first that holds all of a value, else one that takes it; (name, value) names it."""
    i: cython.Py_ssize_t
    inexact: cython.Py_ssize_t = -1
    child: _Node
    for i in range(len(node.children)):
        child = node.children[i]
        if isinstance(value, tuple):
            if len(value) == 2 and value[0] in (child.type_.name, child.type_.kind):
                return i
        elif _takes(child, value):
            if _is_exact(child, value):
                return i
            inexact = i if inexact < 0 else inexact
    if inexact >= 0:
        return inexact
    raise _not_of(node, value)


@cython.cfunc
@cython.exceptval(-1)
def _is_exact(node: _Node, value: object) -> cython.bint:
    """Whether a type that takes a value also holds all of it: not an integer or a double as a float, for example."""
    if node.op not in (OP_FLOAT, OP_DOUBLE):
        return True
    if isinstance(value, Integral):
        return False
    rounded: cython.float = float(value)
    return node.op == OP_DOUBLE or rounded == value or value != value


@cython.cfunc
@cython.exceptval(-1)
def _takes(node: _Node, value: object) -> cython.bint:
    """Whether a value is of a type; its parts are not checked."""
    op: cython.int = node.op
    if node.convert is not None:
        try:
            value = node.convert(value, node.type_)
        except (ValueError, TypeError):
            return False
    if isinstance(value, Real) and not isinstance(value, (bool, int, float)):
        value = int(value) if isinstance(value, Integral) else float(value)
    if value is None or isinstance(value, bool):
        return (op == OP_NULL and value is None) or (op == OP_BOOLEAN and value is not None)
    if isinstance(value, int):
        if op in (OP_INT, OP_LONG):
            return -(1 << 31) <= value < 1 << 31 if op == OP_INT else -(1 << 63) <= value < 1 << 63
        return op in (OP_DOUBLE, OP_FLOAT)
    if isinstance(value, float):
        return op in (OP_DOUBLE, OP_FLOAT)
    if isinstance(value, str):
        return op == OP_STRING or (op == OP_ENUM and value in node.symbols)
    if isinstance(value, (bytes, bytearray, memoryview)):
        return op == OP_BYTES or (op == OP_FIXED and len(value) == node.size)
    if isinstance(value, list):
        return op == OP_ARRAY
    if not isinstance(value, dict):
        return False
    return op == OP_MAP or (op == OP_RECORD and set(node.names).issuperset(value))
