"""Starting again on what is there: topics found, torn tails cut, high watermarks kept, nothing trusted blindly."""

from __future__ import annotations

import json

import pytest

from ottla.errors import UserMistake
from ottla.protocol.error_codes import ErrorCode

from .world import TOPIC, World, batch_of, produce_request, records_of

FIRST = f"{TOPIC}-0/{0:020d}.log"


def filled(batches: int = 4, **configs: int) -> World:
    """One broker with batches of two records each."""
    world = World(1)
    world.create_topic(**configs)
    for number in range(batches):
        world.produce(batch_of(b"%d" % number * 400, b"x"))
    return world


@pytest.mark.parametrize("clean", [True, False])
def test_a_restart_finds_topics_records_and_settings(clean: bool) -> None:
    world = filled(segment_bytes=1024)
    image = world.controller.image
    if clean:
        world.close()
    restarted = World(1, world.storages)
    found = restarted.controller.image
    assert (found.cluster_id, found.topics[TOPIC].topic_id) == (image.cluster_id, image.topics[TOPIC].topic_id)
    assert found.version > image.version
    assert found.topics[TOPIC].configs == (("segment.bytes", "1024"),)
    assert found.topics[TOPIC].partitions[0].leader_epoch == 1
    assert restarted.end_offset().offset == 8
    assert restarted.produce(batch_of(b"next")).base_offset == 8
    assert [r.offset for r in restarted.stored()] == list(range(9))


def test_every_cut_of_the_tail_leaves_the_whole_batches() -> None:
    batch_bytes = len(batch_of(b"0" * 400, b"x"))
    for cut in range(1, batch_bytes + 1, 7):
        world = filled(3)
        del world.storages[1].contents[FIRST][-cut:]
        restarted = World(1, world.storages)
        assert restarted.end_offset().offset == 4
        assert len(restarted.storages[1].contents[FIRST]) == 2 * batch_bytes
        assert restarted.produce(batch_of(b"next")).base_offset == 4


def test_garbage_behind_the_last_batch_is_cut_off() -> None:
    for garbage in (b"\0" * 200, b"\xff" * 200, b"x", batch_of(b"stale")):
        world = filled(2)
        world.storages[1].contents[FIRST] += garbage
        restarted = World(1, world.storages)
        assert restarted.end_offset().offset == 4
        assert restarted.produce(batch_of(b"next")).base_offset == 4


def test_a_flipped_bit_ends_the_log_in_front_of_it() -> None:
    world = filled(4)
    batch_bytes = len(batch_of(b"0" * 400, b"x"))
    world.storages[1].contents[FIRST][2 * batch_bytes + 100] ^= 4
    restarted = World(1, world.storages)
    assert [r.offset for r in restarted.stored()] == [0, 1, 2, 3]


def test_segments_behind_a_cut_are_removed() -> None:
    world = filled(6, segment_bytes=1024)
    names = [name for name in world.storages[1].files(f"{TOPIC}-0") if name.endswith(".log")]
    assert len(names) == 3
    del world.storages[1].contents[f"{TOPIC}-0/{names[1]}"][-1:]
    restarted = World(1, world.storages)
    assert [n for n in restarted.storages[1].files(f"{TOPIC}-0") if n.endswith(".log")] == names[:2]
    assert restarted.end_offset().offset == 6
    assert restarted.produce(batch_of(b"next")).base_offset == 6


def test_after_a_clean_end_headers_are_enough() -> None:
    world = filled(4)
    world.close()
    assert world.storages[1].syncs == 1
    world.storages[1].contents[FIRST][200] ^= 4
    assert World(1, world.storages).end_offset().offset == 8
    # The mark is used up: the next start, after no clean end, looks at every byte.
    assert World(1, world.storages).end_offset().offset == 0


def test_closing_without_sync_leaves_no_mark() -> None:
    world = filled(1)
    world.brokers[1].close(sync=False)
    assert world.storages[1].syncs == 0
    assert world.storages[1].read_file(".kafka_cleanshutdown") is None


@pytest.mark.parametrize("mark", [b"", b"{}", b"[1]", b'{"logEnds": {"flights-0": "many"}}', b"\xff"])
def test_a_damaged_mark_counts_as_no_clean_end(mark: bytes) -> None:
    world = filled(2)
    world.storages[1].contents[".kafka_cleanshutdown"] = bytearray(mark)
    world.storages[1].contents[FIRST][200] ^= 4
    assert World(1, world.storages).end_offset().offset == 0


def test_a_clean_end_keeps_the_high_watermark(replicated: World) -> None:
    for _ in range(3):
        replicated.produce(batch_of(b"a"))
    replicated.close()
    world = World(3, replicated.storages)
    world.unreachable = {1, 2, 3}
    assert world.end_offset().offset == 3


