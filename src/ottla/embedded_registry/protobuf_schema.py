"""Protobuf schemas as the registry needs them: read with what they import, and kept as they were written.

A text is `.proto`, or the file's descriptor in base64, as confluent_kafka's serializers register it.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from ottla.embedded_registry.avro_schema import InvalidSchema
from ottla.embedded_registry.refusals import Refusal

if TYPE_CHECKING:
    from ottla.schemas.protobuf.schema import ProtobufSchema


# What stands in front of the name of an option in parentheses.
_BEFORE_OPTIONS = ("option", "[", ",")


def parse_protobuf(text: str, references: Mapping[str, str]) -> ProtobufSchema:
    """Raises InvalidSchema."""
    try:
        from ottla.schemas.protobuf.errors import ProtobufSchemaError
        from ottla.schemas.protobuf.schema import ProtobufSchema
    except ImportError:
        raise Refusal(
            422, "Protobuf schemas need an optional package: install ottla[schemas] where the registry runs."
        ) from None
    try:
        return ProtobufSchema(text, references=references)
    except ProtobufSchemaError as error:
        raise InvalidSchema(str(error)) from None


def meaning(text: str, references: Mapping[str, str]) -> str:
    """The same for all ways to write a schema down: as text, in any order, and as a descriptor in base64.

    A text with options that are not Protobuf's own says what its words say: its descriptor does not have them.
    """
    from ottla.schemas.protobuf.literals import json_name
    from ottla.schemas.protobuf.tokens import tokens

    if not is_serialized(text):
        words = [token.text for token in tokens(text, "schema.proto")]
        if any(word == "(" and before in _BEFORE_OPTIONS for before, word in pairwise(words)):
            return " ".join(words)
    proto = parse_protobuf(text, references).proto
    made = type(proto)()
    made.CopyFrom(proto)
    made.ClearField("name")
    made.ClearField("source_code_info")
    if made.syntax == "proto2":
        made.ClearField("syntax")
    for field in _fields(made.message_type, made.extension):
        if field.json_name == json_name(field.name):
            field.ClearField("json_name")
    return str(made.SerializeToString(deterministic=True).hex())


def is_serialized(text: str) -> bool:
    """Whether it is a descriptor in base64."""
    from ottla.schemas.protobuf.schema import is_serialized as is_base64

    return is_base64(text)


def normalized(text: str) -> str:
    """The text with the options of each block, and of each field, in the order of their names."""
    from ottla.schemas.protobuf.options import sorted_options

    return text if is_serialized(text) else sorted_options(text)


def _fields(messages: Any, extensions: Any) -> Iterator[Any]:
    yield from extensions
    for message in messages:
        yield from message.field
        yield from _fields(message.nested_type, message.extension)


def serialized(text: str, references: Mapping[str, str]) -> str:
    """The schema as a FileDescriptorProto in base64."""
    return base64.b64encode(parse_protobuf(text, references).proto.SerializeToString()).decode()
