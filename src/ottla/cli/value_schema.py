"""The options by which `ottla produce` and `ottla read` speak of a schema registry, and what is made of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

from ottla.cli.small_file import read_small_file
from ottla.errors import RecordError, UserMistake

FORMATS = "avro", "protobuf", "json"

ValueFormat = Annotated[
    str | None,
    typer.Option(
        "--value-format", help="Values are avro, protobuf or json, with a schema of --registry.", metavar="FORMAT"
    ),
]
RegistryUrl = Annotated[
    str | None,
    typer.Option(
        "--registry",
        help="The schema registry's address, several with commas.",
        metavar="URL",
        envvar="OTTLA_REGISTRY",
        show_envvar=False,
    ),
]
SchemaFile = Annotated[
    Path | None,
    typer.Option("--value-schema", help="The schema, in a file; the topic's latest one unless given.", metavar="FILE"),
]
MessageName = Annotated[
    str | None,
    typer.Option("--value-message", help="The message of a Protobuf file; its first one unless given.", metavar="NAME"),
]


class ValueSchema(NamedTuple):
    """What was said of the values."""

    format: str
    registry: str
    schema: str | None
    message: str | None

    def of_table(self) -> dict[str, Any]:
        """As arguments of `send_table`."""
        return {
            "value_format": self.format,
            "registry": self.registry,
            "value_schema": self.schema,
            "value_message": self.message,
        }

    def serializer(self) -> Any:
        """What makes a value of a line of JSON."""
        from ottla.cli.avro_lines import AvroLines
        from ottla.registry.serializers import JsonSchemaSerializer, ProtobufSerializer

        given: dict[str, Any] = {"use_latest_version": self.schema is None}
        if self.format == "avro":
            return AvroLines(self.registry, self.schema, **given)
        if self.format == "json":
            return JsonSchemaSerializer(self.registry, self.schema, to_dict=read_line, **given)
        return ProtobufSerializer(self.registry, self.schema, message=self.message, to_dict=read_line, **given)


def read_value_schema(
    value_format: str | None, registry: str | None, schema: Path | None, message: str | None
) -> ValueSchema | None:
    """None where values are as they are; UserMistake for options that do not go together."""
    if value_format is None:
        # The environment may name a registry for every command.
        for option, given in (("--value-schema", schema), ("--value-message", message)):
            if given is not None:
                raise UserMistake(f"{option} needs --value-format: give avro, protobuf or json, and --registry")
        return None
    if value_format not in FORMATS:
        raise UserMistake(f"--value-format {value_format} is not one of {', '.join(FORMATS)}")
    if not registry:
        raise UserMistake(f"--value-format {value_format} needs --registry: the address of a schema registry")
    if message is not None and value_format != "protobuf":
        raise UserMistake("--value-message is for --value-format protobuf")
    text = None if schema is None else read_small_file(schema, "--value-schema", "takes the text of a schema")
    return ValueSchema(value_format, registry, text, message)


def read_line(line: bytes, **how: Any) -> Any:
    """What a line of JSON says; RecordError."""
    try:
        return json.loads(line, **how)
    except ValueError as error:
        raise RecordError(
            f"{line[:60].decode('utf-8', 'replace')!r} is not JSON ({error}); with --value-format each line is a JSON "
            "object."
        ) from None
