"""Resolves the type names in a file's descriptor to full names, by the scoping rules of C++, as protoc does.

A name is looked up in the innermost message first, then outwards, then in the packages. The first part of a dotted name
decides: if it is a message or a package there, the rest has to be in it.

A map has a message for its entries, which only the map itself may use. Protobuf's runtimes rely on its fields, so
such a message with other fields, or one that another field uses, is an error.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from google.protobuf import descriptor_pb2 as pb

from ottla.schemas.protobuf.errors import ProtobufSchemaError

_MESSAGE: Final = "message"
_ENTRY: Final = "entry of a map"
_ENUM: Final = "enum"
_PACKAGE: Final = "package"
_TYPES: Final = (_MESSAGE, _ENTRY, _ENUM)
_Field: Final = pb.FieldDescriptorProto
_NO_KEYS: Final = {
    _Field.TYPE_DOUBLE, _Field.TYPE_FLOAT, _Field.TYPE_BYTES, _Field.TYPE_MESSAGE, _Field.TYPE_ENUM, _Field.TYPE_GROUP,
}  # fmt: skip


def declared(proto: pb.FileDescriptorProto) -> dict[str, str]:
    """What a file declares, by full name: messages, enums, and its package with the packages around it."""
    found: dict[str, str] = {}
    parts = proto.package.split(".") if proto.package else []
    for length in range(1, len(parts) + 1):
        found[".".join(parts[:length])] = _PACKAGE
    _declare(proto.package, proto.message_type, proto.enum_type, found)
    return found


def _declare(scope: str, messages: Any, enums: Any, found: dict[str, str]) -> None:
    for enum in enums:
        found[_in(scope, enum.name)] = _ENUM
    for message in messages:
        name = _in(scope, message.name)
        found[name] = _ENTRY if message.options.map_entry else _MESSAGE
        _declare(name, message.nested_type, message.enum_type, found)


def resolve(proto: pb.FileDescriptorProto, visible: Iterable[dict[str, str]]) -> None:
    """Replace every type name by its full name; `visible` is what the file and its imports declare."""
    known: dict[str, str] = {}
    for each in visible:
        known.update(each)
    _check_entries(proto, proto.package, proto.message_type)
    for scope, field in _fields(proto.package, proto.message_type, proto.extension):
        if field.type_name:
            whole, kind = _find(field.type_name, scope, known, proto.name, f"field {field.name}")
            field.type_name = f".{whole}"
            if kind == _ENTRY and (field.label != field.LABEL_REPEATED or whole.rpartition(".")[0] != scope):
                raise ProtobufSchemaError(
                    f"{proto.name}: field {field.name} of {scope} has no map of its own as its type."
                )
            if kind == _ENUM:
                field.type = field.TYPE_ENUM
            elif field.type != field.TYPE_GROUP:
                field.type = field.TYPE_MESSAGE
        if field.extendee:
            field.extendee = "." + _find(field.extendee, scope, known, proto.name, f"field {field.name}")[0]
    for service in proto.service:
        scope = _in(proto.package, service.name)
        for method in service.method:
            place = f"rpc {method.name}"
            method.input_type = "." + _find(method.input_type, scope, known, proto.name, place)[0]
            method.output_type = "." + _find(method.output_type, scope, known, proto.name, place)[0]


def _check_entries(proto: pb.FileDescriptorProto, scope: str, messages: Any) -> None:
    for message in messages:
        name = _in(scope, message.name)
        _check_entries(proto, name, message.nested_type)
        if message.options.map_entry and (
            [(field.name, field.number, field.label) for field in message.field]
            != [("key", 1, _Field.LABEL_OPTIONAL), ("value", 2, _Field.LABEL_OPTIONAL)]
            or message.field[0].type in _NO_KEYS
            or message.field[1].type == _Field.TYPE_GROUP
            or message.oneof_decl
            or message.extension_range
        ):
            raise ProtobufSchemaError(f"{proto.name}: message {name} is no entry of a map.")


def _fields(scope: str, messages: Any, extensions: Any) -> Iterator[tuple[str, pb.FieldDescriptorProto]]:
    for extension in extensions:
        yield scope, extension
    for message in messages:
        name = _in(scope, message.name)
        for field in message.field:
            yield name, field
        yield from _fields(name, message.nested_type, message.extension)


def _find(name: str, scope: str, known: dict[str, str], file: str, place: str) -> tuple[str, str]:
    if name.startswith("."):
        kind = known.get(name[1:])
        if kind in _TYPES:
            return name[1:], kind
        raise _missing(name, file, place)
    first, _, rest = name.partition(".")
    while True:
        kind = known.get(_in(scope, first))
        if kind is not None and rest:
            whole = f"{_in(scope, first)}.{rest}"
            kind = known.get(whole)
            if kind in _TYPES:
                return whole, kind
            raise ProtobufSchemaError(
                f"{file}: the type {name[:200]!r} of {place} is looked for as {whole[:200]!r}, which is not there; "
                f"write '.{name[:200]}' if the outer one is meant."
            )
        if kind in _TYPES:
            return _in(scope, first), kind
        if not scope:
            raise _missing(name, file, place)
        scope = scope.rpartition(".")[0]


def _missing(name: str, file: str, place: str) -> ProtobufSchemaError:
    return ProtobufSchemaError(f"{file}: the type {name[:200]!r} of {place} is neither in the file nor in its imports.")


def _in(scope: str, name: str) -> str:
    return f"{scope}.{name}" if scope else name
