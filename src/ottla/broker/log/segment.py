"""One file of a log: record batches one behind the other, and a sparse index of where which offset is.

The file is named by the offset of its first record, as Kafka names it. Only the last segment of a log is written to:
its index grows in memory; `seal` writes it to the files beside the segment, where it is looked up from then on.

Invariants: batches lie one behind the other with growing offsets; `size` ends at a whole batch. Between two batches
offsets may be missing (the log was compacted), so `next_offset` can lie behind the last batch's last offset. A position
from index files is compared with the log before it is used. A wrong index is made again: no reader misses a batch
because of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ottla.broker.log.segment_index import INDEX_SUFFIX, TIME_INDEX_SUFFIX, GrowingIndex, IndexEntry, StoredIndex
from ottla.broker.storage import Buffer, FileSlice, Storage, StorageFile
from ottla.records.batch_header import HEADER_BYTES, BatchHeader, CorruptBatch, check_crc, read_header

SUFFIX = ".log"
TRANSACTION_INDEX_SUFFIX = ".txnindex"
SNAPSHOT_SUFFIX = ".snapshot"
DELETED_SUFFIX = ".deleted"
_SCAN_BYTES = 1 << 18
_LOOK_BYTES = 1 << 12
_RELATIVE_OFFSET_MAX = (1 << 31) - 1
UNKNOWN = -1


def file_name(base_offset: int, suffix: str = SUFFIX) -> str:
    """The name of a file that belongs to the segment, or to the state of the log, at `base_offset`."""
    return f"{base_offset:020d}{suffix}"


def offset_of(name: str, suffix: str = SUFFIX) -> int | None:
    """The offset a file's name stands for; None for files of another kind."""
    digits = name.removesuffix(suffix)
    if digits == name or len(digits) != 20 or not (digits.isascii() and digits.isdigit()):
        return None
    return int(digits)


def scan(
    file: StorageFile, position: int, *, verify: bool = False, ahead_bytes: int = _SCAN_BYTES
) -> Iterator[BatchHeader]:
    """The headers (`position` in them) of the whole batches from `position` on, up to the first that is not one.

    With `verify` the CRC of every batch is checked, too.
    """
    end = file.size
    chunk, chunk_begin = b"", position
    while end - position >= HEADER_BYTES:
        at = position - chunk_begin
        if len(chunk) - at < HEADER_BYTES:
            chunk, chunk_begin, at = file.read(position, ahead_bytes), position, 0
        try:
            header = read_header(chunk, at)
            size = header.size_bytes
            if position + size > end:
                return
            if verify:
                if len(chunk) - at < size:
                    chunk, chunk_begin, at = file.read(position, max(size, ahead_bytes)), position, 0
                check_crc(chunk, header, at)
        except CorruptBatch:
            return
        header.position = position
        yield header
        position += size


