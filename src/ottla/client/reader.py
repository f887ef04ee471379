"""`Reader`: reads given topics or partitions as Arrow RecordBatches.

It uses no consumer group: it reads all partitions that it is given, and commits no offsets. Record batches become Arrow
columns without a Python object per record (`records.decode_columns`); `iter_raw` gives the buffers as they were stored.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from random import Random
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, Unpack

from ottla.addresses import addresses_of
from ottla.client.arrow import need_pyarrow
from ottla.client.channel import SocketBuffers
from ottla.client.lifetime import OfOneProcess
from ottla.client.reader_driver import ReaderDriver
from ottla.connection.setting import named_in_help, shown
from ottla.errors import ConfigError, Unreachable
from ottla.foreign_names import OF_READER, no_attribute, servers_come_first
from ottla.reader.events import Assign, AssignTopic, Fetched, Finished, Positioned, TopicAssigned
from ottla.reader.position import EARLIEST, LATEST, timestamp_ms
from ottla.reader.settings import READER_SETTINGS, ReaderSettings
from ottla.records.batch_header import CorruptBatch
from ottla.records.compression import BatchTooLarge

if TYPE_CHECKING:
    import pyarrow as pa

    from ottla.client.read_records import ReadRecord
    from ottla.client.reader_settings_keywords import ReaderSettingsKeywords

Start = int | str | datetime
End = int | str | None

_DECODED = ("offset", "timestamp", "timestamp_type", "key", "value", "headers")
_START_ALLOWED = 'allowed are "earliest", "latest", an offset from 0 on, and a datetime'
_END_ALLOWED = 'allowed are "latest" (the end as it is now), an offset from 0 on, and None (read on for ever)'


class Reader(OfOneProcess):
    """Reads topics or single partitions as Arrow RecordBatches; `with` closes it.

    Give either `topic` (one or several names, all their partitions) or `assignments`, {(topic, partition): (start,
    end)}. `start` is "earliest", "latest", an offset or a datetime; `end` is "latest" (the end as it is when reading
    begins), an offset (not read any more) or None (read on for ever). `topic_ids` is {topic: its 16 bytes from
    `Admin.describe`}: if a topic of `assignments` has another id now, it was deleted and made anew, and reading it
    raises KafkaError (INCONSISTENT_TOPIC_ID).

    Settings are those of Kafka's consumer as keywords (`isolation_level="read_committed"`), sizes in bytes, times in
    milliseconds; `help("ottla.client.reader_settings_keywords")` lists them. ConfigError for one that is unknown or
    cannot be used.
    """

    @servers_come_first
    @named_in_help(READER_SETTINGS)
    def __init__(
        self,
        bootstrap_servers: str | Sequence[str],
        topic: str | Sequence[str] | None = None,
        *,
        assignments: Mapping[tuple[str, int], tuple[Start, End]] | None = None,
        start: Start = "earliest",
        end: End = "latest",
        topic_ids: Mapping[str, bytes] | None = None,
        **settings: Unpack[ReaderSettingsKeywords],
    ) -> None:
        self._settings = ReaderSettings({"bootstrap_servers": bootstrap_servers, **settings})
        events = _assigned(topic, assignments, start, end, topic_ids or {})
        self._driver = driver = ReaderDriver(
            self._settings, Random(), SocketBuffers.of(self._settings.connection, settings)
        )
        self._begin(events)
        self._closing = weakref.finalize(self, driver.close)
        self._closing.atexit = False
        driver.start()

    def iter_raw(self, *, patience_s: float | None = None) -> Iterator[Fetched]:
        """Whole record batches as they are stored, buffer by buffer, in offset order within each partition.

        The first batch of a buffer may begin before its `fetch_offset`, and the last one may reach past the end that
        was asked for. Raises Unreachable, NotKafka or KafkaError when a partition cannot be read; Unreachable, too,
        when nothing has come for `patience_s` (None: wait on). LogTruncated: a partition's new leader lacks records
        that were read or were to be read; no other records were given for their offsets.
        """
        while self._unfinished:
            output = self._driver.take(patience_s)
            if output is None:
                raise Unreachable(f"nothing more came within {patience_s:g} s")
            if isinstance(output, Fetched):
                yield output
            elif isinstance(output, Finished):
                self._unfinished -= 1
            elif isinstance(output, TopicAssigned):
                self._unfinished += output.partition_count - 1
            elif isinstance(output, Positioned):
                self._positions[output.topic, output.partition] = output

    def records(self) -> Iterator[ReadRecord]:
        """Record by record, with key and value as `key_deserializer` and `value_deserializer` make them.

        They are never called with None. DeserializationError for a record that one of them cannot read.
        """
        from ottla.client.read_records import records_of

        return records_of(self, self._settings.key_deserializer, self._settings.value_deserializer)

    @property
    def is_done(self) -> bool:
        """Whether all that was to be read has been given."""
        return self._unfinished == 0

    def assign(
        self,
        assignments: Mapping[tuple[str, int], tuple[Start, End]],
        *,
        topic_ids: Mapping[str, bytes] | None = None,
    ) -> None:
        """Read other partitions over the same connections; ConfigError while the last ones are not done."""
        if self._unfinished:
            raise ConfigError(f"{self!r} has partitions left to read; assign others once it is done.")
        self._begin(_assigned(None, assignments, "earliest", "latest", topic_ids or {}))

    def _begin(self, events: list[Assign | AssignTopic]) -> None:
        topics = list(dict.fromkeys(event.topic for event in events))
        self._what = topics[0] if len(topics) == 1 else f"{len(topics)} topics"
        self._has_topic_column = len(topics) > 1
        self._schema: pa.Schema | None = None
        # How many topics (until their partitions are known) and partitions are left to read.
        self._unfinished = len(events)
        self._positions: dict[tuple[str, int], Positioned] = {}
        self._reached: dict[tuple[str, int], int] = {}
        for event in events:
            self._driver.loop.post(event)

    def positions(self) -> dict[tuple[str, int], tuple[int, int | None]]:
        """{(topic, partition): (start, end)}: the offsets to read between, of the partitions where they are known."""
        return {key: (known.start, known.end) for key, known in self._positions.items()}

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """RecordBatches with the columns of `schema`, each of one partition, in offset order within each."""
        for fetched in self.iter_raw():
            batch = self.decode(fetched)
            if batch.num_rows:
                yield batch

    def decode(self, fetched: Fetched) -> pa.RecordBatch:
        """A buffer of `iter_raw` as a RecordBatch: the records that were asked for, and (read_committed) committed."""
        schema = self.schema  # first: where pyarrow is missing, its error says what to do
        import pyarrow as pa

        decoded = next(self.decode_pieces(fetched))
        rows = decoded.num_rows
        columns: list[Any] = [pa.repeat(pa.scalar(fetched.partition, pa.int32()), rows)]
        columns += [decoded.column(name) for name in _DECODED]
        if self._has_topic_column:
            columns.insert(0, pa.repeat(pa.scalar(fetched.topic, pa.string()), rows))
        return pa.RecordBatch.from_arrays(columns, schema=schema)

    def decode_pieces(
        self, fetched: Fetched, columns: Sequence[str] | None = None, **enough: int
    ) -> Iterator[pa.RecordBatch]:
        """As `decode`, in pieces, each decoded when it is asked for, and without the columns topic and partition.

        `columns`: those of key, value, offset, timestamp, timestamp_type and headers that are wanted (None: all).
        `rows_enough`, `bytes_enough`: a piece ends with the record batch in which it reaches that number.
        """
        import pyarrow as pa

        from ottla.records.decode_columns import decode_columns

        position = self._positions.get((fetched.topic, fetched.partition))
        left, piece = fetched.records, None
        while piece is None or len(left) > piece.tail_bytes > 0:
            if piece is not None:
                left = left[len(left) - piece.tail_bytes :]
            try:
                piece = decode_columns(
                    left,
                    start_offset=fetched.fetch_offset,
                    end_offset=None if position is None else position.end,
                    verify_crc=self._settings.check_crcs,
                    committed=fetched.aborted_transactions if self._settings.read_committed else None,
                    columns=columns,
                    after=piece,
                    decompressed_bytes_max=self._settings.decompressed_batch_max_bytes,
                    **enough,
                )
            except BatchTooLarge as error:
                raise self._too_large(fetched, error) from None
            except CorruptBatch as error:
                topic, partition = fetched.topic, fetched.partition
                raise CorruptBatch(f"{topic}-{partition}: {error}", topic=topic, partition=partition) from None
            self._reached[fetched.topic, fetched.partition] = piece.next_offset
            yield pa.record_batch(piece)

    def _too_large(self, fetched: Fetched, error: BatchTooLarge) -> BatchTooLarge:
        topic, partition, most = fetched.topic, fetched.partition, self._settings.decompressed_batch_max_bytes
        reached = self._reached.get((topic, partition), fetched.fetch_offset)
        return BatchTooLarge(
            f"{topic}-{partition}: a compressed batch, at offset {reached} or soon behind it, holds more than the "
            f"{most} bytes that decompressed.batch.max.bytes allows; raise that setting if its producer may write such "
            "batches",
            topic=topic,
            partition=partition,
        )

    def reached(self, topic: str, partition: int) -> int | None:
        """The offset behind all that was decoded of a partition; None where nothing was yet."""
        return self._reached.get((topic, partition))

    @property
    def schema(self) -> pa.Schema:
        """The columns of RecordBatches and their types.

        topic (only if several topics are read), partition, offset, timestamp, timestamp_type, key, value, headers.
        """
        if self._schema is None:
            self._schema = _record_schema(with_topic=self._has_topic_column)
        return self._schema

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            raise no_attribute(self, name, OF_READER)

    def __repr__(self) -> str:
        addresses, state = addresses_of(self._settings.connection.bootstrap_servers), self._driver.state
        known, left = len(self._positions), self._unfinished
        return f"<Reader of {self._what} at {addresses}, {state}: {known} partitions located, {left} left to read>"

    def close(self) -> None:
        """End the I/O thread; reading on raises ClosedError."""
        self._driver.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


def _record_schema(*, with_topic: bool) -> pa.Schema:
    need_pyarrow("reading RecordBatches")
    import pyarrow as pa

    from ottla.records.decode_columns import decode_columns

    # The columns' types are defined by the decoder only: decode no bytes, and take the types of that.
    decoded = pa.record_batch(decode_columns(b"")).schema
    fields = [pa.field("partition", pa.int32(), nullable=False), *(decoded.field(name) for name in _DECODED)]
    if with_topic:
        fields.insert(0, pa.field("topic", pa.string(), nullable=False))
    return pa.schema(fields)


def _assigned(
    topic: str | Sequence[str] | None,
    assignments: Mapping[tuple[str, int], tuple[Start, End]] | None,
    start: Start,
    end: End,
    topic_ids: Mapping[str, bytes],
) -> list[Assign | AssignTopic]:
    """The events by which the core gets what to read; ConfigError for arguments that cannot be used."""
    if (topic is None) == (assignments is None):
        raise ConfigError("a reader wants either topic (a name or several) or assignments; give one of the two")
    if assignments is not None:
        events: list[Assign | AssignTopic] = []
        for (name, partition), (first, last) in assignments.items():
            offset, is_timestamp = _read_start(first)
            events.append(Assign(name, partition, offset, _read_end(last), is_timestamp, topic_ids.get(name, b"")))
        return events
    names = [topic] if isinstance(topic, str) else list(dict.fromkeys(topic or ()))
    if not all(isinstance(name, str) and name for name in names):
        raise ConfigError(f"topic={shown(topic, is_private=False)} is neither a name nor a list of names")
    offset, is_timestamp = _read_start(start)
    return [AssignTopic(name, offset, _read_end(end), is_timestamp) for name in names]


def _read_start(start: Start) -> tuple[int, bool]:
    """(offset or timestamp or -2 or -1, whether it is a timestamp)."""
    if start == "earliest":
        return EARLIEST, False
    if start == "latest":
        return LATEST, False
    if isinstance(start, datetime):
        if start.tzinfo is None:
            raise ConfigError(f"start={start!r} has no time zone; give one, such as datetime.timezone.utc")
        return timestamp_ms(start), True
    if isinstance(start, int) and not isinstance(start, bool) and start >= 0:
        return start, False
    raise ConfigError(f"start={shown(start, is_private=False)} cannot be used; {_START_ALLOWED}")


def _read_end(end: End) -> int | None:
    if end is None:
        return None
    if end == "latest":
        return LATEST
    if isinstance(end, int) and not isinstance(end, bool) and end >= 0:
        return end
    raise ConfigError(f"end={shown(end, is_private=False)} cannot be used; {_END_ALLOWED}")
