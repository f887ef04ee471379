"""Protobuf schemas as the registry needs them: read with what they import, and kept as they were written.

A text is `.proto`, or the file's descriptor in base64, as confluent_kafka's serializers register it.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import TYPE_CHECKING

from ottla.embedded_registry.avro_schema import InvalidSchema
from ottla.embedded_registry.refusals import Refusal

if TYPE_CHECKING:
    from ottla.schemas.protobuf.schema import ProtobufSchema


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


def meaning(text: str) -> str:
    """The text without comments and spaces, which is the same for all ways to write it down."""
    from ottla.schemas.protobuf.tokens import tokens

    return " ".join(token.text for token in tokens(text, "schema.proto"))


def serialized(text: str, references: Mapping[str, str]) -> str:
    """The schema as a FileDescriptorProto in base64."""
    return base64.b64encode(parse_protobuf(text, references).proto.SerializeToString()).decode()
