"""Encodes rows of a DataFrame as values with a schema of a registry, for the sink.

The driver registers the schema when a write is planned. Tasks ask the registry only for the references of a schema. The
schema follows from the DataFrame and the options alone. It is never the latest one of a subject, which may change: a
batch that comes again is encoded as the same bytes.
"""

from __future__ import annotations

import pickle
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from ottla.errors import ConfigError, RecordError, UserMistake
from ottla.registry.columns import ColumnEncoder, append_header, headers_type
from ottla.registry.registered import AVRO, JSON, PROTOBUF, RegisteredSchema
from ottla.schemas.avro.derived import derive_schema
from ottla.spark.value_decoding import kept
from ottla.spark.value_options import ValueOptions

_KINDS = {"avro": AVRO, "protobuf": PROTOBUF, "json": JSON}


class Values(NamedTuple):
    """What values are made of: `columns`, or (None) the struct column `value`. `schema` is None until it is registered.

    `fields` are those of the values, as Arrow has them. `makes_headers`: rows have no headers but that of the schema.
    """

    options: ValueOptions
    subject: str
    columns: tuple[str, ...] | None
    fields: pa.Schema
    makes_headers: bool = False
    schema: RegisteredSchema | None = None

    def registered(self, *, once: bool) -> Values:
        """The same with its schema; the registry is asked each time, or `once` in this process.

        RegistryError; UserMistake where it does not hold the DataFrame's columns.
        """
        if not once:
            return self._registered()
        key = pickle.dumps((self.options, self.subject, self.columns, self.fields))
        return kept(key, self._registered)

    def _registered(self) -> Values:
        options, kind = self.options, _KINDS[self.options.format]
        given: str | int | None = options.schema
        if given is None:
            given = _derived(self.fields, self.subject.removesuffix("-value"))
        registry = options.registry
        schema = registry.by_id(given) if isinstance(given, int) else registry.register(self.subject, given, kind)
        if schema.kind != kind:
            raise ConfigError(
                f"The schema with the id {schema.id} is of type {schema.kind}, and value.format={options.format} is "
                "asked for."
            )
        found = self._replace(schema=schema)
        found.encode(self.fields.empty_table().to_struct_array().combine_chunks(), 0)
        return found

    def encode(self, rows: Any, first_row: int) -> Any:
        """The values of a struct column, or of a RecordBatch, as a binary column.

        RecordError names the field, and the row, counted from `first_row`.
        """
        return pa.array(self._kept_encoder().encode(rows, first_row=first_row)).cast(pa.binary())

    @property
    def is_in_header(self) -> bool:
        """Whether a header of each record names the schema."""
        return self.options.schema_id_in == "header"

    def headers(self, given: Any, count: int) -> Any:
        """The headers of so many rows, with that of the schema behind those that they have, if they have any."""
        header = self._kept_encoder().header
        assert header is not None
        return append_header(pa.nulls(count, headers_type()) if given is None else given, header)

    def _kept_encoder(self) -> ColumnEncoder:
        assert self.schema is not None
        return kept(pickle.dumps((self.schema, self.options)), self._encoder)

    def _encoder(self) -> ColumnEncoder:
        assert self.schema is not None
        options = self.options
        return ColumnEncoder(options.registry, self.schema, message=options.message, schema_id_in=options.schema_id_in)


def plan_values(schema: StructType, options: ValueOptions, topic: str | None, others: tuple[str, ...]) -> Values:
    """What values are made of: the column `value`, or else `others`, those that no Kafka record has; UserMistake."""
    columns: tuple[str, ...] | None = None
    of = schema["value"].dataType if "value" in schema.names else None
    if of is None:
        of, columns = StructType([schema[name] for name in others]), others
        if not others:
            raise UserMistake("There is nothing to make values of: give a struct column 'value', or columns for it.")
    elif not isinstance(of, StructType):
        raise UserMistake(
            f"Column 'value' is of type {of.simpleString()}; with value.format={options.format} it has to be a struct: "
            'select(struct("*").alias("value")) makes one of all columns.'
        )
    subject = options.subject or (f"{topic}-value" if topic is not None else None)
    if subject is None:
        raise UserMistake(
            "Rows go to the topics that the column 'topic' names, and values have one schema: add the option subject, "
            "under which it is registered."
        )
    if options.schema is None and options.format != "avro":
        raise UserMistake(
            f"value.format={options.format} needs the option value.schema: the text of the schema, or the id of one "
            "that is registered."
        )
    planned = Values(options, subject, columns, to_arrow_schema(of, timezone="UTC"))
    return planned._replace(makes_headers=planned.is_in_header and "headers" not in schema.names)


def _derived(fields: pa.Schema, name: str) -> str:
    try:
        return derive_schema(fields, name)
    except RecordError as error:
        raise RecordError(str(error).replace("as value_schema", "by the option value.schema")) from None
