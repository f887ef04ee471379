"""A full buffer slows `send` down; it must not cut batches small, which would slow everything behind it too."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import pytest
from tests.records.handing_over import taken_from

from ottla.records.append import Appender
from ottla.records.delivery import Delivery, SealedBatch
from ottla.records.memory import BlockedCall

BATCH = 10_000
MEMORY = 8 * BATCH
VALUE = bytes(90)


class SlowBroker:
    """Takes batches over whenever it is rung, and gives memory back one batch at a time, when `send` waits for it."""

    def __init__(self) -> None:
        self.appender: Appender
        self.under_way: deque[SealedBatch] = deque()
        self.sizes: list[int] = []
        self.records = 0
        self.waits = 0
        self.most_records = 0
        self.takes_all = False

    def take(self) -> None:
        force = self.appender.is_short_of_memory or self.takes_all
        for batch in taken_from(self.appender, force=force):
            self.under_way.append(batch)
            self.sizes.append(batch.size_bytes)
            self.records += batch.record_count
        self.most_records = max(self.most_records, sum(batch.record_count for batch in self.under_way))
        self.appender.sleeping = True

    def memory_wanted(self, call: BlockedCall) -> None:
        self.waits += 1
        self.take()
        while call.is_waiting:
            assert self.under_way, "send waits for memory, and nothing is on its way that could free it"
            batch = self.under_way.popleft()
            batch.complete(0)
            self.appender.release(batch.buffer_bytes)

    def wake(self) -> None:
        self.appender.sleeping = False
        self.take()

    def topic_missing(self, topic: str, call: BlockedCall) -> None:
        raise AssertionError

    def check_usable(self) -> None:
        pass

    def wait(self, batch: SealedBatch, timeout_s: float | None) -> bool:
        raise AssertionError


def send_many(
    partitions: int, records: int, *, value: bytes = VALUE, on_delivery: Callable[[Delivery], object] | None = None
) -> SlowBroker:
    broker = SlowBroker()
    broker.appender = Appender(
        batch_size=BATCH,
        max_request_size=1 << 20,
        buffer_memory=MEMORY,
        linger_us=5_000,
        hooks=broker,
        clock_us=lambda: 0,
        clock_ms=lambda: 0,
    )
    broker.appender.set_topic("flights", partitions)
    broker.appender.sleeping = True
    for number in range(records):
        broker.appender.send("flights", value, partition=number % partitions, on_delivery=on_delivery)
    broker.takes_all = True
    broker.take()
    assert broker.waits > 0
    assert broker.records == records
    return broker


def test_batches_stay_full_when_the_buffer_is() -> None:
    broker = send_many(partitions=3, records=20_000)
    full = 20_000 * len(VALUE) / BATCH
    assert len(broker.sizes) < 1.5 * full


def test_open_batches_of_many_partitions_share_the_buffer_and_leave_with_more_than_a_record_or_two() -> None:
    # Forty open batches share eight batches' worth of memory, half of it at most: ten records each.
    broker = send_many(partitions=40, records=20_000)
    assert len(broker.sizes) < 20_000 / 4


def test_callbacks_count_because_they_outweigh_small_records() -> None:
    heard: list[int] = []
    broker = send_many(partitions=3, records=20_000, value=b"v", on_delivery=lambda delivery: heard.append(1))
    # Each takes ten bytes or so itself; with what its callback keeps alive fewer than these fit at a time.
    at_a_time = MEMORY // 72
    assert broker.most_records < at_a_time
    assert len(broker.sizes) < 20_000 / 4
    while broker.under_way:
        batch = broker.under_way.popleft()
        batch.complete(0)
        broker.appender.release(batch.buffer_bytes)
    assert broker.appender.buffered_bytes == 0
    assert len(heard) == 20_000


@pytest.mark.parametrize("codec", ["none", "lz4"])
def test_what_callbacks_take_is_given_back_with_their_batch(codec: str) -> None:
    broker = SlowBroker()
    broker.appender = made = Appender(
        batch_size=BATCH,
        max_request_size=1 << 20,
        buffer_memory=MEMORY,
        linger_us=0,
        hooks=broker,
        compression=codec,
    )
    made.set_topic("flights", 1)
    for _ in range(10):
        made.send("flights", VALUE, on_delivery=print)
    [batch] = taken_from(made, force=True)
    assert made.buffered_bytes == batch.buffer_bytes == batch.size_bytes + 10 * 72
    made.release(batch.buffer_bytes)
    assert made.buffered_bytes == 0
