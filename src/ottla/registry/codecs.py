"""One object <-> the bytes of its payload, by a registered schema: what serializers do to a record, and back."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Mapping
from typing import Any

from ottla.errors import ConfigError, MissingExtra
from ottla.registry.registered import AVRO, JSON, RegisteredSchema

Encode = Callable[[Any], bytes]
Decode = Callable[[bytes], Any]


def encoder(schema: RegisteredSchema, references: Mapping[str, str], message: str | None) -> tuple[Encode, Any]:
    """(what makes bytes of an object, the message's indexes in a file of Protobuf; None for other kinds)."""
    if schema.kind == AVRO:
        return _avro_encoder(schema.text, references), None
    if schema.kind == JSON:
        from ottla.schemas.json_schema import JsonSchema  # type: ignore[import-not-found]

        return JsonSchema(schema.text, references=references).encode_one, None
    objects = _objects(schema, references, message)
    return objects.encode_one, objects.indexes


def decoder(writer: RegisteredSchema, references: Mapping[str, str], reader: str | None, message: str | None) -> Decode:
    """What makes an object of bytes; `reader` is the text of another schema to read as."""
    if writer.kind == AVRO:
        return _avro_decoder(writer.text, references, reader)
    if writer.kind == JSON:
        from ottla.schemas.json_schema import JsonSchema

        read: Decode = JsonSchema(writer.text if reader is None else reader, references=references).decode_one
        return read
    shown = writer if reader is None else RegisteredSchema(writer.id, writer.guid, writer.kind, reader)
    found: Decode = _objects(shown, references, message).decode_one
    return found


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


def _objects(schema: RegisteredSchema, references: Mapping[str, str], message: str | None) -> Any:
    try:
        from ottla.schemas.protobuf.objects import ProtobufObjects
    except ModuleNotFoundError as error:
        raise _missing("Protobuf", error) from None
    return ProtobufObjects(schema.text, message, references=references)


# ---------------------------------------------------------------------- Avro


def _fastavro() -> Any:
    try:
        import fastavro
    except ModuleNotFoundError as error:
        raise _missing("Avro objects", error) from None
    return fastavro


def _missing(what: str, error: ModuleNotFoundError) -> MissingExtra:
    return MissingExtra(f"{what} need {error.name}, which is not installed: pip install 'ottla[schemas]'")


def _of_fastavro(text: str, references: Mapping[str, str]) -> Any:
    """The schema as fastavro has it; ConfigError for one that is none."""
    fastavro = _fastavro()
    # What is wrong with it is told in our own words.
    _parsed(text, references)
    named: dict[str, Any] = {}
    for each in references.values():
        fastavro.parse_schema(json.loads(each), named_schemas=named)
    try:
        return fastavro.parse_schema(json.loads(text), named_schemas=named)
    except fastavro.schema.SchemaParseException as error:
        raise ConfigError(f"fastavro cannot use the Avro schema: {error}") from error


def _avro_encoder(text: str, references: Mapping[str, str]) -> Encode:
    schema, write = _of_fastavro(text, references), _fastavro().schemaless_writer

    def encode(given: Any) -> bytes:
        written = io.BytesIO()
        write(written, schema, given)
        return written.getvalue()

    return encode


def _avro_decoder(text: str, references: Mapping[str, str], reader: str | None) -> Decode:
    schema, read = _of_fastavro(text, references), _fastavro().schemaless_reader
    shown = None if reader is None else _of_fastavro(reader, references)

    def decode(stored: bytes) -> Any:
        payload = io.BytesIO(stored)
        found = read(payload, schema, shown)
        left = len(stored) - payload.tell()
        if left:
            raise ValueError(f"{left} bytes are left behind the value")
        return found

    return decode
