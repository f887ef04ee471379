"""Where in a segment which offset and which time is: Kafka's offset and time index, in memory or in their files.

Both are sparse: about every `index.interval.bytes` of batches there is an entry. An offset entry names the last offset
of a batch and the position where that batch begins, never position 0; a time entry names the largest timestamp so far
and the last offset of the first batch that has it. From an entry the search goes on by reading headers.

The segment that is written to has a `GrowingIndex` in memory, which also has each indexed batch's first offset: a
reader that goes on where a batch begins needs no header. When the segment is closed its index is written to `NNN.index`
and `NNN.timeindex`, and a `StoredIndex` looks entries up in the files. So memory does not grow with the data.

Invariants: entries grow; an entry never points behind the batch it names. The files are checked against the segment
before they are used (`StoredIndex.fault`); where they differ, the log is right.
"""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_right
from collections.abc import Callable
from struct import Struct
from typing import NamedTuple, Protocol

from ottla.broker.log import files
from ottla.broker.storage import Storage

INDEX_SUFFIX = ".index"
TIME_INDEX_SUFFIX = ".timeindex"
NO_TIMESTAMP = -1
_OFFSET_ENTRY = Struct(">ii")
_TIME_ENTRY = Struct(">qi")
_WINDOW_ENTRIES = 256
_SWAP = sys.byteorder == "little"


class IndexEntry(NamedTuple):
    """A position to search from; `exact` where the batch looked for begins there."""

    position: int
    exact: bool


class SegmentIndex(Protocol):
    """What a segment needs of its index; OSError where a file cannot be read."""

    def lookup(self, relative_offset: int) -> IndexEntry:
        """A batch at or in front of the one that holds the offset."""
        ...

    def position_before(self, position: int) -> int:
        """The last indexed position not behind this one, 0 where there is none."""
        ...

    def offset_before_time(self, timestamp: int) -> int:
        """A relative offset from which on to look for the first record with this timestamp or a later one."""
        ...


