"""The log of a replica as it lies in its broker's files."""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from pathlib import Path


def segments(folder: Path) -> Iterator[memoryview[int]]:
    """The segments of a log, one after the other, none of them copied; each is freed with its last user."""
    for path in sorted(folder.glob("*.log")):
        with path.open("rb") as file:
            if path.stat().st_size:
                yield memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
