"""Schemas and messages drawn by Hypothesis, and the row of Arrow that a message of Protobuf's own runtime has to be."""

from __future__ import annotations

import struct
from datetime import timedelta
from typing import Any

from google.protobuf.message import Message
from hypothesis import strategies as st

_WHOLE = "int32 int64 uint32 uint64 sint32 sint64 fixed32 fixed64 sfixed32 sfixed64 bool"
SCALARS = ["double", "float", *_WHOLE.split(" "), "string", "bytes"]
KEYS = [name for name in SCALARS if name not in ("double", "float", "bytes")]
WELL_KNOWN = {
    "google.protobuf.Timestamp": "timestamp",
    "google.protobuf.Duration": "duration",
    **{f"google.protobuf.{name}Value": "wrappers" for name in ("Double", "Int64", "Bool", "String", "Bytes", "Float")},
}
_NUMBERS = st.one_of(st.integers(1, 30), st.integers(1, 2000), st.sampled_from([536870911, 18999, 20000, 1023, 1024]))


@st.composite
def schemas(draw: Any, syntax: str | None = None) -> str:
    """A `.proto` text whose first message is M, without recursion."""
    proto3 = (syntax or draw(st.sampled_from(["proto2", "proto3"]))) == "proto3"
    lines = [f'syntax = "proto{3 if proto3 else 2}";']
    lines += [f'import "google/protobuf/{name}.proto";' for name in ("timestamp", "duration", "wrappers")]
    enum_values = draw(st.lists(st.integers(-5, 300), unique=True, max_size=4))
    values = [0, *(value for value in enum_values if value)] if proto3 else [*enum_values, 7][: len(enum_values) or 1]
    lines.append("enum E { " + " ".join(f"V{i} = {value};" for i, value in enumerate(values)) + " }")
    depth = draw(st.integers(1, 3))
    bodies = []
    for level in range(depth - 1, -1, -1):
        name = "M" if level == 0 else f"N{level}"
        inner = [f"N{level + 1}"] if level + 1 < depth else []
        bodies.append(f"message {name} {{ {draw(_fields(proto3, inner, level > 0, values[0] == 0))} }}")
    return "\n".join([*lines, *reversed(bodies)])


@st.composite
def _fields(draw: Any, proto3: bool, messages: list[str], may_be_empty: bool, zero_first: bool) -> str:
    numbers = draw(st.lists(_NUMBERS, unique=True, min_size=0 if may_be_empty else 1, max_size=7))
    made = []
    in_oneof = []
    for i, number in enumerate(numbers):
        kinds = ["plain", "plain", "optional", "repeated", "map", "oneof"]
        if not proto3:
            kinds += ["group"] + (["required"] if draw(st.integers(0, 9)) == 0 else [])
        kind = draw(st.sampled_from(kinds))
        types = [*SCALARS, "E", *messages * 6, *WELL_KNOWN]
        type_ = draw(st.sampled_from(types))
        if kind == "map" and type_ == "E" and not zero_first:
            type_ = "int32"
        if kind == "map":
            made.append(f"map<{draw(st.sampled_from(KEYS))}, {type_}> f{i} = {number};")
        elif kind == "oneof":
            in_oneof.append(f"{type_} f{i} = {number};")
        elif kind == "group":
            label = draw(st.sampled_from(["optional", "repeated"]))
            made.append(f"{label} group G{i} = {number} {{ optional {type_} a = 1; repeated int32 b = 2; }}")
        elif kind == "repeated":
            packable = type_ in SCALARS[:13] or type_ == "E"
            packed = draw(st.sampled_from(["", " [packed = true]", " [packed = false]"])) if packable else ""
            made.append(f"repeated {type_} f{i} = {number}{packed};")
        else:
            label = {"plain": "" if proto3 else "optional "}.get(kind, f"{kind} ")
            made.append(f"{label}{type_} f{i} = {number};")
    if in_oneof:
        made.append("oneof choice { " + " ".join(in_oneof) + " }")
    return " ".join(made)


_FLOATS = st.floats(allow_nan=True, allow_infinity=True)


