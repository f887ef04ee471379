"""Calls get `buffer.memory` in their order, and no memory is lost."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.records.handing_over import taken_from
from tests.records.test_append import Hooks, appender

from ottla.records.append import Appender
from ottla.records.delivery import SealedBatch
from ottla.records.memory import BlockedCall, BufferMemory


def test_a_large_call_is_not_starved_by_small_ones() -> None:
    memory = BufferMemory(100)
    holder, large, small = BlockedCall(), BlockedCall(), BlockedCall()
    memory.join(holder, 60)
    assert holder.has_memory
    memory.join(large, 80)
    memory.join(small, 10)
    assert (large.has_memory, small.has_memory) == (False, False), "there is room for the small one, which came later"
    memory.end(holder)
    assert (large.has_memory, small.has_memory) == (True, True)
    assert memory.used_bytes == 90


def test_a_call_that_gives_up_leaves_the_queue() -> None:
    memory = BufferMemory(100)
    holder, first, second = BlockedCall(), BlockedCall(), BlockedCall()
    memory.join(holder, 90)
    memory.join(first, 50)
    memory.join(second, 10)
    memory.end(first)
    assert second.has_memory
    assert memory.used_bytes == 100


def test_a_call_for_more_than_all_memory_is_served_once_nothing_is_used() -> None:
    memory = BufferMemory(100)
    holder, huge = BlockedCall(), BlockedCall()
    memory.join(holder, 10)
    memory.join(huge, 500)
    assert not huge.has_memory
    memory.end(holder)
    assert huge.has_memory
    memory.end(huge)
    assert memory.used_bytes == 0


@given(st.lists(st.tuples(st.integers(0, 4), st.booleans(), st.integers(1, 120)), max_size=80))
def test_calls_are_served_in_order_and_all_memory_is_given_back(steps: list[tuple[int, bool, int]]) -> None:
    memory = BufferMemory(100)
    calls = [BlockedCall() for _ in range(5)]
    line: list[int] = []
    for which, joins, nbytes in steps:
        call = calls[which]
        if joins:
            if which in line:
                line.remove(which)
            memory.join(call, nbytes)
            line.append(which)
        else:
            if which in line:
                line.remove(which)
            memory.end(call)
        while line and calls[line[0]].has_memory:
            line.pop(0)
        assert not any(calls[each].has_memory for each in line), "somebody was given memory before the first in line"
        given_bytes = sum(each.given_bytes for each in calls)
        assert memory.used_bytes == given_bytes
        assert given_bytes <= 100 or sum(each.given_bytes > 0 for each in calls) == 1
    for call in calls:
        memory.end(call)
    assert memory.used_bytes == 0


class Interrupted(Hooks):
    """Ctrl+C comes while a call waits for memory."""

    def memory_wanted(self, call: BlockedCall) -> None:
        raise KeyboardInterrupt


def test_an_interrupted_wait_leaves_nothing_behind() -> None:
    made = appender(Interrupted(), buffer_memory=3000, batch_size=1000)

    def send_all() -> None:
        for number in range(100):
            made.send("flights", b"x" * 90, partition=number % 3)

    with pytest.raises(KeyboardInterrupt):
        send_all()
    assert made.memory_waiters == 0
    held = made.buffered_bytes
    for batch in made.take_new():
        made.close(batch)
        made.release(batch.buffer_bytes)
    assert held > 0
    assert made.buffered_bytes == 0


class Slow(Hooks):
    """Whoever waits for a topic or for memory waits ten seconds; every call that waits is noted."""

    def __init__(self) -> None:
        super().__init__()
        self.now_us = 0
        self.calls: list[BlockedCall] = []

    def topic_missing(self, topic: str, call: BlockedCall) -> None:
        self.calls.append(call)
        self.now_us += 10_000_000
        self.appender.set_topic(topic, 3)

    def memory_wanted(self, call: BlockedCall) -> None:
        self.calls.append(call)
        self.now_us += 10_000_000
        for batch in self.appender.take_new():
            self.appender.close(batch)
            self.appender.release(batch.buffer_bytes)


def slow_appender(**settings: Any) -> tuple[Slow, Appender]:
    hooks = Slow()
    return hooks, appender(hooks, clock_us=lambda: hooks.now_us, **settings)


def test_all_that_one_send_waits_for_is_one_wait() -> None:
    hooks, made = slow_appender(buffer_memory=2000, batch_size=1500)
    made.send("flights", b"x" * 1300, partition=0)
    made.send("other", b"x" * 1300, partition=0)
    # For the topic, then for memory: the same call, and so the same max.block.ms.
    assert len(hooks.calls) == 2
    assert hooks.calls[0] is hooks.calls[1]


def test_the_time_of_a_batch_begins_after_the_wait_for_its_memory() -> None:
    hooks, made = slow_appender(buffer_memory=2000, batch_size=1500)
    made.send("flights", b"x" * 1300, partition=0)
    made.send("flights", b"x" * 1300, partition=1)
    [batch] = made.take_new()
    assert batch.created_us == hooks.now_us == 10_000_000


def test_the_time_of_a_tables_batch_begins_after_the_wait_for_its_memory() -> None:
    other = appender()
    other.send("flights", b"x" * 1300, partition=1)
    [sealed] = taken_from(other, force=True)
    hooks, made = slow_appender(buffer_memory=2000, batch_size=1500)
    made.send("flights", b"x" * 1300, partition=0)
    made.add_sealed([sealed])
    assert sealed.created_us == hooks.now_us == 10_000_000


def test_forgotten_topics_take_no_share_of_a_short_memory() -> None:
    def share(*, forgets: bool) -> int:
        hooks, made = slow_appender(buffer_memory=64_000, batch_size=16_000)
        made.set_topic("old", 1000)
        if forgets:
            made.forget_topic("old")
        for number in range(600):
            made.send("flights", b"x" * 100, partition=number % 3)
        return max(call.wanted_bytes for call in hooks.calls)

    assert share(forgets=False) < 1000
    assert share(forgets=True) > 10_000


class Waiting(Hooks):
    """A call that waits for memory goes on without it, and stays in the queue."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[BlockedCall] = []

    def memory_wanted(self, call: BlockedCall) -> None:
        raise AssertionError("nothing here waits")


