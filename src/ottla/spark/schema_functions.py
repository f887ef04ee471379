"""Avro and Protobuf with a schema registry as functions of DataFrame columns, by Arrow and without an object per row.

Spark's own `from_avro` reads payloads without the registry's header, as one schema that must be the writer's. These
know the header: each value is decoded by the schema that it names and read as one schema, so the column has one type.
"""

from __future__ import annotations

import pickle
import re
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame, functions
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import BinaryType, DataType, StringType, StructField, StructType

from ottla.errors import ConfigError
from ottla.registry.client import RegistryClient
from ottla.registry.columns import ColumnEncoder, client_of, kind_of
from ottla.registry.registered import RegisteredSchema
from ottla.schemas.avro.derived import derive_schema
from ottla.spark.option_table import DEAD_LETTER
from ottla.spark.value_decoding import ValueDecoder, kept, value_decoder

Registry = str | Sequence[str] | RegistryClient
Schema = str | RegisteredSchema | None


def from_avro(
    column: Column | str,
    *,
    registry: Registry,
    subject: str | None = None,
    schema: Schema = None,
    mode: str = "fail",
    headers: Column | str | None = None,
    part: str | None = None,
) -> Column:
    """Decode a binary column of Avro values, each by the schema that it names in `registry`.

    All are read as `schema` (a text, or one that is registered), else as the latest one of `subject`, by the rules of
    Avro's specification. `headers` is the records' column of headers, where schemas are named there: those of keys in
    one header, those of values in another. `part` says which of them the column is, "key" or "value"; unless it is
    given, a column called `key` or a subject that ends with `-key` stands for keys. With mode="fail" a value that
    cannot be decoded ends the query; with "null" it is null; with "dead-letter" the column is a struct of `value` and
    `error`, of which one is null. ConfigError, RegistryError.
    """
    part = part_of(column, subject, part)
    return _decoded(column, headers, _decoder("avro", registry, subject, schema, None, mode, part))


def to_avro(column: Column | str, *, registry: Registry, subject: str | None = None, schema: Schema = None) -> Column:
    """Encode a struct column as Avro values that name their schema in `registry`; null stays null.

    `schema` is a text, which is registered under `subject`, or one that is registered; without it, the latest one of
    `subject` is taken. `avro_schema` tells the text of a DataFrame's own schema. ConfigError, RegistryError.
    """
    return _encoded(column, "avro", registry, subject, schema, None)


def from_protobuf(
    column: Column | str,
    *,
    registry: Registry,
    subject: str | None = None,
    schema: Schema = None,
    message: str | None = None,
    mode: str = "fail",
    headers: Column | str | None = None,
    part: str | None = None,
) -> Column:
    """As `from_avro` for Protobuf; `message` names the message of the file, its first one by default.

    No generated classes are needed. Fields go by their numbers; those that the schema does not have are left out.
    """
    part = part_of(column, subject, part)
    return _decoded(column, headers, _decoder("protobuf", registry, subject, schema, message, mode, part))


def to_protobuf(
    column: Column | str,
    *,
    registry: Registry,
    subject: str | None = None,
    schema: Schema = None,
    message: str | None = None,
) -> Column:
    """As `to_avro` for Protobuf; `message` names the message of the file, its first one by default."""
    return _encoded(column, "protobuf", registry, subject, schema, message)


def avro_schema(of: DataFrame | StructType, name: str = "value") -> str:
    """The text of the Avro schema that a DataFrame's columns, or a struct's fields, have by themselves."""
    return derive_schema(to_arrow_schema(of if isinstance(of, StructType) else of.schema, timezone="UTC"), name)


# ---------------------------------------------------------------------- decoding


PARTS = ("key", "value")
# How Spark shows a column by its name: Column<'records.key'>.
_SHOWN = re.compile(r"Column<'(?:.*\.)?(.*)'>")


def part_of(column: Column | str, subject: str | None, part: str | None) -> str:
    """Whether a column has records' keys ("key") or values ("value"), unless `part` says so; ConfigError."""
    if part is not None:
        if part not in PARTS:
            raise ConfigError(f"part={part!r:.60} is not known; allowed are {', '.join(PARTS)}.")
        return part
    shown = _SHOWN.fullmatch(str(column))
    name = (shown[1] if shown else str(column).rpartition(".")[2]).strip("`").lower()
    if name in PARTS:
        return name
    # Subjects that are named by topic end so.
    return "key" if (subject or "").endswith("-key") else "value"


def _decoder(
    value_format: str,
    registry: Registry,
    subject: str | None,
    schema: Schema,
    message: str | None,
    mode: str,
    part: str,
) -> ValueDecoder:
    return value_decoder(client_of(registry), value_format, subject, schema, message, mode, part)


def _decoded(column: Column | str, headers: Column | str | None, decoder: ValueDecoder) -> Column:
    is_told = decoder.mode == DEAD_LETTER
    result: DataType = decoder.type
    if is_told:
        result = StructType([StructField("value", decoder.type), StructField("error", StringType())])

    def decode_with(values: Any, headers: Any) -> Any:
        found = decoder.decode(values, headers)
        if not is_told:
            return found
        errors = decoder.undecoded(values, headers, found)
        return pa.StructArray.from_arrays([found, errors], names=["value", "error"])

    def decode(values: Any) -> Any:
        return decode_with(values, None)

    if headers is None:
        return _udf(decode, result, column)
    return _udf(decode_with, result, column, headers)


# ---------------------------------------------------------------------- encoding


def _encoded(
    column: Column | str,
    value_format: str,
    registry: Registry,
    subject: str | None,
    schema: Schema,
    message: str | None,
) -> Column:
    client, kind = client_of(registry), kind_of(value_format)
    if not isinstance(schema, RegisteredSchema):
        if subject is None:
            raise ConfigError(
                "No subject is given: name the one whose latest schema is used, or under which a schema is registered."
            )
        schema = client.version(subject) if schema is None else client.register(subject, schema, kind)
    if schema.kind != kind:
        raise ConfigError(f"The schema is of type {schema.kind}, and {value_format!r} is asked for.")
    plan = client, schema, message
    ColumnEncoder(client, schema, message=message)  # what is wrong with the schema is told by the driver

    def encode(values: Any) -> Any:
        key = pickle.dumps(plan)
        encoder = kept(key, lambda: ColumnEncoder(plan[0], plan[1], message=plan[2]))
        return pa.array(encoder.encode(values)).cast(pa.binary())

    return _udf(encode, BinaryType(), column)


# ---------------------------------------------------------------------- both


def _udf(function: Callable[..., Any], result: DataType, *columns: Column | str) -> Column:
    # These tell Spark that it is called with columns.
    function.__annotations__ = dict.fromkeys(function.__annotations__, pa.Array)
    spark: Any = functions  # mypy does not see what it is made of
    called: Column = spark.arrow_udf(function, result)(*columns)
    return called
