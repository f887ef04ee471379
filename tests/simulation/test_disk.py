"""The simulated disk: what a torn sector spoils, what a power cut leaves, what cannot be read, written or synced."""

from __future__ import annotations

import errno

import pytest
from tests.broker.world import batch_of

from ottla.faults.fields import OPERATIONS, READ, SYNC, WRITE
from ottla.records.batch_header import CRC_BEGIN
from ottla.simulation.chance import Chance
from ottla.simulation.disk import PAGE_BYTES, Disk

PATH = "t-0/00000000000000000000.log"


def spoilt_positions(synced: int, content: bytes) -> set[int]:
    """Where bytes are changed, over many draws."""
    found = set()
    for seed in range(400):
        disk = Disk()
        file = disk.open(PATH)
        file.append([content[:synced]])
        file.sync()
        file.append([content[synced:]])
        position = disk.spoilt_byte(PATH, Chance(seed))
        assert position is not None
        disk.flip_byte(PATH, position)
        after = disk.log_content("t-0")
        found |= {at for at, (old, new) in enumerate(zip(content, after, strict=True)) if old != new}
    return found


def test_only_what_a_crc_covers_is_spoilt() -> None:
    first, second = batch_of(b"a" * 9), batch_of(b"b")
    covered = {*range(CRC_BEGIN, len(first)), *range(len(first) + CRC_BEGIN, len(first) + len(second))}
    found = spoilt_positions(0, first + second)
    assert found <= covered
    assert min(found) < len(first) < max(found)


def test_what_is_synced_or_no_whole_batch_is_not_spoilt() -> None:
    first, second = batch_of(b"a"), batch_of(b"b")
    assert min(spoilt_positions(len(first), first + second)) >= len(first) + CRC_BEGIN
    disk = Disk()
    file = disk.open(PATH)
    file.append([first])
    file.sync()
    file.append([second[:-1]])
    assert disk.spoilt_byte(PATH, Chance(1)) is None


def written(disk: Disk, size: int) -> bytes:
    """A log of so many bytes, none of them zero."""
    content = bytes(1 + at % 250 for at in range(size))
    disk.open(PATH).append([content])
    return content


def test_a_power_cut_may_leave_any_pages_of_what_was_not_synced() -> None:
    holes = cuts = nothing = 0
    for seed in range(300):
        disk = Disk()
        content = written(disk, 5 * PAGE_BYTES)
        file = disk.open(PATH)
        file.truncate(PAGE_BYTES + 100)
        file.sync()
        file.append([content[PAGE_BYTES + 100 :]])
        disk.power_off(Chance(seed))
        left = disk.log_content("t-0")
        assert left[: PAGE_BYTES + 100] == content[: PAGE_BYTES + 100], "what was synced"
        assert disk.used == len(left)
        assert all(byte in (0, content[at]) for at, byte in enumerate(left))
        holes += 0 in left.rstrip(b"\0")
        cuts += len(left) < len(content)
        nothing += len(left) == PAGE_BYTES + 100
    assert holes > 20
    assert cuts > 100
    assert nothing > 50


def test_files_survive_a_power_cut_each_by_itself() -> None:
    found = set()
    for seed in range(100):
        disk = Disk()
        for name in ("a", "b"):
            disk.open(f"t-0/{name}.log").append([b"x"])
        disk.power_off(Chance(seed))
        found.add(tuple(len(disk.read_file(f"t-0/{name}.log") or b"") for name in ("a", "b")))
    assert found >= {(0, 0), (0, 1), (1, 0), (1, 1)}


@pytest.mark.parametrize("evicts", [True, False])
def test_what_a_sync_has_failed_to_write_never_gets_to_the_disk(evicts: bool) -> None:
    for seed in range(30):
        disk = Disk()
        content = written(disk, 100)
        file = disk.open(PATH)
        file.sync()
        file.append([b"dropped"])
        failing = disk.faults.fail(SYNC, 1, evicts=evicts)
        with pytest.raises(OSError, match="Input/output error"):
            file.sync()
        failing.end()
        assert (file.read(100, 7) == b"dropped") is not evicts
        assert disk.has_lost_pages is evicts
        file.append([b"kept"])
        file.sync()
        disk.power_off(Chance(seed))
        assert disk.log_content("t-0") == content + bytes(7) + b"kept"


def test_a_failed_sync_in_the_background_is_told_when_it_is_asked_about() -> None:
    disk = Disk()
    written(disk, 10)
    disk.faults.fail(SYNC, 1)
    done = disk.open(PATH).begin_sync()
    assert not done()
    disk.write_back.now_us += 1
    for _ in range(2):
        with pytest.raises(OSError, match="Input/output error"):
            done()


def test_a_power_cut_takes_what_is_on_its_way_to_the_disk() -> None:
    found = set()
    for seed in range(30):
        disk = Disk()
        content = written(disk, 100)
        done = disk.open(PATH).begin_sync()
        assert not done()
        disk.power_off(Chance(seed))
        found.add(disk.log_content("t-0") == content)
    assert found == {False, True}


def test_what_came_behind_the_beginning_of_a_sync_is_not_synced_with_it() -> None:
    for seed in range(30):
        disk = Disk()
        content = written(disk, 100)
        file = disk.open(PATH)
        done = file.begin_sync()
        file.append([b"later"])
        disk.write_back.now_us += 1
        assert done()
        disk.power_off(Chance(seed))
        assert disk.log_content("t-0")[:100] == content


def test_a_sync_of_a_file_that_is_gone_takes_none_of_the_next_one_along() -> None:
    disk = Disk()
    written(disk, 100)
    done = disk.open(PATH).begin_sync()
    disk.remove(PATH)
    content = written(disk, 50)
    disk.write_back.now_us += 1
    assert done()
    assert disk.write_back.synced_bytes(PATH, len(content)) == 0


def test_what_is_written_anew_and_synced_outlives_a_power_cut() -> None:
    disk = Disk()
    content = written(disk, 100)
    failing = disk.faults.fail(SYNC, 1)
    with pytest.raises(OSError, match="Input/output error"):
        disk.open(PATH).sync()
    failing.end()
    disk.write_file(PATH, content, synced=True)
    disk.power_off(Chance(1))
    assert disk.log_content("t-0") == content


@pytest.mark.parametrize("operation", OPERATIONS)
def test_each_so_many_th_operation_fails_and_changes_nothing(operation: str) -> None:
    disk = Disk()
    written(disk, 10)
    file = disk.open(PATH)
    act = {READ: lambda: file.read(0, 1), WRITE: lambda: file.append([b"x"]), SYNC: file.sync}[operation]
    failing = disk.faults.fail(operation, 3)
    failed = 0
    for _ in range(9):
        try:
            act()
        except OSError as error:
            failed += error.errno == errno.EIO
    assert (failed, failing.fired) == (3, 3)
    failing.end()
    act()
    assert file.size == disk.used == (17 if operation == WRITE else 10)


def test_a_small_file_that_was_replaced_without_a_sync_is_new_old_or_empty() -> None:
    found = set()
    for seed in range(100):
        disk = Disk()
        disk.write_file("marks", b"old", synced=True)
        disk.write_file("marks", b"new")
        disk.write_file("fresh", b"new")
        disk.write_file("safe", b"new", synced=True)
        disk.power_off(Chance(seed))
        found |= {("marks", disk.read_file("marks")), ("fresh", disk.read_file("fresh"))}
        assert disk.read_file("safe") == b"new"
    assert found == {(name, left) for name in ("marks", "fresh") for left in (b"new", b"")} | {
        ("marks", b"old"),
        ("fresh", None),
    }
