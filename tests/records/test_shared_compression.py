"""Two threads compress: who sends leaves a little to the I/O thread, and nothing is lost or mixed up by that."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
from tests.records.handing_over import taken_from

from ottla.records.append import Appender
from ottla.records.delivery import SealedBatch
from ottla.records.memory import BlockedCall
from ottla.records.plain import decode_batches

VALUE = b'{"flight":1234,"carrier":"UA","from":"SFO","delay":12}' * 10
BATCH = 20_000


class Hooks:
    """A producer that is never asked for anything but to wake up."""

    def __init__(self) -> None:
        self.rings = 0
        self.woken: Callable[[], object] = lambda: None

    def wake(self) -> None:
        self.rings += 1
        self.woken()

    def check_usable(self) -> None: ...


def appender(taker: bool, **settings: Any) -> Appender:
    """One with a topic of two partitions; with `taker` another thread does the I/O."""
    given: dict[str, Any] = {
        "batch_size": BATCH,
        "max_request_size": BATCH,
        "buffer_memory": 1 << 30,
        "linger_us": 10**9,
    }
    given |= {"hooks": Hooks(), **settings}
    made = Appender(**given, compression="lz4", clock_us=lambda: 0, clock_ms=lambda: 0)
    made.set_topic("flights", 2)
    if taker:
        on_another_thread(made)
    return made


def on_another_thread(made: Appender, force: bool = False) -> list[SealedBatch]:
    taken: list[SealedBatch] = []
    thread = threading.Thread(target=lambda: taken.extend(taken_from(made, force=force)))
    thread.start()
    thread.join()
    return taken


def fill(made: Appender, batches: int) -> int:
    """Send to partition 0 until so many batches are sealed and one is open; the memory they take."""
    for number in range((batches * BATCH) // len(VALUE) + 1):
        made.send("flights", b"%06d" % number + VALUE, partition=0)
    return made.buffered_bytes


def values(batches: list[SealedBatch]) -> list[bytes | None]:
    return [
        record.value for batch in batches for _, records in decode_batches(batch.buffers()[0]) for record in records
    ]


def test_two_batches_are_left_to_the_io_thread_and_the_others_compressed_by_who_sends() -> None:
    alone, shared = appender(taker=False), appender(taker=True)
    small, large = fill(alone, 6), fill(shared, 6)
    uncompressed = BATCH - BATCH // 8
    assert small < 2 * BATCH, "all sealed ones are compressed"
    assert 2 * uncompressed < large < small + 2 * BATCH, "all but two are"
    assert shared.has_news(), "the I/O thread has something to do"
    taken = on_another_thread(shared, force=True)
    assert values(taken) == values(taken_from(alone, force=True))
    assert {batch.codec for batch in taken} == {"lz4"}
    assert shared.buffered_bytes == sum(batch.buffer_bytes for batch in taken)


def test_the_io_thread_is_rung_for_what_is_left_to_it() -> None:
    made = appender(taker=True)
    made.sleeping = True
    fill(made, 1)
    assert not made.sleeping


def test_a_batch_waits_for_the_one_before_it_that_is_not_compressed_yet() -> None:
    made = appender(taker=True, batch_size=1 << 20, max_request_size=1 << 20)
    for number in range(2 * (1 << 20) // len(VALUE) + 1):
        made.send("flights", b"%06d" % number + VALUE, partition=0)
    # In one turn the I/O thread compresses no more than it takes to have something to send.
    first = on_another_thread(made)
    assert [batch.codec for batch in first] == ["lz4"]
    assert made.has_news()
    second = on_another_thread(made)
    rest = on_another_thread(made, force=True)
    sent = values(first + second + rest)
    assert sent == sorted(sent)  # type: ignore[type-var]
    assert len(sent) == made.records_appended


def test_what_a_short_memory_waits_for_is_compressed_first() -> None:
    # Where others had to wait (the hooks here cannot), there is room once what lies about is compressed.
    made = appender(taker=True, buffer_memory=4 * BATCH)
    fill(made, 5)
    taken = on_another_thread(made, force=True)
    assert len(values(taken)) == made.records_appended


def test_tables_lend_batches_and_queue_them_in_their_order() -> None:
    pa = pytest.importorskip("pyarrow")
    from ottla.records.encode_columns import encode_stream

    table = pa.table({"v": [b"%06d" % n + VALUE for n in range(400)]})
    asked = {"topic": "flights", "partition_count": 2, "value": "v", "batch_size": BATCH, "compression": "lz4"}
    made = appender(taker=True)
    codecs = []
    for batches in encode_stream(table, lend=made.lend, **asked):
        codecs += [batch.codec for batch in batches]
        made.add_sealed(batches)
    assert codecs.count("none") == 2, "the I/O thread has not come for them yet"
    assert made.has_news()
    taken = on_another_thread(made) + on_another_thread(made, force=True)
    assert {batch.codec for batch in taken} == {"lz4"}
    assert made.buffered_bytes == sum(batch.buffer_bytes for batch in taken)
    expected = [batch for batches in encode_stream(table, **asked) for batch in batches]
    for partition in range(2):
        here = [batch for batch in taken if batch.partition == partition]
        assert values(here) == values([batch for batch in expected if batch.partition == partition])
        assert [batch.size_bytes for batch in here] == [b.size_bytes for b in expected if b.partition == partition]


def test_a_lent_batch_that_is_compressed_while_it_is_queued_leaves_no_memory_behind() -> None:
    pa = pytest.importorskip("pyarrow")
    from ottla.records.encode_columns import encode_stream

    hooks = Hooks()
    made = appender(taker=True, hooks=hooks)
    hooks.woken = lambda: on_another_thread(made)
    steps = encode_stream(
        pa.table({"v": [VALUE] * 20}),
        topic="flights",
        partition_count=1,
        value="v",
        batch_size=BATCH,
        compression="lz4",
        lend=made.lend,
    )
    [[sealed]] = steps
    assert not sealed.is_finished
    served = BlockedCall()
    made.memory.join(served, 100)
    made.end(served)
    # A call has got memory, and the I/O thread must wake it: so the I/O thread is woken, and runs at once.
    made.sleeping = True
    made.add_sealed([sealed])
    on_another_thread(made)
    assert sealed.codec == "lz4"
    assert made.buffered_bytes == sealed.buffer_bytes


def test_where_nobody_does_the_io_tables_compress_for_themselves() -> None:
    pa = pytest.importorskip("pyarrow")
    from ottla.records.encode_columns import encode_stream

    made = appender(taker=False)
    table = pa.table({"v": [VALUE] * 200})
    steps = encode_stream(
        table, topic="flights", partition_count=2, value="v", batch_size=BATCH, compression="lz4", lend=made.lend
    )
    assert {batch.codec for batches in steps for batch in batches} == {"lz4"}
