"""A log opened again: after a clean end no batch is read, after any other only what may not be in order."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import pytest

from ottla.broker.log import files
from ottla.broker.settings import BrokerSettings
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
    # The syncs that were begun are done a little later.
    world.disk.write_back.now_us += 1
    assert world.log.settle_syncs()
    return world


def looked_at_ends_only(world: LogWorld, disk: CountingDisk) -> bool:
    """Whether of each log file at most what lies behind its last index entry has been read."""
    batch_bytes = len(world.model[0].content)
    return all(size <= 300 + 2 * batch_bytes for path, size in disk.read.items() if path.endswith(".log"))


def test_a_start_after_a_clean_end_reads_no_batch() -> None:
    disk = CountingDisk()
    world = filled(disk)
    world.close()
    disk.read.clear()
    world.open()
    assert looked_at_ends_only(world, disk)
    assert world.log.log_end_offset == 80
    world.check()
    world.append()
    world.check()


def test_a_log_without_records_is_closed_without_another_file() -> None:
    world = LogWorld()
    begun = world.disk.files(FOLDER)
    world.close()
    assert world.disk.files(FOLDER) == begun


def test_a_start_after_a_kill_reads_from_the_recovery_point_only() -> None:
    disk = CountingDisk()
    world = filled(disk)
    world.checkpoint()
    disk.read.clear()
    world.open()
    read = disk.read.pop(f"{FOLDER}/{world.log.active.base_offset:020d}.log")
    assert read >= world.log.active.size
    assert looked_at_ends_only(world, disk)
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


def test_epochs_are_found_again_where_the_log_begins_further_back_than_they_do() -> None:
    """All was deleted, and a power cut took the note of it, but not that of the epochs: the records are back."""
    world = LogWorld()
    world.append(5)
    world.epoch = 4
    world.append(5)
    world.checkpoint()
    path = "log-start-offset-checkpoint"
    before = world.disk.read_file(path)
    assert before is not None
    world.log.advance_log_start(10)
    world.close()
    world.disk.write_file(path, before)
    world.open()
    assert (world.log.log_start_offset, world.log.log_end_offset) == (0, 10)
    # Without them a leader would take records of another history for its own.
    assert world.log.epochs.entries() == [(0, 0), (4, 5)]


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


def test_a_truncation_at_the_end_cuts_nothing() -> None:
    world = filled()
    segments = [*world.log.segments, world.log.roll()]
    world.log.truncate(world.log.log_end_offset)
    assert world.log.segments == segments
    assert world.log.cuts == 0
    world.append(producer=(1, 1, 0))
    world.check()


def test_a_truncation_in_front_of_the_first_segment_begins_the_log_anew() -> None:
    world = filled()
    world.log.advance_log_start(world.log.segments[2].base_offset)
    world.log.drop_segments(2)
    offset = world.log.segments[0].base_offset - 2
    world.log.truncate(offset)
    assert (world.log.log_start_offset, world.log.log_end_offset) == (offset, offset)
    world.model.clear()
    assert world.append(producer=(1, 1, 0)) == offset
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


def offsets_found(world: LogWorld) -> list[int]:
    return [
        offset
        for segment in world.log.segments
        for header in segment.headers(segment.base_offset)
        for offset in range(header.base_offset, header.last_offset + 1)
    ]


@pytest.mark.parametrize("removed", [True, False])
@pytest.mark.parametrize("clean", [True, False])
def test_a_file_that_is_missing_or_cut_is_told_with_what_it_held(
    caplog: pytest.LogCaptureFixture, clean: bool, removed: bool
) -> None:
    """The first one aside, which retention might have taken, and what had not been synced before a kill."""
    count = len(filled().log.segments)
    for number in range(1, count if clean else count - 1):
        world = filled()
        bases = [segment.base_offset for segment in world.log.segments]
        path, end = world.log.segments[number].path, [*bases, 80][number + 1]
        first_size = world.log.segments[number].header_at(0).size_bytes
        if clean:
            world.close()
        else:
            world.checkpoint()
        if removed:
            world.disk.remove(path)
        else:
            world.disk.open(path).truncate(first_size)
        caplog.clear()
        world.open()
        gone = bases[number] if removed else bases[number] + 2
        found = offsets_found(world)
        assert gone not in found
        expected = f"offset {gone}," if number == count - 1 else f"{end - gone} offsets from {gone} on"
        assert any(expected in told for told in caplog.messages), (number, caplog.messages)
        # What lies behind is still there.
        assert found == [offset for offset in range(80) if not gone <= offset < end]


def test_offsets_that_compaction_took_are_no_missing_file(caplog: pytest.LogCaptureFixture) -> None:
    world = filled(cleanup_policy="compact")
    world.close()
    world.disk.remove(world.log.segments[1].path)
    world.open()
    assert not [each for each in caplog.records if each.name == "ottla.broker"]


# How long a segment is written to.


@pytest.mark.parametrize("by_broker", [True, False])
def test_a_segment_is_closed_when_the_next_record_is_segment_ms_younger_than_its_first(by_broker: bool) -> None:
    world = LogWorld(**({} if by_broker else {"segment_ms": 1000}))
    if by_broker:
        world.broker_settings = BrokerSettings(log_roll_ms=1000)
        world.open()
    for timestamp_ms in (5000, 6000, 6001, 7001, 7002):
        world.append(timestamp_ms=timestamp_ms)
    # A segment opened again still knows when it began.
    world.close()
    world.open()
    world.append(timestamp_ms=8002)
    assert [segment.base_offset for segment in world.log.segments] == [0, 2, 4]
    assert not world.log.segments[-1].is_sealed


def test_copies_are_closed_by_their_times_as_the_leader_s() -> None:
    leader = LogWorld(segment_ms=1000)
    follower = LogWorld(segment_ms=1000)
    for timestamp_ms in (5000, 6000, 6001, 7001, 7002):
        leader.append(timestamp_ms=timestamp_ms)
        copy = leader.model[-1].content
        follower.log.append_copies([memoryview(copy)], [read_header(copy)])
    bases = [[segment.base_offset for segment in world.log.segments] for world in (leader, follower)]
    assert bases == [[0, 2, 4]] * 2


def test_jitter_closes_segments_earlier_and_not_all_at_once() -> None:
    world = LogWorld(segment_ms=1000, segment_jitter_ms=800)
    for number in range(2000):
        world.append(timestamp_ms=5000 + 10 * number)
    bases = [segment.base_offset for segment in world.log.segments]
    lengths = [after - before for before, after in pairwise(bases)]
    assert all(20 <= length <= 101 for length in lengths)
    assert len(set(lengths)) > 5


def test_a_log_that_finds_no_room_to_begin_anew_stays_where_it_was() -> None:
    world = filled()
    full = world.disk.faults.fill()
    with pytest.raises(OSError, match="No space left"):
        world.log.start_anew(1000)
    world.log.give_up()
    full.end()
    world.open()
    assert (world.log.log_start_offset, world.log.log_end_offset) == (0, 80)
    world.check()
    world.log.start_anew(1000)
    assert (world.log.log_start_offset, world.log.log_end_offset) == (1000, 1000)
