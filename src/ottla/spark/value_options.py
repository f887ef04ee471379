"""The options about values that have a schema of a registry: the same for the source and the sink."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from ottla.errors import ConfigError
from ottla.registry.client import RegistryClient
from ottla.registry.columns import FORMATS, ID_IN

VALUE_FORMAT: Final = "value.format"
REGISTRY: Final = "registry"
REGISTRY_SETTING: Final = "registry."
VALUE_SCHEMA: Final = "value.schema"
VALUE_MESSAGE: Final = "value.message"
SUBJECT: Final = "subject"
SCHEMA_ID_IN: Final = "schema.id.in"
UNDECODABLE: Final = "undecodable"
NAMES: Final = (VALUE_FORMAT, REGISTRY, VALUE_SCHEMA, VALUE_MESSAGE, SUBJECT, SCHEMA_ID_IN)


@dataclass(slots=True, frozen=True)
class ValueOptions:
    """What was said of the values. `schema` is a text, or the id of a schema that is registered.

    `schema_id_in`: where a record that is written names it.
    """

    format: str
    registry: RegistryClient
    schema: str | int | None = None
    message: str | None = None
    subject: str | None = None
    schema_id_in: str = ID_IN[0]


def read_value_options(given: Mapping[str, str]) -> ValueOptions | None:
    """By names in lower case; None where values are bytes as they are. ConfigError, without passwords."""
    value_format = given.get(VALUE_FORMAT)
    others = [name for name in given if name in (*NAMES, UNDECODABLE) or name.startswith(REGISTRY_SETTING)]
    if value_format is None:
        if others:
            raise ConfigError(f"The option {others[0]} is for values with a schema: add the option value.format.")
        return None
    word = value_format.strip().lower()
    if word not in FORMATS:
        raise ConfigError(f"The option value.format is {value_format!r:.60}: it must be {' or '.join(FORMATS)}.")
    if not given.get(REGISTRY, "").strip():
        raise ConfigError(f"The option value.format={word} needs the option registry: the address of the registry.")
    for name in (VALUE_SCHEMA, VALUE_MESSAGE, SUBJECT):
        if name in given and not given[name].strip():
            raise ConfigError(f"The option {name} is empty: give it, or leave it out.")
    if VALUE_MESSAGE in given and word != "protobuf":
        raise ConfigError("The option value.message is for value.format=protobuf: leave it out.")
    id_in = given.get(SCHEMA_ID_IN, ID_IN[0]).strip().lower()
    if id_in not in ID_IN:
        raise ConfigError(f"The option schema.id.in is {id_in!r:.60}: it must be {' or '.join(ID_IN)}.")
    settings: dict[str, Any] = {
        name.removeprefix(REGISTRY_SETTING): value for name, value in given.items() if name.startswith(REGISTRY_SETTING)
    }
    try:
        registry = RegistryClient(given[REGISTRY], settings)
    except ConfigError as error:
        raise ConfigError(f"Among the options registry and registry.*: {error}") from None
    schema = _read_schema(given.get(VALUE_SCHEMA))
    return ValueOptions(word, registry, schema, given.get(VALUE_MESSAGE), given.get(SUBJECT), id_in)


def _read_schema(text: str | None) -> str | int | None:
    # A number is never a schema: not in Avro, not in JSON Schema, and not in a .proto file.
    word = (text or "").strip()
    return int(word) if word.isascii() and word.isdigit() and len(word) <= len(str(2**31)) else text
