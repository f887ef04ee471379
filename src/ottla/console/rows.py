"""Rows of JSON for records that were read: short ones by columns, long ones by their beginnings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from ottla.console.headers import LIST_ROOM, RECORD_ROOM, Headers, of_column
from ottla.console.long_records import LongRecord
from ottla.console.shown import LIST_BYTES, RECORD_BYTES, Beginning, Registry, as_shown, exact

if TYPE_CHECKING:
    import pyarrow as pa

    from ottla.records.batch_header import BatchHeader

Row = dict[str, Any]


class Rows:
    """Makes rows of one partition's records; of a long key or value `most_bytes` are shown."""

    def __init__(self, topic: str, partition: int, most_bytes: int, registry: Registry | None) -> None:
        self._topic, self._partition, self._registry = topic, partition, registry
        self._most_bytes = most_bytes
        # Of headers there is more room on a record's own page, too.
        self.room = RECORD_ROOM if most_bytes > LIST_BYTES else LIST_ROOM
        # What a registry decodes is wanted whole, as far as it can be shown.
        self.taken_bytes = RECORD_BYTES if registry is not None else most_bytes

    def of_columns(self, piece: pa.RecordBatch) -> Iterator[Row]:
        """Rows of decoded columns; of a long key or value only the beginning becomes an object of Python."""
        import pyarrow as pa
        import pyarrow.compute as pc

        times: list[Any] = piece.column("timestamp").cast(pa.int64()).to_pylist()
        offsets: list[Any] = piece.column("offset").to_pylist()
        kinds = piece.column("timestamp_type").to_pylist()
        headers = of_column(piece.column("headers"), self.room)
        parts = []
        for name in ("key", "value"):
            column: Any = piece.column(name)
            sizes = pc.fill_null(pc.binary_length(column), 0).to_pylist()
            parts.append(list(zip(sizes, pc.binary_slice(column, 0, self.taken_bytes).to_pylist(), strict=True)))
        for row, (key, value, of_record) in enumerate(zip(*parts, headers, strict=True)):
            yield self._row(offsets[row], times[row], bool(kinds[row]), key, value, of_record)

    def of_long(self, batch: BatchHeader, records: Iterable[LongRecord]) -> Iterator[Row]:
        """Rows of the records of a batch."""
        for each in records:
            yield self._row(each.offset, each.timestamp_ms, batch.log_append_time, each.key, each.value, each.headers)

    def _row(
        self,
        offset: int,
        timestamp_ms: int,
        is_append_time: bool,
        key: Beginning,
        value: Beginning,
        headers: Headers,
    ) -> Row:
        return {
            "partition": self._partition,
            "offset": offset,
            "timestamp_ms": exact(timestamp_ms),
            "timestamp_type": "LogAppendTime" if is_append_time else "CreateTime",
            "key": self._shown("key", key, headers),
            "value": self._shown("value", value, headers),
            "headers": [
                {"name": name, "value": as_shown(value, size, LIST_BYTES)} for name, (size, value) in headers.first
            ],
            "headers_more": headers.total - len(headers.first),
        }

    def _shown(self, part: str, stored: Beginning, headers: Headers) -> dict[str, Any] | None:
        size, beginning = stored
        return as_shown(
            beginning,
            size,
            self._most_bytes,
            topic=self._topic,
            part=part,
            headers=tuple((name, value) for name, (_, value) in headers.first),
            registry=self._registry,
        )
