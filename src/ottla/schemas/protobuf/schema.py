"""A Protobuf schema as a registry keeps it: one file, the files it imports, and the messages in it.

Each file is `.proto` text, or its FileDescriptorProto in base64 (what registries return for `format=serialized`). The
files of Protobuf itself (`google/protobuf/timestamp.proto` and so on) and those that are built into Confluent's
registry (`google/type/money.proto` and so on) need not be given. Protobuf's own runtime checks names, numbers and
ranges, in a descriptor pool for this schema alone.

Invariant: bytes, files and depth of a schema are limited.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from importlib import import_module
from typing import Any, Final

from google.protobuf import descriptor_pb2 as pb
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClass

from ottla.schemas.protobuf.errors import ProtobufSchemaError
from ottla.schemas.protobuf.google_types import GOOGLE_TYPES
from ottla.schemas.protobuf.names import declared, resolve
from ottla.schemas.protobuf.parse import parse_file

_TEXT_MAX: Final = 4_000_000
_FILES_MAX: Final = 300
_PACKAGE_MAX: Final = 500
_BASE64: Final = re.compile(r"[A-Za-z0-9+/\s]+=*\s*")
_GOOGLE: Final = {
    f"google/protobuf/{name}.proto": f"google.protobuf.{name}_pb2"
    for name in (
        "any", "api", "descriptor", "duration", "empty", "field_mask", "source_context", "struct", "timestamp", "type",
        "wrappers",
    )
}  # fmt: skip
_CONFLUENT: Final = {
    **GOOGLE_TYPES,
    "confluent/type/decimal.proto": """
        syntax = "proto3"; package confluent.type;
        message Decimal { bytes value = 1; uint32 precision = 2; int32 scale = 3; }""",
    # Its extensions are for options, which no payload depends on.
    "confluent/meta.proto": """
        syntax = "proto3"; package confluent;
        message Meta { string doc = 1; map<string, string> params = 2; repeated string tags = 3; }""",
}


def is_serialized(text: str) -> bool:
    """Whether a schema may be a FileDescriptorProto in base64, and is no `.proto` text."""
    return _BASE64.fullmatch(text) is not None


def is_built_in(name: str) -> bool:
    """Whether a file of this name need not be given."""
    return name in _GOOGLE or name in _CONFLUENT


class ProtobufSchema:
    """`text` with the files it imports, by the names they are imported by."""

    def __init__(self, text: str, *, references: Mapping[str, str] | None = None, name: str = "schema.proto") -> None:
        given = dict(references or {})
        size = len(text) + sum(map(len, given.values()))
        if size > _TEXT_MAX:
            raise ProtobufSchemaError(
                f"The schema and its references have {size} characters; at most {_TEXT_MAX} are read."
            )
        while name in given:
            name = f"_{name}"
        self._given = given
        self._pool = DescriptorPool()
        self._names: dict[str, dict[str, str]] = {}
        self._seen_by_importers: dict[str, list[str]] = {}
        self._protos: dict[str, pb.FileDescriptorProto] = {}
        self._open: list[str] = []
        self.proto = self._add(name, text)
        self.file: Any = self._pool.FindFileByName(name)

    # ------------------------------------------------------------------ files

    def _add(self, name: str, text: str) -> pb.FileDescriptorProto:
        """Read a file and, before it, all that it imports."""
        if len(self._protos) + len(self._open) >= _FILES_MAX:
            raise ProtobufSchemaError(f"The schema imports more than {_FILES_MAX} files.")
        proto = _read(text, name)
        if any(not 0 <= index < len(proto.dependency) for index in proto.public_dependency):
            raise ProtobufSchemaError(f"{name} is a descriptor with a public import that is not among its imports.")
        self._open.append(name)
        for imported in proto.dependency:
            self._import(imported, name)
        self._open.pop()
        # Each file only once: the number of import paths to a file can double with every file between.
        visible = dict.fromkeys(imported for each in proto.dependency for imported in self._seen_by_importers[each])
        public = [self._seen_by_importers[proto.dependency[index]] for index in proto.public_dependency]
        self._seen_by_importers[name] = list(dict.fromkeys([name, *(seen for each in public for seen in each)]))
        self._names[name] = declared(proto)
        resolve(proto, [*(self._names[each] for each in visible), self._names[name]])
        self._put(proto)
        return proto

    def _import(self, imported: str, by: str) -> None:
        if imported in self._open:
            raise ProtobufSchemaError(f"{by} imports {imported!r}, which imports {by} in turn.")
        if imported in self._protos:
            return
        if imported in self._given:
            self._add(imported, self._given[imported])
        elif imported in _GOOGLE:
            self._add_own(imported)
        elif imported in _CONFLUENT:
            self._add(imported, _CONFLUENT[imported])
        else:
            known = ", ".join(map(repr, list(self._given)[:20])) or "none"
            raise ProtobufSchemaError(
                f"{by} imports {imported!r}, which is not among the references; those given are {known}. Give it as "
                "one; with a registry, register it first and refer to it."
            )

    def _add_own(self, name: str) -> None:
        """Add a file of Protobuf itself."""
        proto = pb.FileDescriptorProto()
        proto.ParseFromString(import_module(_GOOGLE[name]).DESCRIPTOR.serialized_pb)
        for imported in proto.dependency:
            self._import(imported, name)
        self._names[name] = declared(proto)
        self._seen_by_importers[name] = [name]
        self._put(proto)

    def _put(self, proto: pb.FileDescriptorProto) -> None:
        self._protos[proto.name] = proto
        try:
            self._pool.AddSerializedFile(proto.SerializeToString())
            self._pool.FindFileByName(proto.name)
        except (TypeError, KeyError, UnicodeError) as error:
            reason = str(error).rpartition("descriptor pool: ")[2].strip().rstrip(".")
            raise ProtobufSchemaError(f"{proto.name} is not a valid schema: {reason}.") from None

    # ------------------------------------------------------------------ messages

    def message(self, name: str | None = None) -> Any:
        """The descriptor of a message: by its full name, by its name in the file's package, or the file's first."""
        if name is None:
            return self.message_at((0,))
        for whole in (name, f"{self.file.package}.{name}"):
            try:
                return self._pool.FindMessageTypeByName(whole)
            except KeyError:
                pass
        known = ", ".join(repr(each.full_name) for each in list(self.file.message_types_by_name.values())[:20])
        raise ProtobufSchemaError(f"There is no message {name!r} in {self.file.name}; it has {known or 'none'}.")

    def message_at(self, indexes: tuple[int, ...]) -> Any:
        """The message that the wire format names by these indexes: (2, 0) is the first one inside the third."""
        messages = list(self.proto.message_type)
        names = []
        for index in indexes:
            if not 0 <= index < len(messages):
                raise ProtobufSchemaError(
                    f"There is no message with indexes {tuple(indexes)} in {self.file.name}"
                    + (f": it has {len(self.proto.message_type)} messages." if len(indexes) == 1 else ".")
                )
            names.append(messages[index].name)
            messages = list(messages[index].nested_type)
        if not names:
            raise ProtobufSchemaError("A message is named by one index or more; there is none.")
        return self._pool.FindMessageTypeByName(".".join([self.file.package, *names] if self.file.package else names))

    def indexes_of(self, descriptor: Any) -> tuple[int, ...]:
        """The indexes by which the wire format names a message of this file."""
        if descriptor.file.name != self.file.name:
            raise ProtobufSchemaError(
                f"The message {descriptor.full_name!r} is in {descriptor.file.name!r}; "
                f"a record names messages of {self.file.name!r} only."
            )
        chain = []
        while descriptor is not None:
            chain.append(descriptor.name)
            descriptor = descriptor.containing_type
        indexes = []
        messages = self.proto.message_type
        for name in reversed(chain):
            index = [each.name for each in messages].index(name)
            indexes.append(index)
            messages = messages[index].nested_type
        return tuple(indexes)

    def message_class(self, name: str | None = None) -> Any:
        """The class of a message in Protobuf's own runtime."""
        return GetMessageClass(self.message(name))

    def serialized(self) -> str:
        """The file's FileDescriptorProto in base64, as registries exchange it."""
        return base64.b64encode(self.proto.SerializeToString()).decode()


