"""The descriptors of a cluster's process: which files have one, and how many are left for connections."""

from __future__ import annotations

import errno
import os
import resource
from collections import deque
from collections.abc import Callable
from typing import Protocol, TypeVar

Opened = TypeVar("Opened")

# No descriptor is left to this process, or to the whole system.
NO_DESCRIPTOR = (errno.EMFILE, errno.ENFILE)
_OPEN_FILES_MAX = 8192
_SPARE = 32


class UsedFile(Protocol):
    """A file that opens its descriptor when it is used."""

    path: str
    used: bool

    @property
    def is_open(self) -> bool:
        """Whether it has a descriptor now."""
        ...

    def close(self) -> None:
        """Close it for good."""
        ...

    def rest(self) -> None:
        """Close the descriptor until the file is used again."""
        ...


class Descriptor:
    """An open file descriptor, closed when the last reference to it is gone."""

    __slots__ = ("fd",)

    def __init__(self, fd: int) -> None:
        self.fd = fd

    def __del__(self, _close=os.close) -> None:  # type: ignore[no-untyped-def]  # bound early: `os` may be gone at exit
        _close(self.fd)


class OpenFiles:
    """The files of one process that have an open descriptor, at most `limit`; others are opened again when used.

    By default three quarters of the descriptors that the process may open are left for connections, and connections
    leave a quarter to files (`is_for_connections`). To make room, a file that was used since the last check is passed
    over once.
    """

    def __init__(self, limit: int | None = None) -> None:
        if limit is None:
            allowed = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
            limit = _OPEN_FILES_MAX if allowed == resource.RLIM_INFINITY else min(allowed // 4, _OPEN_FILES_MAX)
        self.limit = max(1, limit)
        self._files: deque[UsedFile] = deque()

    def open(self, file: UsedFile) -> Descriptor:
        """A descriptor for the file, which is made if it is missing; OSError."""
        self._make_room(self.limit - 1)
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        fd = self.with_room(lambda: os.open(file.path, flags, 0o644))
        self._files.append(file)
        return Descriptor(fd)

    def with_room(self, opened: Callable[[], Opened]) -> Opened:
        """What this opens; if no descriptor is left for it, half of the files are closed first. OSError."""
        try:
            return opened()
        except OSError as error:
            if error.errno not in NO_DESCRIPTOR:
                raise
        self._make_room(len(self._files) // 2)
        return opened()

    def is_for_connections(self, fd: int) -> bool:
        """Whether a connection may have the descriptor `fd`, the lowest that was free, or must leave it to files.

        As many stay free as files may still be opened, and a few for all else: for files that are opened for a moment.
        """
        allowed = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        left = allowed - fd - 1 - min(_SPARE, allowed // 8)
        if allowed == resource.RLIM_INFINITY or left >= self.limit:
            return True
        return left >= self.limit - sum(file.is_open for file in self._files)

    def let_go(self, root: str) -> None:
        """Close the files below a folder."""
        start = root + os.sep
        kept: deque[UsedFile] = deque()
        for file in self._files:
            if file.path.startswith(start):
                file.close()
            else:
                kept.append(file)
        self._files = kept

    def _make_room(self, most: int) -> None:
        files = self._files
        while len(files) > most:
            file = files.popleft()
            if file.used:
                file.used = False
                files.append(file)
            else:
                file.rest()
