"""Decodes columns of Avro, Protobuf or JSON values into columns of Spark's types, for the source and for functions.

The driver finds the schema to read as, and passes it to the tasks. A worker keeps its decoders and its connection to
the registry from one task to the next.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.errors import PySparkException
from pyspark.sql.pandas.types import from_arrow_type, to_arrow_type
from pyspark.sql.types import DataType

from ottla.errors import ConfigError, DeserializationError, of_row
from ottla.registry.client import RegistryClient
from ottla.registry.columns import ColumnDecoder, reader_schema
from ottla.registry.record_decoder import of_record
from ottla.registry.registered import RegisteredSchema
from ottla.spark.option_table import DEAD_LETTER_COLUMNS, HEADERS, UNDECODABLE_WORDS, VALUE_BYTES, VALUE_ERROR

FAIL, NULL = "fail", "null"
_Kept = TypeVar("_Kept")


class ValueDecoder:
    """What a worker needs to decode columns into one of `type`, Spark's. ConfigError for a type Spark does not have."""

    def __init__(
        self,
        registry: RegistryClient,
        value_format: str,
        schema: RegisteredSchema,
        message: str | None,
        mode: str,
        part: str = "value",
    ) -> None:
        self._plan = registry, value_format, schema, message, part
        self.mode = mode
        made = self._made(FAIL)
        self.type: DataType = _spark_type(made.type)

    def decode(self, values: Any, headers: Any = None) -> Any:
        """One value for each of `values`; DeserializationError with mode "fail", as `ColumnDecoder`."""
        found = self._kept(FAIL if self.mode == FAIL else NULL).decode(values, headers)
        wanted = to_arrow_type(self.type, timezone="UTC")
        return found if found.type == wanted else self._as_spark_has_it(found, wanted, 0)

    def _as_spark_has_it(self, found: Any, wanted: Any, first_row: int) -> Any:
        """The column with Spark's times, which have microseconds: smaller parts are cut off."""
        cast: Any = pc.cast  # whose stubs want the type twice
        try:
            return cast(found, options=pc.CastOptions(wanted, allow_time_truncate=True))
        except pa.ArrowInvalid:
            if len(found) > 1:
                half = len(found) // 2
                halves = (found.slice(0, half), first_row), (found.slice(half), first_row + half)
                return pa.concat_arrays([self._as_spark_has_it(part, wanted, row) for part, row in halves])
            if self.mode == FAIL:
                raise of_row(DeserializationError, first_row, f" {self._beyond}") from None
            return pa.nulls(1, wanted)

    @property
    def _beyond(self) -> str:
        return f"cannot be decoded ({self._plan[-1]}): a time is beyond microseconds of 64 bits, which Spark has."

    def undecoded(self, values: Any, headers: Any, found: Any) -> Any:
        """Where a value could not be decoded, why; null elsewhere. `found` is what `decode` gave."""
        errors: list[str | None] = [None] * len(values)
        rows = pc.indices_nonzero(pc.and_(found.is_null(), values.is_valid()))
        if len(rows):
            of_rows = None if headers is None else headers.take(rows)
            # The value itself can be decoded: it is null in `found` because its time does not fit into Spark's type.
            is_value = self._kept(NULL).decode(values.take(rows), of_rows).is_valid()
            for row in rows.filter(is_value).to_pylist():
                errors[row] = self._beyond
            others = rows.filter(pc.invert(is_value)).to_pylist()
            for row, told in zip(others, self._kept(FAIL).reasons(values, headers, others), strict=True):
                # Without a reason the value was decoded, and is null.
                errors[row] = told or None
        return pa.array(errors, pa.string())

    def _kept(self, mode: str) -> ColumnDecoder:
        return kept(pickle.dumps((self._plan, mode)), lambda: self._made(mode))

    def _made(self, mode: str) -> ColumnDecoder:
        registry, value_format, schema, message, part = self._plan
        return ColumnDecoder(registry, value_format, schema, part=part, message=message, mode=mode, time_unit="us")