class GrowingIndex:
    """The index of a segment that is written to; offsets are relative to the segment's."""

    __slots__ = (
        "_begins",
        "_bytes_since_entry",
        "_ends",
        "_interval_bytes",
        "_positions",
        "_time_ends",
        "_times",
        "max_timestamp",
        "max_timestamp_end",
    )

    def __init__(self, interval_bytes: int) -> None:
        self._interval_bytes = interval_bytes
        self._bytes_since_entry = 0
        self._begins = array("i")
        self._ends = array("i")
        self._positions = array("i")
        self._times = array("q")
        self._time_ends = array("i")
        self.max_timestamp = NO_TIMESTAMP
        self.max_timestamp_end = 0

    def add(self, position: int, size: int, begin: int, end: int, max_timestamp: int) -> None:
        """A batch of `size` bytes, from relative offset `begin` to `end`, was appended at `position`."""
        if max_timestamp > self.max_timestamp:
            self.max_timestamp = max_timestamp
            self.max_timestamp_end = end
        if self._bytes_since_entry > self._interval_bytes:
            self._begins.append(begin)
            self._ends.append(end)
            self._positions.append(position)
            self._add_time()
            self._bytes_since_entry = 0
        self._bytes_since_entry += size

    def _add_time(self) -> None:
        times = self._times
        if self.max_timestamp > (times[-1] if times else NO_TIMESTAMP):
            times.append(self.max_timestamp)
            self._time_ends.append(self.max_timestamp_end)

    def is_full(self, index_bytes_max: int) -> bool:
        """Whether an index file of this size holds no more entries."""
        entries = len(self._ends)
        return entries > 0 and (
            entries >= index_bytes_max // _OFFSET_ENTRY.size
            or len(self._times) >= index_bytes_max // _TIME_ENTRY.size - 1
        )

    def lookup(self, relative_offset: int) -> IndexEntry:
        """See SegmentIndex."""
        entry = bisect_right(self._begins, relative_offset) - 1
        return (
            IndexEntry(self._positions[entry], self._ends[entry] >= relative_offset)
            if entry >= 0
            else IndexEntry(0, False)
        )

    def position_before(self, position: int) -> int:
        """See SegmentIndex."""
        entry = bisect_right(self._positions, position) - 1
        return self._positions[entry] if entry >= 0 else 0

    def offset_before_time(self, timestamp: int) -> int:
        """See SegmentIndex."""
        entry = bisect_right(self._times, timestamp) - 1
        return self._time_ends[entry] if entry >= 0 else 0

    def truncate(self, position: int) -> int:
        """Forget what lies from `position` on; the last entry left, or 0: batches from there on go to `note_tail`."""
        count = bisect_right(self._positions, position - 1)
        del self._begins[count:], self._ends[count:], self._positions[count:]
        kept_times = bisect_right(self._time_ends, self._ends[-1]) if count else 0
        del self._times[kept_times:], self._time_ends[kept_times:]
        self.max_timestamp = self._times[-1] if self._times else NO_TIMESTAMP
        self.max_timestamp_end = self._time_ends[-1] if self._time_ends else 0
        self._bytes_since_entry = 0
        return self._positions[-1] if count else 0

    def note_tail(self, size: int, end: int, max_timestamp: int) -> None:
        """A batch from the last entry on, read again after `truncate`: it gets no new entry."""
        if max_timestamp > self.max_timestamp:
            self.max_timestamp = max_timestamp
            self.max_timestamp_end = end
        self._bytes_since_entry += size

    def store(self, storage: Storage, stem: str, *, synced: bool) -> None:
        """Write both files; the time index ends with the largest timestamp there is. OSError."""
        self._add_time()
        ends = _interleave((self._ends, 4), (self._positions, 4))
        times = _interleave((self._times, 8), (self._time_ends, 4))
        storage.write_file(stem + INDEX_SUFFIX, ends, synced=synced)
        storage.write_file(stem + TIME_INDEX_SUFFIX, times, synced=synced)

    def load(self, storage: Storage, stem: str, size: int) -> bool:
        """Take both files of a segment of `size` bytes; False where they are missing or do not fit it."""
        offsets, times = storage.read_file(stem + INDEX_SUFFIX), storage.read_file(stem + TIME_INDEX_SUFFIX)
        if offsets is None or times is None:
            return False
        try:
            entries = files.read_offset_index(offsets)
            time_entries = files.read_time_index(times)
        except files.CorruptFile:
            return False
        if (entries and entries[-1].position >= size) or (size and not time_entries and entries):
            return False
        self._ends = array("i", [entry.relative_offset for entry in entries])
        # A batch's first offset is not in the file. With its last one instead, lookups are right, but slower.
        self._begins = array("i", self._ends)
        self._positions = array("i", [entry.position for entry in entries])
        self._times = array("q", [entry.timestamp_ms for entry in time_entries])
        self._time_ends = array("i", [entry.relative_offset for entry in time_entries])
        self._bytes_since_entry = size - (entries[-1].position if entries else 0)
        if time_entries:
            self.max_timestamp, self.max_timestamp_end = time_entries[-1]
        return True


