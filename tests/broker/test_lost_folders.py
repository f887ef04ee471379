"""Folders removed while brokers were down: not in sync (all of a broker's: KIP-858), and what is lost is told."""

from __future__ import annotations

import random

import pytest

from ottla.broker.controller.core import ControllerCore
from ottla.broker.events import BrokerAddress
from ottla.broker.log.directory import META_PROPERTIES, directory_id
from ottla.broker.log.lacking_logs import lacking_logs
from ottla.broker.storage import Storage
from ottla.protocol.error_codes import ErrorCode

from .world import TOPIC, MemoryStorage, World, batch_of

COUNT = 6


@pytest.fixture
def world() -> World:
    world = World(3)
    assert world.create_topic(replicas=3) == 0
    for number in range(COUNT):
        assert world.produce(batch_of(b"%d" % number)).error_code == 0
    world.pass_time(20_000)
    return world


def start_all_anew(world: World, *, without_folder: int, clean: bool = True) -> World:
    """Stop all brokers and the controller, remove one broker's folder, and start all again."""
    if clean:
        for core in world.brokers.values():
            core.close()
        world.controller.close()
    storages = {**world.storages, without_folder: MemoryStorage()}
    return World(3, storages)


def ends(world: World) -> dict[int, int]:
    return {each: core.topics[TOPIC][0].log.log_end_offset for each, core in world.brokers.items()}


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("lost", [1, 2, 3])
def test_a_cluster_of_which_one_folder_was_removed_loses_nothing(
    world: World, lost: int, clean: bool, caplog: pytest.LogCaptureFixture
) -> None:
    again = start_all_anew(world, without_folder=lost, clean=clean)
    assert again.leader() not in (lost, -1)
    again.pass_time(30_000)
    assert ends(again) == dict.fromkeys((1, 2, 3), COUNT)
    assert sorted(again.partition().isr) == [1, 2, 3]
    assert [f"broker {lost} has another folder than before" in each.getMessage() for each in caplog.records].count(True)


