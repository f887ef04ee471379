"""Rows from Spark to a producer: Arrow RecordBatches in, `send_table` out, never a Python object per row.

Spark passes batches of 10,000 rows by default. They are joined to pieces of about 4 MiB, each piece's rows are sorted
by topic (a stable sort) where a column names it, and acknowledgements are waited for only at the end.

Invariants
- Rows of one Kafka partition keep the order they had in the task.
- Errors name the column and the row, counted from 0 through the task's rows.
"""

from __future__ import annotations

import functools
import hashlib
import logging
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    MapType,
    StringType,
    StructType,
    TimestampType,
)

from ottla.errors import RecordError, UserMistake, of_row, renumbered
from ottla.sink.batch import Totals
from ottla.sink.settings import CONTROL_TOPIC, SINK_TOPICS, topics_of

if TYPE_CHECKING:
    import pyarrow as pa

    from ottla.client.producer import Producer
    from ottla.spark.value_encoding import Values
    from ottla.spark.value_options import ValueOptions

_log = logging.getLogger("ottla.spark")

_PIECE_BYTES = 4 << 20
_NEEDS_TOPIC = ": every row needs a topic to go to."

_BYTES = (StringType, BinaryType)
_BYTES_WORDS = "string or binary"
_TYPES: dict[str, tuple[tuple[type[DataType], ...], str]] = {
    "topic": ((StringType,), "string"),
    "key": (_BYTES, _BYTES_WORDS),
    "value": (_BYTES, _BYTES_WORDS),
    "headers": ((ArrayType,), "array<struct<key:string,value:binary>>"),
    "partition": ((IntegerType,), "int"),
    "timestamp": ((TimestampType,), "timestamp"),
}


class SinkRows(NamedTuple):
    """What the rows of one write look like: the topic they go to (None: the column says), and the columns there are.

    `kept` are the topics of sinks, to which no row may go. `values`: how values are encoded; None if the column `value`
    has the bytes already.
    """

    topic: str | None
    columns: tuple[str, ...]
    kept: tuple[str, ...] = SINK_TOPICS
    values: Values | None = None

    @property
    def taken(self) -> list[str]:
        """Those of Spark's columns that are needed."""
        values = self.values
        if values is None:
            return list(self.columns)
        made = {"value"} if values.columns is not None else set()
        if values.makes_headers:
            made.add("headers")
        return [*(name for name in self.columns if name not in made), *(values.columns or ())]

    def registered(self, *, once: bool) -> SinkRows:
        """The same with a schema that the registry knows, where values have one; asked each time, or `once`."""
        return self if self.values is None else self._replace(values=self.values.registered(once=once))

    def column(self, name: str) -> str | None:
        """The name where there is such a column."""
        return name if name in self.columns else None


def plan_rows(
    schema: StructType,
    topic: str | None,
    control_topic: str = CONTROL_TOPIC,
    values: ValueOptions | None = None,
) -> SinkRows:
    """Check the columns of what is to be written; UserMistake names the column, its type and what is allowed.

    The option `topic` takes precedence over a column `topic`, as in Spark's own sink. Columns that no record has are
    left out. If values have a schema (`values`) and there is no column `value`, values are made of these columns.
    """
    names = schema.names
    others = tuple(dict.fromkeys(name for name in names if name not in _TYPES))
    if values is None or "value" in names:
        _refuse_other_case(names)
    if others and "value" in names:
        _warn_of(others)
    for column in schema.fields:
        if column.name not in _TYPES and (values is None or "value" in names):
            continue
        if names.count(column.name) > 1:
            raise UserMistake(f"Column {column.name!r} is there {names.count(column.name)} times: drop all but one.")
        if column.name not in _TYPES or (column.name == "value" and values is not None):
            continue
        allowed, words = _TYPES[column.name]
        good = isinstance(column.dataType, allowed)
        if good and isinstance(column.dataType, ArrayType):
            good = _is_header(column.dataType.elementType)
        if not good:
            raise UserMistake(
                f"Column {column.name!r} is of type {column.dataType.simpleString()}; it has to be {words}: "
                f"{_made_so(column.name, column.dataType)}."
            )
    if "value" not in names and values is None:
        raise UserMistake(f"There is no column 'value' among {', '.join(names) or 'no columns'}: every record has one.")
    if topic is None and "topic" not in names:
        raise UserMistake("Nothing says which topic to write to: give the option topic, or a column 'topic'.")
    kept = tuple(dict.fromkeys((*SINK_TOPICS, *topics_of(control_topic))))
    columns = tuple(name for name in names if name in _TYPES)
    if values is None:
        return SinkRows(topic, columns, kept)
    from ottla.spark.value_encoding import plan_values

    planned = plan_values(schema, values, topic, others)
    made = ("value", "headers") if planned.is_in_header else ("value",)
    return SinkRows(topic, tuple(dict.fromkeys((*columns, *made))), kept, planned)


def _refuse_other_case(names: list[str]) -> None:
    """UserMistake for a column whose name differs from `key` or the like only in case: it would not be written."""
    for name in names:
        meant = name.lower()
        if name != meant and meant in _TYPES and meant not in names:
            raise UserMistake(
                f"Column {name!r} would be left out: the one that is written is called {meant!r}; rename it, or drop "
                "it."
            )


@functools.cache
def _warn_of(columns: tuple[str, ...]) -> None:
    """Warn once in a process, which plans many micro-batches."""
    _log.warning("columns that no Kafka record has are not written: %s", ", ".join(columns))


