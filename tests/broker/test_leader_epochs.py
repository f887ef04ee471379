"""Which leader epoch began where: what retention and truncation leave of it can be kept and read again."""

from __future__ import annotations

import pytest

from ottla.broker.log.files import EpochEntry, write_leader_epochs
from ottla.broker.log.leader_epochs import LeaderEpochs
from ottla.broker.log.segment import file_name

from .log_world import FOLDER, LogWorld
from .world import TOPIC, World, batch_of


def test_an_epoch_of_which_nothing_is_left_makes_room_for_the_next() -> None:
    epochs = LeaderEpochs([EpochEntry(0, 0), EpochEntry(2, 40)])
    epochs.advance_start(70)
    epochs.note(3, 70)
    assert epochs.entries() == [EpochEntry(2, 40), EpochEntry(3, 70)]
    epochs.advance_start(70)
    epochs.note(4, 70)
    assert epochs.entries() == [EpochEntry(2, 40), EpochEntry(4, 70)]
    assert write_leader_epochs(epochs.entries())
    epochs.note(5, 80)
    epochs.advance_start(80)
    assert epochs.entries() == [EpochEntry(4, 70), EpochEntry(5, 80)]


def test_a_log_that_ends_where_this_one_begins_is_diverging_with_an_older_epoch() -> None:
    epochs = LeaderEpochs([EpochEntry(2, 0), EpochEntry(3, 5)])
    epochs.advance_start(7)
    # Of epoch 2, offsets 5 and 6 of the other log are not the two that were deleted here.
    assert epochs.end_of(2, 7) == (2, 5)
    assert epochs.end_of(3, 7) == (3, 7)
    assert epochs.at(7) == 3


def test_an_epoch_older_than_all_that_are_known_ended_where_the_first_of_them_begins() -> None:
    epochs = LeaderEpochs([EpochEntry(2, 22), EpochEntry(4, 30)])
    assert epochs.end_of(1, 40) == (1, 22)
    assert epochs.end_of(3, 40) == (2, 30)
    assert LeaderEpochs().end_of(1, 40) == (-1, -1)


EPOCHS_FILE = f"{TOPIC}-0/leader-epoch-checkpoint"


def two_epochs() -> World:
    """A broker stopped in order, with leader epoch 1 from offset 6 on; three segments."""
    world = World(1)
    world.create_topic(segment_bytes=1024)
    for _ in range(2):
        for _ in range(3):
            world.produce(batch_of(b"0" * 400, b"x"))
        world.close()
        world = World(1, world.storages)
    world.close()
    return world


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize(
    "entries",
    [
        pytest.param([EpochEntry(1, 0)], id="an epoch that begins earlier"),
        pytest.param([EpochEntry(3, 0)], id="an epoch that never was"),
        pytest.param([EpochEntry(0, 0), EpochEntry(1, 8)], id="an epoch that begins later"),
        pytest.param([EpochEntry(0, 0)], id="an epoch that is missing"),
        pytest.param([EpochEntry(0, 0), EpochEntry(1, 6), EpochEntry(2, 10)], id="an epoch too many"),
    ],
)
def test_stored_epochs_that_contradict_the_batches_are_found_again_from_them(
    entries: list[EpochEntry], clean: bool, caplog: pytest.LogCaptureFixture
) -> None:
    world = two_epochs()
    world.storages[1].write_file(EPOCHS_FILE, write_leader_epochs(entries))
    if not clean:
        world.storages[1].remove(".kafka_cleanshutdown")
    log = World(1, world.storages).brokers[1].topics[TOPIC][0].log
    # The leader's own epoch, which has no batch yet, begins at the end.
    assert log.epochs.entries() == [EpochEntry(0, 0), EpochEntry(1, 6), EpochEntry(3, 12)]
    if clean:
        # What lies behind the recovery point is read in any case, and nothing is said then.
        [told] = [each.getMessage() for each in caplog.records if "leader-epoch-checkpoint" in each.getMessage()]
        assert told.startswith(f"log {TOPIC}-0: leader-epoch-checkpoint contradicts the batch")


def damaged(offset: int, at: int, value: int) -> LogWorld:
    """A log closed in order, of four epochs in three segments, with another byte in the header of one batch."""
    world = LogWorld(segment_bytes=4000)
    for world.epoch in range(4):
        for _ in range(13):
            world.append(size=100)
    segment = world.log.segment_of(offset)
    path, position = f"{FOLDER}/{file_name(segment.base_offset)}", segment.position_of(offset)
    world.close()
    content = bytearray(world.disk.read_file(path) or b"")
    content[position + at] = value
    world.disk.write_file(path, bytes(content), synced=True)
    world.open()
    return world


EPOCHS = [EpochEntry(0, 0), EpochEntry(1, 13), EpochEntry(2, 26), EpochEntry(3, 39)]
# Where the epoch and the magic stand in a batch.
EPOCH_AT, MAGIC_AT = 12, 16


@pytest.mark.parametrize("offset", [0, 12, 13, 23, 26, 38, 39, 46])
def test_one_damaged_epoch_in_a_batch_is_believed_less_than_the_file(offset: int) -> None:
    world = damaged(offset, EPOCH_AT + 1, 16)
    assert world.log.log_end_offset == 52
    assert world.log.epochs.entries() == EPOCHS


@pytest.mark.parametrize("offset", [10, 12, 20, 25])
def test_a_damaged_header_below_the_recovery_point_does_not_keep_a_log_from_opening(offset: int) -> None:
    world = damaged(offset, MAGIC_AT, 3)
    assert world.log.log_end_offset == 52
    assert world.log.epochs.entries() == EPOCHS


def test_a_follower_that_is_to_cut_its_log_at_the_same_offset_again_waits_and_says_so(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = World(3)
    world.create_topic(replicas=3)
    for number in range(10):
        world.produce(batch_of(b"%d" % number))
    leader = world.leader()
    follower = next(each for each in (1, 2, 3) if each != leader)
    world.kill(follower)
    world.pass_time(20_000)
    # The leader tells of an epoch 5 from offset 0 on; its batches are of epoch 0.
    world.brokers[leader].topics[TOPIC][0].log.epochs = LeaderEpochs([EpochEntry(5, 0)])
    world.start(follower)
    world.pass_time(60_000)
    [told] = [each.getMessage() for each in caplog.records if "to truncate" in each.getMessage()]
    assert told.startswith(
        f"broker {follower}: leader {leader} asks it to truncate {TOPIC}-0 to offset 0 again, after it sent the same"
    )
    assert len(world.stored(broker_id=follower)) == 10, "it keeps what it got"
