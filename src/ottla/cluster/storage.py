"""The broker's disk: real files behind the storage port of `ottla.broker.storage`.

Appends go straight from the request's buffers to the page cache (`writev`; nothing is joined or copied in Python). A
slice of a file is read only when it is sent, by `sendfile`. A file is synced to the disk only when the broker core asks
for it, as with Kafka; in a temporary folder never. `power_off` really cuts the files back to what counts as synced
(`broker.write_back`).

A thousand topics must not need thousands of descriptors: files are opened when they are first used, and `OpenFiles`
closes those that were not used for long.

Invariants: after a failed append the file is as long as before; if it cannot be cut back, it takes no more appends. The
first failure of a file is logged, and the next one after a success. A slice stays readable after its file was closed or
removed: the descriptor is closed when its last user is gone, so its number is never reused while a slice needs it.
"""

from __future__ import annotations

import errno
import functools
import logging
import os
import threading
import time
from collections.abc import Callable, Sequence
from queue import SimpleQueue
from random import Random

from ottla.broker.storage import Buffer
from ottla.broker.write_back import WriteBack
from ottla.cluster.open_files import NO_DESCRIPTOR, Descriptor, OpenFiles
from ottla.host.disk_faults import READ, SYNC, WRITE, DiskFaults, spoilt_byte

logger = logging.getLogger("ottla.cluster")

_BUFFERS_PER_WRITE = 1024  # IOV_MAX on Linux and macOS
_sync = getattr(os, "fdatasync", os.fsync)


class DiskSlice:
    """A range of a file: `source()` is for `sendfile`, `read()` for all else."""

    __slots__ = ("_descriptor", "_position", "size")

    def __init__(self, descriptor: Descriptor, position: int, size: int) -> None:
        self._descriptor = descriptor
        self._position = position
        self.size = size

    def read(self) -> bytes:
        """The bytes; fewer than `size` if the file was cut meanwhile."""
        return os.pread(self._descriptor.fd, self.size, self._position)

    def source(self) -> tuple[int, int]:
        """(file descriptor, position); valid as long as this object is held."""
        return self._descriptor.fd, self._position


class _BackgroundSync:
    """A sync of one file in a thread: of its first `size` bytes, for it may grow meanwhile."""

    _waiting: SimpleQueue[_BackgroundSync] | None = None

    def __init__(
        self,
        descriptor: Descriptor,
        new_path: str | None,
        name: str,
        size: int,
        write_back: WriteBack,
        begun: dict[str, _BackgroundSync],
    ) -> None:
        self._descriptor: Descriptor | None = descriptor
        # By name, each file's last sync. The kernel reports an error only once, so it also fails later syncs.
        self._begun = begun
        self._behind = begun.get(name)
        begun[name] = self
        # Set if the file is new: then its name may not be on the disk yet.
        self._new_path = new_path
        self._name = name
        self._size = size
        self._write_back = write_back
        self._time_us = 0
        self._error: OSError | None = None
        self._done = threading.Event()
        self._counted = False
        if _BackgroundSync._waiting is None:
            _BackgroundSync._waiting = SimpleQueue()
            threading.Thread(target=_sync_in_order, args=(_BackgroundSync._waiting,), daemon=True).start()
        _BackgroundSync._waiting.put(self)

    def run(self) -> None:
        """Sync the file; called in the thread."""
        begin_ns = time.perf_counter_ns()
        behind, self._behind = self._behind, None
        try:
            if behind is not None:
                behind.wait()
            if self._descriptor is not None:
                _sync(self._descriptor.fd)
                if self._new_path is not None:
                    _sync_names(self._new_path)
        except OSError as error:
            self._error = error
        self._time_us = (time.perf_counter_ns() - begin_ns) // 1000
        self._descriptor = None
        self._done.set()

    def wait(self) -> None:
        """Return when it is done; OSError if it failed."""
        self._done.wait()
        if self._error is not None:
            raise self._error

    def __call__(self) -> bool:
        if not self._done.is_set():
            return False
        if self._error is not None:
            raise self._error
        if not self._counted:
            self._counted = True
            if self._begun.get(self._name) is self:
                del self._begun[self._name]
            self._write_back.synced_to(self._name, self._size)
            self._write_back.flushed(self._time_us)
        return True


def _sync_in_order(waiting: SimpleQueue[_BackgroundSync]) -> None:
    while True:
        waiting.get().run()