def send_rows(
    batches: Iterable[pa.RecordBatch], shape: SinkRows, producer: Callable[[], Producer], *, digest: bool = False
) -> Totals:
    """Send every row and return their totals, before all are acknowledged; without `digest`, that of the totals is 0.

    `producer` is called when there is a row to send. Raises RecordError naming column and row for what cannot be sent,
    and what `Producer.send_table` raises.
    """
    totals = Totals(0, 0)
    for piece in _pieces(batches, shape.taken):
        table = _encoded(piece, shape, totals.rows)
        sender = producer()
        for topic, rows, order in _by_topic(table, shape, totals.rows):
            try:
                sender.send_table(
                    topic,
                    rows,
                    key=shape.column("key"),
                    value="value",
                    headers=shape.column("headers"),
                    partition=shape.column("partition"),
                    timestamp_ms=shape.column("timestamp"),
                )
            except RecordError as error:
                raise _placed(error, totals.rows, order) from None
        totals = totals.plus(_totals(table, shape, digest))
    return totals


def count_rows(batches: Iterable[pa.RecordBatch], shape: SinkRows) -> Totals:
    """The totals of the rows, without sending them."""
    totals = Totals(0, 0)
    for batch in batches:
        if batch.num_rows:
            totals = totals.plus(_totals(_encoded(batch, shape, totals.rows), shape, True))
    return totals


def _encoded(rows: Any, shape: SinkRows, first_row: int) -> Any:
    """The same rows, which are of one chunk, with values as bytes."""
    values = shape.values
    if values is None:
        return rows
    import pyarrow as pa

    batch = rows.to_batches()[0] if isinstance(rows, pa.Table) else rows
    struct = batch.column("value") if values.columns is None else batch.select(list(values.columns))
    columns = {name: batch.column(name) for name in batch.schema.names if name in shape.columns}
    columns["value"] = values.encode(struct, first_row)
    if values.is_in_header:
        columns["headers"] = values.headers(columns.get("headers"), len(batch))
    return pa.table(columns)


def _totals(rows: pa.Table | pa.RecordBatch, shape: SinkRows, digest: bool) -> Totals:
    from ottla.records.row_digest import digest_rows

    if not digest:
        return Totals(rows.num_rows, 0)
    columns: dict[str, str | None] = {name: shape.column(name) for name in _TYPES}
    if shape.topic is None:
        return Totals(rows.num_rows, digest_rows(rows, **columns))
    # A topic that the option names is a part of every row's hash, too.
    columns["topic"] = None
    topic = int.from_bytes(hashlib.blake2b(shape.topic.encode(), digest_size=8).digest(), "big")
    return Totals().plus(Totals(rows.num_rows, digest_rows(rows, **columns) + rows.num_rows * topic))


def _pieces(batches: Iterable[pa.RecordBatch], columns: list[str]) -> Iterator[pa.Table]:
    """These columns of the same rows in tables of one chunk and about `_PIECE_BYTES`; none is empty."""
    import pyarrow as pa

    gathered: list[pa.RecordBatch] = []
    size = 0
    for every in batches:
        if every.num_rows == 0:
            continue
        batch = every.select(columns)
        gathered.append(batch)
        size += batch.nbytes
        if size >= _PIECE_BYTES:
            yield pa.Table.from_batches(gathered).combine_chunks()
            gathered, size = [], 0
    if gathered:
        yield pa.Table.from_batches(gathered).combine_chunks()


def _by_topic(table: pa.Table, shape: SinkRows, first_row: int) -> Iterator[tuple[str, pa.Table, Any]]:
    """Topic, its rows, and where these stood in `table` (None: as they are)."""
    import pyarrow.compute as pc

    if shape.topic is not None:
        yield shape.topic, table, None
        return
    column = table.column("topic").chunk(0)
    if column.null_count:
        row = pc.index(column.is_null(), True).as_py()
        raise of_row(RecordError, first_row + row, _NEEDS_TOPIC, before="Column 'topic' is null in ")
    encoded: Any = column.dictionary_encode()
    topics: list[str] = encoded.dictionary.to_pylist()
    for topic in topics:
        if not topic or topic in shape.kept:
            raise _unfit(topic, first_row + pc.index(column, topic).as_py())
    if len(topics) == 1:
        yield topics[0], table, None
        return
    order = pc.sort_indices(encoded.indices)  # a stable sort
    ordered = table.take(order)
    counted: Any = pc.value_counts(encoded.indices)
    counts = {entry["values"]: entry["counts"] for entry in counted.to_pylist()}
    begin = 0
    for number, topic in enumerate(topics):
        yield topic, ordered.slice(begin, counts[number]), order.slice(begin, counts[number])
        begin += counts[number]


def _unfit(topic: str, row: int) -> RecordError:
    if not topic:
        return of_row(RecordError, row, _NEEDS_TOPIC, before="Column 'topic' is empty in ")
    # A row there whose key is a sink's id would be taken for a decision of that sink.
    told = ", where sinks keep their decisions: name another topic."
    return of_row(RecordError, row, told, before=f"Column 'topic' is {topic!r} in ")


def _placed(error: RecordError, first_row: int, order: Any) -> RecordError:
    """The same error with its row counted through the task."""
    return renumbered(RecordError, error, lambda row: first_row + int(row if order is None else order[row].as_py()))


def _made_so(name: str, of: DataType) -> str:
    """How a column gets the type that it has to have."""
    if name == "headers" and isinstance(of, MapType):
        return "use map_entries(headers), with values that are binary"
    if isinstance(of, (StructType, MapType, ArrayType)) and name in ("key", "value"):
        return f"use to_json({name})" + (", or the option value.format" if name == "value" else "")
    return "cast it before writing"


def _is_header(kind: DataType) -> bool:
    if not isinstance(kind, StructType) or kind.names != ["key", "value"]:
        return False
    return isinstance(kind["key"].dataType, StringType) and isinstance(kind["value"].dataType, BinaryType)
