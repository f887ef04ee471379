"""The batch source `format("ottla")`: reads Kafka topics into Spark as Arrow, with the schema of Spark's own source.

Planned once on the driver: the offsets of every partition are asked for, and each task gets a fixed range
(`offset_ranges`). A task reads its range with `ottla.Reader` and hands the decoded columns on, in slices, without
making a Python object per record.

Invariant: what a task yields equals the declared schema exactly, type by type; Spark refuses anything else.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamArrowWriter,
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
from ottla.spark.offset_ranges import OffsetRange, plan_ranges
from ottla.spark.options import SourceOptions, read_options

if TYPE_CHECKING:
    import pyarrow as pa

_SLICE_ROWS_MAX = 16_384
"""Rows handed to the JVM at once: it holds each slice outside its heap."""

_TYPES: dict[str, DataType] = {
    "key": BinaryType(),
    "value": BinaryType(),
    "topic": StringType(),
    "partition": IntegerType(),
    "offset": LongType(),
    "timestamp": TimestampType(),
    "timestampType": IntegerType(),
    "headers": ArrayType(
        StructType([StructField("key", StringType(), True), StructField("value", BinaryType(), True)])
    ),
}


class RangePartition(InputPartition):
    """One task's share."""

    def __init__(self, span: OffsetRange) -> None:
        self.value = span


class OttlaDataSource(DataSource):
    """`spark.read.format("ottla")`: a batch of Kafka records, with the options and columns of Spark's Kafka source.

    Options: kafka.bootstrap.servers; subscribe or assign; startingOffsets, endingOffsets; includeHeaders;
    minPartitions; failOnDataLoss; `columns` (ours) names the columns to read, as Spark does not say which it needs.
    """

    @classmethod
    def name(cls) -> str:
        """The word for `format()`."""
        return "ottla"

    def schema(self) -> StructType:
        """Spark's Kafka source schema, or the chosen columns of it."""
        columns = read_options(self.options).columns
        return StructType([StructField(name, _TYPES[name], True) for name in columns])

    def reader(self, schema: StructType) -> DataSourceReader:
        """The reader for one query."""
        if schema != self.schema():
            raise UserMistake("The ottla source has a schema of its own: leave out .schema(...), and use select.")
        return OttlaReader(read_options(self.options), schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """The writer for one batch write; its options and columns are those of `sink_options` and `sink_rows`."""
        from ottla.spark.sink import batch_writer

        return batch_writer(self.options, schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:  # noqa: N802
        """The writer for one micro-batch of a streaming query."""
        from ottla.spark.sink import stream_writer

        return stream_writer(self.options, schema)


DefaultSource = OttlaDataSource
"""The name under which Spark looks for a source in modules called `pyspark_*`."""


class OttlaReader(DataSourceReader):
    """Plans the ranges on the driver; reads them in the tasks."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema

    def partitions(self) -> list[InputPartition]:
        """One task per offset range; errors here reach the user before any task runs."""
        from ottla.client.admin import Admin

        options = self._options
        with Admin(options.bootstrap_servers, **_keywords(options)) as admin:
            bounds = {topic: _bounds(admin, topic) for topic in options.topics}
        return [RangePartition(span) for span in plan_ranges(options, bounds)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Arrow RecordBatches of one range, in offset order."""
        span = partition.value
        if span is None:  # what Spark makes up where there was nothing to plan
            return
        from pyspark.sql.pandas.types import to_arrow_schema

        from ottla.client.reader import Reader

        options = self._options
        target = to_arrow_schema(self._schema, timezone="UTC")
        with Reader(
            options.bootstrap_servers,
            assignments={(span.topic, span.partition): (span.start, span.end)},
            **_keywords(options),
        ) as reader:
            for batch in reader:
                for first in range(0, batch.num_rows, _SLICE_ROWS_MAX):
                    yield _conform(batch.slice(first, _SLICE_ROWS_MAX), span, target)


def _conform(batch: pa.RecordBatch, span: OffsetRange, target: pa.Schema) -> pa.RecordBatch:
    """The columns Spark expects, in its types; key, value and offset are handed on as they are."""
    import pyarrow as pa

    constants = {"topic": span.topic, "partition": span.partition}
    columns = []
    for field in target:
        if field.name in constants:
            columns.append(pa.repeat(pa.scalar(constants[field.name], field.type), batch.num_rows))
            continue
        column = batch.column("timestamp_type" if field.name == "timestampType" else field.name)
        columns.append(column if column.type == field.type else column.cast(field.type))
    return pa.RecordBatch.from_arrays(columns, schema=target)


def _bounds(admin: Any, topic: str) -> dict[int, tuple[int, int]]:
    beginnings, ends = admin.begin_offsets(topic), admin.end_offsets(topic)
    return {partition: (beginnings[partition], ends[partition]) for partition in ends}


def _keywords(options: SourceOptions) -> dict[str, Any]:
    # Under Kafka's own names, so that an error speaks of the option as it was given.
    return dict(options.settings)