class _Failed:
    """The result of `begin_sync` if the sync failed at once."""

    def __init__(self, error: OSError) -> None:
        self._error = error

    def __call__(self) -> bool:
        raise self._error


def _done() -> bool:
    return True


def _sync_names(path: str) -> None:
    """Sync the names of a file and of its folder to the disk: both may be new."""
    folder = os.path.dirname(path)
    _sync_folder(folder)
    _sync_folder(os.path.dirname(folder))


def _sync_folder(path: str) -> None:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        if error.errno not in NO_DESCRIPTOR:
            raise
        # The only sync that needs no descriptor: of all that is not on the disks yet. It reports no error, so a failed
        # write of the folder itself would not be seen. What is in the files is synced by their own descriptors.
        os.sync()
        return
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


class DiskFile:
    """An append-only file that can be cut; it must have no other writer. Made by `DiskStorage.open`."""

    __slots__ = (
        "_begun",
        "_closed",
        "_descriptor",
        "_failing",
        "_faults",
        "_is_named",
        "_lasts",
        "_name",
        "_open_files",
        "_write_back",
        "path",
        "size",
        "used",
    )

    def __init__(
        self,
        path: str,
        name: str,
        size: int,
        open_files: OpenFiles,
        write_back: WriteBack,
        faults: DiskFaults,
        begun: dict[str, _BackgroundSync],
        lasts: bool,
    ) -> None:
        self._lasts = lasts
        self._is_named = False
        # Each file's last background sync, by name. It may have failed without the broker having looked at it yet.
        self._begun = begun
        self.path = path
        self.size = size
        self.used = False
        self._name = name
        self._open_files = open_files
        self._write_back = write_back
        self._faults = faults
        self._descriptor: Descriptor | None = None
        self._closed = False
        self._failing = False

    def append(self, buffers: Sequence[Buffer]) -> int:
        """Write the buffers at the end; return where the first begins. OSError: nothing was appended."""
        begin = self.size
        wanted = sum(map(len, buffers))
        try:
            self._faults.check_append(self.path)
            fd = self._open_descriptor().fd
            if len(buffers) <= _BUFFERS_PER_WRITE:
                written = os.writev(fd, buffers)
                if written != wanted:
                    _write_all(fd, _rest(buffers, written))
            else:
                for first in range(0, len(buffers), _BUFFERS_PER_WRITE):
                    _write_all(fd, buffers[first : first + _BUFFERS_PER_WRITE])
        except OSError as error:
            self._cut_back(begin)
            if not self._failing:
                self._failing = True
                logger.error("cannot append %d bytes to %s: %s", wanted, self.path, error.strerror)
            raise
        self.size = begin + wanted
        self._failing = False
        self._write_back.wrote(self._name, begin, self.size)
        return begin

    def read(self, position: int, size: int) -> bytes:
        """Up to `size` bytes from `position`."""
        self._faults.check(READ, self.path)
        return os.pread(self._open_descriptor().fd, size, position)

    def file_slice(self, position: int, size: int) -> DiskSlice:
        """A slice of these bytes, which are read when it is used."""
        self._faults.check(READ, self.path)
        return DiskSlice(self._open_descriptor(), position, size)

    def truncate(self, size: int) -> None:
        """Cut the file to `size` bytes."""
        self._faults.check(WRITE, self.path)
        os.ftruncate(self._open_descriptor().fd, size)
        self.size = size
        self._write_back.cut(self._name, size)

    def sync(self) -> None:
        """Return once everything written so far would survive a power cut."""
        begin_ns = time.perf_counter_ns()
        self._check_sync()
        if self._lasts:
            begun = self._begun.get(self._name)
            if begun is not None:
                begun.wait()
                del self._begun[self._name]
            _sync(self._open_descriptor().fd)
            if not self._is_named:
                _sync_names(self.path)
                self._is_named = True
        self._write_back.synced(self._name)
        self._write_back.flushed((time.perf_counter_ns() - begin_ns) // 1000)

    def begin_sync(self) -> Callable[[], bool]:
        """Begin a `sync` in a thread; call the result to see whether it is done (OSError if it failed)."""
        if not self._lasts or self._faults.failing:
            try:
                self.sync()
            except OSError as error:
                return _Failed(error)
            return _done
        new_path = None if self._is_named else self.path
        descriptor = self._open_descriptor()
        self._is_named = True
        return _BackgroundSync(descriptor, new_path, self._name, self.size, self._write_back, self._begun)

    def _check_sync(self) -> None:
        """OSError if a fault makes this sync fail; with `evicts` unsynced bytes are overwritten with zeros."""
        try:
            self._faults.check(SYNC, self.path)
        except OSError:
            synced = self._write_back.synced_bytes(self._name, self.size)
            if self._faults.evicts and synced < self.size:
                _overwrite(self.path, bytes(self.size - synced), synced)
            raise

    def close(self) -> None:
        """Close the file; slices of it stay readable. Closing twice is allowed."""
        self._closed = True
        self._descriptor = None

    @property
    def is_open(self) -> bool:
        """Whether it has a descriptor now."""
        return self._descriptor is not None

    def rest(self) -> None:
        """Close the descriptor until the file is used again."""
        self._descriptor = None

    def _open_descriptor(self) -> Descriptor:
        descriptor = self._descriptor
        if descriptor is None:
            if self._closed:
                raise OSError(errno.EBADF, "the file is closed", self.path)
            descriptor = self._descriptor = self._open_files.open(self)
        self.used = True
        return descriptor

    def _cut_back(self, size: int) -> None:
        """Undo half an append; if that fails, close the file: nothing must be appended after a torn batch."""
        if self._descriptor is None:
            return
        try:
            os.ftruncate(self._descriptor.fd, size)
        except OSError:
            self.close()


def _write_all(fd: int, buffers: Sequence[Buffer]) -> None:
    while buffers:
        buffers = _rest(buffers, os.writev(fd, buffers))


def _rest(buffers: Sequence[Buffer], written: int) -> list[Buffer]:
    """What is left of `buffers` after their first `written` bytes."""
    for number, buffer in enumerate(buffers):
        if written < len(buffer):
            return [memoryview(buffer)[written:], *buffers[number + 1 :]]
        written -= len(buffer)
    return []


class DiskStorage:
    """A folder of files; `root` must exist. Storages of one process share `open_files`.

    `lasts`: the folder may be used again after a real power cut. Otherwise nothing is synced to the disk, but counts as
    synced.
    """

    def __init__(self, root: str, open_files: OpenFiles | None = None, *, lasts: bool = True) -> None:
        self._lasts = lasts
        self.write_back = WriteBack()
        self.faults = DiskFaults()
        self._begun: dict[str, _BackgroundSync] = {}
        self._root = root
        self.open_files = open_files if open_files is not None else OpenFiles()

    def make_folder(self, path: str, files: Sequence[tuple[str, bytes]]) -> bool:
        """Make a folder with these files in it; False if it exists; OSError leaves none."""
        full = os.path.join(self._root, path)
        self.faults.check_append(full)
        try:
            os.mkdir(full)
        except FileExistsError:
            return False
        try:
            for name, content in files:
                flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
                fd = self.open_files.with_room(functools.partial(os.open, f"{full}/{name}", flags, 0o644))
                try:
                    if content:
                        _write_all(fd, [content])
                finally:
                    os.close(fd)
        except OSError:
            remove_tree(full)
            raise
        return True

    def open(self, path: str) -> DiskFile:
        """The file at `path`, made with its folders if it is missing."""
        full = os.path.join(self._root, path)
        try:
            return self._file(path, full, os.stat(full).st_size)
        except FileNotFoundError:
            os.makedirs(os.path.dirname(full), exist_ok=True)
            file = self._file(path, full, 0)
            file.append([])
            return file

    def _file(self, path: str, full: str, size: int) -> DiskFile:
        return DiskFile(full, path, size, self.open_files, self.write_back, self.faults, self._begun, self._lasts)

    def exists(self, path: str) -> bool:
        """Whether there is a file or a folder at `path`."""
        return os.path.exists(os.path.join(self._root, path))

    def volume(self) -> tuple[str, int, int]:
        """The folder, the size of its disk in bytes, and how many of them this user may write."""
        disk = os.statvfs(self._root)
        return os.path.abspath(self._root), disk.f_frsize * disk.f_blocks, disk.f_frsize * disk.f_bavail

    def folders(self) -> list[str]:
        """The folders at the top, sorted."""
        with os.scandir(self._root) as entries:
            return sorted(entry.name for entry in entries if entry.is_dir())

    def files(self, folder: str) -> list[str]:
        """The file names in `folder`, sorted; none where it is missing."""
        try:
            with self.open_files.with_room(lambda: os.scandir(os.path.join(self._root, folder))) as entries:
                return sorted(entry.name for entry in entries if entry.is_file())
        except FileNotFoundError:
            return []

    def read_file(self, path: str) -> bytes | None:
        """The whole of a small file, or None."""
        self.faults.check(READ, path)
        try:
            with self.open_files.with_room(lambda: open(os.path.join(self._root, path), "rb")) as file:
                return file.read()
        except FileNotFoundError:
            return None

    def write_file(self, path: str, content: bytes, *, synced: bool = False) -> None:
        """Replace a small file at once: a process that dies here leaves the old or the new content.

        `synced`: the same holds for a power cut, and when this returns, the new content is on the disk. Without it the
        file may be empty after a power cut.
        """
        full = os.path.join(self._root, path)
        self.faults.check_append(full)
        if synced:
            self.faults.check(SYNC, full)
        os.makedirs(os.path.dirname(full), exist_ok=True)
        fresh = full + ".new"
        try:
            with self.open_files.with_room(lambda: open(fresh, "wb")) as file:
                file.write(content)
                if synced and self._lasts:
                    file.flush()
                    os.fsync(file.fileno())
            os.replace(fresh, full)
            if synced and self._lasts:
                _sync_folder(os.path.dirname(full))
        except OSError:
            _remove_file(fresh)
            raise
        self._begun.pop(path, None)
        self.write_back.synced(path)

    def rename(self, old: str, new: str) -> None:
        """Rename a file, which replaces a file of the new name, or a folder, whose new name must be free."""
        self.faults.check(WRITE, old)
        os.replace(os.path.join(self._root, old), os.path.join(self._root, new))
        self._forget_begun(old)
        self._forget_begun(new)
        self.write_back.renamed(old, new)

    def remove(self, path: str, *, synced: bool = False) -> None:
        """Remove a file, or a folder with all that is in it; nothing happens where it is missing.

        `synced`: it does not come back with a power cut.
        """
        full = os.path.join(self._root, path)
        remove_tree(full)
        if synced and self._lasts:
            _sync_folder(os.path.dirname(full))
        self._forget_begun(path)
        self.write_back.removed(path)

    def _forget_begun(self, path: str) -> None:
        """Forget the background syncs of this file, or of those in this folder."""
        start = path + "/"
        for name in [each for each in self._begun if each == path or each.startswith(start)]:
            del self._begun[name]

    def let_go(self) -> None:
        """Close all files: the broker that used them is gone."""
        self.open_files.let_go(self._root)

    def flip_byte(self, path: str, position: int) -> None:
        """Invert all bits of one byte of a file; OSError."""
        full = os.path.join(self._root, path)
        with open(full, "rb") as file:
            file.seek(position)
            flipped = file.read(1)[0] ^ 0xFF
        _overwrite(full, bytes([flipped]), position)

    def spoilt_byte(self, path: str, rng: Random) -> int | None:
        """The position of an unsynced byte of a log that can be made wrong; None if there is none."""
        with open(os.path.join(self._root, path), "rb") as file:
            content = file.read()
        return spoilt_byte(content, self.write_back.synced_bytes(path, len(content)), rng)

    def power_off(self, rng: Random) -> None:
        """Cut the files back to what counts as synced, or a little more, as a power cut would leave them."""
        self._begun.clear()
        for path, size in self.write_back.survivors(rng):
            try:
                os.truncate(os.path.join(self._root, path), size)
            except FileNotFoundError:
                continue


def _overwrite(path: str, content: bytes, position: int) -> None:
    """Overwrite bytes of a file; the descriptors of `DiskFile` cannot, for they were opened with O_APPEND."""
    with open(path, "r+b") as file:
        file.seek(position)
        file.write(content)


def remove_tree(path: str) -> None:
    """Remove a file or a folder with all that is in it; symbolic links are removed, not followed."""
    try:
        with os.scandir(path) as entries:
            inside = list(entries)
    except FileNotFoundError:
        return
    except NotADirectoryError:
        _remove_file(path)
        return
    for entry in inside:
        if entry.is_dir(follow_symlinks=False):
            remove_tree(entry.path)
        else:
            _remove_file(entry.path)
    try:
        os.rmdir(path)
    except FileNotFoundError:
        return


def _remove_file(path: str) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        return
