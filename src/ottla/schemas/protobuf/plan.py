"""How a message becomes columns: a tree of parts, made from the message's descriptor once per schema.

- bool, whole numbers, floats, string, bytes: the Arrow type of the same width and sign. An enum is text, the value's
  name: so tables can be joined and concatenated without a common dictionary. A number without a name is its digits.
- A message or a group is a struct, `repeated` a list, a map a map. Lists and maps that are not in the bytes are empty,
  never null.
- A field with presence (optional, in a oneof, a message, all of proto2) is null if it was not set.
- google.protobuf.Timestamp and Duration are timestamps in UTC and durations; wrappers (`Int64Value`) are values that
  may be null.

Columns cannot contain themselves: a recursive message is an error with the path.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from ottla.schemas.protobuf.errors import ProtobufSchemaError

_DEPTH_MAX: Final = 64
_PARTS_MAX: Final = 20_000
# By the type's number in FieldDescriptorProto: the kind, and Arrow's format.
_SCALARS: Final = {
    1: ("fixed64", "g"), 2: ("fixed32", "f"), 3: ("varint64", "l"), 4: ("varint64", "L"), 5: ("varint32", "i"),
    6: ("fixed64", "L"), 7: ("fixed32", "I"), 8: ("bool", "b"), 9: ("string", "u"), 12: ("bytes", "z"),
    13: ("varint32", "I"), 14: ("enum", "u"), 15: ("fixed32", "i"), 16: ("fixed64", "l"), 17: ("zigzag32", "i"),
    18: ("zigzag64", "l"),
}  # fmt: skip
_GROUP: Final = 10
_WIRES: Final = {
    "fixed64": 1, "fixed32": 5, "group": 3, "string": 2, "bytes": 2, "timestamp": 2, "duration": 2, "wrapper": 2,
    "message": 2, "map": 2,
}  # fmt: skip
_WRAPPERS: Final = {
    f"google.protobuf.{name}Value"
    for name in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
}
_TIMES: Final = {"google.protobuf.Timestamp": "timestamp", "google.protobuf.Duration": "duration"}
TIME_UNITS: Final = {"ns": "n", "us": "u"}


@dataclass(slots=True)
class Part:
    """A field of a message, or a part of one; `path` is its name after those of the fields around it."""

    name: str
    path: str
    kind: str
    format: str
    number: int = 0
    nullable: bool = False
    required: bool = False
    # Of a wrapper: the kind of its value.
    inner: str = ""
    # The index of its oneof, -1 for none.
    oneof: int = -1
    # Whether its default is not written.
    implicit: bool = False
    # Of a list: whether its numbers are written packed.
    packed: bool = False
    # Of an enum: names by number, numbers by name; `closed`: a number without a name counts as an unknown field.
    names: dict[int, bytes] = field(default_factory=dict)
    numbers: dict[bytes, int] = field(default_factory=dict)
    closed: bool = False
    children: list[Part] = field(default_factory=list)
    oneof_names: list[str] = field(default_factory=list)

    @property
    def wire(self) -> int:
        """The wire type of a value; of a list that is not packed, that of each item."""
        if self.kind == "list":
            return 2 if self.packed else self.children[0].wire
        return _WIRES.get(self.kind, 0)


def plan(descriptor: Any, time_unit: str = "ns") -> Part:
    """The parts of a message."""
    return _Planner(time_unit).message("", descriptor, "", [])


class _Planner:
    def __init__(self, time_unit: str) -> None:
        self._unit = TIME_UNITS[time_unit]
        self._parts = 0

    def message(self, name: str, descriptor: Any, path: str, around: list[str]) -> Part:
        if descriptor.full_name in around:
            raise ProtobufSchemaError(
                f"Field {path!r}: {descriptor.full_name} contains itself, and columns have no such type. "
                "Leave the field out of the schema, or read the messages one by one."
            )
        around = [*around, descriptor.full_name]
        if len(around) > _DEPTH_MAX:
            raise ProtobufSchemaError(f"Field {path!r} is in {len(around)} messages; columns nest {_DEPTH_MAX} deep.")
        made = Part(name, path, "message", "+s", oneof_names=[oneof.name for oneof in descriptor.oneofs])
        self._count()
        for each in descriptor.fields:
            made.children.append(self._field(each, f"{path}.{each.name}" if path else each.name, around))
        return made

    def _count(self) -> None:
        self._parts += 1
        if self._parts > _PARTS_MAX:
            raise ProtobufSchemaError(f"The message would have more than {_PARTS_MAX} columns, with those in structs.")

    def _field(self, each: Any, path: str, around: list[str]) -> Part:
        if each.message_type is not None and each.message_type.GetOptions().map_entry:
            part = self._map(each, path, around)
        elif each.is_repeated:
            item = self._single("item", each, path, around)
            part = Part(each.name, path, "list", "+l", packed=each.is_packed, children=[item])
            self._count()
        else:
            part = self._single(each.name, each, path, around)
            part.nullable = each.has_presence and not each.is_required
            part.required = each.is_required
            part.implicit = not each.has_presence
            if each.containing_oneof is not None:
                part.oneof = each.containing_oneof.index
        part.number = each.number
        return part

    def _map(self, each: Any, path: str, around: list[str]) -> Part:
        key, value = (each.message_type.fields_by_number[number] for number in (1, 2))
        entry = Part("entries", path, "message", "+s", children=[
            self._single("key", key, f"{path}.key", around), self._single("value", value, f"{path}.value", around),
        ])  # fmt: skip
        entry.children[0].number = 1
        entry.children[1].number = 2
        self._count()
        return Part(each.name, path, "map", "+m", children=[entry])

    def _single(self, name: str, each: Any, path: str, around: list[str]) -> Part:
        self._count()
        if each.message_type is not None:
            whole = each.message_type.full_name
            if whole in _TIMES:
                kind = _TIMES[whole]
                return Part(name, path, kind, f"ts{self._unit}:UTC" if kind == "timestamp" else f"tD{self._unit}")
            if whole in _WRAPPERS:
                inner, shape = _SCALARS[each.message_type.fields_by_number[1].type]
                return Part(name, path, "wrapper", shape, inner=inner)
            made = self.message(name, each.message_type, path, around)
            made.kind = "group" if each.type == _GROUP else "message"
            return made
        kind, shape = _SCALARS[each.type]
        made = Part(name, path, kind, shape)
        if kind == "enum":
            # If a number has several names, decoding gives the first; encoding takes all.
            for value in each.enum_type.values:
                made.names.setdefault(value.number, value.name.encode())
                made.numbers[value.name.encode()] = value.number
            made.closed = each.enum_type.is_closed
        return made