def test_a_broker_that_comes_back_without_its_folder_leads_nothing_it_was_the_last_for(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    last = world.leader()
    others = [each for each in (1, 2, 3) if each != last]
    for each in others:
        world.kill(each)
        world.pass_time(20_000)
    assert world.partition().isr == (last,)
    world.kill(last)
    world.storages[last] = MemoryStorage()
    for each in (last, *others):
        world.start(each)
    world.pass_time(20_000)
    assert (world.leader(), world.partition().isr) == (-1, ())
    assert any("until one is elected uncleanly" in each.getMessage() for each in caplog.records)
    # Kept: what the others had is still there for whoever decides that it is enough.
    assert [len(world.stored(broker_id=each)) for each in others] == [COUNT, COUNT]


def test_the_only_replica_leads_with_an_empty_log() -> None:
    world = World(1)
    world.create_topic()
    world.produce(batch_of(b"0"))
    world.kill(1)
    world.storages[1] = MemoryStorage()
    world.start(1)
    world.pass_time(20_000)
    assert world.leader() == 1
    assert world.produce(batch_of(b"1")).error_code == 0
    assert world.end_offset().offset == 1


def test_a_broker_that_comes_back_with_its_folder_is_the_same(world: World) -> None:
    before = world.storages[2].read_file(META_PROPERTIES)
    world.kill(2)
    world.start(2)
    world.pass_time(20_000)
    assert world.storages[2].read_file(META_PROPERTIES) == before
    assert sorted(world.partition().isr) == [1, 2, 3]


def test_a_folder_that_cannot_be_read_is_not_taken_for_a_new_one(world: World) -> None:
    before = world.storages[2].read_file(META_PROPERTIES)
    world.kill(2)
    storage = world.storages[2]
    unread = storage.read_file

    def refuse(path: str) -> bytes | None:
        if path == META_PROPERTIES:
            raise OSError(5, "Input/output error")
        return unread(path)

    storage.read_file = refuse  # type: ignore[method-assign]
    world.start(2)
    world.pass_time(20_000)
    assert 2 not in [each.broker_id for each in world.controller.image.brokers]
    storage.read_file = unread  # type: ignore[method-assign]
    world.pass_time(20_000)
    assert storage.read_file(META_PROPERTIES) == before
    assert sorted(world.partition().isr) == [1, 2, 3]


def test_a_folder_keeps_its_id() -> None:
    storage: Storage = MemoryStorage()
    first = directory_id(storage, 7, random.Random(1))
    assert directory_id(storage, 7, random.Random(2)) == first
    assert (storage.read_file(META_PROPERTIES) or b"").decode().splitlines() == [
        "version=1",
        "node.id=7",
        f"directory.id={first}",
    ]


def test_what_a_controller_knows_of_folders_outlives_it(world: World) -> None:
    addresses = [BrokerAddress(each, "localhost", 9090 + each) for each in (1, 2, 3)]
    before = dict(world.controller.state.directories)
    assert sorted(before) == [1, 2, 3]
    again = ControllerCore(addresses, world.storages[0], world.settings, random.Random(1))
    assert again.state.directories == before


def test_a_log_cut_below_its_high_watermark_says_what_is_lost(world: World, caplog: pytest.LogCaptureFixture) -> None:
    follower = next(each for each in (1, 2, 3) if each != world.leader())
    partition = world.brokers[follower].topics[TOPIC][0]
    committed = partition.high_watermark
    assert committed > 4
    partition.truncate(4)
    [told] = [each.getMessage() for each in caplog.records if "is cut" in each.getMessage()]
    assert f"the log of {TOPIC}-0 is cut from offset 4 on" in told
    assert f"offsets 4 to {committed - 1} were committed, and are lost here" in told


def test_a_log_that_ends_below_its_stored_high_watermark_says_so(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    committed = world.brokers[2].topics[TOPIC][0].high_watermark
    assert committed
    world.power_off(2, seed=1)
    storage = world.storages[2]
    storage.contents[f"{TOPIC}-0/{0:020d}.log"].clear()
    caplog.clear()
    world.start(2)
    world.pass_time(20_000)
    told = [each.getMessage() for each in caplog.records if "are missing here" in each.getMessage()]
    assert told == [
        f"broker 2: the log of {TOPIC}-0 ends at offset 0: "
        f"offsets 0 to {committed - 1} were committed, and are missing here"
    ]


def test_a_change_that_could_not_be_synced_never_comes_back_in_place_of_one_that_was(world: World) -> None:
    controller, storage = world.controller, world.storages[0]
    storage.sync_failures = 1
    assert world.create_topic("lost") == ErrorCode.KAFKA_STORAGE_ERROR
    assert world.create_topic("kept") == 0
    addresses = [BrokerAddress(each, "localhost", 9090 + each) for each in (1, 2, 3)]
    again = ControllerCore(addresses, storage, world.settings, random.Random(1), resumes=True)
    assert sorted(again.image.topics) == sorted([TOPIC, "kept"]) == sorted(controller.image.topics)
    assert storage.syncs


def without_log(world: World, broker_id: int, *, left: dict[str, bytearray] | None = None) -> None:
    """Remove the folder of the partition's log at a broker; `left`: what is there instead."""
    contents = world.storages[broker_id].contents
    for path in [each for each in contents if each.startswith(f"{TOPIC}-0/")]:
        del contents[path]
    contents.update(left or {})


def older_copy(world: World, broker_id: int) -> dict[str, bytearray]:
    """The files of the partition's log without its last three batches."""
    size = len(batch_of(b"0"))
    contents = world.storages[broker_id].contents
    files = {path: bytearray(each) for path, each in contents.items() if path.startswith(f"{TOPIC}-0/")}
    del files[f"{TOPIC}-0/{0:020d}.log"][(COUNT - 3) * size :]
    return files


@pytest.mark.parametrize("copied", [False, True])
@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("lost", [1, 2, 3])
def test_a_cluster_of_which_one_log_was_removed_or_replaced_by_an_older_copy_loses_nothing(
    world: World, lost: int, clean: bool, copied: bool, caplog: pytest.LogCaptureFixture
) -> None:
    if clean:
        for core in world.brokers.values():
            core.close()
        world.controller.close()
    without_log(world, lost, left=older_copy(world, lost) if copied else None)
    again = World(3, world.storages)
    assert again.leader() not in (lost, -1)
    again.pass_time(30_000)
    assert ends(again) == dict.fromkeys((1, 2, 3), COUNT)
    assert sorted(again.partition().isr) == [1, 2, 3]
    [told] = [each.getMessage() for each in caplog.records if "lacks committed records" in each.getMessage()]
    assert told == (
        f"broker {lost} lacks committed records of {TOPIC}-0: "
        "it is not in the ISR of these partitions until it has copied the records"
    )


def test_where_all_in_sync_lack_records_one_of_them_leads(world: World, caplog: pytest.LogCaptureFixture) -> None:
    for each in (1, 2, 3):
        without_log(world, each)
    again = World(3, world.storages)
    assert again.leader() != -1
    assert again.produce(batch_of(b"next")).error_code == 0
    messages = [each.getMessage() for each in caplog.records]
    assert any("are missing here" in each for each in messages)
    assert not any("lacks committed records" in each for each in messages), "there is none to copy them from"


def test_a_replica_that_lacks_records_does_not_lead_while_the_others_are_down(world: World) -> None:
    for core in world.brokers.values():
        core.close()
    world.controller.close()
    first = world.leader()
    without_log(world, first)
    lacking = {each: lacking_logs(world.storages[each]) for each in (1, 2, 3)}
    assert lacking == {each: {f"{TOPIC}-0"} if each == first else set() for each in (1, 2, 3)}
    addresses = [BrokerAddress(each, "localhost", 9090 + each) for each in (1, 2, 3)]
    controller = ControllerCore(
        addresses,
        world.storages[0],
        world.settings,
        random.Random(1),
        running={first: 2},
        lacking={first: lacking[first]},
    )
    part = controller.image.topics[TOPIC].partitions[0]
    assert (part.leader, sorted(part.isr)) == (-1, sorted({1, 2, 3} - {first}))
