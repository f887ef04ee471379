"""Derives an Avro schema from Arrow columns, for a table that is sent without a schema."""

from __future__ import annotations

import itertools
import json
import re
from typing import TYPE_CHECKING, Any

from ottla.errors import RecordError

if TYPE_CHECKING:
    import pyarrow as pa

# No type can be called like these.
_PRIMITIVES = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_]")


def derive_schema(fields: pa.Schema, name: str) -> str:
    """The text of a record schema with a field for each column; a column that may be null is a union with null.

    Characters of `name` that Avro does not allow become "_". RecordError names a column that Avro has no type for.
    """
    record = _record(list(fields), _named(name), "", set(_PRIMITIVES))
    return json.dumps(record, separators=(",", ":"))


def _record(fields: list[Any], name: str, where: str, used: set[str]) -> dict[str, Any]:
    name = _unused(name, used)
    return {"type": "record", "name": name, "fields": [_field(each, name, where, used) for each in fields]}


def _unused(name: str, used: set[str]) -> str:
    """The name, with a number behind it if another type has it: names of nested columns are joined by "_"."""
    numbered = (name if number == 1 else f"{name}_{number}" for number in itertools.count(1))
    found = next(each for each in numbered if each not in used)
    used.add(found)
    return found


def _field(field: Any, record: str, where: str, used: set[str]) -> dict[str, Any]:
    place = f"{where}.{field.name}" if where else field.name
    if _NOT_IN_NAMES.search(field.name) or not field.name or field.name[0].isdigit():
        raise RecordError(
            f"Column {place!r} cannot be a field of Avro, whose names are of letters, digits and _, with no digit in "
            "front: rename it."
        )
    kind = _type(field.type, f"{record}_{field.name}", place, used)
    if not field.nullable:
        return {"name": field.name, "type": kind}
    return {"name": field.name, "type": kind if kind == "null" else ["null", kind], "default": None}


def _item(field: Any, name: str, place: str, used: set[str]) -> Any:
    kind = _type(field.type, name, place, used)
    return ["null", kind] if field.nullable and kind != "null" else kind


def _type(kind: Any, name: str, place: str, used: set[str]) -> Any:
    """The Avro type of an Arrow type; `name` is for types that need one."""
    import pyarrow as pa

    is_ = pa.types
    given: Any = kind
    if is_.is_dictionary(kind):
        return _type(given.value_type, name, place, used)
    for fits, word in (
        (is_.is_null, "null"),
        (is_.is_boolean, "boolean"),
        (is_.is_float32, "float"),
        (is_.is_float64, "double"),
    ):
        if fits(kind):
            return word
    if is_.is_integer(kind) and not is_.is_uint64(kind):
        return "int" if kind.bit_width < 32 or is_.is_int32(kind) else "long"
    if is_.is_string(kind) or is_.is_large_string(kind) or is_.is_string_view(kind):
        return "string"
    if is_.is_binary(kind) or is_.is_large_binary(kind) or is_.is_binary_view(kind):
        return "bytes"
    if is_.is_fixed_size_binary(kind):
        return {"type": "fixed", "name": _unused(name, used), "size": given.byte_width}
    if is_.is_decimal(kind) and 0 <= given.scale <= given.precision:
        return {"type": "bytes", "logicalType": "decimal", "precision": given.precision, "scale": given.scale}
    if is_.is_temporal(kind):
        found = _time(given)
        if found is not None:
            return found
    if is_.is_list(kind) or is_.is_large_list(kind) or is_.is_fixed_size_list(kind):
        return {"type": "array", "items": _item(given.value_field, f"{name}_item", f"{place}[]", used)}
    if is_.is_map(kind) and (is_.is_string(given.key_type) or is_.is_large_string(given.key_type)):
        return {"type": "map", "values": _item(given.item_field, f"{name}_value", f"{place}{{}}", used)}
    if is_.is_struct(kind):
        return _record([given.field(i) for i in range(given.num_fields)], name, place, used)
    raise RecordError(
        f"Column {place!r} is of type {kind}, for which Avro has none: cast it, or give a schema as value_schema."
    )


def _time(kind: Any) -> dict[str, str] | None:
    import pyarrow as pa

    is_ = pa.types
    if is_.is_date32(kind):
        return {"type": "int", "logicalType": "date"}
    if is_.is_time(kind) and kind.unit in ("s", "ms"):
        return {"type": "int", "logicalType": "time-millis"}
    # Avro has no times in nanoseconds, but polars has no others: they must be whole microseconds.
    if is_.is_time(kind) and kind.unit in ("us", "ns"):
        return {"type": "long", "logicalType": "time-micros"}
    units = {"s": "millis", "ms": "millis", "us": "micros", "ns": "nanos"}
    if is_.is_timestamp(kind) and kind.unit in units:
        local = "" if kind.tz else "local-"
        return {"type": "long", "logicalType": f"{local}timestamp-{units[kind.unit]}"}
    return None


def _named(name: str) -> str:
    found = _NOT_IN_NAMES.sub("_", name) or "_"
    return f"_{found}" if found[0].isdigit() else found
