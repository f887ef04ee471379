"""One object <-> the bytes of its payload, by a registered schema: what serializers do to a record, and back."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from ottla.errors import MissingExtra
from ottla.registry.registered import AVRO, JSON, RegisteredSchema

# An object and what stands in front of its payload.
Encode = Callable[[Any, bytes], bytes]
# A record's key or value, and where the payload begins in it.
Decode = Callable[[bytes, int], Any]


def encoder(schema: RegisteredSchema, references: Mapping[str, str], message: str | None) -> tuple[Encode, Any]:
    """(what makes bytes of an object, the message's indexes in a file of Protobuf; None for other kinds)."""
    if schema.kind == AVRO:
        from ottla.schemas.avro.encode_rows import AvroRowEncoder

        return AvroRowEncoder(schema.text, references=references), None
    if schema.kind == JSON:
        encode_json = _json(schema.text, references).encode_one
        return lambda given, prefix: prefix + encode_json(given), None
    objects = _objects(schema, references, message)
    return lambda given, prefix: prefix + objects.encode_one(given), objects.indexes


def decoder(writer: RegisteredSchema, references: Mapping[str, str], reader: str | None, message: str | None) -> Decode:
    """What makes an object of a payload, from a byte on; `reader` is the text of another schema to read as."""
    if writer.kind == AVRO:
        from ottla.schemas.avro.decode_rows import AvroRowDecoder

        return AvroRowDecoder(writer.text, reader, references=references).decode_one
    if writer.kind == JSON:
        decode_json = _json(writer.text if reader is None else reader, references).decode_one
        return lambda stored, begin: decode_json(stored[begin:])
    shown = writer if reader is None else RegisteredSchema(writer.id, writer.guid, writer.kind, reader)
    objects = _objects(shown, references, message)
    return lambda stored, begin: objects.decode_one(stored[begin:])


def record_name(schema: RegisteredSchema | str, kind: str, references: Mapping[str, str], message: str | None) -> str:
    """The full name that strategies for subjects ask for; "" where a schema has none."""
    text = schema if isinstance(schema, str) else schema.text
    if kind == AVRO:
        return str(getattr(_parsed(text, references), "name", ""))
    if kind == JSON:
        read = json.loads(text)
        return str(read.get("title", "")) if isinstance(read, dict) else ""
    from ottla.schemas.protobuf.schema import ProtobufSchema

    return str(ProtobufSchema(text, references=references).message(message).full_name)


def _parsed(text: str, references: Mapping[str, str]) -> Any:
    from ottla.schemas.avro.schema import parse_schema

    return parse_schema(text, references=references)


def _json(text: str, references: Mapping[str, str]) -> Any:
    from ottla.schemas.json_schema import JsonSchema

    return JsonSchema(text, references=references)


def _objects(schema: RegisteredSchema, references: Mapping[str, str], message: str | None) -> Any:
    try:
        from ottla.schemas.protobuf.objects import ProtobufObjects
    except ModuleNotFoundError as error:
        raise _missing("Protobuf", error) from None
    return ProtobufObjects(schema.text, message, references=references)


def _missing(what: str, error: ModuleNotFoundError) -> MissingExtra:
    return MissingExtra(f"{what} needs {error.name}, which is not installed: pip install 'ottla[schemas]'")
