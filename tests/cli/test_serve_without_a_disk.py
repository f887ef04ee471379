"""`ottla serve` on a folder it may not write, and on a disk that is full: one sentence, exit status 2, no harm done."""

from __future__ import annotations

import hashlib
import os
import resource
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import ottla

TIMEOUT_S = 60
TOPIC = "orders"
VALUES = [b"%d" % number for number in range(50)]
SENTENCE = (
    "ottla: data_dir {path!r} cannot be used ({reason}): name a folder on a disk with room where this user may write."
)

# The superuser may write everywhere. Without these two capabilities, CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH, it is a
# user as any other; as another user it could not even reach a Python that lies in its home.
_AS_ANYBODY = """
import ctypes, os, sys
if os.geteuid() == 0:
    for capability in (1, 2):
        ctypes.CDLL(None).prctl(24, capability, 0, 0, 0)
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
"""
_WITHOUT_ROOM = """
import os, resource, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
"""


def run(wrapper: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", wrapper, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)


def serve(wrapper: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """`ottla serve`, which must not come as far as serving."""
    return run(wrapper, "-m", "ottla", "serve", "--brokers", "1", "--port", "0", "--data-dir", str(folder))


def content(folder: Path) -> dict[str, str]:
    """Everything below a folder: files by their digests."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "folder"
        for path in sorted(folder.rglob("*"))
    }


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    """A folder with acknowledged records in it."""
    folder = tmp_path / "kept"
    with ottla.Cluster(brokers=1, data_dir=folder) as cluster, ottla.Producer(cluster.bootstrap_servers) as producer:
        cluster.create_topic(TOPIC)
        for value in VALUES:
            producer.send(TOPIC, value)
    return folder


def is_whole(folder: Path) -> None:
    """All records are there when the folder can be used again."""
    with ottla.Cluster(brokers=1, data_dir=folder) as cluster:
        assert ottla.read_table(cluster.bootstrap_servers, TOPIC).column("value").to_pylist() == VALUES


@pytest.fixture
def lock_away() -> Iterator[Callable[[Path], None]]:
    """Takes the right to write from a folder and all in it, until the test ends; skips where that means nothing."""
    taken: list[tuple[Path, int]] = []

    def lock(folder: Path) -> None:
        for path in (folder, *folder.rglob("*")):
            taken.append((path, path.stat().st_mode))
        for path, mode in taken:
            path.chmod(mode & ~0o222)
        if run(_AS_ANYBODY, "-c", "import os, sys; os.mkdir(sys.argv[1])", str(folder / "probe")).returncode == 0:
            (folder / "probe").rmdir()
            pytest.skip("this user writes everywhere, and cannot be made one that does not")

    yield lock
    for path, mode in taken:
        path.chmod(mode)


@pytest.mark.parametrize("below", ["", "new", "new/and/deeper"])
def test_a_new_folder_where_nobody_may_write_is_refused(
    tmp_path: Path, lock_away: Callable[[Path], None], below: str
) -> None:
    (tmp_path / "locked").mkdir()
    lock_away(tmp_path / "locked")
    path = tmp_path / "locked" / below
    done = serve(_AS_ANYBODY, path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == SENTENCE.format(path=str(path), reason="permission denied") + "\n"
    assert content(tmp_path) == {"locked": "folder"}


@pytest.mark.parametrize("part", [".", "controller", "broker-1"])
def test_a_kept_folder_that_has_become_read_only_is_refused_and_unharmed(
    kept: Path, lock_away: Callable[[Path], None], part: str
) -> None:
    before = content(kept)
    lock_away(kept / part)
    done = serve(_AS_ANYBODY, kept)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines()[-1] == SENTENCE.format(path=str(kept), reason="permission denied")
    assert "Traceback" not in done.stderr
    if part == ".":
        assert done.stderr.count("\n") == 1
    assert content(kept).keys() == before.keys()
    for path in kept.rglob("*"):
        path.chmod(path.stat().st_mode | 0o200)
    kept.chmod(0o755)
    is_whole(kept)


@pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="files end at a limit of Linux")
def test_a_new_folder_on_a_disk_without_room_is_refused_and_not_left_behind(tmp_path: Path) -> None:
    path = tmp_path / "new" / "data"
    done = serve(_WITHOUT_ROOM, path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == SENTENCE.format(path=str(path), reason="file too large") + "\n"
    assert content(tmp_path) == {}


@pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="files end at a limit of Linux")
def test_a_kept_folder_on_a_disk_without_room_is_refused_and_unharmed(kept: Path) -> None:
    before = content(kept)
    done = serve(_WITHOUT_ROOM, kept)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines()[-1] == SENTENCE.format(path=str(kept), reason="file too large")
    assert "Traceback" not in done.stderr
    assert content(kept) == before
    is_whole(kept)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own with no byte free."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mounting = ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(disk)]
    try:
        done = subprocess.run(mounting, capture_output=True, check=False)
    except FileNotFoundError:
        pytest.skip("there is no mount here")
    if done.returncode:
        pytest.skip("this user may not mount a file system")
    try:
        yield disk
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def fill(disk: Path) -> None:
    """Take every page there is left."""
    fd = os.open(disk / "everything-else", os.O_WRONLY | os.O_CREAT)
    try:
        while os.statvfs(disk).f_bavail:
            os.write(fd, bytes(4096))
    finally:
        os.close(fd)


def test_a_full_disk_is_refused_at_the_start(small_disk: Path, kept: Path) -> None:
    moved = small_disk / "kept"
    subprocess.run(["cp", "-r", str(kept), str(moved)], check=True)
    before = content(moved)
    fill(small_disk)
    for path in (small_disk / "new", moved):
        done = serve("import os, sys; os.execv(sys.executable, [sys.executable, *sys.argv[1:]])", path)
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.splitlines()[-1] == SENTENCE.format(path=str(path), reason="no space left on device")
        assert "Traceback" not in done.stderr
    assert not (small_disk / "new").exists()
    assert content(moved) == before
    (small_disk / "everything-else").unlink()
    is_whole(moved)
