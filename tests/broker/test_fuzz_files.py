"""Files of a broker that were damaged while it was down: it starts all the same, or says in a sentence why it does not.

What only says something about the log (indexes, snapshots of producers, checkpoints) is made again from the log, so
that every record is still there, byte for byte. Damage in a segment shows in the CRC of the batch it hit; whoever
reads gets the stored bytes of every other batch that is still there, and never a record that nobody wrote. The files
of the cluster itself (the controller's) are read, or the start is refused with a sentence.
"""

from __future__ import annotations

from random import Random

import pytest

from ottla.errors import UserMistake
from ottla.protocol.error_codes import ErrorCode
from ottla.records.batch_header import HEADER_BYTES, CorruptBatch, check_crc, read_header

from .frame_corpus import damaged
from .test_fuzz_records import content_of
from .world import TOPIC, MemoryStorage, World, batch_of

FOLDER = f"{TOPIC}-0"
BATCHES = 60
ROUNDS = 12


class Filled:
    """A broker with a log of several segments, and what is in it: batch by batch, by base offset."""

    def __init__(self, rng: Random, *, clean: bool) -> None:
        self.world = world = World(1)
        configs = {"segment_bytes": 1500, "index_interval_bytes": 100}
        assert world.create_topic(**configs) == 0
        self.batches: dict[int, bytes] = {}
        sequences = {5: 0, 6: 0}
        for _ in range(BATCHES):
            count, producer_id = rng.randrange(1, 4), rng.choice((5, 6, -1))
            sequence = sequences.get(producer_id, -1)
            if producer_id >= 0:
                sequences[producer_id] += count
            values = [rng.randbytes(rng.randrange(12)) for _ in range(count)]
            batch = batch_of(*values, producer_id=producer_id, sequence=sequence)
            base_offset = world.produce(batch).base_offset
            self.batches[base_offset] = base_offset.to_bytes(8) + batch[8:12] + bytes(4) + batch[16:]
            self.end_offset = base_offset + count
        world.pass_time(120_000)
        if clean:
            world.close()

    def storages(self) -> dict[int, MemoryStorage]:
        """A copy of all that is on the disks."""
        copies = {}
        for broker_id, storage in self.world.storages.items():
            copies[broker_id] = copy = MemoryStorage()
            for path, content in storage.contents.items():
                copy.write_file(path, bytes(content))
        return copies


def harm(rng: Random, storage: MemoryStorage, paths: list[str]) -> None:
    """Damage one to three of the files: change them, empty them, lose them."""
    for path in rng.sample(paths, min(len(paths), rng.choice((1, 1, 2, 3)))):
        kind = rng.random()
        if kind < 0.1:
            storage.remove(path)
        elif kind < 0.2:
            storage.write_file(path, b"")
        else:
            storage.write_file(path, damaged(rng, bytes(storage.contents[path]) or b"\0"))


def read_all(world: World, end_offset: int) -> dict[int, bytes]:
    """Every batch a consumer gets to see, asked for offset by offset, by base offset; errors are Kafka's own."""
    found: dict[int, bytes] = {}
    for offset in range(end_offset):
        answer = world.fetch(offset, partition_max_bytes=400)
        if answer.error_code:
            assert answer.error_code in (ErrorCode.OFFSET_OUT_OF_RANGE, ErrorCode.KAFKA_STORAGE_ERROR), answer
            continue
        content = content_of(answer.records)
        position = 0
        while len(content) - position >= HEADER_BYTES:
            try:
                header = read_header(content, position)
                check_crc(content, header, position)
            except CorruptBatch:
                break
            found[header.base_offset] = content[position : position + header.size_bytes]
            position += header.size_bytes
    return found


def unstamped(batch: bytes) -> bytes:
    """The batch without the leader epoch it was given."""
    return batch[:12] + bytes(4) + batch[16:]


@pytest.mark.parametrize("clean", [True, False], ids=["clean end", "crash"])
@pytest.mark.parametrize("seed", range(12))
def test_what_is_derived_from_the_log_is_made_again(seed: int, clean: bool) -> None:
    rng = Random(f"derived files {seed} {clean}")
    filled = Filled(rng, clean=clean)
    for _ in range(ROUNDS):
        storages = filled.storages()
        derived = [p for p in storages[1].contents if not p.endswith((".log", "partition.metadata"))]
        harm(rng, storages[1], derived)
        world = World(1, storages)
        found = read_all(world, filled.end_offset)
        assert {base: unstamped(batch) for base, batch in found.items()} == filled.batches
        assert world.produce(batch_of(b"more")).base_offset == filled.end_offset


@pytest.mark.parametrize("clean", [True, False], ids=["clean end", "crash"])
@pytest.mark.parametrize("seed", range(12))
def test_damaged_segments_give_no_record_that_was_not_written(seed: int, clean: bool) -> None:
    rng = Random(f"segments {seed} {clean}")
    filled = Filled(rng, clean=clean)
    for _ in range(ROUNDS):
        storages = filled.storages()
        harm(rng, storages[1], [path for path in storages[1].contents if path.endswith(".log")])
        world = World(1, storages)
        # A batch's offset lies outside of its CRC: damage there is not seen, by Kafka's clients neither.
        written = [batch[8:] for batch in filled.batches.values()]
        assert all(unstamped(batch)[8:] in written for batch in read_all(world, filled.end_offset).values())
        answer = world.produce(batch_of(b"more"))
        assert answer.error_code in (0, ErrorCode.KAFKA_STORAGE_ERROR)
        assert world.create_topic("another") == 0
        assert world.produce(batch_of(b"value"), topic="another").base_offset == 0


@pytest.mark.parametrize("seed", range(12))
def test_damaged_files_of_the_cluster_are_read_or_named(seed: int) -> None:
    rng = Random(f"controller {seed}")
    filled = Filled(rng, clean=rng.random() < 0.5)
    for _ in range(ROUNDS):
        storages = filled.storages()
        harm(rng, storages[0], list(storages[0].contents))
        world, said = None, ""
        try:
            world = World(1, storages)
        except UserMistake as refused:
            said = str(refused)
        if world is None:
            assert said.endswith(".")
            continue
        assert world.create_topic("another") == 0
        assert world.produce(batch_of(b"value"), topic="another").base_offset == 0


@pytest.mark.parametrize("seed", range(12))
def test_a_damaged_owners_mark_never_costs_the_log(seed: int) -> None:
    """partition.metadata says whose log a folder holds: where that cannot be read, the records are not thrown away."""
    rng = Random(f"owner {seed}")
    filled = Filled(rng, clean=True)
    logs = {path: bytes(c) for path, c in filled.world.storages[1].contents.items() if path.endswith(".log")}
    for _ in range(ROUNDS):
        storages = filled.storages()
        harm(rng, storages[1], [f"{FOLDER}/partition.metadata"])
        World(1, storages)
        kept = [bytes(content) for path, content in storages[1].contents.items() if path.endswith(".log")]
        assert all(content in kept for content in logs.values() if content)