class StoredIndex:
    """The two index files of a closed segment."""

    __slots__ = ("_offsets", "_times", "max_timestamp", "max_timestamp_end")

    def __init__(self, storage: Storage, stem: str) -> None:
        self._offsets = _EntryFile(storage, stem + INDEX_SUFFIX, _OFFSET_ENTRY)
        self._times = _EntryFile(storage, stem + TIME_INDEX_SUFFIX, _TIME_ENTRY)
        self.max_timestamp = NO_TIMESTAMP
        self.max_timestamp_end = 0

    def fault(self, size: int, next_relative_offset: int) -> str | None:
        """What is wrong with the files of a segment of `size` bytes, judged by sizes and last entries; else None.

        Reads the largest timestamp on the way.
        """
        if not (self._offsets.exists and self._times.exists):
            return "an index is missing"
        if not (self._offsets.is_whole and self._times.is_whole):
            return "an index does not end with a whole entry"
        if self._offsets.count:
            end, position = self._offsets.entry(self._offsets.count - 1)
            if not (0 <= end < next_relative_offset and 0 < position < size):
                return f"the last entry says offset {end} at position {position}"
        if self._times.count:
            timestamp, end = self._times.entry(self._times.count - 1)
            if (timestamp, end) == (0, 0):
                return "the time index ends with zeros"
            if timestamp < 0 or not 0 <= end < next_relative_offset:
                return f"the last entry says time {timestamp} at offset {end}"
            self.max_timestamp, self.max_timestamp_end = timestamp, end
        elif self._offsets.count:
            # That is right only if no record has a timestamp: the segment is read again to see.
            return "the time index is empty"
        return None

    @property
    def has_entries(self) -> bool:
        """Whether there is any offset entry."""
        return self._offsets.count > 0

    def lookup(self, relative_offset: int) -> IndexEntry:
        """See SegmentIndex."""
        found = self._offsets.last(lambda entry: entry[0] <= relative_offset)
        return IndexEntry(found[1], found[0] == relative_offset) if found is not None else IndexEntry(0, False)

    def position_before(self, position: int) -> int:
        """See SegmentIndex."""
        found = self._offsets.last(lambda entry: entry[1] <= position)
        return found[1] if found is not None else 0

    def offset_before_time(self, timestamp: int) -> int:
        """See SegmentIndex."""
        found = self._times.last(lambda entry: entry[0] <= timestamp)
        return found[1] if found is not None else 0

    def close(self) -> None:
        """Close the files."""
        self._offsets.close()
        self._times.close()


class _EntryFile:
    """A file of fixed-size entries, both fields of which grow."""

    __slots__ = ("_file", "_layout", "_path", "_storage")

    def __init__(self, storage: Storage, path: str, layout: Struct) -> None:
        self._storage = storage
        self._path = path
        self._layout = layout
        self._file = storage.open(path) if storage.exists(path) else None

    @property
    def exists(self) -> bool:
        return self._file is not None

    @property
    def is_whole(self) -> bool:
        return self._file is not None and self._file.size % self._layout.size == 0

    @property
    def count(self) -> int:
        return self._file.size // self._layout.size if self._file is not None else 0

    def entry(self, number: int) -> tuple[int, int]:
        return self._entries(number, 1)[0]

    def _entries(self, begin: int, count: int) -> list[tuple[int, int]]:
        if self._file is None:
            raise OSError(f"{self._path} is missing")
        size = self._layout.size
        data = self._file.read(begin * size, count * size)
        if len(data) != count * size:
            raise OSError(f"{self._path} is shorter than it was")
        return [(first, second) for first, second in self._layout.iter_unpack(data)]

    def last(self, belongs: Callable[[tuple[int, int]], bool]) -> tuple[int, int] | None:
        """The last entry that `belongs`; all in front of it do, none behind it does. None where the first does not."""
        low, high = 0, self.count
        while high - low > _WINDOW_ENTRIES:
            middle = (low + high) // 2
            if belongs(self.entry(middle)):
                low = middle
            else:
                high = middle
        window = self._entries(low, high - low) if high > low else []
        found = None
        for entry in window:
            if not belongs(entry):
                break
            found = entry
        return found

    def close(self) -> None:
        if self._file is not None:
            self._file.close()


def _interleave(*columns: tuple[array[int], int]) -> bytes:
    """Rows of big-endian numbers, made by column for speed: a large segment's index has a quarter million of them."""
    width = sum(size for _, size in columns)
    out = bytearray(width * len(columns[0][0]))
    begin = 0
    for numbers, size in columns:
        if _SWAP:
            numbers = array(numbers.typecode, numbers)
            numbers.byteswap()
        data = bytearray(numbers.tobytes())
        for byte in range(size):
            out[begin + byte :: width] = data[byte::size]
        begin += size
    return bytes(out)
