"""`format("ottla")` as a source: Kafka topics as a batch or a stream, with the schema of Spark's own source.

Planned on the driver: the offsets of every partition are asked for (`offset_resolution`, `stream_reader`), and each
task gets a fixed range (`offset_ranges`). A task hands its columns on as Arrow, without making a Python object per
record (`range_reader`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    DataSourceWriter,
    InputPartition,
)
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from ottla.errors import UserMistake
from ottla.spark.filters import Pushed
from ottla.spark.mistakes import plainly
from ottla.spark.offset_ranges import pack_ranges
from ottla.spark.option_table import VALUE_BYTES, VALUE_ERROR
from ottla.spark.options import SourceOptions, ValueReading, read_columns, read_options, read_value_reading
from ottla.spark.range_partition import RangePartition, read_partition

if TYPE_CHECKING:
    from ottla.spark.value_decoding import ValueDecoder

_TYPES: dict[str, DataType] = {
    "key": BinaryType(),
    "value": BinaryType(),
    "topic": StringType(),
    "partition": IntegerType(),
    "offset": LongType(),
    "timestamp": TimestampType(),
    "timestampType": IntegerType(),
    VALUE_ERROR: StringType(),
    VALUE_BYTES: BinaryType(),
    "headers": ArrayType(
        StructType([StructField("key", StringType(), True), StructField("value", BinaryType(), True)])
    ),
}


class OttlaDataSource(DataSource):
    """`spark.read` and `spark.readStream` with `.format("ottla")`: the options and columns of Spark's Kafka source.

    The page "Reading from Kafka in PySpark" of the documentation describes every option; `columns` (ottla's own)
    names the columns to read, because Spark does not say which it needs.
    """

    @classmethod
    def name(cls) -> str:
        """The word for `format()`."""
        return "ottla"

    # The registry is asked once, for the schema. Spark pickles this object for the process that makes readers.
    _decoder: ValueDecoder | None = None

    @plainly
    def schema(self) -> StructType:
        """Spark's Kafka source schema, or the chosen columns of it; `value` as `value.format` has it."""
        names = read_columns(self.options)
        reading = read_value_reading(self.options)
        if reading is None:
            return StructType([StructField(name, _TYPES[name], True) for name in names])
        if self._decoder is None:
            self._decoder = _decoder_of(reading)
        types = {**_TYPES, "value": self._decoder.type}
        return StructType([StructField(name, types[name], True) for name in names])

    @plainly
    def reader(self, schema: StructType) -> DataSourceReader:
        """The reader for one query."""
        self._check_schema(schema)
        return OttlaReader(replace(read_options(self.options), decoder=self._decoder), schema)

    @plainly
    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802  (Spark's name)
        """The reader for one streaming query."""
        from ottla.spark.stream_reader import OttlaStreamReader

        self._check_schema(schema)
        options = read_options(self.options, streaming=True)
        return OttlaStreamReader(replace(options, decoder=self._decoder), schema)

    @plainly
    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """The writer for one batch write; its options and columns are those of `sink_options` and `sink_rows`."""
        from ottla.spark.sink import batch_writer

        return batch_writer(self.options, schema, overwrite)

    @plainly
    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:  # noqa: N802
        """The writer for one micro-batch of a streaming query."""
        from ottla.spark.sink import stream_writer

        return stream_writer(self.options, schema)

    def _check_schema(self, schema: StructType) -> None:
        if schema != self.schema():
            raise UserMistake(
                "The ottla source has a schema of its own: leave out .schema(...), and use select. (Spark gives one, "
                "too, when it reads a table of its catalog: use spark.read, or CREATE TEMPORARY VIEW.)"
            )


def _decoder_of(reading: ValueReading) -> ValueDecoder:
    """What tasks decode by, with the schema that the registry tells."""
    # It imports pyarrow, which the driver does not need if values are bytes.
    from ottla.spark.value_decoding import value_decoder

    values = reading.values
    schema = values.registry.by_id(values.schema) if isinstance(values.schema, int) else values.schema
    return value_decoder(values.registry, values.format, reading.subject, schema, values.message, reading.mode)


DefaultSource = OttlaDataSource
"""The name under which Spark looks for a source in modules called `pyspark_*`."""


class OttlaReader(DataSourceReader):
    """Plans the ranges on the driver; reads them in the tasks."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema
        self.pushFilters = Pushed()  # type: ignore[method-assign]  # Spark takes it for the base class's

    @plainly
    def partitions(self) -> list[InputPartition]:
        """One task per offset range, or for several small ones; errors here reach the user before any task runs."""
        from ottla.spark.offset_resolution import plan_batch

        options = self._options
        ranges = plan_batch(options, self.pushFilters.filters)  # type: ignore[attr-defined]
        packs = pack_ranges(ranges, options.min_partitions, options.max_records_per_partition)
        return [RangePartition(pack) for pack in packs]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Arrow RecordBatches of one task's ranges, in offset order within each."""
        return read_partition(self._options, partition, self._schema)
