"""A partition's log: segments in a folder, with what its batches tell about producers and leader epochs.

`Log.open` reads every header there is and so rebuilds indexes, producer state and epochs. After an unclean end it
checks every CRC as well, cuts the log at the first batch that is torn or corrupt, and removes what lies behind it.
The folder belongs to one topic id, written in `partition.metadata` as Kafka does; the folder of an older topic of
the same name is emptied.

Invariants: offsets have no gaps within what is appended here; `log_end_offset` is where the next record goes; a
failed append (OSError) changes nothing.
"""

from __future__ import annotations

from binascii import b2a_base64
from bisect import bisect_right

from ottla.broker.log.aborted_transactions import AbortedTransactions
from ottla.broker.log.end_markers import end_markers_of, read_end_marker
from ottla.broker.log.files import AbortedTransaction
from ottla.broker.log.leader_epochs import LeaderEpochs
from ottla.broker.log.producer_state import EndMarker, ProducerStates
from ottla.broker.log.segment import Segment, segment_base_offset, segment_file_name
from ottla.broker.storage import Buffer, FileSlice, Storage
from ottla.broker.topic_settings import TopicSettings
from ottla.records.batch_header import CONTROL, BatchHeader, stamp_offset

_METADATA_FILE = "partition.metadata"


class Log:
    """The log of one partition replica; sizes in bytes, offsets as Kafka counts them."""

    __slots__ = (
        "_segments",
        "_storage",
        "aborted",
        "epochs",
        "folder",
        "log_end_offset",
        "producers",
        "settings",
    )

    def __init__(self, storage: Storage, folder: str, settings: TopicSettings) -> None:
        self.folder = folder
        self.settings = settings
        self._storage = storage
        self._segments: list[Segment] = []
        self.log_end_offset = 0
        self.producers = ProducerStates()
        self.aborted = AbortedTransactions()
        self.epochs = LeaderEpochs()

    def open(self, topic_id: bytes, *, verify: bool) -> None:
        """Open and recover the log in its folder, made where it is missing; OSError where that fails.

        `verify` checks every byte: needed unless the broker had closed its logs in order.
        """
        path = f"{self.folder}/{_METADATA_FILE}"
        owner = f"version: 0\ntopic_id: {_uuid_text(topic_id)}".encode()
        first = (segment_file_name(0), b"")
        if self._storage.make_folder(self.folder, ((_METADATA_FILE, owner), first)):
            self._segments = [Segment(self._storage, self.folder, 0, self.settings.index_interval_bytes)]
            return
        found = self._storage.read_file(path)
        # Words, not bytes: whether the last line has an end says nothing about whose log this is.
        if found is None or found.split() != owner.split():
            if found is not None:
                self._storage.remove(self.folder)
            self._storage.write_file(path, owner)
        self._load(verify=verify)

    def _load(self, *, verify: bool) -> None:
        self.close()
        self._segments = []
        self.producers = ProducerStates()
        self.aborted = AbortedTransactions()
        self.epochs = LeaderEpochs()
        bases = [segment_base_offset(name) for name in self._storage.files(self.folder)]
        end: int | None = None
        for base_offset in sorted(base for base in bases if base is not None):
            segment = Segment(self._storage, self.folder, base_offset, self.settings.index_interval_bytes)
            if end is not None and base_offset != end:
                # The segment before it was cut, or one is missing: what follows can belong to no log any more.
                self._remove(segment)
                continue
            for header in segment.load(verify=verify):
                if header.attributes & CONTROL:
                    batch = segment.file.read(segment.size - header.size_bytes, header.size_bytes)
                    self._note_marker(header, header.base_offset, read_end_marker(batch))
                else:
                    self.producers.note(header, header.base_offset)
                self.epochs.note(header.partition_leader_epoch, header.base_offset)
            self._segments.append(segment)
            end = segment.next_offset
        if not self._segments:
            self._segments.append(Segment(self._storage, self.folder, 0, self.settings.index_interval_bytes))
        self.log_end_offset = end or 0

    @property
    def log_start_offset(self) -> int:
        """The first offset there is."""
        return self._segments[0].base_offset

    @property
    def size_bytes(self) -> int:
        """Bytes of all segments."""
        return sum(segment.size for segment in self._segments)

    def append(self, records: bytearray | memoryview, header: BatchHeader, leader_epoch: int) -> int:
        """Append one checked batch as leader and return the base offset it got; it is stamped in place.

        OSError: nothing was appended.
        """
        base_offset = self.log_end_offset
        stamp_offset(records, 0, base_offset, leader_epoch)
        segment = self._segments[-1]
        if segment.size and segment.size + len(records) > self.settings.segment_bytes:
            segment = self._roll()
        segment.append_at(records, header, base_offset)
        self.log_end_offset = base_offset + header.last_offset_delta + 1
        if header.attributes & CONTROL:
            self._note_marker(header, base_offset, read_end_marker(records))
        else:
            self.producers.note(header, base_offset)
        self.epochs.note(leader_epoch, base_offset)
        return base_offset

    def append_copies(self, buffers: list[Buffer], headers: list[BatchHeader]) -> None:
        """Append checked batches as a leader gave them, offsets and epochs included; OSError: nothing was appended."""
        segment = self._segments[-1]
        if segment.size and segment.size + sum(map(len, buffers)) > self.settings.segment_bytes:
            segment = self._roll()
        markers = end_markers_of(buffers, headers)
        segment.append(buffers, headers)
        for header, marker in zip(headers, markers, strict=True):
            if marker is not None:
                self._note_marker(header, header.base_offset, marker)
            else:
                self.producers.note(header, header.base_offset)
            self.epochs.note(header.partition_leader_epoch, header.base_offset)
        self.log_end_offset = segment.next_offset

    def slice(self, offset: int, end_offset: int, max_bytes: int, at_least_one: bool) -> FileSlice | None:
        """Whole batches from `offset` on, below `end_offset` and of one segment; see `Segment.slice`."""
        segment = self._segment_of(offset)
        return segment.slice(offset, end_offset, max_bytes, at_least_one)

    def first_since(self, timestamp: int) -> bytes | None:
        """The first batch with a timestamp not below `timestamp`, or None."""
        for segment in self._segments:
            found = segment.first_since(timestamp)
            if found is not None:
                position, header = found
                return segment.file.read(position, header.size_bytes)
        return None

    @property
    def max_timestamp(self) -> int:
        """The largest timestamp in the log, -1 where there is none."""
        return max(segment.max_timestamp for segment in self._segments)

    def truncate(self, offset: int) -> None:
        """Cut the log so that it ends at `offset`, or in front of the batch that holds it."""
        if offset >= self.log_end_offset:
            return
        while len(self._segments) > 1 and self._segments[-1].base_offset >= offset:
            self._remove(self._segments.pop())
        segment = self._segments[-1]
        segment.file.truncate(segment.position_of(offset))
        self._load(verify=False)

    def sync(self) -> None:
        """Return once the whole log would survive a power cut."""
        for segment in self._segments:
            segment.file.sync()

    def close(self) -> None:
        """Give the files back."""
        for segment in self._segments:
            segment.file.close()

    def remove(self) -> None:
        """Close and remove the log with its folder."""
        self.close()
        self._storage.remove(self.folder)

    def _note_marker(self, header: BatchHeader, offset: int, marker: EndMarker | None) -> None:
        """Remember a control batch, and the transaction that it aborts."""
        ended = self.producers.note(header, offset, end_marker=marker)
        if ended is not None and not ended.committed:
            self.aborted.add(
                AbortedTransaction(ended.producer_id, ended.first_offset, offset, ended.last_stable_offset)
            )

    def _roll(self) -> Segment:
        segment = Segment(self._storage, self.folder, self.log_end_offset, self.settings.index_interval_bytes)
        self._segments.append(segment)
        return segment

    def _segment_of(self, offset: int) -> Segment:
        segments = self._segments
        if offset >= segments[-1].base_offset:
            return segments[-1]
        index = bisect_right(segments, offset, key=_base_offset) - 1
        return segments[max(0, index)]

    def _remove(self, segment: Segment) -> None:
        segment.file.close()
        self._storage.remove(segment.path)


def _base_offset(segment: Segment) -> int:
    return segment.base_offset


def _uuid_text(topic_id: bytes) -> str:
    """A uuid as Kafka writes it: URL-safe base64 without padding."""
    return b2a_base64(topic_id, newline=False).rstrip(b"=").translate(_URL_SAFE).decode()


_URL_SAFE = bytes.maketrans(b"+/", b"-_")
