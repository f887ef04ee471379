"""Lines of JSON -> values of Avro, by the schema of the topic."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from ottla.cli.json_line import read_line
from ottla.registry.codecs import Encode
from ottla.registry.registered import RegisteredSchema
from ottla.registry.serializers import AvroSerializer
from ottla.schemas.avro.from_json import from_json
from ottla.schemas.avro.schema import parse_schema


class AvroLines(AvroSerializer):
    """A serializer of lines."""

    def prepare(self, topic: str, part: str) -> tuple[RegisteredSchema, Encode, Any]:
        """The same, for lines instead of objects."""
        schema, encode, indexes = super().prepare(topic, part)
        type_ = parse_schema(schema.text, references=self._registry.referred(schema))

        def encode_line(line: Any, prefix: bytes) -> bytes:
            return encode(from_json(read_line(line, parse_float=Decimal), type_), prefix)

        return schema, encode_line, indexes
