"""A field's default in JSON -> the bytes that a payload would have for it."""

from __future__ import annotations

import struct
from typing import Any, Final

from ottla.schemas.avro.schema import DEPTH_MAX, MISSING, TIMES_OF_DAY, AvroField, AvroType, SchemaError

VALUES_MAX: Final = 100_000
BYTES_MAX: Final = 16 << 20

_RANGES = {"int": 1 << 31, "long": 1 << 63}
_FLOATS = {"NaN", "Infinity", "-Infinity"}


class Defaults:
    """Encodes the defaults of one schema's fields, each once; their values and bytes together are limited."""

    def __init__(self) -> None:
        self._values_left = VALUES_MAX
        self._known: dict[AvroField, bytes] = {}
        self._bytes_left = BYTES_MAX

    def encoded(self, field: AvroField, path: str) -> bytes:
        """The default of a field that has one; SchemaError, with the path, where it is not of the type."""
        if field not in self._known:
            written = bytearray()
            self._put(written, field.type, field.default, path, 0)
            self._known[field] = bytes(written)
            self._bytes_left -= len(written)
        return self._known[field]

    def _put(self, to: bytearray, type_: AvroType, value: Any, path: str, depth: int) -> None:
        kind = type_.kind
        self._values_left -= 1
        if depth > DEPTH_MAX or self._values_left < 0 or len(to) > self._bytes_left:
            raise SchemaError(f"The default of '{path}' is too large, or the defaults of all fields together are.")
        if kind == "union":
            # In older specifications it must fit the first branch, now any branch.
            refused: SchemaError | None = None
            begin = len(to)
            for index, branch in enumerate(type_.branches):
                if _fits(branch, value):
                    _put_varint(to, index)
                    try:
                        return self._put(to, branch, value, path, depth + 1)
                    except SchemaError as error:
                        # Its parts do not fit: another branch may.
                        refused = refused or error
                        del to[begin:]
            raise refused or _unfit(type_, value, path)
        if not _fits(type_, value):
            raise _unfit(type_, value, path)
        if kind == "record":
            for each in type_.fields:
                given = value.get(each.name, each.default)
                if given is MISSING:
                    raise SchemaError(f"The default of '{path}' has no value for its field '{each.name}'.")
                self._put(to, each.type, given, f"{path}.{each.name}", depth + 1)
        elif kind in ("array", "map"):
            assert type_.items is not None
            if value:
                _put_varint(to, len(value))
            for item in value:
                if kind == "map":
                    _put_sized(to, item.encode("utf-8", "replace"))
                self._put(to, type_.items, value[item] if kind == "map" else item, path, depth + 1)
            to.append(0)
        else:
            _put_plain(to, type_, value, path)
        return None


def _put_plain(to: bytearray, type_: AvroType, value: Any, path: str) -> None:
    kind = type_.kind
    if kind == "boolean":
        to.append(value)
    elif kind in _RANGES:
        _put_varint(to, int(value))
    elif kind in ("float", "double"):
        try:
            to += struct.pack("<f" if kind == "float" else "<d", float(value))
        except OverflowError:
            raise _unfit(type_, value, path) from None
    elif kind == "string":
        _put_sized(to, value.encode("utf-8", "replace"))
    elif kind == "bytes":
        _put_sized(to, value.encode("latin-1"))
    elif kind == "fixed":
        to += value.encode("latin-1")
    elif kind == "enum":
        _put_varint(to, type_.symbols.index(value))


def _fits(type_: AvroType, value: Any) -> bool:
    """Whether a default is of this type; its parts are not checked."""
    kind = type_.kind
    if kind == "null":
        return value is None
    if kind == "boolean":
        return isinstance(value, bool)
    if isinstance(value, bool):
        return False
    if kind in _RANGES:
        if not isinstance(value, int) or not -_RANGES[kind] <= value < _RANGES[kind]:
            return False
        return type_.logical not in TIMES_OF_DAY or 0 <= value < TIMES_OF_DAY[type_.logical]
    if kind in ("float", "double"):
        return isinstance(value, (int, float)) or (isinstance(value, str) and value in _FLOATS)
    if kind == "enum":
        return isinstance(value, str) and value in type_.symbols
    if kind in ("bytes", "fixed"):
        is_bytes = isinstance(value, str) and all(character <= "\xff" for character in value)
        return is_bytes and (kind == "bytes" or len(value) == type_.size)
    if kind == "string":
        return isinstance(value, str)
    return isinstance(value, list if kind == "array" else dict)


def _put_varint(to: bytearray, number: int) -> None:
    left = (number << 1) ^ (number >> 63)
    while left > 0x7F:
        to.append(left & 0x7F | 0x80)
        left >>= 7
    to.append(left)


def _put_sized(to: bytearray, data: bytes) -> None:
    _put_varint(to, len(data))
    to += data


def _unfit(type_: AvroType, value: Any, path: str) -> SchemaError:
    shown = repr(value)
    return SchemaError(f"The default of '{path}' is {shown[:60]}, which is not of its type, {type_.shown}.")
