"""A log opened again: after a clean end nothing is read, after any other only what may not be in order."""

from __future__ import annotations

from random import Random

import pytest

from ottla.broker.log import files
from ottla.records.batch_header import read_header
from ottla.simulation.disk import Disk, DiskFile

from .log_world import FOLDER, LogWorld
from .world import batch_of


class CountingDisk(Disk):
    """Knows which files were read from, and how much of them."""

    def __init__(self) -> None:
        super().__init__()
        self.read: dict[str, int] = {}

    def open(self, path: str) -> DiskFile:
        disk = self

        class Counting(DiskFile):
            def read(self, position: int, size: int) -> bytes:
                content = super().read(position, size)
                disk.read[path] = disk.read.get(path, 0) + len(content)
                return content

        return Counting(self, path, self._files.setdefault(path, bytearray()))


def filled(disk: Disk | None = None, *, batches: int = 40, **configs: object) -> LogWorld:
    world = LogWorld(disk, segment_bytes=4096, index_interval_bytes=300, **configs)
    for number in range(batches):
        world.append(2, 200, timestamp_ms=1000 + 7 * number, producer=(number % 3, 0, 2 * (number // 3)))
    return world


def test_a_start_after_a_clean_end_reads_no_batch() -> None:
    disk = CountingDisk()
    world = filled(disk)
    world.close()
    disk.read.clear()
    world.open()
    assert not [path for path in disk.read if path.endswith(".log")]
    assert world.log.log_end_offset == 80
    world.check()
    world.append()
    world.check()


def test_a_start_after_a_kill_reads_from_the_recovery_point_only() -> None:
    disk = CountingDisk()
    world = filled(disk)
    world.checkpoint()
    disk.read.clear()
    world.open()
    read = {path: size for path, size in disk.read.items() if path.endswith(".log")}
    assert list(read) == [f"{FOLDER}/{world.log.active.base_offset:020d}.log"]
    world.check()


def test_without_a_checkpoint_everything_is_read() -> None:
    disk = CountingDisk()
    world = filled(disk)
    count = len(world.log.segments)
    disk.read.clear()
    world.open()
    assert len([path for path in disk.read if path.endswith(".log")]) == count > 4
    world.check()


def test_the_index_of_a_closed_segment_is_not_in_memory() -> None:
    world = filled()
    assert [segment.is_sealed for segment in world.log.segments] == [True] * (len(world.log.segments) - 1) + [False]


@pytest.mark.parametrize("suffix", [".index", ".timeindex", ".snapshot"])
@pytest.mark.parametrize("damage", ["missing", "empty", "cut", "zeros", "garbage"])
@pytest.mark.parametrize("clean", [True, False])
def test_what_only_says_something_about_the_log_is_made_again(suffix: str, damage: str, clean: bool) -> None:
    world = filled()
    if clean:
        world.close()
    else:
        world.checkpoint()
    for name in world.disk.files(FOLDER):
        if name.endswith(suffix):
            path = f"{FOLDER}/{name}"
            content = world.disk.read_file(path) or b""
            if damage == "missing":
                world.disk.remove(path)
            else:
                changed = {
                    "empty": b"",
                    "cut": content[:-3],
                    "zeros": bytes(len(content)),
                    "garbage": Random(name).randbytes(len(content)),
                }
                world.disk.write_file(path, changed[damage])
    world.open()
    world.check()
    world.append(timestamp_ms=9000)
    world.check()


def test_damaged_epochs_are_found_again() -> None:
    for damage in (None, b"", b"0\n1\n", b"\xff"):
        world = filled()
        world.epoch = 4
        world.append()
        world.close()
        path = f"{FOLDER}/leader-epoch-checkpoint"
        assert files.read_leader_epochs(world.disk.read_file(path) or b"") == [(0, 0), (4, 80)]
        if damage is None:
            world.disk.remove(path)
        else:
            world.disk.write_file(path, damage)
        world.open()
        assert world.log.epochs.entries() == [(0, 0), (4, 80)]


def test_a_truncation_rereads_from_the_nearest_snapshot_only() -> None:
    disk = CountingDisk()
    world = filled(disk)
    segments = [segment.base_offset for segment in world.log.segments]
    disk.read.clear()
    world.log.truncate(segments[-2] + 2)
    world.forget_from(segments[-2] + 2)
    read = {path for path in disk.read if path.endswith(".log")}
    assert read == {f"{FOLDER}/{segments[-2]:020d}.log"}
    world.check()
    world.append(producer=(1, 1, 0))
    world.check()


def test_a_truncation_to_nothing_forgets_all_producers_and_their_open_transactions() -> None:
    world = filled(batches=3)
    values = batch_of(b"v", producer_id=9, producer_epoch=0, sequence=0, is_transactional=True)
    world.log.producers.note(read_header(values), 6)
    assert world.log.producers.first_unstable_offset == 6
    world.log.truncate(0)
    world.forget_from(0)
    assert world.log.producers.entries() == []
    assert world.log.producers.first_unstable_offset is None
    world.append(producer=(1, 0, 0))
    world.check()


def test_a_log_somebody_touched_after_its_clean_end_is_checked() -> None:
    world = filled()
    world.close()
    path = world.log.active.path
    content = world.disk.read_file(path) or b""
    world.disk.write_file(path, content[:-1])
    world.open()
    world.forget_from(world.log.log_end_offset)
    assert world.log.log_end_offset == 78
    world.check()


def test_a_closed_segment_reaches_the_disk() -> None:
    world = filled()
    active = world.log.active.base_offset
    assert world.log.recovery_point == active
    world.cut_power(Random(1))
    assert world.log.log_end_offset >= active
    world.check()


def test_flush_messages_bounds_what_a_power_cut_takes() -> None:
    for seed in range(20):
        world = LogWorld(flush_messages=6)
        for _ in range(11):
            world.append(2)
        world.cut_power(Random(seed))
        assert world.log.log_end_offset >= 18
        world.check()
