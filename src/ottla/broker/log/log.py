"""A partition's log: segments in a folder, and what its batches say about producers and leader epochs.

`recovery` opens it. Everything below `recovery_point` is synced: `flush` moves that point, and so does the sync that
begins in the background when a segment is closed. Beside each closed segment are its indexes; where a segment begins
there is a snapshot of the producers. The folder belongs to one topic id, written in `partition.metadata` as Kafka does;
the folder of an older topic of the same name is set aside.

Invariants: offsets grow; `log_start_offset <= log_end_offset`, where the next record goes; an append that fails
(OSError) leaves no record of its own. There are two exceptions: where only the flush after it failed
(`flush.messages`), as with Kafka, and `append_copies`. The last segment is the only one written to, its index the only
one in memory.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from errno import EIO

from ottla.broker.log import producer_snapshots, recovery
from ottla.broker.log.aborted_transactions import AbortedTransactions
from ottla.broker.log.directory import BLANK, METADATA_FILE, LogDirectory
from ottla.broker.log.end_markers import read_end_marker
from ottla.broker.log.files import AbortedTransaction, write_leader_epochs, write_partition_metadata
from ottla.broker.log.leader_epochs import LeaderEpochs
from ottla.broker.log.producer_state import ProducerStates
from ottla.broker.log.segment import TRANSACTION_INDEX_SUFFIX, Segment, file_name
from ottla.broker.storage import Buffer, FileSlice
from ottla.broker.topic_settings import TopicSettings
from ottla.broker.uuids import uuid_text
from ottla.records.batch_header import HEADER_BYTES, BatchHeader, stamp_offset
from ottla.records.crc import crc32c

EPOCHS_FILE = "leader-epoch-checkpoint"


class Log:
    """The log of one partition replica; sizes in bytes, offsets as Kafka counts them."""

    __slots__ = (
        "_epochs_stored",
        "_syncs",
        "aborted",
        "cleaned_to",
        "cuts",
        "directory",
        "epochs",
        "flushed_us",
        "folder",
        "log_end_offset",
        "log_start_offset",
        "producers",
        "recovery_point",
        "segments",
        "settings",
        "snapshot_offset",
        "storage",
    )

    def __init__(self, directory: LogDirectory, folder: str, settings: TopicSettings) -> None:
        self.directory = directory
        self.storage = directory.storage
        self.folder = folder
        self.settings = settings
        self.segments: list[Segment] = []
        self.log_start_offset = 0
        self.log_end_offset = 0
        self.recovery_point = 0
        self.snapshot_offset = 0
        # Compaction: everything below `cleaned_to` was cleaned. `cuts` counts truncations: each ends a running
        # round.
        self.cleaned_to = 0
        self.cuts = 0
        self.producers = ProducerStates()
        self.aborted = AbortedTransactions()
        self.epochs = LeaderEpochs()
        self.flushed_us = self.storage.write_back.now_us
        self._epochs_stored = b""
        # (whether it is done, the offset that is synced then), ascending
        self._syncs: list[tuple[Callable[[], bool], int]] = []

    def open(self, topic_id: bytes) -> None:
        """Open and recover the log in its folder, made where it is missing; OSError where that fails."""
        path = f"{self.folder}/{METADATA_FILE}"
        owner = write_partition_metadata(uuid_text(topic_id))
        first = (file_name(0), b"")
        if not self.storage.exists(self.folder):
            self.directory.retract(self.folder)
        if self.storage.make_folder(self.folder, ((METADATA_FILE, owner), first)):
            self.directory.forget(self.folder)
            self.segments = [self.new_segment(0)]
            return
        found = self.storage.read_file(path)
        # Words are compared, not bytes: the last line may have a line end or not.
        if found is None or found.split() != owner.split():
            # Blank is what a power cut leaves of it.
            if found is not None and found.strip(BLANK):
                if not _is_owner(found):
                    raise OSError(EIO, "it does not say which topic the log belongs to", path)
                self.directory.keep_stray(self.folder, found.split()[3].decode(errors="replace"))
            self.storage.write_file(path, owner)
        recovery.recover(self)
        self.directory.forget(self.folder)

    def new_segment(self, base_offset: int) -> Segment:
        """A segment that begins at `base_offset`, not yet a part of the log."""
        return Segment(self.storage, self.folder, base_offset, self.settings.index_interval_bytes)

    @property
    def active(self) -> Segment:
        """The segment that is written to."""
        return self.segments[-1]

    @property
    def size_bytes(self) -> int:
        """Bytes of all segments."""
        return sum(segment.size for segment in self.segments)

    # Writing.

    def append(self, records: bytearray | memoryview, header: BatchHeader, leader_epoch: int) -> int:
        """Append one checked batch as leader and return the base offset it got; it is stamped in place.

        OSError: nothing was appended, or only the flush afterwards failed.
        """
        base_offset = self.log_end_offset
        stamp_offset(records, 0, base_offset, leader_epoch)
        settings = self.settings
        segment = self.segments[-1]
        size = segment.size
        if size and self._is_due(segment, size, len(records), base_offset + header.last_offset_delta, header):
            segment = self.roll()
        segment.append_at(records, header, base_offset)
        self.log_end_offset = end = base_offset + header.last_offset_delta + 1
        if header.producer_id >= 0:
            self.note_producer(header, base_offset, records)
        self.epochs.note(leader_epoch, base_offset)
        if end - self.recovery_point >= settings.flush_messages:
            self.flush()
        return base_offset

    def append_copies(self, buffers: list[Buffer], headers: list[BatchHeader]) -> None:
        """Append checked batches as a leader gave them, offsets and epochs included.

        OSError: nothing was appended, or whole segments' worth from the beginning, or only the flush afterwards failed.
        """
        segment = self.segments[-1]
        newest = max(headers, key=_max_timestamp)
        if not self._is_due(segment, segment.size, sum(map(len, buffers)), headers[-1].last_offset, newest):
            self._append_run(buffers, headers)
        else:
            for run in self._segment_by_segment(buffers, headers):
                self._append_run([batch for _, batch in run], [header for header, _ in run])
        if self.log_end_offset - self.recovery_point >= self.settings.flush_messages:
            self.flush()

    def _append_run(self, buffers: list[Buffer], headers: list[BatchHeader]) -> None:
        segment = self.segments[-1]
        segment.append(buffers, headers)
        self.log_end_offset = segment.next_offset
        has_marker = False
        for header in headers:
            if header.is_control:
                has_marker = True
            self.epochs.note(header.partition_leader_epoch, header.base_offset)
        if not has_marker:
            for header in headers:
                if header.producer_id >= 0:
                    self.note_producer(header, header.base_offset)
            return
        # What a marker says is taken from memory: the file may refuse, and the batches are in the log already.
        for header, batch in _locate(buffers, headers):
            if header.producer_id >= 0:
                self.note_producer(header, header.base_offset, batch)

    def _segment_by_segment(
        self, buffers: list[Buffer], headers: list[BatchHeader]
    ) -> Iterator[list[tuple[BatchHeader, Buffer]]]:
        """The batches in runs that belong into one segment; the log is rolled between two runs."""
        run: list[tuple[BatchHeader, Buffer]] = []
        size = 0
        for header, batch in _locate(buffers, headers):
            segment = self.segments[-1]
            ahead = segment.size + size
            if ahead and self._is_due(segment, ahead, header.size_bytes, header.last_offset, header):
                if run:
                    yield run
                    run, size = [], 0
                self.roll(header.base_offset)
            run.append((header, batch))
            size += header.size_bytes
        if run:
            yield run

    def _is_due(self, segment: Segment, ahead: int, size: int, last_offset: int, header: BatchHeader) -> bool:
        """Whether the log is to be rolled before `size` more bytes, when the segment has `ahead` bytes."""
        settings = self.settings
        more = ahead - segment.size + size
        if not segment.has_room(more, last_offset, settings.segment_bytes, settings.segment_index_bytes):
            return True
        if not segment.size or header.max_timestamp < 0:
            return False
        oldest_ms = segment.oldest_timestamp()
        if oldest_ms < 0:
            return False  # Records without timestamps: `retention.py` rolls by how long the segment is known.
        waited_ms = header.max_timestamp - oldest_ms
        return waited_ms > self.segment_ms(segment)

    def segment_ms(self, segment: Segment) -> int:
        """How long this segment is written to: `segment.ms`, less some jitter, so that not all logs roll at once."""
        settings = self.settings
        segment_ms: int = settings.segment_ms
        most = min(settings.segment_jitter_ms, segment_ms)
        if "compact" in settings.cleanup_policy:
            # What is in the active segment is not compacted.
            segment_ms = min(segment_ms, settings.max_compaction_lag_ms)
        return segment_ms - (crc32c(segment.path.encode()) % most if most else 0)

    def roll(self, base_offset: int | None = None) -> Segment:
        """Close the segment written to and begin another; OSError: it still is written to, or a sync has failed."""
        closed = self.segments[-1]
        base_offset = self.log_end_offset if base_offset is None else base_offset
        # Earlier segments that were not synced, such as those of the last run, are synced with it.
        begun_to = self._syncs[-1][1] if self._syncs else self.recovery_point
        # A start trusts a segment that is synced, and its index files with it: then they must be synced now.
        closed.store_index(synced=begun_to >= base_offset)
        self._store_transactions(closed)
        self.take_snapshot(base_offset)
        self.store_epochs()
        segment = self.new_segment(base_offset)
        late = [each for each in self.segments if each.next_offset > begun_to or each is closed]
        begun = [done for each in late for done in each.begin_sync(with_index=True)]
        closed.next_offset = base_offset
        closed.seal()
        self.segments.append(segment)
        self.log_end_offset = base_offset
        self._syncs.append((lambda: all(done() for done in begun), base_offset))
        self.settle_syncs()
        return segment

    def note_producer(self, header: BatchHeader, base_offset: int, batch: Buffer | None = None) -> None:
        """Remember what a batch says about its producer; `batch` is read from the log where it is not given."""
        if not header.is_control:
            self.producers.note(header, base_offset)
            return
        if batch is None:
            # Not by the header's position: in a copied batch that is its position in the Fetch answer.
            segment = self.segment_of(base_offset)
            batch = segment.file.read(segment.position_of(base_offset), header.size_bytes)
        ended = self.producers.note(header, base_offset, end_marker=read_end_marker(batch))
        if ended is not None and not ended.committed:
            row = AbortedTransaction(ended.producer_id, ended.first_offset, ended.last_offset, ended.last_stable_offset)
            self.aborted.add(row)

    # Reading.

    def byte_of(self, offset: int) -> tuple[str, int]:
        """File and position of a byte in the records of the batch that holds `offset`, for a fault that corrupts it."""
        segment = self.segment_of(offset)
        position = segment.position_of(offset)
        size = segment.header_at(position).size_bytes
        return segment.path, position + HEADER_BYTES + (size - HEADER_BYTES) // 2

    def slice(self, offset: int, end_offset: int, max_bytes: int, at_least_one: bool) -> FileSlice | None:
        """Whole batches from `offset` on, below `end_offset` and of one segment; see `Segment.slice`."""
        number = self._number_of(offset)
        segment = self.segments[number]
        found = segment.slice(offset, end_offset, max_bytes, at_least_one)
        while (
            found is None
            and number + 1 < len(self.segments)
            and segment.next_offset < end_offset
            and segment.ends_before(offset)
        ):
            # Compaction left nothing from here to the segment's end; behind the last segment there is nothing at all.
            number += 1
            segment = self.segments[number]
            found = segment.slice(offset, end_offset, max_bytes, at_least_one)
        return found

    def bound_behind(self, offset: int, size_bytes: int) -> int:
        """An offset above all those in `size_bytes` of batches from `offset` on."""
        segment = self.segment_of(offset)
        position = segment.position_of(offset)
        # Where compaction left nothing the batches are those of a later segment.
        return segment.bound_behind(position + size_bytes) if position < segment.size else self.log_end_offset

    def batches_since(self, timestamp: int) -> Iterator[bytes]:
        """The batches from the log's beginning on with a timestamp not below `timestamp`."""
        for segment in self.segments:
            for header in segment.batches_since(timestamp, self.log_start_offset):
                yield segment.batch(header)

    @property
    def max_timestamp(self) -> int:
        """The largest timestamp in the log, -1 where there is none; OSError."""
        first, *others = self.segments
        if first.base_offset < self.log_start_offset:
            # Its index has the timestamps of deleted records, too.
            headers = first.headers(self.log_start_offset)
            largest = max((header.max_timestamp for header in headers), default=-1)
        else:
            largest = first.max_timestamp
        return max(largest, max((segment.max_timestamp for segment in others), default=-1))

    def segment_of(self, offset: int) -> Segment:
        """The segment `offset` belongs to."""
        return self.segments[self._number_of(offset)]

    def _number_of(self, offset: int) -> int:
        segments = self.segments
        if offset >= segments[-1].base_offset:
            return len(segments) - 1
        return max(0, bisect_right(segments, offset, key=_base_offset) - 1)

    # Being cut, at its end and at its beginning.

    def truncate(self, offset: int) -> None:
        """Cut the log so that it ends at `offset`, or in front of the batch that holds it.

        OSError: it is not known what is cut; `give_up` the log and open it again.
        """
        if offset >= self.log_end_offset:
            # A leader that appended nothing in its epoch may have an epoch here that the other replicas do not have.
            self.epochs.truncate(self.log_end_offset)
            return
        self.cuts += 1
        segments = self.segments
        if offset < segments[0].base_offset:
            self.start_anew(offset)
            return
        while len(segments) > 1 and segments[-1].base_offset >= offset:
            segments.pop().remove()
        active = segments[-1]
        active.truncate(offset)
        self.log_end_offset = end = active.next_offset
        self.directory.retract(self.folder, end)
        self.cleaned_to = min(self.cleaned_to, end)
        self.recovery_point = min(self.recovery_point, end)
        self.log_start_offset = min(self.log_start_offset, end)
        self._syncs = [sync for sync in self._syncs if sync[1] <= end]
        self.epochs.truncate(end)
        self.store_epochs()
        producer_snapshots.remove(self.storage, self.folder, above=end)
        recovery.restore_producers(self, end)

    def start_anew(self, offset: int) -> None:
        """Forget all records; the next one gets `offset`. OSError as for `truncate`."""
        self.directory.retract(self.folder, offset)
        self.recovery_point = min(self.recovery_point, offset)
        self.cuts += 1
        self.cleaned_to = 0
        # The new segment comes first, as the disk may be full: without a segment nothing says where the log begins.
        is_there = any(each.base_offset == offset for each in self.segments)
        begun = None if is_there else self.new_segment(offset)
        while self.segments:
            self.segments[-1].remove()
            self.segments.pop()
        self.segments.append(self.new_segment(offset) if begun is None else begun)
        self.log_start_offset = self.log_end_offset = self.recovery_point = offset
        self._syncs.clear()
        self.epochs = LeaderEpochs()
        self.store_epochs()
        producer_snapshots.remove(self.storage, self.folder, above=-1)
        self.snapshot_offset = offset
        self.producers = ProducerStates()
        self.aborted = AbortedTransactions()

    def advance_log_start(self, offset: int) -> bool:
        """Nothing below `offset` is to be read any more; False where that was so already."""
        offset = min(offset, self.log_end_offset)
        if offset <= self.log_start_offset:
            return False
        self.log_start_offset = offset
        self.epochs.advance_start(offset)
        self.aborted.forget_below(offset)
        return True

    def drop_segments(self, count: int) -> None:
        """Take the first segments out of the log; their files go after `file.delete.delay.ms`. OSError."""
        for _ in range(count):
            self.directory.remove_later(self.segments[0].put_aside(), self.settings.file_delete_delay_ms)
            del self.segments[0]
        begin = self.segments[0].base_offset
        self.advance_log_start(begin)
        producer_snapshots.remove(self.storage, self.folder, below=begin)

    # Reaching the disk.

    def flush(self) -> None:
        """Return once the whole log would survive a power cut; OSError."""
        end = self.log_end_offset
        self.flushed_us = self.storage.write_back.now_us
        if end > self.recovery_point:
            try:
                for segment in self.segments:
                    if segment.next_offset > self.recovery_point:
                        segment.sync()
            except OSError as error:
                self.directory.sync_failed(self.folder, error)
                raise
            self.recovery_point = end
            self._syncs.clear()

    def flush_soon(self) -> None:
        """Begin what `flush` does, without waiting for the disk; OSError."""
        end, recovery_point = self.log_end_offset, self.recovery_point
        self.flushed_us = self.storage.write_back.now_us
        if end > recovery_point and not (self._syncs and self._syncs[-1][1] >= end):
            late = [each for each in self.segments if each.next_offset > recovery_point]
            begun = [done for each in late for done in each.begin_sync(with_index=each.is_sealed)]
            self._syncs.append((lambda: all(done() for done in begun), end))
            self.settle_syncs()

    def settle_syncs(self) -> bool:
        """Move the recovery point up to where the syncs that were begun are done; whether all of them are.

        OSError: one has failed; none is waited for any more, and the folder is offline, except for want of descriptors.
        """
        syncs = self._syncs
        try:
            while syncs and syncs[0][0]():
                self.recovery_point = max(self.recovery_point, syncs.pop(0)[1])
        except OSError as error:
            syncs.clear()
            self.directory.sync_failed(self.folder, error)
            raise
        if syncs:
            self.directory.syncing[self] = None
        return not syncs

    def take_snapshot(self, offset: int) -> None:
        """Keep the producers as of the log's end, which is `offset`, unless that was done; OSError."""
        if offset > self.snapshot_offset:
            producer_snapshots.write(self.storage, self.folder, offset, self.producers.entries())
            self.snapshot_offset = offset

    def store_epochs(self) -> None:
        """Write the leader epochs, where they changed since; OSError."""
        content = write_leader_epochs(self.epochs.entries())
        if content != self._epochs_stored:
            # Synced, as batches that a start trusts are not searched for epochs that this file lacks.
            self.storage.write_file(f"{self.folder}/{EPOCHS_FILE}", content, synced=True)
            self._epochs_stored = content

    def _store_transactions(self, segment: Segment) -> None:
        content = self.aborted.to_bytes(segment.base_offset, self.log_end_offset)
        path = segment.path_of(TRANSACTION_INDEX_SUFFIX)
        if content:
            self.storage.write_file(path, content, synced=True)
        elif self.storage.exists(path):
            self.storage.remove(path)

    def close_in_order(self) -> None:
        """Flush and write down all that the next start would have to read the log for; OSError."""
        self.flush()
        if self.log_end_offset > self.snapshot_offset or self.active.size:
            self.active.store_index()
            self._store_transactions(self.active)
            self.take_snapshot(self.log_end_offset)
            self.store_epochs()

    def close(self) -> None:
        """Close the files."""
        for segment in self.segments:
            segment.close()
        self.directory.syncing.pop(self, None)

    def give_up(self) -> None:
        """Close the files of a log whose state here may be wrong: it is to be opened again, from the files."""
        self.directory.remember(self.folder, self.recovery_point, self.log_start_offset, self.cleaned_to)
        self.close()

    def remove(self) -> None:
        """Close and remove the log with its folder."""
        self.close()
        self.storage.remove(self.folder)


def _locate(buffers: Iterable[Buffer], headers: list[BatchHeader]) -> list[tuple[BatchHeader, Buffer]]:
    """Each header with its own batch; the buffers hold the batches one behind the other."""
    found: list[tuple[BatchHeader, Buffer]] = []
    following = iter(headers)
    for buffer in buffers:
        view, at = memoryview(buffer), 0
        while at < len(view):
            header = next(following)
            found.append((header, view[at : at + header.size_bytes]))
            at += header.size_bytes
    return found


def _max_timestamp(header: BatchHeader) -> int:
    return header.max_timestamp


def _base_offset(segment: Segment) -> int:
    return segment.base_offset


def _is_owner(content: bytes) -> bool:
    """Whether a `partition.metadata` names a topic, this or another; a log with a damaged one is not set aside."""
    words = content.split()
    return len(words) == 4 and words[::2] == [b"version:", b"topic_id:"] and words[1] == b"0" and len(words[3]) == 22
