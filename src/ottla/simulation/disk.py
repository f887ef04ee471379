"""A disk in memory behind the broker's storage port.

`power_off` takes away what was not synced. A full disk answers as a real one does, with ENOSPC and nothing written;
`refused` counts how often. What was not synced can be spoilt (`spoil`), as by a sector torn in the middle.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from random import Random
from typing import Any

from ottla.broker.storage import Buffer
from ottla.broker.write_back import WriteBack
from ottla.records.batch_header import CRC_BEGIN, BatchHeader, CorruptBatch, iterate_headers


class DiskSlice:
    """Bytes of a simulated file; copied when sent, as a wire does."""

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
        """Write the buffers at the end, all or (on a full disk) none of them."""
        content = b"".join(buffers)
        self._disk.take(len(content))
        position = len(self._content)
        self._content += content
        self._disk.write_back.wrote(self._path, position, position + len(content))
        return position

    def read(self, position: int, size: int) -> bytes:
        """Up to `size` bytes from `position`."""
        return bytes(self._content[position : position + size])

    def file_slice(self, position: int, size: int) -> DiskSlice:
        """A copy of these bytes."""
        return DiskSlice(self.read(position, size))

    def truncate(self, size: int) -> None:
        """Cut the file to `size` bytes."""
        self._disk.used -= max(0, len(self._content) - size)
        del self._content[size:]
        self._disk.write_back.cut(self._path, size)

    def sync(self) -> None:
        """Everything written so far would now survive a power cut."""
        self._disk.write_back.synced(self._path)
        self._disk.write_back.flushed()

    def begin_sync(self) -> Callable[[], bool]:
        """Sync; it is done at once."""
        self.sync()
        return _done

    def close(self) -> None:
        """Nothing to give back."""


def _done() -> bool:
    return True


class Disk:
    """A folder of simulated files with a capacity in bytes."""

    def __init__(self, capacity: int = 1 << 30) -> None:
        self.capacity = capacity
        self.used = 0
        self.is_full = False
        self.refused = 0
        self.write_back = WriteBack()
        self._files: dict[str, bytearray] = {}

    def take(self, size: int) -> None:
        """Count `size` more bytes, or fail as a full disk does."""
        if size > 0 and (self.is_full or self.used + size > self.capacity):
            self.refused += 1
            raise OSError(errno.ENOSPC, "no space left on the simulated disk")
        self.used += size

    def make_folder(self, path: str, files: Sequence[tuple[str, bytes]]) -> bool:
        """Make a folder with these files in it; False where there is one."""
        if self.exists(path):
            return False
        for name, content in files:
            self.write_file(f"{path}/{name}", content)
        return True

    def open(self, path: str) -> DiskFile:
        """The file at `path`, made where it is missing."""
        return DiskFile(self, path, self._files.setdefault(path, bytearray()))

    def exists(self, path: str) -> bool:
        """Whether there is such a file or folder."""
        start = path + "/"
        return path in self._files or any(name.startswith(start) for name in self._files)

    def place(self) -> tuple[str, int, int]:
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
        content = self._files.get(path)
        return None if content is None else bytes(content)

    def log_content(self, folder: str) -> bytes:
        """All segments of the log in `folder`, one behind the other."""
        names = [name for name in self.files(folder) if name.endswith(".log")]
        return b"".join(bytes(self._files[f"{folder}/{name}"]) for name in names)

    def write_file(self, path: str, content: bytes) -> None:
        """Replace a small file at once."""
        before = self._files.get(path, b"")
        self.take(len(content) - len(before))
        self._files[path] = bytearray(content)
        self.write_back.synced(path)

    def rename(self, old: str, new: str) -> None:
        """Give a file another name, or a folder."""
        start = old + "/"
        inside = [path for path in self._files if path.startswith(start)]
        for path in inside:
            self._files[f"{new}/{path.removeprefix(start)}"] = self._files.pop(path)
        if not inside:
            content = self._files.pop(old)
            self.used -= len(self._files.pop(new, b""))
            self._files[new] = content
        self.write_back.renamed(old, new)

    def remove(self, path: str) -> None:
        """Remove a file, or a folder with all that is in it."""
        start = path.rstrip("/") + "/"
        for name in [n for n in self._files if n == path or n.startswith(start)]:
            self.used -= len(self._files.pop(name))
        self.write_back.removed(path)

    def spoil(self, path: str, rng: Random) -> bool:
        """Change one byte of what was not synced of a log; False where there is none.

        Only what a CRC covers: nobody could know of an offset or a leader epoch that it is wrong.
        """
        content = self._files.get(path, bytearray())
        begin = self.write_back.synced_bytes(path, len(content))
        covered = [
            at
            for header in whole_headers(content)
            for at in range(max(begin, header.position + CRC_BEGIN), header.position + header.size_bytes)
        ]
        if not covered:
            return False
        content[rng.choice(covered)] ^= 0xFF
        return True

    def power_off(self, rng: Random) -> None:
        """Cut every file back to what counts as synced, or a little more."""
        for path, size in self.write_back.survivors(rng):
            content = self._files[path]
            self.used -= max(0, len(content) - size)
            self._files[path] = content[:size]


def whole_headers(content: bytes | bytearray) -> Iterator[BatchHeader]:
    """The headers of the batches at the beginning of a log file that are there as a whole."""
    with suppress(CorruptBatch):
        yield from iterate_headers(content)
