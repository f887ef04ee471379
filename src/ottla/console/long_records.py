"""Records that are longer than what is shown of them: of keys, values and headers only the beginning is taken.

A batch is in memory once, as it came. It is decompressed as a stream, and what is not shown is skipped; only raw
snappy, which is no stream, has to be decompressed as a whole. The format is that of a v2 record batch (KIP-98).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from io import BufferedReader, RawIOBase
from itertools import groupby
from typing import Any, NamedTuple

from ottla.console.headers import LIST_ROOM, NAME_BYTES, Headers, Room, Taken
from ottla.console.shown import LIST_BYTES, Beginning
from ottla.reader.events import Fetched
from ottla.reader.settings import ReaderSettings
from ottla.records.batch_header import HEADER_BYTES, BatchHeader, Buffer, CorruptBatch, check_crc, iterate_headers
from ottla.records.compression import Allowance, BatchTooLarge, codec_of, decompress, snappy_blocks

_TIMESTAMP_BITS = 64
_AT_ONCE_BYTES = 256 << 10
_NO_LIMIT = 1 << 62


class LongRecord(NamedTuple):
    """One record as far as it is shown."""

    offset: int
    timestamp_ms: int
    key: Beginning
    value: Beginning
    headers: Headers


class LongBatch:
    """A batch of a fetched buffer, of which no more than is wanted becomes an object of Python.

    Its methods raise CorruptBatch for bytes that are no records, and BatchTooLarge where more comes out of compressed
    ones than `decompressed.batch.max.bytes` allows.
    """

    def __init__(self, fetched: Fetched, header: BatchHeader) -> None:
        self._fetched = fetched
        self.header = header

    def records(
        self, end: int, most_bytes: int, settings: ReaderSettings, room: Room = LIST_ROOM
    ) -> Iterator[LongRecord]:
        """Its records from the offset that was fetched to before `end`; of each part at most so many bytes."""
        batch = self.header
        for offset, timestamp_ms, at in self._walk(end, settings):
            key, value = at.beginning(most_bytes), at.beginning(most_bytes)
            headers = at.headers(room)
            yield LongRecord(
                offset, batch.max_timestamp if batch.log_append_time else timestamp_ms, key, value, headers
            )

    def part(self, part: str, settings: ReaderSettings) -> tuple[int, Iterator[bytes]] | None:
        """How long the key or the value at the offset that was fetched is (-1: null), and all of it in pieces.

        None where the batch has no record there.
        """
        for _, _, at in self._walk(self._fetched.fetch_offset + 1, settings):
            if part == "value":
                at.beginning(0)
            size = at.number()
            return size, at.pieces(size)
        return None

    def _walk(self, end: int, settings: ReaderSettings) -> Iterator[tuple[int, int, _Section]]:
        """(offset, timestamp, the section in front of the key) of each record that is wanted."""
        fetched, batch = self._fetched, self.header
        at = _Section(fetched, batch, settings)
        for _ in range(batch.record_count):
            record_end = at.number() + at.position
            at.take(1)
            timestamp_ms = batch.base_timestamp + at.number(_TIMESTAMP_BITS)
            offset = batch.base_offset + at.number()
            if fetched.fetch_offset <= offset < end:
                yield offset, timestamp_ms, at
            at.go_to(record_end)


def parts_of(fetched: Fetched) -> Iterator[LongBatch | Fetched]:
    """What was fetched, in order: batches of long records each by itself, and what is between them."""
    view = memoryview(fetched.records)
    for is_long, batches in groupby(iterate_headers(fetched.records), _is_long):
        if is_long:
            yield from (LongBatch(fetched, batch) for batch in batches)
        else:
            run = list(batches)
            yield replace(fetched, records=view[run[0].position : run[-1].position + run[-1].size_bytes])


def all_batches(fetched: Fetched) -> Iterator[LongBatch]:
    """All batches of what was fetched, as if their records were long."""
    return (LongBatch(fetched, batch) for batch in iterate_headers(fetched.records) if not batch.is_control)


def _is_long(batch: BatchHeader) -> bool:
    """Whether the records of a batch are long as it is stored, on average; then there are few of them."""
    return not batch.is_control and batch.size_bytes > LIST_BYTES * max(1, batch.record_count)


class _Section:
    """The records of a batch as a stream; `position` is how far it was gone through."""

    def __init__(self, fetched: Fetched, batch: BatchHeader, settings: ReaderSettings) -> None:
        self._fetched, self._batch = fetched, batch
        buffer = memoryview(fetched.records)
        if settings.check_crcs:
            try:
                check_crc(buffer, batch)
            except CorruptBatch as error:
                raise self._placed(error) from None
        self._bytes_max = settings.decompressed_batch_max_bytes if batch.codec != "none" else _NO_LIMIT
        stored = buffer[batch.position + HEADER_BYTES : batch.position + batch.size_bytes]
        self._stream = BufferedReader(_stream(batch.codec, stored, self._bytes_max), _AT_ONCE_BYTES)
        self.position = 0

    def number(self, bits: int = 32) -> int:
        """A zigzag varint."""
        found = shift = 0
        while True:
            byte = self.take(1)[0]
            found |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return (found >> 1) ^ -(found & 1)
            if shift >= bits:
                raise self._corrupt()

    def take(self, size: int) -> bytes:
        """The next bytes; CorruptBatch where there are fewer."""
        if self.position + size > self._bytes_max:
            told = (
                f"The batch at offset {self._batch.base_offset}, compressed with {self._batch.codec}, holds more than "
                f"the {self._bytes_max} bytes that decompressed.batch.max.bytes allows."
            )
            raise self._placed(BatchTooLarge(told))
        try:
            found = self._stream.read(size)
        except OSError:
            raise self._corrupt() from None
        except CorruptBatch as error:
            raise self._placed(error) from None
        if len(found) < size:
            raise self._corrupt()
        self.position += size
        return found

    def pieces(self, size: int) -> Iterator[bytes]:
        """So many bytes, a piece at a time."""
        end = self.position + size
        while self.position < end:
            yield self.take(min(_AT_ONCE_BYTES, end - self.position))

    def go_to(self, position: int) -> None:
        """Pass over what is in front of this position."""
        if position < self.position:
            raise self._corrupt()
        for _ in self.pieces(position - self.position):
            pass

    def beginning(self, most_bytes: int) -> Beginning:
        """A key, value or header: its size, and so many of its bytes; it is passed over."""
        size = self.number()
        if size == -1:
            return 0, None
        end = self.position + size
        if size < 0:
            raise self._corrupt()
        found = self.take(min(size, most_bytes))
        self.go_to(end)
        return size, found

    def headers(self, room: Room) -> Headers:
        """A record's headers, of which the first ones are gone through."""
        count, taken = self.number(), Taken(room)
        if count < 0:
            raise self._corrupt()
        for _ in range(count):
            if taken.is_full:
                break
            size, name = self.beginning(NAME_BYTES)
            if name is None:
                raise self._corrupt()
            taken.take(size, name, self.beginning(LIST_BYTES))
        return Headers(taken.first, count)

    def _corrupt(self) -> CorruptBatch:
        told = (
            f"The batch at offset {self._batch.base_offset} is not made of {self._batch.record_count} records: what "
            f"stands at byte {self.position} of its records is none."
        )
        return self._placed(CorruptBatch(told))

    def _placed(self, error: CorruptBatch) -> CorruptBatch:
        topic, partition = self._fetched.topic, self._fetched.partition
        return type(error)(f"{topic}-{partition}: {error}", topic=topic, partition=partition)


class _Pieces(RawIOBase):
    """Pieces of bytes as one stream."""

    def __init__(self, pieces: Iterator[Buffer]) -> None:
        self._pieces = pieces
        self._left = memoryview(b"")

    def readable(self) -> bool:
        """It is."""
        return True

    def readinto(self, room: Any) -> int:
        """Fill in what there is of the piece under way, or of the next one; 0 at the end."""
        while not self._left:
            piece = next(self._pieces, None)
            if piece is None:
                return 0
            self._left = memoryview(piece)
        size = min(len(room), len(self._left))
        room[:size], self._left = self._left[:size], self._left[size:]
        return size


def _stream(codec: Any, stored: memoryview, bytes_max: int) -> Any:
    """What is stored, decompressed as it is read."""
    if codec_of(codec).arrow_streams:
        import pyarrow as pa

        return pa.CompressedInputStream(pa.BufferReader(stored), codec)
    allowance = Allowance(bytes_max)
    if codec == "snappy":
        return _Pieces(snappy_blocks(stored, allowance))
    return _Pieces(iter([decompress(codec, stored, allowance)]))
