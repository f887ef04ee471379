"""The options of `ottla produce` and `ottla read` about schemas of values, and what is made of them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from ottla.cli.json_line import read_line
from ottla.cli.registry_options import RegistryAccess
from ottla.cli.small_file import read_small_file
from ottla.errors import UserMistake

if TYPE_CHECKING:
    from ottla.client.schema_columns import SchemaChoice
    from ottla.registry.client import RegistryClient
    from ottla.registry.record_decoder import RecordDecoder
    from ottla.registry.registered import SchemaReference

FORMATS = "avro", "protobuf", "json"
_FORMATS_BY_ENDING = {".avsc": "avro", ".proto": "protobuf"}

ValueFormat = Annotated[
    str | None,
    typer.Option(
        "--value-format", help="Values are avro, protobuf or json, with a schema of --registry.", metavar="FORMAT"
    ),
]
SchemaFile = Annotated[
    Path | None,
    typer.Option("--value-schema", help="A file with the schema; by default the topic's latest one.", metavar="FILE"),
]
MessageName = Annotated[
    str | None,
    typer.Option("--value-message", help="The message of a Protobuf file; by default its first one.", metavar="NAME"),
]
SchemaIdIn = Annotated[
    str | None,
    typer.Option(
        "--schema-id-in",
        help="Records name their schema by its id in front of the value (prefix, the default) or by its GUID in a "
        "header (header).",
        metavar="PLACE",
    ),
]


class ValueSchema(NamedTuple):
    """What was said of the values. `imports` are the files that a Protobuf file imports, by name.

    `id_in`: where records that are sent name their schema.
    """

    format: str
    registry: RegistryClient
    schema: str | None
    message: str | None
    imports: Mapping[str, str] = {}
    id_in: str = "prefix"

    def choice(self, topic: str) -> SchemaChoice:
        """The same for the rows of a table."""
        from ottla.client.schema_columns import SchemaChoice

        schema: Any = self.schema
        if self.schema is not None and self.imports:
            from ottla.registry.registered import PROTOBUF

            schema = self.registry.register(f"{topic}-value", self.schema, PROTOBUF, self._references())
        return SchemaChoice(self.registry, schema, self.message, self.id_in)

    def serializer(self) -> Any:
        """What makes a value of a line of JSON."""
        from ottla.cli.value_lines import AvroLines, ProtobufLines
        from ottla.registry.serializers import JsonSchemaSerializer

        given: dict[str, Any] = {"use_latest_version": self.schema is None, "schema_id_in": self.id_in}
        if self.format == "avro":
            return AvroLines(self.registry, self.schema, **given)
        if self.format == "json":
            return JsonSchemaSerializer(self.registry, self.schema, to_dict=read_line, **given)
        given["references"] = self._references()
        return ProtobufLines(self.registry, self.schema, message=self.message, **given)

    def decoder(self, topic: str, time_unit: str = "ns") -> RecordDecoder:
        """What decodes the topic's values; `time_unit` is that of Protobuf's times, "us" or "ns"."""
        from ottla.registry.record_decoder import RecordDecoder

        schema: Any = self.schema
        if self.imports:
            from ottla.registry.registered import PROTOBUF, RegisteredSchema

            schema = RegisteredSchema(0, "", PROTOBUF, self.schema or "")
        return RecordDecoder.of(
            self.registry,
            self.format,
            topic,
            schema=schema,
            message=self.message,
            time_unit=time_unit,
            references=self.imports,
        )

    def _references(self) -> list[SchemaReference]:
        from ottla.cli.proto_files import register_imports

        return register_imports(self.registry, self.schema, self.imports) if self.schema and self.imports else []


def read_value_schema(
    value_format: str | None,
    registry: RegistryAccess,
    schema: Path | None,
    message: str | None,
    id_in: str | None = None,
) -> ValueSchema | None:
    """None where values are as they are; UserMistake for options that do not go together."""
    if value_format is None:
        # The environment may name a registry, and its user, for every command.
        options = {
            "--value-schema": schema,
            "--value-message": message,
            "--schema-id-in": id_in,
            "--registry-password-file": registry.password_file,
            "--registry-token-file": registry.token_file,
            "--registry-ca": registry.ca,
        }
        for option, given in options.items():
            if given is not None:
                raise UserMistake(f"{option} needs --value-format: give avro, protobuf or json, and --registry")
        return None
    if value_format not in FORMATS:
        raise UserMistake(f"--value-format {value_format} is not one of {', '.join(FORMATS)}")
    if not registry.url:
        raise UserMistake(f"--value-format {value_format} needs --registry: the address of a schema registry")
    if message is not None and value_format != "protobuf":
        raise UserMistake("--value-message is for --value-format protobuf")
    from ottla.registry.columns import ID_IN

    if id_in not in (None, *ID_IN):
        raise UserMistake(f"--schema-id-in {id_in} is not one of {', '.join(ID_IN)}")
    if schema is not None and value_format != (meant := _FORMATS_BY_ENDING.get(schema.suffix.lower(), value_format)):
        raise UserMistake(
            f"--value-schema {schema} is a schema of {meant} by its name, and --value-format is {value_format}: give "
            f"--value-format {meant}, or another file"
        )
    client = registry.client()
    text = None if schema is None else read_small_file(schema, "--value-schema", "takes the text of a schema")
    imports: Mapping[str, str] = {}
    if schema is not None and text is not None and value_format == "protobuf":
        from ottla.cli.proto_files import read_imports

        imports = read_imports(schema, text)
    return ValueSchema(value_format, client, text, message, imports, id_in or "prefix")
