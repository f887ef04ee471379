"""Lines of JSON -> values of Avro or Protobuf, by the schema of the topic."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

from ottla.cli.json_line import read_line
from ottla.errors import RecordError
from ottla.registry.codecs import Encode
from ottla.registry.registered import RegisteredSchema
from ottla.registry.serializers import AvroSerializer, ProtobufSerializer
from ottla.schemas.avro.from_json import from_json
from ottla.schemas.avro.schema import parse_schema

_SHOWN_MAX = 300


class AvroLines(AvroSerializer):
    """A serializer of lines."""

    def prepare(self, topic: str, part: str) -> tuple[RegisteredSchema, Encode, Any]:
        """The same, for lines instead of objects."""
        schema, encode, indexes = super().prepare(topic, part)
        type_ = parse_schema(schema.text, references=self._registry.referred(schema))
        return schema, _by_line(encode, lambda line: from_json(read_line(line, parse_float=Decimal), type_)), indexes


class ProtobufLines(ProtobufSerializer):
    """A serializer of lines, which are Protobuf's own JSON."""

    def prepare(self, topic: str, part: str) -> tuple[RegisteredSchema, Encode, Any]:
        """The same, for lines instead of objects."""
        from google.protobuf import json_format

        from ottla.schemas.protobuf.schema import ProtobufSchema

        schema, encode, indexes = super().prepare(topic, part)
        made = ProtobufSchema(schema.text, references=self._registry.referred(schema))
        message_class = made.message_class(self._message)

        def message(line: Any) -> Any:
            value = read_line(line)
            if not isinstance(value, dict):
                raise RecordError(f"The line is {line[:60]!r}, and a message is a JSON object.")
            try:
                return json_format.ParseDict(value, message_class())
            except (json_format.ParseError, AttributeError, TypeError, ValueError, RecursionError) as error:
                told = str(error).removesuffix(".").removesuffix(" at the top-level")
                raise RecordError(
                    f"The line is no message {made.message(self._message).full_name}: {told:.{_SHOWN_MAX}}."
                ) from None

        return schema, _by_line(encode, message), indexes


def _by_line(encode: Encode, read: Callable[[Any], Any]) -> Encode:
    return lambda line, prefix: encode(read(line), prefix)