def full_appender() -> tuple[Waiting, Appender, list[SealedBatch]]:
    """1,000,000 bytes of memory: 500,000 in a batch that was closed, 400,000 in an open one."""
    hooks = Waiting()
    made = appender(hooks, buffer_memory=1_000_000, batch_size=800_000, linger_us=3_600_000_000)
    made.send("flights", b"x" * 500_000, partition=0)
    [closed] = made.take_new()
    made.close(closed)
    made.send("flights", b"x" * 400_000, partition=1)
    [opened] = made.take_new()
    return hooks, made, [closed, opened]


def test_open_batches_that_hold_the_memory_once_others_are_settled_are_news() -> None:
    _, made, [closed, _] = full_appender()
    made.memory.join(BlockedCall(), 700_000)
    made.is_released = made.is_short_of_memory
    assert not made.has_news(), "what is in flight frees enough"
    made.release(closed.buffer_bytes)
    assert made.is_short_of_memory
    assert made.has_news()
    # Once: they may have no leader.
    made.is_released = True
    assert not made.has_news()


def test_a_call_that_is_given_what_another_call_gives_up_is_news_and_rings() -> None:
    hooks, made, _ = full_appender()
    large, small = BlockedCall(), BlockedCall()
    made.memory.join(large, 700_000)
    made.memory.join(small, 50_000)
    made.is_released = made.is_short_of_memory
    made.sleeping = True
    hooks.log.clear()
    made.end(large)
    assert small.has_memory
    assert made.has_news()
    assert hooks.log == ["wake"]


@pytest.mark.parametrize("leaves", ["gives up", "opens a batch"])
def test_a_call_that_leaves_the_memory_to_open_batches_rings_for_whoever_waits(leaves: str) -> None:
    """No call gets memory by this, and open batches linger for an hour: without a wake-up the call would, too."""
    hooks, made, [closed, _] = full_appender()
    first, second = BlockedCall(), BlockedCall()
    made.release(closed.buffer_bytes)
    made.memory.join(first, 500_000)
    assert first.has_memory
    made.memory.join(second, 700_000)
    # The I/O thread has looked, and sleeps: `first` will use what it was given, or give it back.
    made.take_new()
    made.is_released = made.is_short_of_memory
    assert not made.is_released
    made.memory.has_served = False
    made.wakes_us = 2_000_000
    made.sleeping = True
    hooks.log.clear()
    if leaves == "opens a batch":
        made.send_blocked(first, "flights", b"x" * 400_000, None, None, 2, None, None)
    made.end(first)
    assert not second.has_memory
    assert made.is_short_of_memory
    assert made.has_news()
    assert hooks.log == ["wake"]


class Ringing(Hooks):
    """Ctrl+C comes while a call wakes the I/O thread."""

    def wake(self) -> None:
        raise KeyboardInterrupt


def test_a_tables_batch_is_queued_although_ctrl_c_comes_while_the_io_thread_is_woken() -> None:
    other = appender()
    other.send("flights", b"x" * 1300, partition=1)
    [sealed] = taken_from(other, force=True)
    made = appender(Ringing(), buffer_memory=3000, batch_size=1500)
    held = BlockedCall()
    made.memory.join(held, 100)
    made.end(held)
    # A call has just got memory, and the I/O thread is about to sleep.
    made.sleeping = True
    with pytest.raises(KeyboardInterrupt):
        made.add_sealed([sealed])
    assert made.take_new() == [sealed]
    made.release(sealed.buffer_bytes)
    assert made.buffered_bytes == 0
