"""Avro and Protobuf with a schema registry as functions of DataFrame columns, by Arrow and without an object per row.

Spark's own `from_avro` reads payloads without the registry's header, as one schema that must be the writer's. These
know the header: each value is decoded by the schema that it names and read as one schema, so the column has one type.

What the driver finds out (the schema to read or write as) travels with the function. A worker's process keeps its
decoders and its connection to the registry from one task to the next.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import pyarrow as pa
from pyspark.sql import Column, DataFrame, functions
from pyspark.sql.pandas.types import from_arrow_type, to_arrow_schema, to_arrow_type
from pyspark.sql.types import BinaryType, DataType, StringType, StructField, StructType

from ottla.errors import ConfigError, DeserializationError
from ottla.registry.client import RegistryClient
from ottla.registry.columns import ColumnDecoder, ColumnEncoder, client_of, kind_of, reader_schema
from ottla.registry.registered import RegisteredSchema
from ottla.schemas.avro.derived import derive_schema

Registry = str | Sequence[str] | RegistryClient
Schema = str | RegisteredSchema | None

MODES = ("fail", "null", "dead-letter")
_Kept = TypeVar("_Kept")


def from_avro(
    column: Column | str,
    *,
    registry: Registry,
    subject: str | None = None,
    schema: Schema = None,
    mode: str = "fail",
    headers: Column | str | None = None,
) -> Column:
    """Decode a binary column of Avro values, each by the schema that it names in `registry`.

    All are read as `schema` (a text, or one that is registered), else as the latest one of `subject`, by the rules of
    Avro's specification. `headers` is the records' column of headers, where schemas are named there. With mode="fail" a
    value that cannot be decoded ends the query; with "null" it is null; with "dead-letter" the column is a struct of
    `value` and `error`, of which one is null. ConfigError, RegistryError.
    """
    return _decoded(column, headers, _decoder("avro", registry, subject, schema, None, mode))


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
) -> Column:
    """As `from_avro` for Protobuf; `message` names the message of the file, its first one by default.

    No generated classes are needed. Fields go by their numbers; those that the schema does not have are left out.
    """
    return _decoded(column, headers, _decoder("protobuf", registry, subject, schema, message, mode))


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


class _Decoder:
    """What a worker needs to decode a column."""

    def __init__(
        self, registry: RegistryClient, value_format: str, schema: RegisteredSchema, message: str | None, mode: str
    ) -> None:
        self._plan = registry, value_format, schema, message, mode
        made = self._made()
        self.type: DataType = from_arrow_type(_of_spark(made.type))
        self.mode = mode

    def _made(self) -> ColumnDecoder:
        registry, value_format, schema, message, mode = self._plan
        return ColumnDecoder(
            registry,
            value_format,
            schema,
            message=message,
            mode="fail" if mode == "fail" else "null",
            time_unit="us",
        )

    @property
    def result(self) -> DataType:
        """The type of the column that comes out."""
        if self.mode != "dead-letter":
            return self.type
        return StructType([StructField("value", self.type), StructField("error", StringType())])

    def decode(self, values: Any, headers: Any = None) -> Any:
        decoder = _kept(pickle.dumps(self._plan), self._made)
        found = decoder.decode(values, headers)
        cast = found.cast(to_arrow_type(self.type, timezone="UTC"))
        return cast if self.mode != "dead-letter" else _with_errors(self, values, headers, cast)

    def why(self, value: Any, headers: Any) -> str | None:
        """Why one value cannot be decoded, None where it can."""
        registry, value_format, schema, message, _ = self._plan
        strict = _Decoder(registry, value_format, schema, message, "fail") if self.mode != "fail" else self
        try:
            _kept(pickle.dumps(strict._plan), strict._made).decode(value, headers)
        except DeserializationError as error:
            return str(error).removeprefix("Row 0 ")
        return None


def _with_errors(decoder: _Decoder, values: Any, headers: Any, found: Any) -> Any:
    import pyarrow.compute as pc

    errors: list[str | None] = [None] * len(values)
    bad: Any = pc.and_(found.is_null(), values.is_valid())
    for row in pc.indices_nonzero(bad).to_pylist():
        errors[row] = decoder.why(values.slice(row, 1), None if headers is None else headers.slice(row, 1))
    return pa.StructArray.from_arrays([found, pa.array(errors, pa.string())], names=["value", "error"])


def _decoder(
    value_format: str,
    registry: Registry,
    subject: str | None,
    schema: Schema,
    message: str | None,
    mode: str,
) -> _Decoder:
    if mode not in MODES:
        raise ConfigError(f"mode={mode!r:.60} is not known; allowed are {', '.join(MODES)}.")
    client = client_of(registry)
    if not isinstance(schema, RegisteredSchema):
        if schema is None and subject is None:
            raise ConfigError(
                "Neither a schema nor a subject is given: name the subject whose latest schema is read as."
            )
        schema = reader_schema(client, value_format, subject or "", schema)
    return _Decoder(client, value_format, schema, message, mode)


def _decoded(column: Column | str, headers: Column | str | None, decoder: _Decoder) -> Column:
    def decode(values: Any) -> Any:
        return decoder.decode(values)

    def decode_with(values: Any, headers: Any) -> Any:
        return decoder.decode(values, headers)

    if headers is None:
        return _udf(decode, decoder.result, column)
    return _udf(decode_with, decoder.result, column, headers)


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
            raise ConfigError("No subject is given: name the one whose schema is written, or which a new one is for.")
        schema = client.version(subject) if schema is None else client.register(subject, schema, kind)
    if schema.kind != kind:
        raise ConfigError(f"The schema is of type {schema.kind}, and {value_format!r} is asked for.")
    plan = client, schema, message
    ColumnEncoder(client, schema, message=message)  # what is wrong with the schema is told by the driver

    def encode(values: Any) -> Any:
        key = pickle.dumps(plan)
        encoder = _kept(key, lambda: ColumnEncoder(plan[0], plan[1], message=plan[2]))
        return pa.array(encoder.encode(values)).cast(pa.binary())

    return _udf(encode, BinaryType(), column)


# ---------------------------------------------------------------------- both


_keeping: dict[bytes, Any] = {}
_KEPT_MOST = 100


def _kept(key: bytes, make: Callable[[], _Kept]) -> _Kept:
    """What this process has made before for the same plan."""
    found: _Kept | None = _keeping.get(key)
    if found is None:
        if len(_keeping) >= _KEPT_MOST:
            _keeping.clear()
        _keeping[key] = found = make()
    return found


def _udf(function: Callable[..., Any], result: DataType, *columns: Column | str) -> Column:
    # These tell Spark that it is called with columns.
    function.__annotations__ = dict.fromkeys(function.__annotations__, pa.Array)
    spark: Any = functions  # mypy does not see what it is made of
    called: Column = spark.arrow_udf(function, result)(*columns)
    return called


def _of_spark(kind: Any) -> Any:
    """The Arrow type as Spark has it: times in microseconds, and parts that may all be null, as those of null are."""
    is_ = pa.types
    if is_.is_timestamp(kind):
        return pa.timestamp("us", kind.tz)
    if is_.is_time(kind):
        return pa.time64("us")
    if is_.is_fixed_size_binary(kind):
        return pa.binary()
    if is_.is_struct(kind):
        return pa.struct([_part(kind.field(i)) for i in range(kind.num_fields)])
    if is_.is_list(kind):
        return pa.list_(_part(kind.value_field))
    if is_.is_map(kind):
        return pa.map_(kind.key_type, _part(kind.item_field))
    return kind


def _part(field: Any) -> Any:
    return field.with_type(_of_spark(field.type)).with_nullable(True)
