"""Faults of one disk, real or simulated: it is full, or some of its reads, writes or syncs fail."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import suppress
from random import Random

from ottla.faults.fields import READ, SYNC, WRITE
from ottla.records.batch_header import CRC_BEGIN, BatchHeader, CorruptBatch, iterate_headers

__all__ = ["READ", "SYNC", "WRITE", "DiskFaults", "FailingOperation", "FullDisk", "spoilt_byte", "whole_headers"]


class FullDisk:
    """No space is left; `fired` counts the writes that failed for it."""

    __slots__ = ("_disk", "fired")

    def __init__(self, disk: DiskFaults) -> None:
        self._disk = disk
        self.fired = 0

    def end(self) -> None:
        """End this fault."""
        self._disk.full = [each for each in self._disk.full if each is not self]


class FailingOperation:
    """Each `every`-th `operation` fails; `evicts`: what a failed sync did not write is lost at once."""

    __slots__ = ("_count", "_disk", "every", "evicts", "fired", "operation")

    def __init__(self, disk: DiskFaults, operation: str, every: int, *, evicts: bool) -> None:
        self._disk = disk
        self._count = 0
        self.operation = operation
        self.every = every
        self.evicts = evicts
        self.fired = 0

    def fires(self) -> bool:
        """Whether the operation that begins now fails."""
        self._count += 1
        if self._count % self.every:
            return False
        self.fired += 1
        return True

    def end(self) -> None:
        """End this fault."""
        self._disk.failing = [each for each in self._disk.failing if each is not self]


class DiskFaults:
    """The faults of one disk; a storage calls `check` before each read, write and sync."""

    __slots__ = ("failing", "full")

    def __init__(self) -> None:
        self.full: list[FullDisk] = []
        self.failing: list[FailingOperation] = []

    def fill(self) -> FullDisk:
        """From now on nothing can be written."""
        self.full.append(FullDisk(self))
        return self.full[-1]

    def fail(self, operation: str, every: int, *, evicts: bool = False) -> FailingOperation:
        """From now on each `every`-th of these operations fails."""
        self.failing.append(FailingOperation(self, operation, every, evicts=evicts))
        return self.failing[-1]

    def check(self, operation: str, path: str = "") -> None:
        """OSError (EIO) if this operation is to fail."""
        for each in self.failing:
            if each.operation == operation and each.fires():
                raise OSError(errno.EIO, os.strerror(errno.EIO), path)

    def check_append(self, path: str = "") -> None:
        """OSError (EIO, ENOSPC) if a write that takes space is to fail."""
        if self.failing:
            self.check(WRITE, path)
        if self.full:
            for each in self.full:
                each.fired += 1
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)

    @property
    def evicts(self) -> bool:
        """Whether what a failed sync did not write is lost at once."""
        return any(each.evicts for each in self.failing)


def spoilt_byte(content: bytes | bytearray, unsynced_from: int, rng: Random) -> int | None:
    """The position of an unsynced byte of a log file that can be made wrong; None if there is none.

    Only of bytes that a CRC covers: a wrong offset or leader epoch could not be detected.
    """
    covered = [
        at
        for header in whole_headers(content)
        for at in range(max(unsynced_from, header.position + CRC_BEGIN), header.position + header.size_bytes)
    ]
    return rng.choice(covered) if covered else None


def whole_headers(content: bytes | bytearray) -> Iterator[BatchHeader]:
    """The headers of the complete batches at the beginning of a log file."""
    with suppress(CorruptBatch):
        yield from iterate_headers(content)
