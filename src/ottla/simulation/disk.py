"""A disk in memory behind the broker's storage port.

It keeps what was written apart from what was synced, so that a later power cut knows what to take away. A full disk
answers as a real one does, with ENOSPC and nothing written.
"""

from __future__ import annotations

import errno
from collections.abc import Sequence
from typing import Any

from ottla.broker.storage import Buffer


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

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._content = bytearray()
        self.synced = 0

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
        self.synced = min(self.synced, size)

    def sync(self) -> None:
        """Everything written so far would now survive a power cut."""
        self.synced = len(self._content)

    def close(self) -> None:
        """Nothing to give back."""


class Disk:
    """A folder of simulated files with a capacity in bytes."""

    def __init__(self, capacity: int = 1 << 30) -> None:
        self.capacity = capacity
        self.used = 0
        self._files: dict[str, DiskFile] = {}
        self._small: dict[str, bytes] = {}

    def take(self, size: int) -> None:
        """Count `size` more bytes, or fail as a full disk does."""
        if self.used + size > self.capacity:
            raise OSError(errno.ENOSPC, "no space left on the simulated disk")
        self.used += size

    def open(self, path: str) -> DiskFile:
        """The file at `path`, made where it is missing."""
        return self._files.setdefault(path, DiskFile(self))

    def exists(self, path: str) -> bool:
        """Whether there is such a file."""
        return path in self._files or path in self._small

    def folders(self) -> list[str]:
        """The folders at the top, sorted."""
        names = {path.split("/")[0]: None for path in (*self._files, *self._small) if "/" in path}
        return sorted(names)

    def files(self, folder: str) -> list[str]:
        """The file names in `folder`, sorted."""
        start = folder.rstrip("/") + "/"
        return sorted(path[len(start) :] for path in (*self._files, *self._small) if path.startswith(start))

    def read_file(self, path: str) -> bytes | None:
        """The whole of a small file, or None."""
        return self._small.get(path)

    def write_file(self, path: str, content: bytes) -> None:
        """Replace a small file at once."""
        self._small[path] = bytes(content)

    def remove(self, path: str) -> None:
        """Remove a file, or a folder with all that is in it."""
        start = path.rstrip("/") + "/"
        for name in [n for n in self._files if n == path or n.startswith(start)]:
            self.used -= self._files.pop(name).size
        for name in [n for n in self._small if n == path or n.startswith(start)]:
            del self._small[name]
