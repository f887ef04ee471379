"""The storage port: the only way a broker core touches a disk.

`cluster/` implements it with files, `simulation/` in memory with faults. Paths are relative, with forward slashes:
"flights-0/00000000000000000000.log". All calls are synchronous; a failure is an OSError with errno set (ENOSPC,
EROFS, EIO), and after a failed append the file holds what it held before.

A storage outlives the core it was given to: after a kill (the core is dropped without `close`) or a `power_off` it is
handed to a new one, and handles of the old one are used no more.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any, Protocol

from ottla.broker.write_back import WriteBack

Buffer = bytes | bytearray | memoryview


class StorageFile(Protocol):
    """An append-only file that can be cut."""

    @property
    def size(self) -> int:
        """Bytes in the file."""
        ...

    def append(self, buffers: Sequence[Buffer]) -> int:
        """Write the buffers one behind the other at the end and return the position where the first begins."""
        ...

    def read(self, position: int, size: int) -> bytes:
        """Up to `size` bytes from `position`; fewer at the end of the file."""
        ...

    def file_slice(self, position: int, size: int) -> FileSlice:
        """These bytes, not read yet, so that a driver can send them without reading."""
        ...

    def truncate(self, size: int) -> None:
        """Cut the file to `size` bytes."""
        ...

    def sync(self) -> None:
        """Return once everything written so far would survive a power cut.

        OSError: part of it may never reach the disk, even if it can be read and the next sync succeeds (the kernel
        drops what it could not write, and does not try again).
        """
        ...

    def begin_sync(self) -> Callable[[], bool]:
        """Begin what `sync` does and return at once; the function returned says whether it is done; OSError."""
        ...

    def close(self) -> None:
        """Close the file; it must not be read afterwards."""
        ...


class FileSlice(Protocol):
    """A range of a file, sendable by `sendfile` where the driver can, readable where it cannot."""

    size: int

    def read(self) -> bytes:
        """The bytes themselves."""
        ...

    def source(self) -> Any:
        """(file descriptor, position) for `sendfile`, or None where there is no such thing."""
        ...


class Storage(Protocol):
    """A folder of files; `write_back` has what a power cut would leave of them."""

    @property
    def write_back(self) -> WriteBack: ...

    def make_folder(self, path: str, files: Sequence[tuple[str, bytes]]) -> bool:
        """Make a folder with these files in it (names and contents); False, and nothing done, where it exists."""
        ...

    def open(self, path: str) -> StorageFile:
        """The file at `path`, made (with its folders) where it is missing."""
        ...

    def exists(self, path: str) -> bool: ...

    def volume(self) -> tuple[str, int, int]:
        """Where this is, how many bytes the disk has, and how many of them are free; OSError."""
        ...

    def folders(self) -> list[str]:
        """The folders at the top, sorted."""
        ...

    def files(self, folder: str) -> list[str]:
        """The file names in `folder`, sorted; none where it is missing."""
        ...

    def read_file(self, path: str) -> bytes | None:
        """The whole of a small file, or None."""
        ...

    def write_file(self, path: str, content: bytes, *, synced: bool = False) -> None:
        """Replace a small file at once: afterwards it holds the old or the new content, never a mixture.

        Without `synced` a power cut may leave it empty, too.
        """
        ...

    def rename(self, old: str, new: str) -> None:
        """Give a file another name, in place of what is there, or a folder one that nothing has; OSError.

        Handles of what is renamed must be closed. The change is atomic and durable.
        """
        ...

    def remove(self, path: str, *, synced: bool = False) -> None:
        """Remove a file, or a folder with all that is in it; nothing happens where it is missing.

        With `synced` it does not come back, whatever happens then.
        """
        ...

    def power_off(self, rng: Random) -> None:
        """Leave of every file what a power cut at `write_back.now_us` would; open handles can no longer be used."""
        ...
