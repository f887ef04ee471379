"""Damaged record batches inside valid Produce requests: refused, or stored byte for byte and on every replica alike.

A broker judges a batch by its header and its CRC; half of the damaged batches here get a right CRC again, so that what
the header says is what is looked at. Whatever was stored is then asked for in every way there is.
"""

from __future__ import annotations

import gzip
from random import Random
from typing import Any

import pytest
from crc32c import crc32c

from ottla.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from ottla.records.batch_header import HEADER_BYTES, iterate_headers
from ottla.records.plain import Record, encode_batch

from .frame_corpus import damaged
from .world import TOPIC, World

CASES = 300
# The base offset and the leader epoch are the broker's to set; they lie outside of the CRC.
OFFSET_BYTES, EPOCH_AT, CRC_AT, CRC_FROM = 8, 12, 17, 21


def a_batch(rng: Random) -> bytes:
    """A good batch: with and without a producer, compressed and not."""
    count = rng.randrange(1, 5)
    records = [Record(n, 1000 + n, rng.choice((None, b"k")), rng.randbytes(rng.randrange(40))) for n in range(count)]
    producer_id = rng.choice((-1, -1, 5))
    batch = encode_batch(
        records, producer_id=producer_id, producer_epoch=min(producer_id, 0), base_sequence=min(producer_id, 0)
    )
    if rng.random() < 0.2:
        body = gzip.compress(batch[HEADER_BYTES:])
        head = bytearray(batch[:HEADER_BYTES])
        head[8:12] = (HEADER_BYTES - 12 + len(body)).to_bytes(4)
        head[22] = 1
        batch = with_right_crc(bytes(head) + body)
    return batch


def with_right_crc(batch: bytes) -> bytes:
    """The batch as a producer would have sent it that meant every byte of it."""
    if len(batch) < HEADER_BYTES:
        return batch
    changed = bytearray(batch)
    changed[CRC_AT:CRC_FROM] = crc32c(batch[CRC_FROM:]).to_bytes(4)
    return bytes(changed)


def plausible(rng: Random, batch: bytes) -> bytes:
    """Damage behind the length and the format, with a right CRC."""
    changed = bytearray(batch)
    if rng.random() < 0.1:
        count = rng.choice((1 << 16, (1 << 31) - 1))
        changed[23:27], changed[57:61] = (count - 1).to_bytes(4), count.to_bytes(4)
    for _ in range(rng.randrange(3)):
        at = rng.randrange(CRC_FROM, len(changed) if rng.random() < 0.3 else HEADER_BYTES)
        changed[at] = rng.choice((0, 1, 2, 0x7F, 0x80, 0xFF, rng.randrange(256)))
    return with_right_crc(bytes(changed))


def without_what_the_broker_sets(batch: bytes) -> bytes:
    return batch[OFFSET_BYTES:EPOCH_AT] + batch[EPOCH_AT + 4 :]


def log_of(world: World, broker_id: int) -> bytes:
    storage = world.storages[broker_id]
    names = [name for name in storage.files(f"{TOPIC}-0") if name.endswith(".log")]
    return b"".join(bytes(storage.contents[f"{TOPIC}-0/{name}"]) for name in names)


def batches_of(log: bytes) -> list[bytes]:
    return [log[header.position : header.position + header.size_bytes] for header in iterate_headers(log)]


def as_stored(batch: bytes) -> bytes:
    """A largest timestamp below -1 becomes -1; nothing else is changed."""
    if int.from_bytes(batch[35:43], signed=True) >= -1:
        return batch
    return with_right_crc(batch[:35] + b"\xff" * 8 + batch[43:])


@pytest.mark.parametrize("seed", range(16))
def test_a_damaged_batch_is_refused_or_stored_as_it_was_sent(seed: int) -> None:
    rng = Random(f"records {seed}")
    world = World(3)
    assert world.create_topic(replicas=3, segment_bytes=1 << 14, cleanup_policy=rng.choice(("delete", "compact"))) == 0
    accepted: list[bytes] = []
    end_offset = 0
    for _ in range(CASES):
        good = a_batch(rng)
        sent = rng.choice((damaged, plausible, plausible))(rng, good)
        if rng.random() < 0.3:
            sent = with_right_crc(sent)
        answer = world.produce(sent)
        if answer.error_code == 0 and answer.base_offset >= end_offset:
            assert answer.base_offset == end_offset
            accepted.append(as_stored(sent))
            end_offset = world.end_offset().offset
            assert end_offset > answer.base_offset
        else:
            # Refused, or known already by its sequence number.
            assert world.end_offset().offset == end_offset
    stored = batches_of(log_of(world, 1))
    assert [*map(without_what_the_broker_sets, stored)] == [*map(without_what_the_broker_sets, accepted)]
    assert log_of(world, 1) == log_of(world, 2) == log_of(world, 3)
    assert len(accepted) > CASES // 20
    look_around(world, rng, stored)
    after_a_crash(world, stored, end_offset)


def look_around(world: World, rng: Random, stored: list[bytes]) -> None:
    """Nothing that is stored makes the broker raise or return other bytes when it is asked about it."""
    headers = [next(iter(iterate_headers(batch))) for batch in stored]
    for header, batch in zip(headers, stored, strict=True):
        offset = rng.choice((header.base_offset, header.last_offset))
        for isolation_level in (0, 1):
            answer = world.fetch(offset, partition_max_bytes=rng.choice((1, 10_000)), isolation_level=isolation_level)
            assert answer.error_code == 0
            assert content_of(answer.records).startswith(batch)
        world.end_offset(timestamp=header.max_timestamp)
        world.end_offset(timestamp=rng.choice((0, 999, 1001, 1 << 62)))
    for special in (-1, -2, -3, -4, -5):
        world.end_offset(timestamp=special)
    asked = [OffsetForLeaderPartition(partition=0, leader_epoch=epoch) for epoch in (-1, 0, 1, 99)]
    world.ask(world.leader(), OffsetForLeaderEpochRequest(topics=[OffsetForLeaderTopic(topic=TOPIC, partitions=asked)]))


def content_of(records: Any) -> bytes:
    parts = records if isinstance(records, list) else [records]
    return b"".join(part.read() if hasattr(part, "read") else bytes(part) for part in parts)


def after_a_crash(world: World, stored: list[bytes], end_offset: int) -> None:
    """Brokers that start again without having closed their logs find the same batches and go on behind them."""
    again = World(3, world.storages)
    assert batches_of(log_of(again, 1)) == stored
    answer = again.produce(encode_batch([Record(0, 1000, b"key", b"afterwards")]))
    assert (answer.error_code, answer.base_offset) == (0, end_offset)
    assert log_of(again, 1) == log_of(again, 2) == log_of(again, 3)
