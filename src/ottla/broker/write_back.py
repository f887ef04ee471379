"""What of a broker's files would survive a power cut: bookkeeping for every implementation of the storage port.

A write goes to the page cache. It reaches the disk when the broker syncs the file, or when the operating system writes
it back: what was written longer ago than `interval_us` (`os.flush.interval.ms`) counts as synced. Nothing runs for
that: for each file it is kept which end it had when, in steps of a sixteenth of the interval, and results are as of
`now_us`, which the broker core sets with every event and tick.

Truncations, removals, renames, new folders and new (empty) files count as durable at once. Real file systems promise
less, but Kafka's recovery does not handle that either. Small files replaced whole are not kept here: the storage knows
which of them are not synced (`write_file`). Bytes found in a file when it is first written count as synced.

Invariants: `survivors` never names more bytes than the file has; bytes that were once synced stay so until cut off.
"""

from __future__ import annotations

from collections import deque
from random import Random

_STEPS = 16
_DEFAULT_INTERVAL_US = 30_000_000


class _Unsynced:
    """One file: `synced` bytes are safe; `ends` holds (when, size) of later steps, oldest first."""

    __slots__ = ("ends", "size", "step_begin_us", "synced", "written_us")

    def __init__(self, begin: int, end: int, now_us: int) -> None:
        self.synced = begin
        self.ends: deque[tuple[int, int]] | None = None
        self.step_begin_us = now_us
        self.written_us = now_us
        self.size = end

    def next_step(self, end: int, now_us: int, interval_us: int) -> None:
        self.settle(now_us, interval_us)
        if self.ends is None:
            self.ends = deque()
        self.ends.append((self.written_us, self.size))
        self.step_begin_us = self.written_us = now_us
        self.size = end

    def settle(self, now_us: int, interval_us: int) -> None:
        """What the operating system has written back meanwhile is synced."""
        safe_us = now_us - interval_us
        ends = self.ends
        while ends and ends[0][0] <= safe_us:
            self.synced = max(self.synced, ends.popleft()[1])
        if self.written_us <= safe_us:
            self.synced = self.size

    def cut(self, size: int) -> None:
        self.size = min(self.size, size)
        self.synced = min(self.synced, size)
        if self.ends:
            self.ends = deque((when, min(end, size)) for when, end in self.ends)


class WriteBack:
    """The unsynced rests of the files of one storage; paths as in the storage port, sizes in bytes."""

    __slots__ = (
        "_files",
        "_of_folder",
        "_step_us",
        "flush_count",
        "flush_time_us",
        "flush_time_us_max",
        "interval_us",
        "now_us",
    )

    def __init__(self) -> None:
        self.now_us = 0
        # How often the broker synced a file, how long that took in all, and at most.
        self.flush_count = self.flush_time_us = self.flush_time_us_max = 0
        self._files: dict[str, _Unsynced] = {}
        # The paths of each folder that were written to, so that removing it does not search other folders.
        self._of_folder: dict[str, dict[str, None]] = {}
        self.set_interval(_DEFAULT_INTERVAL_US)

    def flushed(self, time_us: int = 0) -> None:
        """The broker has synced a file; `time_us` is 0 where the storage does not measure it."""
        self.flush_count += 1
        self.flush_time_us += time_us
        self.flush_time_us_max = max(self.flush_time_us_max, time_us)

    def set_interval(self, interval_us: int) -> None:
        """The operating system writes back what is this old."""
        self.interval_us = interval_us
        self._step_us = max(1, interval_us // _STEPS)

    def wrote(self, path: str, begin: int, end: int) -> None:
        """The file had `begin` bytes and has `end` bytes now."""
        unsynced = self._files.get(path)
        now_us = self.now_us
        if unsynced is None:
            self._files[path] = _Unsynced(begin, end, now_us)
            self._of_folder.setdefault(_folder_of(path), {})[path] = None
        elif now_us - unsynced.step_begin_us < self._step_us:
            unsynced.size = end
            unsynced.written_us = now_us
        else:
            unsynced.next_step(end, now_us, self.interval_us)

    def synced(self, path: str) -> None:
        """All of the file is on the disk."""
        self._files.pop(path, None)

    def synced_to(self, path: str, size: int) -> None:
        """What the file held when it had `size` bytes is on the disk."""
        unsynced = self._files.get(path)
        if unsynced is not None:
            if size >= unsynced.size:
                del self._files[path]
            else:
                unsynced.synced = max(unsynced.synced, size)

    def cut(self, path: str, size: int) -> None:
        """The file was cut to `size` bytes."""
        unsynced = self._files.get(path)
        if unsynced is not None:
            unsynced.cut(size)

    def renamed(self, old: str, new: str) -> None:
        """The file at `old` is at `new` now, in place of what was there; or the folder, with all its files."""
        self.removed(new)
        for name in self._below(old):
            self._move(name, new + name.removeprefix(old))

    def removed(self, path: str) -> None:
        """The file, or the folder with all its files, is gone."""
        for name in self._below(path):
            self._move(name, None)

    def _below(self, path: str) -> list[str]:
        """The file, or the files of the folder, as far as they were written to."""
        start = path + "/"
        inside = self._of_folder.get(_folder_of(path), {})
        return [name for name in inside if name == path or name.startswith(start)]

    def _move(self, old: str, new: str | None) -> None:
        folder = _folder_of(old)
        del self._of_folder[folder][old]
        if not self._of_folder[folder]:
            del self._of_folder[folder]
        unsynced = self._files.pop(old, None)
        if new is not None:
            self._of_folder.setdefault(_folder_of(new), {})[new] = None
            if unsynced is not None:
                self._files[new] = unsynced

    def synced_bytes(self, path: str, size: int) -> int:
        """How much of a file of `size` bytes would be there after a power cut now."""
        unsynced = self._files.get(path)
        if unsynced is None:
            return size
        unsynced.settle(self.now_us, self.interval_us)
        return min(size, unsynced.synced)

    def survivors(self, rng: Random) -> list[tuple[str, int]]:
        """(path, size) of the files that a power cut now leaves shorter than they are; everything is synced then.

        Of the unsynced bytes, with equal chance, none survive or a part of random length from their beginning.
        """
        found = []
        for path, synced, size in self.unsynced():
            rest = size - synced
            kept = rng.randint(0, rest) if rng.random() < 0.5 else 0
            if kept < rest:
                found.append((path, synced + kept))
        return found

    def unsynced(self) -> list[tuple[str, int, int]]:
        """(path, bytes that are synced, bytes in all) of the files that are not synced; they count as synced then."""
        found = []
        for path, unsynced in self._files.items():
            unsynced.settle(self.now_us, self.interval_us)
            found.append((path, unsynced.synced, unsynced.size))
        self._files.clear()
        return found


def _folder_of(path: str) -> str:
    """The folder at the top; of a path at the top, which may be one, itself."""
    return path.partition("/")[0]
