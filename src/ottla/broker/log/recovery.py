"""Opening a log on what the last run left: what is known to be in order is trusted, the rest is read and cut.

After a clean shutdown no records are read: segment sizes, index files, epochs, a snapshot of the producers at the log's
end and `.kafka_cleanshutdown` say everything. After any other end the segments from the recovery point on are read and
checked (CRC) as in Kafka, the log is cut at the first batch that is torn or corrupt, and what lies behind is removed.
Where a sync had failed they are written once more before that (`directory.sync_failed`). What a missing or damaged
index, snapshot or epoch file said is found again in the log, and so are epochs that the batches contradict. Of trusted
segments only a few headers are read (`_distrust_epochs`, `_tell_of_gap`): a gap, where a file was removed or cut, is
logged, and what lies behind it stays. Bit rot below the recovery point is not looked for: as with Kafka, clients and
followers find it by the CRC of what they read.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from ottla.broker.log import files, producer_snapshots, swap
from ottla.broker.log.directory import SYNC_FAILED
from ottla.broker.log.leader_epochs import NO_EPOCH, LeaderEpochs
from ottla.broker.log.segment import (
    DELETED_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    Segment,
    file_name,
    offset_of,
)

if TYPE_CHECKING:
    from ottla.broker.log.log import Log
    from ottla.records.batch_header import BatchHeader

# Warnings say what is cut; the driver shows what is logged.
logger = logging.getLogger("ottla.broker")

_EPOCHS_FILE = "leader-epoch-checkpoint"


def recover(log: Log) -> None:
    """Open the log from its folder; OSError."""
    names = log.storage.files(log.folder)
    for name in names:
        if name.endswith(DELETED_SUFFIX):
            log.storage.remove(f"{log.folder}/{name}")
    if any(name.endswith((swap.CLEANED_SUFFIX, swap.SWAP_SUFFIX)) for name in names):
        swap.recover(log.storage, log.folder)
        names = log.storage.files(log.folder)
    log.close()
    log.segments = []
    bases = sorted(base for base in map(offset_of, names) if base is not None)
    if SYNC_FAILED in names:
        _write_again(log, bases)
    checked_from = _load_segments(log, bases)
    log.log_end_offset = end = log.active.next_offset
    log.directory.retract_unreached(log.folder, end)
    log.log_start_offset = min(end, max(log.directory.log_start(log.folder), log.segments[0].base_offset))
    log.recovery_point = min(end, log.directory.recovery_point(log.folder))
    log.cleaned_to = min(end, log.directory.cleaned_to(log.folder))
    restore_producers(log, end, distrust_from=checked_from)
    if log.log_start_offset < end and log.epochs.at(log.log_start_offset) == NO_EPOCH:
        # The epoch file was written after a deletion that no checkpoint has: the deleted records are there again. A
        # leader needs their epochs to say where two logs diverge.
        log.epochs = _epochs_from_batches(log)
    else:
        _distrust_epochs(log)
    log.epochs.advance_start(log.log_start_offset)


def _write_again(log: Log, bases: list[int]) -> None:
    """Write again what a sync could not, as far as it can still be read; it is checked later like any unsynced part."""
    recovery_point = log.directory.recovery_point(log.folder)
    for number, base_offset in enumerate(bases):
        if number + 1 == len(bases) or bases[number + 1] > recovery_point:
            path = f"{log.folder}/{file_name(base_offset)}"
            log.storage.write_file(path, log.storage.read_file(path) or b"", synced=True)
    log.storage.remove(f"{log.folder}/{SYNC_FAILED}", synced=True)


def _load_segments(log: Log, bases: list[int]) -> int | None:
    """Open the segments; the offset from which on they were read and checked, None where nothing was."""
    directory, folder = log.directory, log.folder
    recovery_point, clean_end = directory.recovery_point(folder), directory.clean_end(folder)
    epochs = _stored_epochs(log)
    checked_from: int | None = None
    for number, base_offset in enumerate(bases):
        following = bases[number + 1] if number + 1 < len(bases) else None
        segment = log.new_segment(base_offset)
        log.segments.append(segment)
        if following is None and clean_end is not None and _resume(log, segment, *clean_end):
            break
        trusted = following is not None and (clean_end is not None or following <= recovery_point)
        if trusted and following is not None and segment.adopt_index(following):
            _tell_of_gap(log, segment, following)
            continue
        if not trusted and checked_from is None:
            checked_from = base_offset
            if epochs is not None:
                epochs.truncate(base_offset)
        whole = _read_again(log, segment, epochs, verify=not trusted)
        if following is None:
            break
        if trusted or (whole and _leads_to(log, segment, following)):
            if trusted:
                _tell_of_gap(log, segment, following)
            segment.next_offset = following
            segment.store_index(synced=trusted)
            segment.seal()
        else:
            # The segment was cut, or one behind it is missing: what follows does not continue the log.
            count = len(bases) - number - 1
            logger.warning(
                "log %s: removed %d segments behind a gap at offset %d", log.folder, count, segment.next_offset
            )
            for left in bases[number + 1 :]:
                log.new_segment(left).remove()
            break
    if not log.segments:
        log.segments.append(log.new_segment(directory.log_start(folder)))
    log.epochs = epochs if epochs is not None else _epochs_from_batches(log)
    end = log.active.next_offset
    log.epochs.truncate(end)
    if clean_end is not None and end < clean_end[0]:
        logger.warning(
            "log %s: ends at offset %d, where it was closed in order at offset %d: a file was removed or cut",
            folder,
            end,
            clean_end[0],
        )
    return checked_from


def _resume(log: Log, segment: Segment, end: int, size: int) -> bool:
    """Go on with the last segment of a log that was closed in order; False where it has changed since."""
    if segment.file.size != size or end < segment.base_offset or not segment.resume(end):
        return False
    return _may_lack_offsets(log, end) or segment.end_in_file() == end


def _read_again(log: Log, segment: Segment, epochs: LeaderEpochs | None, *, verify: bool) -> bool:
    """Read and index a segment; False where it had to be cut."""
    size = segment.file.size
    for header in segment.rebuild(verify=verify):
        if epochs is not None:
            epochs.note(header.partition_leader_epoch, header.base_offset)
    if segment.size < size:
        logger.warning(
            "log %s: cut %d bytes from offset %d on, where a batch is torn or corrupt",
            log.folder,
            size - segment.size,
            segment.next_offset,
        )
    return segment.size == size


def _leads_to(log: Log, segment: Segment, following: int) -> bool:
    """Whether the next segment can follow; a compacted log may lack offsets between the two."""
    gap_allowed = _may_lack_offsets(log, following)
    return segment.next_offset == following or (gap_allowed and segment.next_offset < following)


def _may_lack_offsets(log: Log, end: int) -> bool:
    """Whether compaction may have removed the records in front of this offset."""
    return "compact" in log.settings.cleanup_policy or end <= log.directory.cleaned_to(log.folder)


def _tell_of_gap(log: Log, segment: Segment, following: int) -> None:
    """Log a warning if a trusted segment does not reach the next one, and compaction is not the reason."""
    if _may_lack_offsets(log, following):
        return
    end = segment.end_in_file()
    if end != following:
        logger.warning(
            "log %s: %d offsets from %d on are missing: a file was removed or cut", log.folder, following - end, end
        )


def _stored_epochs(log: Log) -> LeaderEpochs | None:
    content = log.storage.read_file(f"{log.folder}/{_EPOCHS_FILE}")
    if content is None:
        return None
    try:
        return LeaderEpochs(files.read_leader_epochs(content))
    except files.CorruptFile:
        return None


def _epochs_from_batches(log: Log) -> LeaderEpochs:
    """The epochs as the batches have them; OSError."""
    epochs = LeaderEpochs()
    for segment in log.segments:
        for header in segment.headers(segment.base_offset):
            epochs.note(header.partition_leader_epoch, header.base_offset)
    return epochs


def _distrust_epochs(log: Log) -> None:
    """Find the epochs again from the batches if these contradict the file: followers would cut their logs by it.

    Looked at are the first batch of each segment, the last one, and those on both sides of where an epoch begins. A
    batch's epoch is not part of its CRC: where the batches contradict each other, the file is believed.
    """
    begin, last = log.log_start_offset, log.log_end_offset - 1
    starts = [entry.start_offset for entry in log.epochs.entries()]
    offsets = {last, *starts, *(each - 1 for each in starts), *(each.base_offset for each in log.segments), begin}
    for offset in sorted(each for each in offsets if begin <= each <= last):
        header = _header_from(log, offset)
        if header is None:
            continue
        said = log.epochs.at(max(begin, header.base_offset))
        if said != header.partition_leader_epoch:
            tail = _header_from(log, last)
            try:
                found = _epochs_from_batches(log)
            except OSError:
                return
            if tail is None or found.latest != tail.partition_leader_epoch:
                return
            logger.warning(
                "log %s: %s contradicts the batch at offset %d, which is of leader epoch %d, not %d: "
                "the epochs are found again from the batches",
                log.folder,
                _EPOCHS_FILE,
                header.base_offset,
                header.partition_leader_epoch,
                said,
            )
            log.epochs = found
            log.epochs.truncate(log.log_end_offset)
            return


def _header_from(log: Log, offset: int) -> BatchHeader | None:
    """The header of the batch that holds `offset`; None where it was compacted away, or is damaged: a read says so."""
    try:
        return log.segment_of(offset).header_from(offset)
    except OSError:
        return None


def restore_producers(log: Log, end: int, *, distrust_from: int | None = None) -> None:
    """Restore the producers and aborted transactions as of `end`, from a snapshot and the batches behind it; OSError.

    Snapshots and transaction indexes of what lies behind `distrust_from` are not used.
    """
    if not end:
        log.producers.restore([])
        log.aborted.truncate(0)
        log.snapshot_offset = 0
        return
    begin = end if distrust_from is None else distrust_from
    found = None
    log.aborted.truncate(0)
    while True:
        found = producer_snapshots.nearest(log.storage, log.folder, begin)
        at = found[0] if found is not None else 0
        damaged_at = _load_transactions(log, at)
        if damaged_at is None:
            break
        begin = damaged_at
    log.producers.restore(found[1] if found is not None else [])
    log.snapshot_offset = at
    for segment in log.segments:
        if segment.next_offset > at and segment.size:
            for header in segment.headers(max(at, segment.base_offset)):
                if header.producer_id >= 0 and at <= header.base_offset < end:
                    log.note_producer(header, header.base_offset)
    producer_snapshots.remove(log.storage, log.folder, above=max(begin, at))


def _load_transactions(log: Log, end: int) -> int | None:
    """Take the aborted transactions below `end`; the base offset of a segment whose index is damaged, if one is."""
    log.aborted.truncate(0)
    for segment in log.segments:
        content = (
            log.storage.read_file(segment.path_of(TRANSACTION_INDEX_SUFFIX)) if segment.base_offset < end else None
        )
        if content:
            try:
                log.aborted.load(content)
            except files.CorruptFile:
                log.storage.remove(segment.path_of(TRANSACTION_INDEX_SUFFIX))
                return segment.base_offset
    log.aborted.truncate(end)
    return None