class PieceDecoder:
    """Decodes the values among a partition's columns, as they come from a reader."""

    def __init__(self, decoder: ValueDecoder, topic: str, partition: int) -> None:
        self._decoder = decoder
        self._topic, self._partition = topic, partition
        self._is_told = False

    def stored(self, wanted: Sequence[str]) -> list[str]:
        """The columns of the records that must be read to make the wanted ones."""
        self._is_told = any(name in DEAD_LETTER_COLUMNS for name in wanted)
        # Headers may name schemas; errors name the record's offset.
        made = (name for name in wanted if name not in DEAD_LETTER_COLUMNS)
        return list(dict.fromkeys((*made, "value", HEADERS, "offset")))

    def __call__(self, piece: Any) -> Any:
        """The same columns with decoded values, and those about values that could not be decoded."""
        values, headers, offsets = (piece.column(name) for name in ("value", HEADERS, "offset"))
        try:
            found = self._decoder.decode(values, headers)
        except DeserializationError as error:
            placed = of_record(error, self._topic, lambda row: (self._partition, offsets[row].as_py()))
            failed = DeserializationError(
                f"{str(placed).removesuffix('.')}; undecodable=null or dead-letter lets a query go on.",
                topic=self._topic,
                partition=self._partition,
            )
            failed.row = placed.row
            raise failed from None
        columns = {name: piece.column(name) for name in piece.schema.names} | {"value": found}
        if self._is_told:
            errors = self._decoder.undecoded(values, headers, found)
            columns |= {VALUE_ERROR: errors, VALUE_BYTES: pc.if_else(errors.is_valid(), values, None)}
        return pa.RecordBatch.from_pydict(columns)


def value_decoder(
    registry: RegistryClient,
    value_format: str,
    subject: str | None,
    schema: str | RegisteredSchema | None,
    message: str | None,
    mode: str,
    part: str = "value",
) -> ValueDecoder:
    """For values that are read as `schema`, else as the latest one of `subject`. ConfigError, RegistryError.

    `part` ("key" or "value") says which header names their schema.
    """
    if mode not in UNDECODABLE_WORDS:
        raise ConfigError(f"mode={mode!r:.60} is not known; allowed are {', '.join(UNDECODABLE_WORDS)}.")
    if not isinstance(schema, RegisteredSchema):
        if schema is None and subject is None:
            raise ConfigError(
                "Neither a schema nor a subject is given: give a schema, or the subject whose latest schema is used."
            )
        schema = reader_schema(registry, value_format, subject or "", schema)
    return ValueDecoder(registry, value_format, schema, message, mode, part)


_keeping: dict[bytes, Any] = {}
_KEPT_MOST = 100


def kept(key: bytes, make: Callable[[], _Kept]) -> _Kept:
    """What this process has made before for the same plan."""
    found: _Kept | None = _keeping.get(key)
    if found is None:
        if len(_keeping) >= _KEPT_MOST:
            _keeping.clear()
        _keeping[key] = found = make()
    return found


def _spark_type(kind: Any) -> DataType:
    arrow = _of_spark(kind, "")
    try:
        return from_arrow_type(arrow)
    except PySparkException as error:
        raise ConfigError(f"Spark has no type for the schema's values ({arrow}): {error}") from None


def _of_spark(kind: Any, place: str) -> Any:
    """The Arrow type as Spark has it: times in microseconds, and parts that may all be null, as those of null are."""
    is_ = pa.types
    if is_.is_timestamp(kind):
        return pa.timestamp("us", kind.tz)
    if is_.is_time(kind):
        return pa.time64("us")
    if is_.is_duration(kind):
        return pa.duration("us")
    if is_.is_fixed_size_binary(kind):
        return pa.binary()
    if is_.is_uint32(kind):
        return pa.int64()
    if is_.is_uint64(kind):
        return pa.decimal128(20, 0)
    if is_.is_decimal256(kind):
        raise ConfigError(
            f"{place or 'The value'} is a decimal of {kind.precision} digits, and Spark has 38: read it as a schema "
            "without that field."
        )
    if is_.is_struct(kind):
        return pa.struct([_part(kind.field(i), place) for i in range(kind.num_fields)])
    if is_.is_list(kind):
        return pa.list_(_part(kind.value_field, place))
    if is_.is_map(kind):
        return pa.map_(_of_spark(kind.key_type, place), _part(kind.item_field, place))
    return kind


def _part(field: Any, place: str) -> Any:
    return field.with_type(_of_spark(field.type, f"{place}.{field.name}" if place else field.name)).with_nullable(True)
