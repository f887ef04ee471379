"""One file of a log: record batches one behind the other, and a sparse index of where which offset is.

The file is named by the offset of its first record, as Kafka names it. The index has an entry for about every
`index_interval_bytes` of batches (every batch, where batches are larger), so it stays below a hundredth of the log;
from an entry the search goes on by reading headers. The index lives in memory and is built again by `load`, which
reads every header: nothing derived is stored, so nothing derived can disagree with the log.

Invariants: batches lie one behind the other with growing offsets; `size` ends at a whole batch; index entries and
their timestamps grow.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator

from ottla.broker.storage import Buffer, FileSlice, Storage, StorageFile
from ottla.records.batch_header import HEADER_BYTES, BatchHeader, CorruptBatch, check_crc, read_header

SUFFIX = ".log"
NO_TIMESTAMP = -1
_BEFORE_ALL_TIME = -(1 << 63)
_SCAN_BYTES = 1 << 18


def segment_file_name(base_offset: int) -> str:
    """The file name of the segment that begins at `base_offset`."""
    return f"{base_offset:020d}{SUFFIX}"


def segment_base_offset(file_name: str) -> int | None:
    """The offset a segment's file name stands for; None for other files."""
    digits = file_name.removesuffix(SUFFIX)
    if digits == file_name or len(digits) != 20 or not (digits.isascii() and digits.isdigit()):
        return None
    return int(digits)


def scan(file: StorageFile, position: int, *, verify: bool) -> Iterator[tuple[int, BatchHeader]]:
    """(position, header) of the whole batches from `position` on, up to the first that is not one.

    With `verify` the CRC of every batch is checked, too.
    """
    end = file.size
    chunk, chunk_begin = b"", position
    while end - position >= HEADER_BYTES:
        at = position - chunk_begin
        if len(chunk) - at < HEADER_BYTES:
            chunk, chunk_begin, at = file.read(position, _SCAN_BYTES), position, 0
        try:
            header = read_header(chunk, at)
            size = header.size_bytes
            if position + size > end:
                return
            if verify:
                if len(chunk) - at < size:
                    chunk, chunk_begin, at = file.read(position, max(size, _SCAN_BYTES)), position, 0
                check_crc(chunk, header, at)
        except CorruptBatch:
            return
        yield position, header
        position += size


class Segment:
    """One segment; `next_offset` is the offset its next record gets."""

    __slots__ = (
        "_bytes_since_entry",
        "_entry_offsets",
        "_entry_positions",
        "_entry_timestamps",
        "_index_interval_bytes",
        "base_offset",
        "file",
        "max_timestamp",
        "next_offset",
        "path",
        "size",
    )

    def __init__(self, storage: Storage, folder: str, base_offset: int, index_interval_bytes: int) -> None:
        self.path = f"{folder}/{segment_file_name(base_offset)}"
        self.file = storage.open(self.path)
        self.base_offset = base_offset
        self.next_offset = base_offset
        self.size = 0
        self.max_timestamp = NO_TIMESTAMP
        self._index_interval_bytes = index_interval_bytes
        self._bytes_since_entry = 0
        self._entry_offsets = array("q")
        self._entry_positions = array("q")
        # The largest timestamp in front of the entry.
        self._entry_timestamps = array("q")

    def load(self, *, verify: bool) -> Iterator[BatchHeader]:
        """The headers of the batches found in the file; what is torn or corrupt at its end is cut off."""
        for _, header in scan(self.file, 0, verify=verify):
            if header.base_offset < self.next_offset:
                break
            self._note(header, header.base_offset)
            yield header
        if self.file.size > self.size:
            self.file.truncate(self.size)

    def append(self, buffers: list[Buffer], headers: list[BatchHeader]) -> None:
        """Append whole batches with their offsets in their headers; OSError: nothing was appended."""
        self.file.append(buffers)
        for header in headers:
            self._note(header, header.base_offset)

    def append_at(self, records: Buffer, header: BatchHeader, base_offset: int) -> None:
        """Append one batch that got `base_offset` just now; OSError: nothing was appended."""
        self.file.append((records,))
        self._note(header, base_offset)

    def _note(self, header: BatchHeader, base_offset: int) -> None:
        size = header.size_bytes
        if self._bytes_since_entry >= self._index_interval_bytes or not self._entry_offsets:
            self._entry_offsets.append(base_offset)
            self._entry_positions.append(self.size)
            before = self.max_timestamp if self.size else _BEFORE_ALL_TIME
            self._entry_timestamps.append(before)
            self._bytes_since_entry = 0
        self._bytes_since_entry += size
        self.size += size
        self.next_offset = base_offset + header.last_offset_delta + 1
        if header.max_timestamp > self.max_timestamp:
            self.max_timestamp = header.max_timestamp

    def header_at(self, position: int) -> BatchHeader:
        """The header of the batch that begins at `position`; OSError where it is gone."""
        try:
            return read_header(self.file.read(position, HEADER_BYTES))
        except CorruptBatch as error:
            raise OSError(f"{self.path}: {error}") from error

    def position_of(self, offset: int) -> int:
        """Where the batch begins that holds `offset`, or the first one behind it; `size` past the end."""
        if offset >= self.next_offset:
            return self.size
        entry = bisect_right(self._entry_offsets, offset) - 1
        if entry < 0:
            return 0
        position = self._entry_positions[entry]
        if self._entry_offsets[entry] == offset:
            return position
        while position < self.size:
            header = self.header_at(position)
            if header.last_offset >= offset:
                break
            position += header.size_bytes
        return position

    def slice(self, offset: int, end_offset: int, max_bytes: int, at_least_one: bool) -> FileSlice | None:
        """Whole batches from `offset` on and below `end_offset`, about `max_bytes` of them at most.

        The first batch may hold records in front of `offset`. None where there is nothing, or where the first batch
        alone is too large and `at_least_one` is False.
        """
        begin = self.position_of(offset)
        end = self.size if end_offset >= self.next_offset else self.position_of(end_offset)
        if end - begin > max_bytes:
            entry = bisect_right(self._entry_positions, begin + max_bytes) - 1
            cut = self._entry_positions[entry]
            if cut <= begin:
                size = self.header_at(begin).size_bytes
                if size > max_bytes and not at_least_one:
                    return None
                cut = begin + size
            end = cut
        return self.file.file_slice(begin, end - begin) if end > begin else None

    def first_since(self, timestamp: int) -> tuple[int, BatchHeader] | None:
        """(position, header) of the first batch with a timestamp not below `timestamp`; None where there is none."""
        if self.max_timestamp < timestamp or not self.size:
            return None
        entry = max(0, bisect_left(self._entry_timestamps, timestamp) - 1)
        position = self._entry_positions[entry]
        while position < self.size:
            header = self.header_at(position)
            if header.max_timestamp >= timestamp:
                return position, header
            position += header.size_bytes
        return None
