"""The memory of settled batches is used again, and never while somebody still looks at it."""

from __future__ import annotations

from typing import Any

import pytest
from tests.records.handing_over import taken_from

from ottla.records.append import Appender
from ottla.records.delivery import SealedBatch

BATCH = 200_000
VALUE = b"v" * 1000


class Hooks:
    """A producer that is never asked for anything."""

    def check_usable(self) -> None: ...


def appender(**settings: Any) -> Appender:
    given = {"batch_size": BATCH, "max_request_size": 1 << 20, "buffer_memory": 1 << 25, "linger_us": 0, **settings}
    made = Appender(**given, hooks=Hooks(), clock_us=lambda: 0, clock_ms=lambda: 0)
    made.set_topic("flights", 1)
    return made


def one_batch(made: Appender, value: bytes = VALUE) -> SealedBatch:
    """A nearly full batch of such values."""
    for _ in range(BATCH // (len(value) + 20) - 1):
        made.send("flights", value)
    [batch] = taken_from(made, force=True)
    return batch


def settle(made: Appender, batch: SealedBatch) -> None:
    batch.complete(0)
    made.release(batch.buffer_bytes)


def test_the_next_batch_is_written_where_a_settled_one_was() -> None:
    made = appender()
    settle(made, one_batch(made))
    kept = made.buffers.kept_bytes
    assert kept >= BATCH * 3 // 4
    second = one_batch(made)
    assert made.buffers.kept_bytes == 0
    settle(made, second)
    assert made.buffers.kept_bytes == kept
    assert made.buffered_bytes == 0


def test_what_is_still_being_sent_is_not_written_over_though_its_batch_is_settled() -> None:
    made = appender()
    batch = one_batch(made)
    on_its_way = [memoryview(part) for part in batch.buffers()]
    bytes_before = bytes(on_its_way[0])
    settle(made, batch)
    for number in range(3):
        settle(made, one_batch(made, b"%d" % number * 900))
        assert bytes(on_its_way[0]) == bytes_before
    del on_its_way
    kept = made.buffers.kept_bytes
    one_batch(made)
    assert made.buffers.kept_bytes < kept


def test_what_is_kept_is_bounded_and_the_oldest_goes_first() -> None:
    made = appender(buffer_memory=1_000_000)
    batches = [one_batch(made) for _ in range(4)]
    for batch in batches:
        settle(made, batch)
    assert made.buffers.limit_bytes == 500_000
    assert BATCH <= made.buffers.kept_bytes <= 500_000


def test_small_batches_are_left_to_the_c_library() -> None:
    made = appender(batch_size=16_384)
    made.send("flights", VALUE)
    [batch] = taken_from(made, force=True)
    settle(made, batch)
    assert made.buffers.kept_bytes == 0


def test_a_compressed_batch_gives_its_large_buffer_back_at_once() -> None:
    made = appender(compression="lz4")
    batch = one_batch(made)
    assert batch.codec == "lz4"
    assert made.buffers.kept_bytes >= BATCH * 3 // 4
    assert len(batch.buffers()[0]) == batch.size_bytes


def test_tables_use_the_same_memory() -> None:
    pa = pytest.importorskip("pyarrow")
    from ottla.records.encode_columns import encode_stream

    made = appender()
    asked = {"topic": "flights", "partition_count": 1, "value": "v", "batch_size": BATCH, "pool": made.buffers}
    table = pa.table({"v": [VALUE] * 180})
    stored = []
    for _ in range(3):
        for batches in encode_stream(table, **asked):
            made.add_sealed(batches)
        [batch] = taken_from(made, force=True)
        assert made.buffers.kept_bytes == 0
        stored.append(bytes(batch.buffers()[0][21:]))
        settle(made, batch)
        assert made.buffers.kept_bytes >= BATCH * 3 // 4
    assert len({len(each) for each in stored}) == 1
