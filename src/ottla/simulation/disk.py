"""A simulated disk in memory behind the broker's storage port, with faults.

`power_off` loses what was not synced. A disk may write pages in any order: of a file's unsynced pages none is left, or
a part from the beginning, or any of them, with zeros in place of the others. A small file that was replaced without a
sync has its new content, its old content or none. A full disk raises ENOSPC and writes nothing, as a real one does. An
unsynced byte can be made wrong (`spoilt_byte`), as by a torn sector.

Reads, writes and syncs can be made to fail with EIO (`faults`). After a failed sync the file's pages count as clean, as
in Linux: the next sync succeeds, but the pages are lost with the next power cut. Until then they can be read, unless
the fault `evicts` them at once.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from ottla.broker.storage import Buffer
from ottla.broker.write_back import WriteBack
from ottla.host.disk_faults import READ, SYNC, WRITE, DiskFaults, spoilt_byte

# A disk writes a page as a whole or not at all. It is small, because a simulation's logs are small.
PAGE_BYTES = 512


class DiskSlice:
    """Bytes of a simulated file, a copy."""

    def __init__(self, content: bytes) -> None:
        self.size = len(content)
        self._content = content

    def read(self) -> bytes:
        """The bytes themselves."""
        return self._content

    def source(self) -> Any:
        """None: there is no file descriptor in a simulation."""
        return None


class DiskFile:
    """One simulated file."""

    def __init__(self, disk: Disk, path: str, content: bytearray) -> None:
        self._disk = disk
        self._path = path
        self._content = content

    @property
    def size(self) -> int:
        """Bytes in the file."""
        return len(self._content)

    def append(self, buffers: Sequence[Buffer]) -> int:
        """Write the buffers at the end: all, or (with an OSError) none."""
        content = b"".join(buffers)
        self._disk.take(len(content))
        position = len(self._content)
        self._content += content
        self._disk.write_back.wrote(self._path, position, position + len(content))
        return position

    def read(self, position: int, size: int) -> bytes:
        """Up to `size` bytes from `position`."""
        self._disk.faults.check(READ)
        return bytes(self._content[position : position + size])

    def file_slice(self, position: int, size: int) -> DiskSlice:
        """A copy of these bytes."""
        return DiskSlice(self.read(position, size))

    def truncate(self, size: int) -> None:
        """Cut the file to `size` bytes."""
        self._disk.faults.check(WRITE)
        self._disk.used -= max(0, len(self._content) - size)
        del self._content[size:]
        self._disk.cut(self._path, size)

    def sync(self) -> None:
        """Let everything written so far survive a power cut."""
        self._disk.sync(self._path)

    def begin_sync(self) -> Callable[[], bool]:
        """Begin to sync what is there now; it is done, or has failed, when the result is called at a later time."""
        return _BackgroundSync(self._disk, self._path, self._content)

    def close(self) -> None:
        """Nothing to do."""


class _BackgroundSync:
    """A sync that has begun: before the first call at a later time nothing of it survives a power cut."""

    def __init__(self, disk: Disk, path: str, content: bytearray) -> None:
        self._disk = disk
        self._path = path
        self._content = content
        self._size = len(content)
        self._begun_us = disk.write_back.now_us
        self._error: OSError | None = None
        self._is_over = False

    def __call__(self) -> bool:
        if not self._is_over and self._disk.write_back.now_us > self._begun_us:
            self._is_over = True
            try:
                self._disk.sync_begun(self._path, self._content, self._size)
            except OSError as error:
                self._error = error
        if self._error is not None:
            raise self._error
        return self._is_over


class Disk:
    """A folder of simulated files with a capacity in bytes."""

    def __init__(self, capacity: int = 1 << 30) -> None:
        self.capacity = capacity
        self.used = 0
        self.faults = DiskFaults()
        # Whether a failed sync has lost pages from the page cache; `World` sets it to False again.
        self.has_lost_pages = False
        self.write_back = WriteBack()
        self._files: dict[str, bytearray] = {}
        # Path -> (begin, end) of what failed syncs left out: it is never written to the disk.
        self._dropped: dict[str, list[tuple[int, int]]] = {}
        # Path -> a small file's content before it was replaced without a sync (None: it did not exist), and when.
        self._replaced: dict[str, tuple[bytes | None, int]] = {}

    def take(self, size: int) -> None:
        """Count `size` more bytes; OSError if the disk is full or the write fails."""
        if size <= 0:
            self.faults.check(WRITE)
        else:
            self.faults.check_append()
            if self.used + size > self.capacity:
                raise OSError(errno.ENOSPC, "no space left on the simulated disk")
        self.used += size

    def sync(self, path: str) -> None:
        """Sync this file; after an OSError its unsynced pages never get to the disk, and no later sync says so."""
        try:
            self.faults.check(SYNC)
        except OSError:
            self._drop(path)
            raise
        self._replaced.pop(path, None)
        self.write_back.synced(path)
        self.write_back.flushed()

    def sync_begun(self, path: str, content: bytearray, size: int) -> None:
        """Sync the first `size` bytes of this file, unless it was removed or replaced; OSError as for `sync`."""
        if self._files.get(path) is not content:
            return
        try:
            self.faults.check(SYNC)
        except OSError:
            self._drop(path)
            raise
        self._replaced.pop(path, None)
        self.write_back.synced_to(path, size)
        self.write_back.flushed()

    def _drop(self, path: str) -> None:
        content = self._files[path]
        begin, end = self.write_back.synced_bytes(path, len(content)), len(content)
        self.write_back.synced(path)
        if begin < end and self.faults.evicts:
            content[begin:end] = bytes(end - begin)
            self.has_lost_pages = True
        elif begin < end:
            self._dropped.setdefault(path, []).append((begin, end))

    def cut(self, path: str, size: int) -> None:
        """Note that a file was cut to `size` bytes."""
        self.write_back.cut(path, size)
        if path in self._dropped:
            self._dropped[path] = [(begin, min(end, size)) for begin, end in self._dropped[path] if begin < size]

    def make_folder(self, path: str, files: Sequence[tuple[str, bytes]]) -> bool:
        """Make a folder with these files in it; False if it exists."""
        if self.exists(path):
            return False
        try:
            for name, content in files:
                self.write_file(f"{path}/{name}", content, synced=not content)
        except OSError:
            self.remove(path)
            raise
        return True

    def open(self, path: str) -> DiskFile:
        """The file at `path`, made if it is missing; OSError if it cannot be made."""
        if path not in self._files:
            self.faults.check_append()
        return DiskFile(self, path, self._files.setdefault(path, bytearray()))

    def exists(self, path: str) -> bool:
        """Whether there is such a file or folder."""
        start = path + "/"
        return path in self._files or any(name.startswith(start) for name in self._files)

    def volume(self) -> tuple[str, int, int]:
        """A name, the capacity and what is left of it, in bytes."""
        return "simulated", self.capacity, self.capacity - self.used

    def folders(self) -> list[str]:
        """The folders at the top, sorted."""
        return sorted({path.split("/")[0]: None for path in self._files if "/" in path})

    def files(self, folder: str) -> list[str]:
        """The file names in `folder`, sorted."""
        start = folder.rstrip("/") + "/"
        return sorted(path[len(start) :] for path in self._files if path.startswith(start))

    def read_file(self, path: str) -> bytes | None:
        """The whole of a file, or None."""
        self.faults.check(READ)
        content = self._files.get(path)
        return None if content is None else bytes(content)

    def log_content(self, folder: str) -> bytes:
        """All segments of the log in `folder`, one behind the other."""
        return b"".join(self.log_segments(folder))

    def log_segments(self, folder: str) -> list[bytes]:
        """The contents of the segments of the log in `folder`, in order."""
        names = [name for name in self.files(folder) if name.endswith(".log")]
        return [bytes(self._files[f"{folder}/{name}"]) for name in names]

    def write_file(self, path: str, content: bytes, *, synced: bool = False) -> None:
        """Replace a small file as a whole; `synced`: its new content then survives a power cut."""
        before = self._files.get(path)
        if synced:
            self.faults.check(SYNC)
        self.take(len(content) - len(before or b""))
        if synced:
            self._replaced.pop(path, None)
        else:
            self._note_replaced(path, before)
        self._files[path] = bytearray(content)
        self._dropped.pop(path, None)
        self.write_back.synced(path)

    def _note_replaced(self, path: str, before: bytearray | None) -> None:
        now_us, known = self.write_back.now_us, self._replaced.get(path)
        if known is not None and now_us - known[1] < self.write_back.interval_us:
            self._replaced[path] = known[0], now_us
        else:
            self._replaced[path] = None if before is None else bytes(before), now_us

    def rename(self, old: str, new: str) -> None:
        """Rename a file or a folder."""
        self.faults.check(WRITE)
        start = old + "/"
        inside = [path for path in self._files if path.startswith(start)]
        for path in inside:
            self._move(path, f"{new}/{path.removeprefix(start)}")
        if not inside:
            self._move(old, new)
        self.write_back.renamed(old, new)

    def _move(self, old: str, new: str) -> None:
        content = self._files.pop(old)
        self.used -= len(self._files.pop(new, b""))
        self._files[new] = content
        self._dropped.pop(new, None)
        self._replaced.pop(new, None)
        if old in self._dropped:
            self._dropped[new] = self._dropped.pop(old)
        if old in self._replaced:
            self._replaced[new] = self._replaced.pop(old)

    def remove(self, path: str, *, synced: bool = False) -> None:
        """Remove a file, or a folder with all in it; `synced` or not, it does not come back after a power cut."""
        start = path.rstrip("/") + "/"
        for name in [n for n in self._files if n == path or n.startswith(start)]:
            self.used -= len(self._files.pop(name))
            self._dropped.pop(name, None)
            self._replaced.pop(name, None)
        self.write_back.removed(path)

    def spoilt_byte(self, path: str, rng: Random) -> int | None:
        """The position of an unsynced byte of a log that can be made wrong; None if there is none."""
        content = self._files.get(path, bytearray())
        return spoilt_byte(content, self.write_back.synced_bytes(path, len(content)), rng)

    def flip_byte(self, path: str, position: int) -> None:
        """Change one byte of a file."""
        self._files[path][position] ^= 0xFF

    def let_go(self) -> None:
        """Nothing to do: simulated files need no closing."""

    def power_off(self, rng: Random) -> None:
        """Keep of every file what was synced, and of the rest a part that is drawn."""
        for path, dropped in self._dropped.items():
            self._lose_dropped(path, dropped, rng)
        self._dropped.clear()
        for path, begin, end in self.write_back.unsynced():
            self._lose_pages(path, begin, min(end, len(self._files[path])), rng)
        now_us, interval_us = self.write_back.now_us, self.write_back.interval_us
        for path, (before, written_us) in self._replaced.items():
            if now_us - written_us < interval_us:
                self._lose_content(path, before, rng)
        self._replaced.clear()

    def _lose_dropped(self, path: str, dropped: list[tuple[int, int]], rng: Random) -> None:
        content = self._files[path]
        for begin, end in dropped:
            content[begin:end] = bytes(max(0, end - begin))
        last = dropped[-1][0] if dropped else len(content)
        if dropped and dropped[-1][1] >= len(content) and rng.random() < 0.5:
            # The file's new length was not written, either.
            self._cut_content(path, last)

    def _lose_pages(self, path: str, begin: int, end: int, rng: Random) -> None:
        """Keep nothing of what was not synced, or a part from its beginning, or some of its pages."""
        content, drawn = self._files[path], rng.random()
        if drawn < 0.4:
            self._cut_content(path, begin)
        elif drawn < 0.7:
            self._cut_content(path, rng.randint(begin, end))
        else:
            survived = begin
            for page in range(begin - begin % PAGE_BYTES, end, PAGE_BYTES):
                first, last = max(begin, page), min(end, page + PAGE_BYTES)
                if rng.random() < 0.5:
                    survived = last
                else:
                    content[first:last] = bytes(last - first)
            if rng.random() < 0.5:
                self._cut_content(path, survived)

    def _cut_content(self, path: str, size: int) -> None:
        content = self._files[path]
        self.used -= max(0, len(content) - size)
        del content[size:]

    def _lose_content(self, path: str, before: bytes | None, rng: Random) -> None:
        """Leave a small file that was replaced without a sync as it is, as it was, or empty."""
        drawn = rng.random()
        if drawn < 0.5:
            return
        left = before if drawn < 0.75 else b""
        self.used += len(left or b"") - len(self._files.pop(path))
        if left is not None:
            self._files[path] = bytearray(left)
