"""Whether data of one Protobuf schema can be read with another, by the rules of Protobuf's wire format.

Fields are known by their numbers: they may come, go and be renamed. What is a difference: a message that is gone,
another package, a required field that comes or goes, a number whose type is read otherwise on the wire, a field that
is repeated in one schema alone (unless it is text, bytes or a message), fields that were independent and exclude each
other now, a field of a oneof that is gone, and a number or name that was reserved and is used.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from google.protobuf import descriptor_pb2 as pb

from ottla.embedded_registry.compatibility.difference import Budget, Difference
from ottla.schemas.protobuf.schema import ProtobufSchema

_Field = pb.FieldDescriptorProto
# Types of one line are read alike on the wire.
_ALIKE = (
    ("INT32", "INT64", "UINT32", "UINT64", "BOOL", "ENUM"),
    ("SINT32", "SINT64"),
    ("STRING", "BYTES"),
    ("FIXED32", "SFIXED32"),
    ("FIXED64", "SFIXED64"),
)
_CLASS_OF = {_Field.Type.Value(f"TYPE_{name}"): number for number, names in enumerate(_ALIKE) for name in names}
_LAST_OF_SEVERAL = (_Field.TYPE_STRING, _Field.TYPE_BYTES, _Field.TYPE_MESSAGE)


def protobuf_differences(reader: ProtobufSchema, writer: ProtobufSchema) -> list[Difference]:
    """What keeps the reader from reading what the writer wrote; nothing where it can."""
    if reader.proto.package != writer.proto.package:
        told = f"the package is {reader.proto.package or 'none'}, and was {writer.proto.package or 'none'}"
        return [Difference("PACKAGE_CHANGED", "", told)]
    comparison = _Comparison()
    mine, theirs = dict(_messages(reader.file)), dict(_messages(writer.file))
    found = []
    for name, written in theirs.items():
        if name in mine:
            found += comparison.compare(mine[name], written)
        else:
            found.append(Difference("MESSAGE_REMOVED", _path(written), f"the message {name} is gone"))
    return found


def _messages(file: Any) -> Iterator[tuple[str, Any]]:
    left = list(file.message_types_by_name.values())
    while left:
        message = left.pop(0)
        if not message.GetOptions().map_entry:
            yield message.full_name, message
        left += message.nested_types


def _path(message: Any, field: str = "") -> str:
    return f"/{message.full_name}{'/' if field else ''}{field}"


class _Comparison:
    def __init__(self) -> None:
        self._met: dict[tuple[str, str], None] = {}
        self._budget = Budget()

    def compare(self, reader: Any, writer: Any) -> list[Difference]:
        """Each pair of messages is compared once, however often it is met."""
        pair = reader.full_name, writer.full_name
        if pair in self._met:
            return []
        self._met[pair] = None
        mine, theirs = _definition(reader), _definition(writer)
        fields, written = {each.number: each for each in mine.field}, {each.number: each for each in theirs.field}
        self._budget.spend(1 + len(fields) + len(written))
        found = []
        for number, field in fields.items():
            path = _path(reader, field.name)
            before = written.get(number)
            if before is None:
                found += _compare_added(field, theirs, path)
            else:
                found += self._compare_fields(reader, writer, field, before, path)
        for number, before in written.items():
            if number not in fields:
                found += _compare_removed(before, mine, theirs, _path(reader, before.name))
        return found + _compare_oneofs(mine, theirs, _path(reader))

    def _compare_fields(
        self, reader: Any, writer: Any, field: pb.FieldDescriptorProto, before: pb.FieldDescriptorProto, path: str
    ) -> list[Difference]:
        number = field.number
        is_message, was_message = field.type == _Field.TYPE_MESSAGE, before.type == _Field.TYPE_MESSAGE
        if field.type != before.type and _CLASS_OF.get(field.type, -1) != _CLASS_OF.get(before.type, -2):
            kind = "FIELD_KIND_CHANGED" if is_message or was_message else "FIELD_SCALAR_KIND_CHANGED"
            told = f"the field with the number {number} is {_shown(field)}, and was written as {_shown(before)}"
            return [Difference(kind, path, told)]
        found = []
        required, was_required = field.label == _Field.LABEL_REQUIRED, before.label == _Field.LABEL_REQUIRED
        if required and not was_required:
            found.append(Difference("REQUIRED_FIELD_ADDED", path, "it is required, and may not have been written"))
        repeated, was_repeated = field.label == _Field.LABEL_REPEATED, before.label == _Field.LABEL_REPEATED
        if repeated != was_repeated and field.type not in _LAST_OF_SEVERAL:
            told = "it is repeated, and was one value" if repeated else "it is one value, and was repeated"
            found.append(Difference("FIELD_NUMERIC_LABEL_CHANGED", path, told))
        if is_message:
            inner, inner_before = (
                reader.fields_by_number[number].message_type,
                writer.fields_by_number[number].message_type,
            )
            is_map, was_map = inner.GetOptions().map_entry, inner_before.GetOptions().map_entry
            if is_map != was_map or (not is_map and inner.full_name != inner_before.full_name):
                told = f"it is {_shown(field)}, and was {_shown(before)}"
                return [*found, Difference("FIELD_NAMED_TYPE_CHANGED", path, told)]
            found += self.compare(inner, inner_before)
        return found


def _definition(message: Any) -> pb.DescriptorProto:
    proto = pb.DescriptorProto()
    message.CopyToProto(proto)
    return proto


def _shown(field: pb.FieldDescriptorProto) -> str:
    name: str = field.type_name.lstrip(".") or _Field.Type.Name(field.type).removeprefix("TYPE_").lower()
    return name


def _compare_added(field: pb.FieldDescriptorProto, theirs: pb.DescriptorProto, path: str) -> list[Difference]:
    if field.label == _Field.LABEL_REQUIRED:
        return [Difference("REQUIRED_FIELD_ADDED", path, "it is required, and was not written")]
    if any(each.start <= field.number < each.end for each in theirs.reserved_range):
        return [Difference("RESERVED_NUMBER_USED", path, f"the number {field.number} was reserved")]
    if field.name in theirs.reserved_name:
        return [Difference("RESERVED_NAME_USED", path, f"the name {field.name} was reserved")]
    return []


def _compare_removed(
    before: pb.FieldDescriptorProto, mine: pb.DescriptorProto, theirs: pb.DescriptorProto, path: str
) -> list[Difference]:
    if before.label == _Field.LABEL_REQUIRED:
        return [Difference("REQUIRED_FIELD_REMOVED", path, "it was required, and others who read still ask for it")]
    oneof = _oneof(before, theirs)
    if oneof is not None and oneof in {each.name for each in mine.oneof_decl}:
        return [Difference("ONEOF_FIELD_REMOVED", path, f"it was one of {oneof}, which seems not to be set without it")]
    return []


def _oneof(field: pb.FieldDescriptorProto, message: pb.DescriptorProto) -> str | None:
    """The oneof that a field is in; an optional one of proto3, which is alone in one, is in none."""
    if not field.HasField("oneof_index") or field.proto3_optional:
        return None
    name: str = message.oneof_decl[field.oneof_index].name
    return name


def _compare_oneofs(mine: pb.DescriptorProto, theirs: pb.DescriptorProto, path: str) -> list[Difference]:
    """Fields that could be written together, and of which reading keeps one."""
    before = {each.number: _oneof(each, theirs) for each in theirs.field}
    together: dict[str, list[pb.FieldDescriptorProto]] = {}
    for field in mine.field:
        name = _oneof(field, mine)
        if name is not None and field.number in before:
            together.setdefault(name, []).append(field)
    found = []
    for name, fields in together.items():
        sources = {before[field.number] for field in fields}
        if len(fields) > 1 and (None in sources or len(sources) > 1):
            told = f"{', '.join(field.name for field in fields)} exclude each other now, and could be written together"
            found.append(Difference("MULTIPLE_FIELDS_MOVED_TO_ONEOF", f"{path}/{name}", told))
    return found
