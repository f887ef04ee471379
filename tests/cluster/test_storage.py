"""The broker's disk on real files: what is appended is there, what failed to be appended is not."""

from __future__ import annotations

import contextlib
import errno
import os
import resource
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from random import Random

import pytest

from ottla.cluster.open_files import OpenFiles
from ottla.cluster.storage import DiskFile, DiskStorage
from ottla.faults.fields import OPERATIONS, READ, SYNC, WRITE
from ottla.simulation.disk import Disk


@pytest.fixture
def storage(tmp_path: Path) -> DiskStorage:
    return DiskStorage(str(tmp_path))


def test_appends_follow_each_other_and_tell_where_they_begin(storage: DiskStorage) -> None:
    file = storage.open("flights-0/0.log")
    assert file.append([b"one", bytearray(b"two")]) == 0
    assert file.append([memoryview(b"three")]) == 6
    assert file.size == 11
    assert file.read(0, 100) == b"onetwothree"
    assert file.read(3, 3) == b"two"
    assert file.read(11, 5) == b""


def test_an_empty_append_changes_nothing(storage: DiskStorage) -> None:
    file = storage.open("a.log")
    assert file.append([]) == 0
    assert file.append([b""]) == 0
    assert file.size == 0


@pytest.mark.parametrize("count", [1, 1023, 1024, 1025, 3000])
def test_any_number_of_buffers_goes_in_one_append(storage: DiskStorage, count: int) -> None:
    buffers = [b"%05d" % number for number in range(count)]
    file = storage.open("a.log")
    assert file.append(buffers) == 0
    assert file.read(0, 10 * count) == b"".join(buffers)


def test_a_file_opened_again_is_appended_to(storage: DiskStorage) -> None:
    first = storage.open("t-0/0.log")
    first.append([b"old"])
    first.close()
    again = storage.open("t-0/0.log")
    assert again.size == 3
    assert again.append([b"new"]) == 3
    assert again.read(0, 6) == b"oldnew"


def test_a_cut_file_goes_on_where_it_was_cut(storage: DiskStorage) -> None:
    file = storage.open("a.log")
    file.append([b"0123456789"])
    file.truncate(4)
    assert file.size == 4
    assert file.append([b"x"]) == 4
    assert file.read(0, 10) == b"0123x"


def test_a_slice_outlives_its_closed_and_removed_file(storage: DiskStorage) -> None:
    file = storage.open("t-0/0.log")
    file.append([b"0123456789"])
    kept = file.file_slice(2, 5)
    file.close()
    file.close()
    storage.remove("t-0")
    other = storage.open("u-0/0.log")
    other.append([b"something else"])
    descriptor, position = kept.source()
    assert os.pread(descriptor, 5, position) == b"23456"
    assert kept.read() == b"23456"
    assert kept.size == 5


def test_the_descriptor_goes_with_its_last_user(storage: DiskStorage) -> None:
    file = storage.open("a.log")
    kept = file.file_slice(0, 1)
    descriptor, _ = kept.source()
    file.close()
    os.fstat(descriptor)
    del kept
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)


def test_a_closed_file_refuses_everything(storage: DiskStorage) -> None:
    file = storage.open("a.log")
    file.close()
    for use in (lambda: file.append([b"x"]), lambda: file.read(0, 1), lambda: file.truncate(0), file.sync):
        with pytest.raises(OSError, match="the file is closed") as caught:
            use()
        assert caught.value.errno == errno.EBADF


