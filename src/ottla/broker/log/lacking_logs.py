"""Which logs of a broker lack what was committed, as far as its checkpoint says: looked at before anybody leads.

A folder may be removed, or replaced by an older copy, while its broker is down; a power cut takes what was not synced.
The broker then still counts as in sync. As leader it would make the others cut their logs, so the controller must know
before it elects one. Nothing is opened or changed here.
"""

from __future__ import annotations

from ottla.broker.log.checkpoints import Checkpoint
from ottla.broker.log.directory import CLEAN_SHUTDOWN, HIGH_WATERMARKS, ends_in
from ottla.broker.log.segment import file_name, offset_of, scan
from ottla.broker.storage import Storage

_LOOK_BYTES = 1 << 12


def lacking_logs(storage: Storage) -> frozenset[str]:
    """The folders whose logs do not reach the high watermark that was written last, or are gone; OSError.

    In segments of logs that were not closed in order the headers are read, without the CRC: recovery does that later.
    """
    committed = Checkpoint(storage, HIGH_WATERMARKS).unopened
    clean_ends = ends_in(storage.read_file(CLEAN_SHUTDOWN) or b"")
    there = {*storage.folders()}
    return frozenset(
        folder
        for folder, offset in committed.items()
        if offset and (folder not in there or _end_of(storage, folder, clean_ends.get(folder)) < offset)
    )


def _end_of(storage: Storage, folder: str, clean_end: tuple[int, int] | None) -> int:
    """The offset behind the last whole batch; 0 where there is no segment."""
    end = max((base for base in map(offset_of, storage.files(folder)) if base is not None), default=None)
    if end is None:
        return 0
    file = storage.open(f"{folder}/{file_name(end)}")
    try:
        if clean_end is not None and file.size == clean_end[1]:
            return clean_end[0]
        for header in scan(file, 0, ahead_bytes=_LOOK_BYTES):
            end = header.last_offset + 1
    finally:
        file.close()
    return end
