"""What a task does: one range of offsets, as Arrow RecordBatches, fetched ahead of decoding.

Runs in Spark's Python workers. Memory stays bounded whatever the range's size: what is fetched ahead is limited by
`prefetch.max.bytes`, and what is decoded is handed on before more is.

Invariant: what is yielded equals the declared schema exactly, type by type; Spark refuses anything else. No Python
object is made per record.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ottla.client.offset_lookup import OffsetLookup
from ottla.errors import KafkaError, LogTruncated, OttlaError, Unreachable, UserMistake
from ottla.spark.kept_reader import give_back, take_reader
from ottla.spark.limits import EARLIEST_OFFSET, LATEST_OFFSET
from ottla.spark.offset_ranges import OffsetRange
from ottla.spark.option_table import HEADERS
from ottla.spark.options import SourceOptions

if TYPE_CHECKING:
    import pyarrow as pa

_log = logging.getLogger("ottla.spark")

_PIECE_ROWS = 16_384
_PIECE_BYTES = 2 << 20
"""A piece to decode ends with the record batch with which it has so many rows or bytes."""

_SLICE_ROWS_MAX = 65_536
"""Rows passed to the JVM at once, if one record batch has more: the JVM holds them outside its heap."""

_PREFETCH_MAX_BYTES = 16 << 20
"""Read ahead of Spark, unless kafka.prefetch.max.bytes says otherwise: every task of an executor has as much."""

_CONSTANT = ("topic", "partition")
# Spark's names of columns -> the decoder's names, where they differ.
_DECODED = {"timestampType": "timestamp_type"}

# A range of few records needs no fetch of 8 MiB. If the guess is too small, there is another fetch.
_RECORD_BYTES_GUESSED = 1024
_FETCH_BYTES_MIN = 64 << 10
_FETCH_BYTES_MAX = 8 << 20

_GONE = ("OFFSET_OUT_OF_RANGE", "UNKNOWN_TOPIC_OR_PARTITION", "INCONSISTENT_TOPIC_ID")


def read_range(options: SourceOptions, span: OffsetRange, target: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The records of one range in offset order, as batches of `target`.

    If offsets are gone by now, UserMistake is raised; with failOnDataLoss=false they are left out with a warning. The
    same holds if a new leader lacks records that were read; reading then goes on at the next offset.
    """
    progress = _Progress(span)
    while progress.offset < span.end:
        try:
            yield from _read(options, progress, target)
            return
        except KafkaError as error:
            if error.name not in _GONE:
                raise
            _report_loss(options, progress, error)
        except Unreachable as error:
            raise _explained(options, progress, error) from None


class _Progress:
    """How far a range has been read: all before `offset`."""

    __slots__ = ("offset", "span")

    def __init__(self, span: OffsetRange) -> None:
        self.span = span
        self.offset = span.start


def _read(options: SourceOptions, progress: _Progress, target: pa.Schema) -> Iterator[pa.RecordBatch]:
    span = progress.span
    fetch_bytes = min(max((span.end - progress.offset) * _RECORD_BYTES_GUESSED, _FETCH_BYTES_MIN), _FETCH_BYTES_MAX)
    # A power of two, so that ranges of about one size can share a reader.
    fetch_bytes = 1 << (fetch_bytes - 1).bit_length()
    settings: dict[str, Any] = {
        "prefetch.max.bytes": _PREFETCH_MAX_BYTES,
        "max.partition.fetch.bytes": fetch_bytes,
        # By default a reader gives up sooner, mainly one that starts while all brokers are down.
        "default.api.timeout.ms": options.poll_timeout_ms,
        "bootstrap.refused.timeout.ms": options.poll_timeout_ms,
        **options.settings,
    }
    wanted = [_DECODED.get(name, name) for name in target.names if name not in _CONSTANT]
    decode = None
    if options.decoder is not None:
        from ottla.spark.value_decoding import PieceDecoder

        decode = PieceDecoder(options.decoder, span.topic, span.partition)
        wanted = decode.stored(wanted)
    constants = _Constants(span)
    assignments = {(span.topic, span.partition): (progress.offset, span.end)}
    reader = take_reader(options.bootstrap_servers, settings, span.plan, assignments, {span.topic: span.topic_id})
    try:
        for fetched in reader.iter_raw(patience_s=options.poll_timeout_ms / 1000):
            for piece in reader.decode_pieces(fetched, wanted, rows_enough=_PIECE_ROWS, bytes_enough=_PIECE_BYTES):
                for first in range(0, piece.num_rows, _SLICE_ROWS_MAX):
                    rows = piece if piece.num_rows <= _SLICE_ROWS_MAX else piece.slice(first, _SLICE_ROWS_MAX)
                    yield _conform(rows if decode is None else decode(rows), constants, target)
            progress.offset = reader.reached(span.topic, span.partition) or progress.offset
    finally:
        give_back(reader, options.bootstrap_servers, settings, span.plan)


