"""Where a run keeps its files: the brokers' logs and the ledgers.

    DATA_DIR/run-1/brokers/    a folder `ottla serve --data-dir` can serve again
    DATA_DIR/run-1/ledger/     one Parquet file per guarantee

Each run takes the next free number, so that nothing of an earlier run is ever touched. Without a data folder the
brokers use a temporary one of their own, and the ledgers another; both are removed at the end. A run that does not
reach its end leaves nothing: what it made is removed again, the data folder itself included where it was not there
before.
"""

from __future__ import annotations

import secrets
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from ottla.errors import UserMistake

if TYPE_CHECKING:
    from ottla.showcase.workload import Records

# Four topics, three replicas each.
_COPIES = 12


class RunFolders:
    """The folders of one run; `keep()` says that the run has ended well and the folder given by the user stays."""

    def __init__(self, folder: Path, *, is_temporary: bool, has_brokers: bool = True) -> None:
        self.run_id = "temporary" if is_temporary else folder.name
        self.brokers = folder / "brokers" if has_brokers and not is_temporary else None
        self.ledgers = folder / "ledger"
        self.kept_in = None if is_temporary else folder
        self.is_kept = False

    def keep(self) -> None:
        """Do not remove the folder at the end."""
        self.is_kept = self.kept_in is not None

    def ledger(self, guarantee: str) -> Path:
        """Where the ledger of a guarantee is written."""
        return self.ledgers / f"{guarantee}.parquet"

    def check_room(self, records: Records) -> None:
        """`UserMistake` where the disk plainly has too little room for what the brokers will write."""
        disk = self.ledgers if self.brokers is None else self.brokers
        needed = records.compressed_bytes_estimate() * _COPIES
        free = shutil.disk_usage(disk).free
        if free < needed:
            raise UserMistake(
                f"{disk} has {_mib(free)} free, and the run would write about {_mib(needed)} there (four topics with "
                "three replicas each): make room, or name a folder on another disk with --data-dir (or TMPDIR)"
            )

    def check_writable(self, size_bytes: int = 1 << 20) -> None:
        """`UserMistake` where the disk does not take so many bytes more; asked when the brokers make no progress."""
        probe = self.ledgers / ".probe"
        try:
            probe.write_bytes(bytes(size_bytes))
        except OSError as error:
            shown = self.kept_in or tempfile.gettempdir()
            raise UserMistake(
                f"nothing more can be written to {shown} ({error.strerror}): make room, or name a folder on another "
                "disk with --data-dir (or TMPDIR)"
            ) from None
        finally:
            probe.unlink(missing_ok=True)


@contextmanager
def make_folders(data_dir: Path | None, *, has_brokers: bool = True) -> Iterator[RunFolders]:
    """The folders of a run, brokers' among them where it has some; removed at the end unless `keep()` was called.

    `UserMistake` where they cannot be made.
    """
    made: list[Path] = []
    try:
        folders = _make(data_dir, made, has_brokers=has_brokers)
        try:
            yield folders
        finally:
            if folders.is_kept:
                made.clear()
    finally:
        for folder in reversed(made):
            shutil.rmtree(folder, ignore_errors=True)


def _make(data_dir: Path | None, made: list[Path], *, has_brokers: bool) -> RunFolders:
    try:
        if data_dir is None:
            folder = _temporary_name()
            made.append(folder)
            folder.mkdir(0o700)
        else:
            made.extend(_make_parents(data_dir.absolute()))
            folder = _next_run(data_dir)
            made.append(folder)
        folders = RunFolders(folder, is_temporary=data_dir is None, has_brokers=has_brokers)
        folders.ledgers.mkdir()
        if folders.brokers is not None:
            folders.brokers.mkdir()
    except OSError as error:
        where = data_dir or tempfile.gettempdir()
        raise UserMistake(
            f"{where} cannot hold the run's files ({error.strerror}): name another folder with --data-dir"
        ) from None
    return folders


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """A temporary folder of the system's, removed at the end wherever an interruption comes."""
    folder = _temporary_name()
    try:
        folder.mkdir(0o700)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _temporary_name() -> Path:
    """Chosen before the folder is made: an interruption in between would leave a folder that is never removed."""
    return Path(tempfile.gettempdir(), f"ottla-run-{secrets.token_hex(8)}")


def _make_parents(folder: Path) -> list[Path]:
    """Make the folder and what is missing above it; the ones made, outermost first."""
    missing = []
    while not folder.exists():
        missing.append(folder)
        folder = folder.parent
    missing.reverse()
    for path in missing:
        path.mkdir()
    return missing


def _next_run(data_dir: Path) -> Path:
    """A fresh `run-N`, one above the highest there is; two runs that begin at once get two numbers."""
    taken = [int(entry.name[4:]) for entry in data_dir.iterdir() if _is_run(entry.name)]
    number = max(taken, default=0) + 1
    while True:
        folder = data_dir / f"run-{number}"
        try:
            folder.mkdir()
        except FileExistsError:
            number += 1
        else:
            return folder


def _is_run(name: str) -> bool:
    return name.startswith("run-") and name[4:].isascii() and name[4:].isdecimal()


def _mib(size_bytes: float) -> str:
    return f"{size_bytes / 1_048_576:,.0f} MiB"