def _read(text: str, name: str) -> pb.FileDescriptorProto:
    if not is_serialized(text):
        return parse_file(text, name)
    proto = pb.FileDescriptorProto()
    try:
        proto.ParseFromString(base64.b64decode(text, validate=False))
    except (binascii.Error, DecodeError, UnicodeError):
        raise ProtobufSchemaError(f"{name} is neither .proto text nor a FileDescriptorProto in base64.") from None
    if proto.syntax not in ("", "proto2", "proto3"):
        raise ProtobufSchemaError(f"{name}: {proto.syntax} is not supported; use syntax 'proto2' or 'proto3'.")
    if not _is_text(proto):
        raise ProtobufSchemaError(f"{name}: a name or a text in the FileDescriptorProto is not UTF-8.")
    if len(proto.package) > _PACKAGE_MAX:
        raise ProtobufSchemaError(f"{name}: the package's name is longer than {_PACKAGE_MAX} letters.")
    # A schema from a registry has no file name, or that of another place.
    proto.name = name
    return proto


def _is_text(message: Any) -> bool:
    """Whether all texts are UTF-8; others are bytes in the runtime, because descriptors are proto2."""
    for field, value in message.ListFields():
        for each in value if field.is_repeated else [value]:
            if field.type == field.TYPE_STRING and not isinstance(each, str):
                return False
            if field.type == field.TYPE_MESSAGE and not _is_text(each):
                return False
    return True
