"""How a compacted segment replaces those it was made from, so that a crash at any point loses nothing.

| files beside the old segments (B: a base offset) | what a start after a crash does |
|---|---|
| `B.log.cleaned` | removes it: nothing has happened yet |
| `B.txnindex.swap` alone | removes it, for the same reason |
| `B.log.swap` (synced before it got this name) | goes on: removes the old segments, renames the new one |

Every step of `finish` can be done twice. The new segment itself says which ones it replaces: it has the base offset of
the first, and its last batch, kept even if empty, is the last batch of the last.
"""

from __future__ import annotations

from ottla.broker.log.segment import (
    SNAPSHOT_SUFFIX,
    SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    file_name,
    offset_of,
    scan,
)
from ottla.broker.log.segment_index import INDEX_SUFFIX, TIME_INDEX_SUFFIX
from ottla.broker.storage import Storage

CLEANED_SUFFIX = ".cleaned"
SWAP_SUFFIX = ".swap"


def cleaned_path(folder: str, base_offset: int) -> str:
    """Where the new segment is written."""
    return f"{folder}/{file_name(base_offset)}{CLEANED_SUFFIX}"


def begin(storage: Storage, folder: str, base_offset: int, transaction_index: bytes) -> None:
    """Make the new segment, which is synced, the one that counts; OSError: it does not count."""
    storage.write_file(f"{folder}/{file_name(base_offset, TRANSACTION_INDEX_SUFFIX)}{SWAP_SUFFIX}", transaction_index)
    storage.rename(cleaned_path(folder, base_offset), f"{folder}/{file_name(base_offset)}{SWAP_SUFFIX}")


def finish(storage: Storage, folder: str, base_offset: int, replaced: list[int]) -> None:
    """Remove the segments with these base offsets, whose files must be closed, and put the new one there; OSError."""
    for base in replaced:
        if base != base_offset:
            for suffix in (SUFFIX, TRANSACTION_INDEX_SUFFIX, SNAPSHOT_SUFFIX):
                storage.remove(f"{folder}/{file_name(base, suffix)}")
        for suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX):
            storage.remove(f"{folder}/{file_name(base, suffix)}")
    for suffix in (TRANSACTION_INDEX_SUFFIX, SUFFIX):
        path = f"{folder}/{file_name(base_offset, suffix)}"
        if storage.exists(path + SWAP_SUFFIX):
            storage.rename(path + SWAP_SUFFIX, path)


def abandon(storage: Storage, folder: str, base_offset: int) -> None:
    """Remove what is left of a segment that will not be swapped in; OSError."""
    storage.remove(cleaned_path(folder, base_offset))
    storage.remove(f"{folder}/{file_name(base_offset, TRANSACTION_INDEX_SUFFIX)}{SWAP_SUFFIX}")


def recover(storage: Storage, folder: str) -> None:
    """Finish, or forget, what the last run had begun; OSError."""
    names = storage.files(folder)
    swapped = [base for name in names if (base := offset_of(name, SUFFIX + SWAP_SUFFIX)) is not None]
    bases = [base for name in names if (base := offset_of(name)) is not None]
    for base in swapped:
        file = storage.open(f"{folder}/{file_name(base)}{SWAP_SUFFIX}")
        end = base
        for header in scan(file, 0, verify=True):
            end = header.last_offset + 1
        file.close()
        finish(storage, folder, base, [base, *(other for other in bases if base < other < end)])
    for name in storage.files(folder):
        if name.endswith((CLEANED_SUFFIX, SWAP_SUFFIX)):
            storage.remove(f"{folder}/{name}")