def test_a_new_leader_does_not_tell_an_end_it_does_not_know(replicated: World) -> None:
    """After an unclean end the leader learns from its followers what is committed (KIP-207)."""
    for _ in range(3):
        replicated.produce(batch_of(b"a"))
    replicated.controller.close()  # everybody still counts as in sync
    world = World(3, replicated.storages, cut_off=(1, 2, 3))
    answer = world.end_offset()
    assert (answer.error_code, answer.offset) == (ErrorCode.OFFSET_NOT_AVAILABLE, -1)
    world.unreachable = set()
    world.pass_time(1000)
    assert world.end_offset().offset == 3


def test_folders_of_a_topic_deleted_meanwhile_are_set_aside_when_the_name_comes_back() -> None:
    world = filled(2)
    old = bytes(world.storages[1].contents[FIRST])
    state = json.loads(world.storages[0].contents["controller.json"])
    state["topics"] = {}
    world.storages[0].contents["controller.json"] = bytearray(json.dumps(state).encode())
    world.storages[0].contents["controller.changes"].clear()
    restarted = World(1, world.storages)
    assert restarted.storages[1].exists(FIRST)
    restarted.create_topic()
    assert restarted.end_offset().offset == 0
    assert restarted.storages[1].read_file(f"{TOPIC}-0.{0:032x}-stray/{0:020d}.log") == old
    assert restarted.produce(batch_of(b"new")).base_offset == 0
    assert World(1, restarted.storages).end_offset().offset == 1


def test_a_folder_that_names_another_topic_is_set_aside_and_told(caplog: pytest.LogCaptureFixture) -> None:
    world = filled(2)
    storage, kept = world.storages[1], []
    asides = [f"{TOPIC}-0.{number:032x}-stray" for number in range(2)]
    for aside in asides:
        kept.append(bytes(storage.contents[FIRST]))
        storage.write_file(f"{TOPIC}-0/partition.metadata", b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA")
        world = World(1, world.storages)
        assert world.end_offset().offset == 0
        assert f"{aside}," in caplog.records[-1].getMessage()
        assert caplog.records[-1].name == "ottla.broker"
        assert world.produce(batch_of(b"new")).base_offset == 0
    assert storage.folders() == [f"{TOPIC}-0", *asides]
    assert [storage.read_file(f"{aside}/{0:020d}.log") for aside in asides] == kept


def test_the_line_end_of_the_owners_file_decides_over_no_log() -> None:
    world = filled()
    storage = world.storages[1]
    path = f"{TOPIC}-0/partition.metadata"
    written = storage.read_file(path)
    assert written is not None
    assert not written.endswith(b"\n")  # as Kafka writes it
    storage.write_file(path, written + b"\n")
    assert World(1, world.storages).end_offset().offset == 8


def test_foreign_files_in_a_log_folder_are_left_alone() -> None:
    world = filled(1)
    for name in ("notes.txt", "1.log", "000000000000000000xx.log"):
        world.storages[1].contents[f"{TOPIC}-0/{name}"] = bytearray(b"mine")
    restarted = World(1, world.storages)
    assert restarted.end_offset().offset == 2
    assert restarted.storages[1].contents[f"{TOPIC}-0/1.log"] == b"mine"


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"{}", b'{"topics": {"a": {}}}', b"\xff\xfe"])
def test_a_damaged_controller_file_is_a_clear_mistake(content: bytes) -> None:
    world = filled(1)
    world.storages[0].contents["controller.json"] = bytearray(content)
    with pytest.raises(UserMistake, match=r"controller\.json"):
        World(1, world.storages)


def test_a_missing_controller_file_is_no_new_cluster() -> None:
    world = filled(1)
    del world.storages[0].contents["controller.json"]
    with pytest.raises(UserMistake, match=r"controller\.json of the cluster is missing"):
        World(1, world.storages)


def test_a_cluster_with_too_few_brokers_is_a_clear_mistake(replicated: World) -> None:
    with pytest.raises(UserMistake, match="as many brokers"):
        World(2, replicated.storages)


def test_all_replicas_agree_after_an_unclean_end(replicated: World) -> None:
    for number in range(6):
        replicated.produce(batch_of(b"%d" % number))
    leader = replicated.leader()
    for broker_id in (1, 2, 3):
        if broker_id != leader:
            del replicated.storages[broker_id].contents[FIRST][-50 * broker_id :]
    world = World(3, replicated.storages)
    world.pass_time(1000)
    assert world.produce(batch_of(b"next")).base_offset == 6
    assert len({bytes(world.storages[b].contents[FIRST]) for b in (1, 2, 3)}) == 1
    assert len(records_of(world.fetch(0))) == 7
    assert world.ask(leader, produce_request({(TOPIC, 0): batch_of(b"z")})).responses
