"""A cluster's folder, locked by one running cluster at a time.

    data_dir/.lock           locked (flock) as long as a cluster runs on the folder
    data_dir/controller/     the controller's state: topics and their replicas
    data_dir/broker-1/ ...   the logs of one broker each

A folder that cannot be used is a `UserMistake`: one sentence that names it and says what to do. If nothing was stored
in a new folder, as when a start fails on a full disk, the folder is removed again.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os

from ottla.cluster.open_files import OpenFiles
from ottla.cluster.storage import DiskStorage, remove_tree
from ottla.errors import UserMistake

_LOCK = ".lock"


def broker_folder(broker_id: int) -> str:
    """The name of a broker's folder within its cluster's."""
    return f"broker-{broker_id}"


def log_folder(data_dir: str, broker_id: int, topic: str, partition: int) -> str:
    """The folder of a partition's log on a broker; it need not exist."""
    return os.path.join(data_dir, broker_folder(broker_id), f"{topic}-{partition}")


class DataDir:
    """A locked folder, made if it is missing; `release()` unlocks it, and removes it if it is temporary.

    Errors: UserMistake when it cannot be made or written, or when another running cluster uses it.
    """

    def __init__(self, path: str, *, temporary: bool = False) -> None:
        self.path = path
        self._temporary = temporary
        self._lock: int | None = None
        self._open_files = OpenFiles()
        self._made = _missing(path)
        try:
            os.makedirs(path, exist_ok=True)
            self._lock = _take_lock(path)
            self._was_empty = os.listdir(path) == [_LOCK]
        except OSError as error:
            if self._lock is not None:
                os.close(self._lock)
            self._unmake()
            raise unusable(path, error) from error

    def storage(self, name: str) -> DiskStorage:
        """The storage in the subfolder `name`; UserMistake if that cannot be made."""
        path = os.path.join(self.path, name)
        try:
            os.makedirs(path, exist_ok=True)
        except OSError as error:
            raise unusable(self.path, error) from error
        # A temporary folder need not outlive a power cut.
        return DiskStorage(path, self._open_files, lasts=not self._temporary)

    def release(self) -> None:
        """Unlock the folder. Releasing twice is allowed."""
        if self._lock is None:
            return
        if self._temporary:
            remove_tree(self.path)
        elif self._was_empty and not _holds_anything(self.path):
            for name in os.listdir(self.path):
                remove_tree(os.path.join(self.path, name))
            self._unmake()
        os.close(self._lock)
        self._lock = None

    def _unmake(self) -> None:
        """Remove the folders that were made for this one, if they are empty."""
        for folder in self._made:
            with contextlib.suppress(OSError):
                os.rmdir(folder)


def unusable(path: str, error: OSError) -> UserMistake:
    """The sentence for a folder that the operating system refuses."""
    if error.errno in (errno.ENOTDIR, errno.EEXIST):
        reason = "a file is in the way"
    else:
        reason = (error.strerror or str(error)).lower()
    return UserMistake(
        f"data_dir {path!r} cannot be used ({reason}): name a folder on a disk with room where this user may write."
    )


def _missing(path: str) -> list[str]:
    """The folders of a path that do not exist, the innermost first."""
    missing = []
    path = os.path.abspath(path)
    while not os.path.lexists(path):
        missing.append(path)
        path = os.path.dirname(path)
    return missing


def _holds_anything(path: str) -> bool:
    """Whether a byte is stored in any file below a folder."""
    for folder, _, names in os.walk(path):
        if any(os.lstat(os.path.join(folder, name)).st_size for name in names):
            return True
    return False


def _take_lock(path: str) -> int:
    lock = os.open(os.path.join(path, _LOCK), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if not os.fstat(lock).st_nlink:
            # The cluster that held it has just removed the file; a newer file of that name may be locked by another.
            raise BlockingIOError
    except BlockingIOError:
        os.close(lock)
        raise UserMistake(
            f"data_dir {path!r} is in use by another running cluster: close that one, or name another folder."
        ) from None
    except OSError:
        os.close(lock)
        raise
    return lock
