"""A closed segment that ends with a torn batch: reads go on at the next segment, as in Apache Kafka."""

from __future__ import annotations

import pytest

from ottla.broker.log.segment import file_name
from ottla.records.plain import Record, decode_batches, encode_batch

from .log_world import FOLDER as LOG_FOLDER
from .log_world import LogWorld
from .world import TOPIC, World, batch_of

FOLDER = f"{TOPIC}-0"


def pair(value: bytes) -> bytes:
    """A batch of two records, with keys, as a compacted topic wants them."""
    return encode_batch([Record(0, 1000, b"k", value), Record(1, 1001, b"k", b"x")])


def opened(cut: int, *, policy: str = "delete") -> World:
    """Six batches of two records, two in each segment; `cut` bytes of the first segment are gone."""
    world = World(1)
    world.create_topic(segment_bytes=1024, cleanup_policy=policy)
    for number in range(6):
        world.produce(pair(b"%d" % number * 400))
    world.close()
    first, *_ = [name for name in world.storages[1].files(FOLDER) if name.endswith(".log")]
    del world.storages[1].contents[f"{FOLDER}/{first}"][-cut:]
    return World(1, world.storages)


def offsets(world: World, offset: int, **more: int) -> list[int]:
    """The offsets of the records in the answer to a Fetch; its bytes are whole batches."""
    answer = world.fetch(offset, **more)
    assert answer.error_code == 0
    records = answer.records.read()
    batches = list(decode_batches(records))
    assert sum(header.size_bytes for header, _ in batches) == len(records)
    return [record.offset for _, told in batches for record in told]


SIZE = len(pair(b"0" * 400))


@pytest.mark.parametrize("policy", ["delete", "compact"])
@pytest.mark.parametrize("cut", [1, 100, SIZE - 1, SIZE, SIZE + 1, 2 * SIZE - 1])
def test_what_is_torn_is_not_served_and_reads_go_on_behind_it(cut: int, policy: str) -> None:
    world = opened(cut, policy=policy)
    whole = [0, 1] if cut <= SIZE else []
    if whole:
        assert offsets(world, 0, max_bytes=SIZE) == whole
    assert offsets(world, len(whole)) == offsets(world, 3) == offsets(world, 4) == [4, 5, 6, 7]


def test_an_index_entry_for_the_torn_batch_is_not_believed() -> None:
    world = World(1)
    world.create_topic(segment_bytes=3000, index_interval_bytes=0)
    for _ in range(12):
        world.produce(batch_of(b"0" * 400, b"x"))
    world.close()
    first, second, *_ = [name for name in world.storages[1].files(FOLDER) if name.endswith(".log")]
    del world.storages[1].contents[f"{FOLDER}/{first}"][-10:]
    world = World(1, world.storages)
    following = int(second.removesuffix(".log"))
    assert offsets(world, following - 1)[0] == offsets(world, following - 2)[0] == following


def test_the_segment_that_is_written_to_keeps_its_size_and_what_is_appended_later() -> None:
    world = LogWorld(cleanup_policy="compact")
    for number in range(8):
        world.append(size=100, keys=[b"%d" % number])
    path, position = f"{LOG_FOLDER}/{file_name(0)}", world.log.active.position_of(7)
    world.close()
    content = bytearray(world.disk.read_file(path) or b"")
    content[position + 9] = 1  # of the last batch's length
    world.disk.write_file(path, bytes(content), synced=True)
    world.open()
    for number in range(3):
        world.append(size=100, keys=[b"later %d" % number])
    world.close()
    world.open()
    assert world.log.log_end_offset == 11