def _value(draw: Any, field: Any) -> Any:
    """A value of a field that is no message."""
    kind = field.type
    if kind in (field.TYPE_DOUBLE, field.TYPE_FLOAT):
        return draw(st.floats(width=32) if kind == field.TYPE_FLOAT else _FLOATS)
    if kind == field.TYPE_BOOL:
        return draw(st.booleans())
    if kind == field.TYPE_STRING:
        return draw(st.text(max_size=12))
    if kind == field.TYPE_BYTES:
        return draw(st.binary(max_size=12))
    if kind == field.TYPE_ENUM:
        known = st.sampled_from([value.number for value in field.enum_type.values])
        return draw(known if field.enum_type.is_closed else st.one_of(known, st.integers(-(1 << 31), (1 << 31) - 1)))
    signed = kind in (field.TYPE_INT32, field.TYPE_SINT32, field.TYPE_SFIXED32, field.TYPE_INT64, field.TYPE_SINT64,
                      field.TYPE_SFIXED64)  # fmt: skip
    wide = kind in (field.TYPE_INT64, field.TYPE_SINT64, field.TYPE_SFIXED64, field.TYPE_UINT64, field.TYPE_FIXED64)
    bits = 64 if wide else 32
    least, most = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if signed else (0, (1 << bits) - 1)
    return draw(st.one_of(st.integers(max(least, -3), 3), st.integers(least, most)))


def fill(draw: Any, message: Message, all_fields: bool = False) -> None:
    """Draw values for some of a message's fields."""
    name = message.DESCRIPTOR.full_name
    if name in ("google.protobuf.Timestamp", "google.protobuf.Duration"):
        negative = name.endswith("Duration") and draw(st.booleans())
        sign = -1 if negative else 1
        message.seconds = sign * draw(st.integers(0, 9_000_000_000))  # type: ignore[attr-defined]
        message.nanos = sign * draw(st.integers(0, 999_999_999))  # type: ignore[attr-defined]
        return
    for field in message.DESCRIPTOR.fields:
        if not (all_fields or field.is_required or draw(st.integers(0, 3))):
            continue
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            _fill_map(draw, getattr(message, field.name), field.message_type)
        elif field.is_repeated:
            for _ in range(draw(st.integers(0, 3))):
                if field.message_type is not None:
                    fill(draw, getattr(message, field.name).add())
                else:
                    getattr(message, field.name).append(_value(draw, field))
        elif field.message_type is not None:
            getattr(message, field.name).SetInParent()
            fill(draw, getattr(message, field.name))
        else:
            setattr(message, field.name, _value(draw, field))


def _fill_map(draw: Any, entries: Any, entry: Any) -> None:
    for _ in range(draw(st.integers(0, 3))):
        key = _value(draw, entry.fields_by_name["key"])
        value = entry.fields_by_name["value"]
        if value.message_type is not None:
            fill(draw, entries[key])
        else:
            entries[key] = _value(draw, value)


def inner_messages(message: Any) -> list[Any]:
    """The messages right inside a message."""
    found: list[Any] = []
    for field, value in message.ListFields():
        if field.message_type is None:
            continue
        if not field.message_type.GetOptions().map_entry:
            found += value if field.is_repeated else [value]
        elif field.message_type.fields_by_name["value"].message_type is not None:
            found += value.values()
    return found


# ---------------------------------------------------------------------- what a row has to be


def row_of(message: Message) -> dict[str, Any]:
    """The row that a message is, comparable: floats as their bits, maps sorted, times in nanoseconds."""
    return {field.name: _column(message, field) for field in message.DESCRIPTOR.fields}


def _column(message: Any, field: Any) -> Any:
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        entries = getattr(message, field.name)
        of = field.message_type.fields_by_name["value"]
        return sorted(((key, _single(entries[key], of)) for key in entries), key=repr)
    if field.is_repeated:
        return [_single(each, field) for each in getattr(message, field.name)]
    if field.has_presence and not message.HasField(field.name):
        return None
    return _single(getattr(message, field.name), field)


def _single(value: Any, field: Any) -> Any:
    if field.message_type is not None:
        name = field.message_type.full_name
        if name in ("google.protobuf.Timestamp", "google.protobuf.Duration"):
            return value.seconds * 1_000_000_000 + value.nanos
        if name in WELL_KNOWN:
            return _single(value.value, field.message_type.fields_by_name["value"])
        return row_of(value)
    if field.type == field.TYPE_ENUM:
        known = field.enum_type.values_by_number.get(value)
        return str(value) if known is None else known.name
    return comparable(value)


def comparable(value: Any) -> Any:
    """A value of `to_pylist`, or of a message, floats as their bits."""
    if isinstance(value, float):
        return struct.pack(">d", value)
    if isinstance(value, dict):
        return {name: comparable(each) for name, each in value.items()}
    if isinstance(value, list):
        if value and isinstance(value[0], tuple):
            return sorted(((key, comparable(each)) for key, each in value), key=repr)
        return [comparable(each) for each in value]
    if isinstance(value, timedelta):
        return getattr(value, "value", None)
    return value.value if hasattr(value, "nanosecond") else value
