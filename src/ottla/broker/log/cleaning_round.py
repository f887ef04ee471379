"""One round of compaction of one log, in steps short enough for an event loop.

First the keys of the dirty segments are mapped to their last offsets, then all segments up to there are written anew
from the log's beginning, small neighbours into one. Each group of segments is swapped in as a whole, in the log's
order, once it is on the disk. A group of one segment that comes out unchanged keeps its file.

Invariants: the segments are closed, and nothing changes before the whole log is on the disk; a round whose log was
cut, or lost its beginning to retention, ends without another step (`is_outdated`). The last batch of a group of
segments always stays, empty if need be: it says where the segment ends.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from ottla.broker.log import swap
from ottla.broker.log.compaction import Aborted, Pass, take_keys
from ottla.broker.log.files import write_transaction_index
from ottla.broker.log.log import Log
from ottla.broker.log.segment import Segment, scan
from ottla.broker.log.segment_index import GrowingIndex
from ottla.broker.storage import Buffer
from ottla.records.batch_header import BatchHeader, CorruptBatch, check_crc, read_header

_STEP_BYTES = 1 << 16
_KEYS_BYTES_MAX = 128 << 20  # as Kafka's log.cleaner.dedupe.buffer.size
_BYTES_PER_KEY = 140  # of the mapping itself
_RELATIVE_OFFSET_MAX = (1 << 31) - 1


class CleaningRound:
    """One round: iterate over `steps` until it ends, looking at `is_outdated` in front of each.

    OSError, CorruptBatch: it ends there; what was swapped in stays.
    """

    def __init__(self, log: Log, segments: list[Segment], now_ms: int) -> None:
        self.log = log
        self._segments = segments
        self._now_ms = now_ms
        self._first = log.segments[0]
        self._cuts = log.cuts
        self._writing: int | None = None
        self._worked_bytes = 0

    @property
    def is_outdated(self) -> bool:
        """Whether the log has changed so that what the round has read is not valid any more."""
        return self.log.cuts != self._cuts or self.log.segments[0] is not self._first

    def abandon(self) -> None:
        """Remove what is half written, if anything is."""
        if self._writing is not None:
            with contextlib.suppress(OSError):
                swap.abandon(self.log.storage, self.log.folder, self._writing)
            self._writing = None

    def steps(self) -> Iterator[None]:
        """Do the work; yields where the event loop may do other things."""
        log = self.log
        yield from self._sync()
        aborted = Aborted(log.aborted.between(0, self._segments[-1].next_offset))
        latest: dict[bytes, int] = {}
        yield from self._map_keys(latest, aborted)
        passing = Pass(
            latest,
            aborted,
            log.producers.entries(),
            now_ms=self._now_ms,
            delete_retention_ms=log.settings.delete_retention_ms,
        )
        end = self._segments[-1].next_offset
        for group in self._groups():
            yield from self._clean(group, passing)
        log.aborted.forget_markers(passing.discarded_markers)
        log.cleaned_to = end

    def _sync(self) -> Iterator[None]:
        """Sync the log first: if a power cut took markers that the round has used, transactions would be open again."""
        end = self.log.log_end_offset
        while self.log.recovery_point < end:
            if self.log.settle_syncs():
                self.log.flush_soon()
            yield

    def _map_keys(self, latest: dict[bytes, int], aborted: Aborted) -> Iterator[None]:
        """Map the keys of the dirty part, or of as much of it as there is room for; the round ends there."""
        begin = max(self.log.cleaned_to, self.log.log_start_offset)
        used_bytes = 0
        for number, segment in enumerate(self._segments):
            if segment.next_offset <= begin:
                continue
            for header, batch in _batches(segment):
                if not header.is_control and not aborted.holds(header):
                    new_keys, new_bytes = take_keys(header, batch, begin, latest)
                    used_bytes += new_bytes + new_keys * _BYTES_PER_KEY
                if self._is_step_over(header.size_bytes):
                    yield
            if used_bytes > _KEYS_BYTES_MAX:
                del self._segments[number + 1 :]
                return

    def _is_step_over(self, size_bytes: int) -> bool:
        self._worked_bytes += size_bytes
        if self._worked_bytes < _STEP_BYTES:
            return False
        self._worked_bytes = 0
        return True

    def _groups(self) -> list[list[Segment]]:
        """Neighbours that fit into one segment together."""
        groups: list[list[Segment]] = []
        size = 0
        for segment in self._segments:
            first = groups[-1][0] if groups else segment
            fits = (
                size + segment.size <= self.log.settings.segment_bytes
                and segment.next_offset - first.base_offset <= _RELATIVE_OFFSET_MAX
                and segment.size > 0
                and first.size > 0
            )
            if groups and fits:
                groups[-1].append(segment)
                size += segment.size
            else:
                groups.append([segment])
                size = segment.size
        return groups

    def _clean(self, group: list[Segment], passing: Pass) -> Iterator[None]:
        log, base = self.log, group[0].base_offset
        if not group[0].size:
            return
        path = swap.cleaned_path(log.folder, base)
        log.storage.remove(path)
        self._writing = base
        file = log.storage.open(path)
        index = GrowingIndex(log.settings.index_interval_bytes)
        changed = len(group) > 1
        waiting: list[Buffer] = []
        waiting_bytes = 0
        for segment in group:
            for header, batch in _batches(segment):
                is_end = segment is group[-1] and header.position + header.size_bytes >= segment.size
                left = passing.compact(header, batch, keep=is_end)
                changed = changed or left is not batch
                if left is not None:
                    new = read_header(left)
                    begin = new.base_offset - base
                    newest = new.max_timestamp if new.record_count else -1
                    position = file.size + waiting_bytes
                    index.add(position, new.size_bytes, begin, begin + new.last_offset_delta, newest)
                    waiting.append(left)
                    waiting_bytes += len(left)
                if self._is_step_over(header.size_bytes):
                    file.append(waiting)
                    waiting, waiting_bytes = [], 0
                    yield
        file.append(waiting)
        if changed:
            synced = file.begin_sync()
            while not synced():
                yield
        file.close()
        if changed:
            yield from self._swap_in(group, index, passing)
        else:
            swap.abandon(log.storage, log.folder, base)
        self._writing = None

    def _swap_in(self, group: list[Segment], index: GrowingIndex, passing: Pass) -> Iterator[None]:
        """Replace the group by what was written; OSError: nothing has happened."""
        log, base = self.log, group[0].base_offset
        gone = dict.fromkeys(passing.discarded_markers)
        rows = [row for row in log.aborted.ending(base, group[-1].next_offset) if row.last_offset not in gone]
        swap.begin(log.storage, log.folder, base, write_transaction_index(rows))
        self._writing = None
        for segment in group:
            segment.close()
        while True:
            # There is no way back from here: a step that fails is tried again.
            try:
                swap.finish(log.storage, log.folder, base, [segment.base_offset for segment in group])
                segment = log.new_segment(base)
                break
            except OSError:
                yield
        segment.take_over(index, group[-1].next_offset)
        segment.born_ms = max(each.born_ms for each in group)
        at = log.segments.index(group[0])
        log.segments[at : at + len(group)] = [segment]
        self._first = log.segments[0]
        # If its index cannot be written it stays in memory, and the next start makes it.
        with contextlib.suppress(OSError):
            segment.store_index()
            segment.seal()


def _batches(segment: Segment) -> Iterator[tuple[BatchHeader, bytes]]:
    """All batches of a closed segment, checked; CorruptBatch where there is one that is not whole."""
    end = 0
    for header in scan(segment.file, 0):
        batch = segment.batch(header)
        check_crc(batch, header, 0)
        yield header, batch
        end = header.position + header.size_bytes
    if end != segment.size:
        raise CorruptBatch(f"{segment.path}: no batch begins at position {end}")