def test_short_writes_are_completed(storage: DiskStorage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Regular files hardly ever write less than asked; a filter in front of the real call makes them."""
    real = os.writev

    def seven_bytes_at_a_time(fd: int, buffers: Sequence[bytes]) -> int:
        left, some = 7, []
        for buffer in buffers:
            some.append(memoryview(buffer)[:left])
            left -= len(some[-1])
            if not left:
                break
        return real(fd, some)

    monkeypatch.setattr(os, "writev", seven_bytes_at_a_time)
    file = storage.open("a.log")
    assert file.append([b"0123", b"", b"456789", b"abcdefghijklmnopqrstuvwxyz"]) == 0
    assert file.append([b"next"]) == 36
    assert file.read(0, 100) == b"0123456789abcdefghijklmnopqrstuvwxyznext"


_FULL_DISK = """
import errno, resource, sys
from ottla.cluster.storage import DiskStorage
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
file = DiskStorage(sys.argv[1]).open("t-0/0.log")
file.append([b"a" * 90_000])
try:
    file.append([b"b" * 5_000, b"c" * 5_000, b"d" * 5_000])
except OSError as error:
    assert error.errno in (errno.EFBIG, errno.ENOSPC), error
else:
    raise AssertionError("the append should have failed")
assert file.size == 90_000
assert file.append([b"e" * 10]) == 90_000
try:
    DiskStorage(sys.argv[1]).write_file("big", b"f" * 200_000)
except OSError:
    pass
"""


def test_an_append_that_does_not_fit_leaves_the_file_as_it_was(storage: DiskStorage, tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", _FULL_DISK, str(tmp_path)], check=True)
    assert storage.open("t-0/0.log").read(0, 200_000) == b"a" * 90_000 + b"e" * 10
    assert storage.read_file("big") is None
    assert storage.files(".") == []


def test_a_file_that_cannot_be_cut_back_takes_no_more(storage: DiskStorage, monkeypatch: pytest.MonkeyPatch) -> None:
    file = storage.open("a.log")
    file.append([b"good"])

    def refuse(*_: object) -> int:
        raise OSError(errno.EIO, "input/output error")

    monkeypatch.setattr(os, "writev", refuse)
    monkeypatch.setattr(os, "ftruncate", refuse)
    with pytest.raises(OSError, match="input/output error"):
        file.append([b"bad"])
    monkeypatch.undo()
    with pytest.raises(OSError, match="the file is closed"):
        file.append([b"worse"])
    assert storage.open("a.log").read(0, 10) == b"good"


def test_folders_and_files_are_listed_in_order(storage: DiskStorage) -> None:
    for path in ("b-1/1.log", "b-1/0.log", "a-0/0.log"):
        storage.open(path).close()
    storage.write_file("meta", b"x")
    assert storage.folders() == ["a-0", "b-1"]
    assert storage.files("b-1") == ["0.log", "1.log"]
    assert storage.files("missing") == []
    assert storage.exists("meta")
    assert storage.exists("a-0/0.log")
    assert not storage.exists("c")


def test_a_small_file_is_replaced_whole(storage: DiskStorage, tmp_path: Path) -> None:
    assert storage.read_file("folder/meta") is None
    storage.write_file("folder/meta", b"one, and rather long")
    storage.write_file("folder/meta", b"two")
    assert storage.read_file("folder/meta") == b"two"
    assert os.listdir(tmp_path / "folder") == ["meta"]


def test_removing_takes_files_folders_and_nothing_else(storage: DiskStorage, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").write_bytes(b"x")
    storage.open("t-0/deep/0.log").close()
    (tmp_path / "t-0" / "link").symlink_to(outside)
    storage.write_file("meta", b"x")
    storage.remove("t-0")
    storage.remove("meta")
    storage.remove("never there")
    assert storage.folders() == ["outside"]
    assert (outside / "kept").exists()


def test_a_folder_in_the_place_of_a_file_is_an_os_error(storage: DiskStorage, tmp_path: Path) -> None:
    (tmp_path / "t-0").write_bytes(b"a file, not a folder")
    with pytest.raises(OSError, match=r"t-0"):
        storage.open("t-0/0.log")


def test_synced_files_read_the_same(storage: DiskStorage) -> None:
    file: DiskFile = storage.open("a.log")
    file.append([b"x"])
    file.sync()
    assert file.read(0, 1) == b"x"


def test_a_power_cut_leaves_what_was_synced_of_real_files_and_of_simulated_ones(tmp_path: Path) -> None:
    kept = 0
    for seed in range(20):
        root = tmp_path / str(seed)
        root.mkdir()
        real, simulated = DiskStorage(str(root)), Disk()
        for storage in (real, simulated):
            rng = Random(seed)
            for _ in range(40):
                path = f"t-{rng.randrange(3)}/0.log"
                storage.write_back.now_us += rng.randrange(3_000_000)
                file = storage.open(path)
                choice = rng.random()
                if choice < 0.7:
                    file.append([rng.randbytes(rng.randrange(200))])
                elif choice < 0.8:
                    file.sync()
                elif choice < 0.9:
                    file.truncate(file.size // 2)
                else:
                    storage.write_file(path, rng.randbytes(50), synced=True)
                file.close()
        held = {}
        for path in [f"{folder}/0.log" for folder in simulated.folders()]:
            before = simulated.read_file(path) or b""
            synced = simulated.write_back.synced_bytes(path, len(before))
            assert real.read_file(path) == before
            assert real.write_back.synced_bytes(path, len(before)) == synced
            held[path] = before, synced
        real.power_off(Random(seed))
        simulated.power_off(Random(seed))
        for path, (before, synced) in held.items():
            for left in (real.read_file(path) or b"", simulated.read_file(path) or b""):
                assert left[:synced] == before[:synced]
                assert len(left) <= len(before)
            kept += synced
    assert kept


def test_a_power_cut_leaves_synced_bytes_and_cuts_the_rest(storage: DiskStorage, tmp_path: Path) -> None:
    file = storage.open("t-0/0.log")
    file.append([b"synced"])
    file.sync()
    file.append([b" not synced"])
    storage.power_off(Random(5))
    left = (tmp_path / "t-0" / "0.log").read_bytes()
    assert left.startswith(b"synced")
    assert len(left) < len(b"synced not synced")
    again = storage.open("t-0/0.log")
    assert again.append([b"!"]) == len(left)


def test_more_files_than_descriptors_can_be_used_at_once(tmp_path: Path) -> None:
    open_files = OpenFiles(limit=4)
    storage = DiskStorage(str(tmp_path), open_files)
    files = [storage.open(f"{number}.log") for number in range(50)]
    for turn in range(3):
        for number, file in enumerate(files):
            assert file.append([b"%02d" % number]) == 2 * turn
    kept = [file.file_slice(0, 6) for file in files]
    held = _open_below(tmp_path)
    assert [part.read() for part in kept] == [b"%02d" % number * 3 for number in range(50)]
    del kept
    if os.path.exists("/proc/self/fd"):
        assert (held, _open_below(tmp_path)) == (50, 4)


def _open_below(folder: Path) -> int:
    """How many open descriptors of this process are files in this folder; other threads may open other files."""
    count = 0
    for descriptor in os.listdir("/proc/self/fd") if os.path.exists("/proc/self/fd") else ():
        with contextlib.suppress(FileNotFoundError):
            count += os.readlink(f"/proc/self/fd/{descriptor}").startswith(f"{folder}/")
    return count


@contextlib.contextmanager
def _no_descriptor_left() -> Iterator[None]:
    """All descriptors of this process that are free now are taken."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    taken = [os.open(os.devnull, os.O_RDONLY)]
    resource.setrlimit(resource.RLIMIT_NOFILE, (taken[0] + 20, hard))
    try:
        with contextlib.suppress(OSError):
            while True:
                taken.append(os.dup(taken[0]))
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        for fd in taken:
            os.close(fd)


def test_without_descriptors_files_that_rest_give_theirs_and_new_names_are_synced(tmp_path: Path) -> None:
    storage = DiskStorage(str(tmp_path))
    old = [storage.open(f"t-0/{number}.log") for number in range(6)]
    with _no_descriptor_left():
        new = storage.open("t-1/0.log")
        new.append([b"abc"])
        new.sync()
        begun = storage.open("t-2/0.log").begin_sync()
        storage.write_file("marks", b"1", synced=True)
        assert storage.read_file("marks") == b"1"
        assert storage.make_folder("t-3", [("a", b"1")])
        assert storage.files("t-3") == ["a"]
        for file in old:
            file.append([b"x"])
        until = time.monotonic() + 30
        while not begun():
            assert time.monotonic() < until
    assert storage.write_back.synced_bytes("t-1/0.log", 3) == 3


def test_connections_leave_to_files_what_these_may_still_need(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    open_files = OpenFiles(limit=20)
    storage = DiskStorage(str(tmp_path), open_files)
    resource.setrlimit(resource.RLIMIT_NOFILE, (800, hard))
    try:
        assert open_files.is_for_connections(800 - 32 - 20 - 1)
        assert not open_files.is_for_connections(800 - 32 - 20)
        files = [storage.open(f"{number}.log") for number in range(5)]
        assert open_files.is_for_connections(800 - 32 - 15 - 1)
        for file in files:
            file.close()
        assert not open_files.is_for_connections(800 - 32 - 15 - 1)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_new_folder_comes_with_its_files_or_not_at_all(storage: DiskStorage, tmp_path: Path) -> None:
    assert storage.make_folder("t-0", [("meta", b"x"), ("0.log", b"")])
    assert not storage.make_folder("t-0", [("meta", b"y")])
    assert storage.read_file("t-0/meta") == b"x"
    assert storage.open("t-0/0.log").size == 0
    with pytest.raises(OSError, match="deep"):
        storage.make_folder("t-1", [("meta", b"x"), ("deep/0.log", b"")])
    assert not (tmp_path / "t-1").exists()


def test_a_renamed_file_takes_the_place_of_another(storage: DiskStorage) -> None:
    for name in ("a", "b"):
        file = storage.open(name)
        file.append([name.encode()])
        file.close()
    storage.rename("a", "b")
    assert storage.read_file("b") == b"a"
    assert not storage.exists("a")


def test_a_full_disk_takes_nothing_and_is_as_before_when_there_is_room_again(tmp_path: Path) -> None:
    storage = DiskStorage(str(tmp_path))
    file = storage.open("flights-0/00000000000000000000.log")
    file.append([b"abc"])
    full = storage.faults.fill()
    with pytest.raises(OSError, match="No space left"):
        file.append([b"def"])
    with pytest.raises(OSError, match="No space left"):
        storage.write_file("marks", b"1")
    with pytest.raises(OSError, match="No space left"):
        storage.make_folder("weather-0", [])
    assert full.fired == 3
    full.end()
    assert file.append([b"ghi"]) == 3
    assert file.read(0, 10) == b"abcghi"
    assert not storage.exists("marks")
    assert not storage.exists("weather-0")


@pytest.mark.parametrize("operation", OPERATIONS)
def test_each_so_many_th_operation_of_a_failing_disk_fails(tmp_path: Path, operation: str) -> None:
    storage = DiskStorage(str(tmp_path))
    file = storage.open("flights-0/00000000000000000000.log")
    file.append([b"abc"])
    acts: dict[str, Callable[[], object]] = {
        READ: lambda: file.read(0, 1),
        WRITE: lambda: file.append([b"x"]),
        SYNC: file.sync,
    }
    failing = storage.faults.fail(operation, 3)
    failed = 0
    for _ in range(9):
        try:
            acts[operation]()
        except OSError as error:
            failed += error.errno == errno.EIO
    assert (failed, failing.fired) == (3, 3)
    failing.end()
    acts[operation]()
    assert file.size == (10 if operation == WRITE else 3)


@pytest.mark.parametrize("evicts", [True, False])
def test_what_cannot_be_synced_is_lost_with_the_power_or_at_once(tmp_path: Path, evicts: bool) -> None:
    storage = DiskStorage(str(tmp_path))
    storage.write_back.set_interval(30_000_000)
    file = storage.open("flights-0/00000000000000000000.log")
    file.append([b"kept"])
    file.sync()
    file.append([b"lost"])
    storage.faults.fail(SYNC, 1, evicts=evicts)
    done = file.begin_sync()
    with pytest.raises(OSError, match="Input/output error"):
        done()
    assert file.read(0, 8) == (b"kept" + bytes(4) if evicts else b"keptlost")
    found = set()
    for seed in range(20):
        storage.power_off(Random(seed))
        found.add((storage.read_file("flights-0/00000000000000000000.log") or b"")[:4])
    assert found == {b"kept"}


def test_a_folder_is_renamed_with_all_that_is_in_it(storage: DiskStorage) -> None:
    kept, lost = storage.open("flights-0/a.log"), storage.open("flights-0/b.log")
    kept.append([b"kept"])
    kept.sync()
    lost.append([b"lost"])
    for file in (kept, lost):
        file.close()
    storage.rename("flights-0", "flights-0.1-stray")
    assert storage.folders() == ["flights-0.1-stray"]
    assert storage.files("flights-0.1-stray") == ["a.log", "b.log"]
    storage.power_off(Random(1))
    assert storage.read_file("flights-0.1-stray/a.log") == b"kept"
    assert storage.read_file("flights-0.1-stray/b.log") != b"lost"
    storage.make_folder("flights-0", [("a.log", b"")])
    with pytest.raises(OSError, match="not empty"):
        storage.rename("flights-0", "flights-0.1-stray")


def test_a_simulated_folder_is_renamed_as_a_real_one() -> None:
    disk = Disk()
    disk.write_file("flights-0/a.log", b"kept", synced=True)
    disk.open("flights-0/b.log").append([b"lost"])
    disk.rename("flights-0", "flights-0.1-stray")
    assert (disk.folders(), disk.files("flights-0.1-stray"), disk.used) == (
        ["flights-0.1-stray"],
        ["a.log", "b.log"],
        8,
    )
    disk.power_off(Random(1))
    assert disk.read_file("flights-0.1-stray/a.log") == b"kept"
    assert disk.read_file("flights-0.1-stray/b.log") != b"lost"


class Calls:
    """Which files and folders are synced, and which file replaces which, in order; all of it is carried out."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, root: Path) -> None:
        self.made: list[str] = []
        for name in ("fsync", "fdatasync"):
            monkeypatch.setattr(os, name, self._syncing(getattr(os, name), root))
        replace = os.replace

        def replacing(old: str, new: str) -> None:
            self.made.append(f"replace {Path(new).relative_to(root)}")
            replace(old, new)

        monkeypatch.setattr(os, "replace", replacing)

    def _syncing(self, call: Callable[[int], None], root: Path) -> Callable[[int], None]:
        def syncing(fd: int) -> None:
            path = Path(os.readlink(f"/proc/self/fd/{fd}")).resolve()
            self.made.append(f"sync {path.relative_to(root.resolve())}")
            call(fd)

        return syncing


@pytest.mark.skipif(not os.path.exists("/proc/self/fd"), reason="names open files by /proc")
@pytest.mark.parametrize("synced", [True, False])
def test_a_file_is_synced_before_it_replaces_another_and_its_folder_afterwards(
    storage: DiskStorage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, synced: bool
) -> None:
    storage.write_file("t-0/marks", b"old")
    calls = Calls(monkeypatch, tmp_path)
    storage.write_file("t-0/marks", b"new", synced=synced)
    storage.remove("t-0/marks", synced=synced)
    replaced = ["replace t-0/marks"]
    assert calls.made == (["sync t-0/marks.new", *replaced, "sync t-0", "sync t-0"] if synced else replaced)


@pytest.mark.skipif(not os.path.exists("/proc/self/fd"), reason="names open files by /proc")
def test_in_a_folder_that_does_not_last_nothing_is_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    storage = DiskStorage(str(tmp_path), lasts=False)
    calls = Calls(monkeypatch, tmp_path)
    storage.write_file("marks", b"new", synced=True)
    file = storage.open("t-0/0.log")
    file.append([b"a"])
    assert storage.write_back.synced_bytes("t-0/0.log", 1) == 0
    assert file.begin_sync()()
    assert storage.write_back.synced_bytes("t-0/0.log", 1) == 1
    assert calls.made == ["replace marks"]


@pytest.mark.parametrize("simulated", [False, True])
def test_what_is_made_new_is_made_whole_or_not_at_all(tmp_path: Path, simulated: bool) -> None:
    storage: DiskStorage | Disk = Disk() if simulated else DiskStorage(str(tmp_path))
    storage.open("t-0/0.log").append([b"a"])
    full = storage.faults.fill()
    with pytest.raises(OSError, match="No space left"):
        storage.open("t-0/1.log")
    assert storage.files("t-0") == ["0.log"]
    assert storage.open("t-0/0.log").size == 1
    with pytest.raises(OSError, match="No space left"):
        storage.make_folder("t-1", [("a", b"1"), ("b", b"2")])
    full.end()
    for name in ("t-1", "t-2", "t-3"):
        failing = storage.faults.fail(WRITE, 2)
        made = True
        try:
            storage.make_folder(name, [("a", b"1"), ("b", b"2")])
        except OSError:
            made = False
        failing.end()
        assert storage.exists(name) is made
        assert storage.files(name) == (["a", "b"] if made else [])


class FailingOnce:
    """The first sync fails, once it is let: the kernel tells of it once, and the next sync of the file succeeds."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.begun, self.may_fail = threading.Event(), threading.Event()
        monkeypatch.setattr("ottla.cluster.storage._sync", self)

    def __call__(self, fd: int) -> None:
        if not self.begun.is_set():
            self.begun.set()
            assert self.may_fail.wait(60)
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        os.fsync(fd)


def test_a_sync_in_the_background_that_failed_fails_the_next_one(
    storage: DiskStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    file: DiskFile = storage.open("t-0/0.log")
    file.append([b"a"])
    failing = FailingOnce(monkeypatch)
    failing.may_fail.set()
    file.begin_sync()
    with pytest.raises(OSError, match="Input/output error"):
        file.sync()


def test_a_sync_in_the_background_that_failed_fails_those_begun_behind_it(
    storage: DiskStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    file: DiskFile = storage.open("t-0/0.log")
    file.append([b"a"])
    failing = FailingOnce(monkeypatch)
    file.begin_sync()
    file.append([b"b"])
    file.begin_sync()
    failing.may_fail.set()
    with pytest.raises(OSError, match="Input/output error"):
        file.sync()


def test_a_sync_in_the_background_that_failed_fails_the_next_one_of_who_opens_the_file_anew(
    storage: DiskStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the index files of a segment, which are opened for each sync."""
    file: DiskFile = storage.open("t-0/0.index")
    file.append([b"a"])
    failing = FailingOnce(monkeypatch)
    file.begin_sync()
    file.close()
    assert failing.begun.wait(60)
    failing.may_fail.set()
    with pytest.raises(OSError, match="Input/output error"):
        storage.open("t-0/0.index").sync()
