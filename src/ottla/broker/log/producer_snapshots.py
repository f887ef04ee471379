"""The producers of a log at some of its offsets, in `NNN.snapshot` files (KIP-98): a start reads only what follows.

A snapshot is taken where a segment begins and where a log ends that is closed in order. To know the producers at an
offset, the nearest snapshot in front of it is taken and the batches behind it are noted. A damaged snapshot is removed;
then the one before it is taken, or the log is read from its beginning.
"""

from __future__ import annotations

from ottla.broker.log import files
from ottla.broker.log.segment import SNAPSHOT_SUFFIX, file_name, offset_of
from ottla.broker.storage import Storage


def offsets(storage: Storage, folder: str) -> list[int]:
    """The offsets of the snapshots there are, ascending."""
    found = (offset_of(name, SNAPSHOT_SUFFIX) for name in storage.files(folder))
    return sorted(offset for offset in found if offset is not None)


def write(storage: Storage, folder: str, offset: int, entries: list[files.ProducerSnapshotEntry]) -> None:
    """Keep the producers as of `offset`; OSError."""
    storage.write_file(_path(folder, offset), files.write_producer_snapshot(entries))


def nearest(storage: Storage, folder: str, offset: int) -> tuple[int, list[files.ProducerSnapshotEntry]] | None:
    """The newest sound snapshot at or in front of `offset`; None where there is none."""
    for at in reversed(offsets(storage, folder)):
        content = storage.read_file(_path(folder, at)) if at <= offset else None
        if content is not None:
            try:
                return at, files.read_producer_snapshot(content)
            except files.CorruptFile:
                storage.remove(_path(folder, at))
    return None


def remove(storage: Storage, folder: str, *, below: int = 0, above: int | None = None) -> None:
    """Remove the snapshots in front of `below` and behind `above`."""
    for offset in offsets(storage, folder):
        if offset < below or (above is not None and offset > above):
            storage.remove(_path(folder, offset))


def _path(folder: str, offset: int) -> str:
    return f"{folder}/{file_name(offset, SNAPSHOT_SUFFIX)}"