class Segment:
    """One segment; `next_offset` is the offset its next record gets. Times are of records, in ms.

    `first_timestamp` is the largest of the first batch, `born_ms` the wall time when the segment came into being, as
    far as that is known (UNKNOWN).
    """

    __slots__ = (
        "_folder",
        "_index_doubted",
        "_index_interval_bytes",
        "_storage",
        "base_offset",
        "born_ms",
        "file",
        "first_timestamp",
        "index",
        "next_offset",
        "path",
        "size",
    )

    def __init__(self, storage: Storage, folder: str, base_offset: int, index_interval_bytes: int) -> None:
        self._storage = storage
        self._folder = folder
        self._index_interval_bytes = index_interval_bytes
        self.path = self.path_of(SUFFIX, base_offset)
        self.file = storage.open(self.path)
        self.base_offset = base_offset
        self.next_offset = base_offset
        self.size = 0
        self.first_timestamp = UNKNOWN
        self.born_ms = UNKNOWN
        self.index: GrowingIndex | StoredIndex = GrowingIndex(index_interval_bytes)
        self._index_doubted = False

    def path_of(self, suffix: str, base_offset: int | None = None) -> str:
        """The path of a file that belongs to this segment."""
        return f"{self._folder}/{file_name(self.base_offset if base_offset is None else base_offset, suffix)}"

    @property
    def max_timestamp(self) -> int:
        """The largest timestamp, -1 where there is none."""
        return self.index.max_timestamp

    @property
    def is_sealed(self) -> bool:
        """Whether its index is in files."""
        return isinstance(self.index, StoredIndex)

    # Coming to be.

    def rebuild(self, *, verify: bool) -> Iterator[BatchHeader]:
        """Read the whole file and index it; whatever cannot be a batch is cut off. OSError."""
        self.index = GrowingIndex(self._index_interval_bytes)
        self._index_doubted = False
        self.size = 0
        self.next_offset = self.base_offset
        for header in scan(self.file, 0, verify=verify):
            if header.base_offset < self.next_offset or header.last_offset - self.base_offset > _RELATIVE_OFFSET_MAX:
                break
            self._note(header, header.base_offset)
            yield header
        if self.size < self.file.size:
            self.file.truncate(self.size)

    def adopt_index(self, next_offset: int) -> bool:
        """Take the index files of a closed segment; False where they are missing or do not fit it."""
        index = StoredIndex(self._storage, self.path_of(""))
        lacking = not index.has_entries and self._wants_entries()
        if lacking or index.fault(self.file.size, next_offset - self.base_offset):
            index.close()
            return False
        self._take(index, next_offset)
        return True

    def _wants_entries(self) -> bool:
        """Whether some batch begins so far from the beginning that the index must have an entry."""
        interval_bytes = self._index_interval_bytes
        if self.file.size <= interval_bytes:
            return False
        return any(header.position > interval_bytes for header in scan(self.file, 0, ahead_bytes=_LOOK_BYTES))

    def resume(self, next_offset: int) -> bool:
        """Take the index files of a segment that was closed in order, to write on; False where that cannot be."""
        index = GrowingIndex(self._index_interval_bytes)
        if self.file.size and not index.load(self._storage, self.path_of(""), self.file.size):
            return False
        self._take(index, next_offset)
        return True

    def take_over(self, index: GrowingIndex, next_offset: int) -> None:
        """Take the index of the batches that are in the file, made while they were written."""
        self._take(index, next_offset)
        self._index_doubted = False

    def _take(self, index: GrowingIndex | StoredIndex, next_offset: int) -> None:
        self.index = index
        self._index_doubted = True
        self.size = self.file.size
        self.next_offset = next_offset

    def store_index(self, *, synced: bool = True) -> None:
        """Write the index files of what there is; the segment can go on growing. OSError.

        If not `synced`, the caller syncs them (`sync`, `begin_sync`) before the segment counts as synced.
        """
        if isinstance(self.index, GrowingIndex):
            self.index.store(self._storage, self.path_of(""), synced=synced)

    def sync(self) -> None:
        """Return once the segment, and its index files where it is closed, would survive a power cut; OSError."""
        self.file.sync()
        if self.is_sealed:
            for suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX):
                file = self._storage.open(self.path_of(suffix))
                file.sync()
                file.close()

    def begin_sync(self, *, with_index: bool) -> list[Callable[[], bool]]:
        """Begin what `sync` does; as `StorageFile.begin_sync`, for each file."""
        begun = [self.file.begin_sync()]
        if with_index:
            for suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX):
                file = self._storage.open(self.path_of(suffix))
                begun.append(file.begin_sync())
                file.close()
        return begun

    def seal(self) -> None:
        """Use the index files, which are written, from now on: no entry stays in memory."""
        index = StoredIndex(self._storage, self.path_of(""))
        index.max_timestamp, index.max_timestamp_end = self.index.max_timestamp, self.index.max_timestamp_end
        self.index = index

    # Growing and shrinking.

    def has_room(self, size: int, last_offset: int, segment_bytes: int, index_bytes: int) -> bool:
        """Whether another `size` bytes up to `last_offset` still belong here."""
        index = self.index
        return (
            self.size + size <= segment_bytes
            and last_offset - self.base_offset <= _RELATIVE_OFFSET_MAX
            and not (isinstance(index, GrowingIndex) and index.is_full(index_bytes))
        )

    def append(self, buffers: list[Buffer], headers: list[BatchHeader]) -> None:
        """Append batches that have their offsets; OSError: nothing was appended."""
        self.file.append(buffers)
        for header in headers:
            self._note(header, header.base_offset)

    def append_at(self, records: Buffer, header: BatchHeader, base_offset: int) -> None:
        """Append one batch that got `base_offset` just now; OSError: nothing was appended."""
        self.file.append((records,))
        self._note(header, base_offset)

    def _note(self, header: BatchHeader, base_offset: int) -> None:
        index = self.index
        assert isinstance(index, GrowingIndex)
        size = header.size_bytes
        begin = base_offset - self.base_offset
        end = begin + header.last_offset_delta
        index.add(self.size, size, begin, end, header.max_timestamp)
        if not self.size:
            self.first_timestamp = header.max_timestamp
        self.size += size
        self.next_offset = base_offset + header.last_offset_delta + 1

    def truncate(self, offset: int) -> None:
        """Cut the segment at `offset`, or in front of the batch that holds it, so that it can grow again. OSError."""
        position = self.position_of(offset)
        next_offset = min(offset, self.header_at(position).base_offset) if position < self.size else offset
        self.file.truncate(position)
        if not isinstance(self.index, GrowingIndex):
            self.index.close()
            index = GrowingIndex(self._index_interval_bytes)
            if not index.load(self._storage, self.path_of(""), self.size):
                for _ in self.rebuild(verify=False):
                    pass
                self.next_offset = max(self.next_offset, next_offset)
                return
            self.index = index
            self._index_doubted = True
        self.size = position
        self.next_offset = next_offset
        if not position:
            self.first_timestamp = UNKNOWN
        for header in scan(self.file, self.index.truncate(position)):
            self.index.note_tail(header.size_bytes, header.last_offset - self.base_offset, header.max_timestamp)

    # Reading.

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
        if offset <= self.base_offset:
            self._leave_out_torn(0)
            return 0
        entry = self.index.lookup(offset - self.base_offset)
        if self._index_doubted and not self._agrees(entry, offset):
            self._index_again()
            entry = self.index.lookup(offset - self.base_offset)
        if entry.exact:
            return entry.position
        return self._position_from(entry.position, offset)

    def header_from(self, offset: int) -> BatchHeader | None:
        """The header of the batch that holds `offset`, or of the first one behind it; None: there is none. OSError."""
        return self._batch_at(self.position_of(offset))

    def end_in_file(self) -> int:
        """The offset behind the last batch in the file; headers are read from the last index entry on. OSError."""
        end = self._end_behind(self.index.position_before(self.size))
        if end == self.base_offset and self.size:
            self._index_again()
            end = self._end_behind(0)
        return end

    def _leave_out_torn(self, position: int) -> None:
        """If the batch at `position` is torn by a closed segment's end, let that end in front of it; the file stays.

        Apache Kafka does so, too: what asks for the torn batch gets the next segment, and no bytes that are no batch.
        An active segment keeps its size: it goes on at the end of its file.
        """
        left = self.size - position
        if self._index_doubted and self.is_sealed and left > 0:
            header = self._batch_at(position)
            if left < HEADER_BYTES or (header is not None and header.size_bytes > left):
                self.size = position

    def _end_behind(self, position: int) -> int:
        end = self.base_offset
        for header in scan(self.file, position, ahead_bytes=_LOOK_BYTES):
            end = header.last_offset + 1
            position = header.position + header.size_bytes
        self._leave_out_torn(position)
        return end

    def _agrees(self, entry: IndexEntry, offset: int) -> bool:
        """Whether a batch begins where the entry says, not behind `offset`; one of an `exact` entry must hold it."""
        header = self._batch_at(entry.position)
        if header is None or header.base_offset > offset or entry.position + header.size_bytes > self.size:
            return False
        return not entry.exact or header.last_offset >= offset

    def _batch_at(self, position: int) -> BatchHeader | None:
        if not 0 <= position < self.size:
            return None
        try:
            return read_header(self.file.read(position, HEADER_BYTES))
        except CorruptBatch:
            return None

    def _index_again(self) -> None:
        """Make the index again from the log, and its files where there are any. OSError."""
        index = GrowingIndex(self._index_interval_bytes)
        position = 0
        for header in scan(self.file, 0, ahead_bytes=_LOOK_BYTES):
            begin = header.base_offset - self.base_offset
            end = begin + header.last_offset_delta
            if begin < 0 or end > _RELATIVE_OFFSET_MAX:
                break
            index.add(header.position, header.size_bytes, begin, end, header.max_timestamp)
            position = header.position + header.size_bytes
        self._leave_out_torn(position)
        was_sealed = self.is_sealed
        if isinstance(self.index, StoredIndex):
            self.index.close()
        self.index = index
        self._index_doubted = False
        if was_sealed:
            self.store_index()
            self.seal()

    def _position_from(self, position: int, offset: int) -> int:
        for header in scan(self.file, position, ahead_bytes=_LOOK_BYTES):
            position = header.position
            if header.last_offset >= offset:
                return position
            position += header.size_bytes
        self._leave_out_torn(position)
        if position < self.size:
            # OSError if no header is here. What follows a header is not checked, as Kafka does not check what it passes
            # on: the reader does.
            self.header_at(position)
        return position

    def slice(self, offset: int, end_offset: int, max_bytes: int, at_least_one: bool) -> FileSlice | None:
        """Whole batches from `offset` on and below `end_offset`, about `max_bytes` of them at most.

        The first batch may hold records in front of `offset`. None where there is nothing, or where the first batch
        alone is too large and `at_least_one` is False.
        """
        begin = self.position_of(offset)
        end = self.size if end_offset >= self.next_offset else self.position_of(end_offset)
        if end - begin > max_bytes:
            cut = self.index.position_before(begin + max_bytes)
            if self._index_doubted and cut > begin and self._batch_at(cut) is None:
                self._index_again()
                cut = self.index.position_before(begin + max_bytes)
            if cut <= begin:
                size = self.header_at(begin).size_bytes
                if begin + size > self.size:
                    raise OSError(f"{self.path}: the batch at {begin} says it is longer than what is left of the file")
                if size > max_bytes and not at_least_one:
                    return None
                cut = begin + size
            end = cut
        return self.file.file_slice(begin, end - begin) if end > begin else None

    def ends_before(self, offset: int) -> bool:
        """Whether no batch holds `offset` or anything behind it (compaction may have left none)."""
        return self.position_of(offset) >= self.size

    def headers(self, offset: int) -> Iterator[BatchHeader]:
        """The headers of the batches from the one that holds `offset` on; OSError."""
        return scan(self.file, self.position_of(offset))

    def batch(self, header: BatchHeader) -> bytes:
        """A whole batch of this segment."""
        return self.file.read(header.position, header.size_bytes)

    def bound_behind(self, position: int) -> int:
        """The offset of the batch that begins at `position`, or the segment's end; OSError."""
        return self.header_at(position).base_offset if position < self.size else self.next_offset

    def batches_since(self, timestamp: int, begin: int) -> Iterator[BatchHeader]:
        """The batches, from offset `begin` on, with a timestamp not below `timestamp`."""
        if self.max_timestamp < timestamp or not self.size or begin >= self.next_offset:
            return
        offset = max(begin, self.base_offset + self.index.offset_before_time(timestamp))
        for header in scan(self.file, self.position_of(offset), ahead_bytes=_LOOK_BYTES):
            # Compaction leaves batches without records.
            if header.max_timestamp >= timestamp and header.record_count:
                yield header

    def oldest_timestamp(self) -> int:
        """The largest timestamp of the first batch, -1 where there is no batch or it has none; OSError."""
        if self.first_timestamp == UNKNOWN and self.size:
            self.first_timestamp = self.header_at(0).max_timestamp
        return self.first_timestamp

    # Ending.

    def paths(self) -> list[str]:
        """The segment's file and the indexes beside it."""
        suffixes = (SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX)
        return [self.path_of(suffix) for suffix in suffixes]

    def close(self) -> None:
        """Close the files."""
        self.file.close()
        if isinstance(self.index, StoredIndex):
            self.index.close()

    def remove(self) -> None:
        """Close and remove the segment and what belongs to it; OSError."""
        self.close()
        for path in self.paths():
            self._storage.remove(path)

    def put_aside(self) -> list[str]:
        """Close the segment and rename its files, so that no start takes them for part of the log; their new paths."""
        self.close()
        aside = []
        for path in self.paths():
            if self._storage.exists(path):
                self._storage.rename(path, path + DELETED_SUFFIX)
                aside.append(path + DELETED_SUFFIX)
        return aside