class _Constants:
    """Columns with the same value in every row, made once for as many rows as a piece may have."""

    def __init__(self, span: OffsetRange) -> None:
        self.place = f"Partition {span.partition} of {span.topic}"
        self._values = {"topic": span.topic, "partition": span.partition}
        self._columns: dict[str, Any] = {}

    def column(self, name: str, kind: pa.DataType, rows: int) -> Any:
        """`rows` rows of the column."""
        made = self._columns.get(name)
        if made is None:
            import pyarrow as pa

            value: Any = pa.scalar(self._values[name], kind)
            made = self._columns[name] = pa.repeat(value, _SLICE_ROWS_MAX)
        return made.slice(0, rows)


def _conform(piece: pa.RecordBatch, constants: _Constants, target: pa.Schema) -> pa.RecordBatch:
    """The columns Spark expects, in its types; key, value and offset are handed on as they are."""
    import pyarrow as pa

    columns = []
    for field in target:
        if field.name in _CONSTANT:
            columns.append(constants.column(field.name, field.type, piece.num_rows))
            continue
        column = piece.column(_DECODED.get(field.name, field.name))
        if field.name == HEADERS:
            column = _null_where_none(column)
        columns.append(column if column.type == field.type else _cast(column, field, constants))
    return pa.RecordBatch.from_arrays(columns, schema=target)


def _cast(column: Any, field: pa.Field[Any], constants: _Constants) -> Any:
    """The column in Spark's type; UserMistake for times it cannot hold, which brokers may let through."""
    import pyarrow as pa

    try:
        return column.cast(field.type)
    except pa.ArrowInvalid as error:
        raise UserMistake(
            f"{constants.place} has a record whose {field.name} Spark cannot hold ({error}): leave that column out by "
            "the option columns."
        ) from None


def _null_where_none(headers: Any) -> Any:
    """Spark's own source says null for a record without headers, not an empty list."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if not len(headers.values):
        return pa.nulls(len(headers), headers.type)
    compute: Any = pc  # whose stubs know nothing of lists
    return compute.if_else(compute.greater(compute.list_value_length(headers), 0), headers, None)


def _report_loss(options: SourceOptions, progress: _Progress, error: KafkaError) -> None:
    """Fail, or log what is left out and go on after it."""
    span = progress.span
    where = f"partition {span.partition} of {span.topic}"
    if isinstance(error, LogTruncated):
        # Rows given to Spark stay; the next ones are read from the new leader's log.
        told, follows = f"{where} was truncated while offset {progress.offset} was to be read: {error}", progress.offset
    elif error.name == "UNKNOWN_TOPIC_OR_PARTITION":
        told, follows = f"{where} is gone; offsets {progress.offset} to {span.end - 1} were still to be read", span.end
    elif error.name == "INCONSISTENT_TOPIC_ID":
        told = f"topic {span.topic} was deleted and made anew"
        told, follows = (
            f"{told}; offsets {progress.offset} to {span.end - 1} of {where} were still to be read",
            span.end,
        )
    else:
        place = (span.topic, span.partition)
        lookup = OffsetLookup(options.bootstrap_servers, **options.settings)  # type: ignore[arg-type]
        try:
            first, end = lookup.offsets_of([{place: EARLIEST_OFFSET}, {place: LATEST_OFFSET}])
        finally:
            lookup.close()
        # If the partition is shorter now, offsets from its end on may belong to other records.
        follows = min(first[place], span.end) if first[place] > progress.offset else span.end
        left = f"it now has offsets {first[place]} to {end[place] - 1}"
        holds = left if end[place] > first[place] else f"it is empty now, and ends at {end[place]}"
        told = f"offsets {progress.offset} to {follows - 1} of {where} are gone: {holds}"
    report_loss(told, fail=options.fail_on_data_loss)
    progress.offset = follows


def report_loss(told: str, *, fail: bool) -> None:
    """Fail the query for lost data, or write a warning to the log."""
    if fail:
        raise UserMistake(
            f"Data was lost: {told}. The topic's retention may have removed it, the topic was deleted or made anew, or "
            "the options name it no longer. "
            "To go on without it, restart the query with the option failOnDataLoss=false."
        )
    _log.warning("%s; going on without them, as failOnDataLoss is false", told)


def _explained(options: SourceOptions, progress: _Progress, error: Unreachable) -> OttlaError:
    span = progress.span
    return Unreachable(
        f"Partition {span.partition} of {span.topic} could not be read on from offset {progress.offset} to {span.end}: "
        f"{error} (kafkaConsumer.pollTimeoutMs={options.poll_timeout_ms}: check the brokers, or raise it)",
        topic=span.topic,
        partition=span.partition,
    )
