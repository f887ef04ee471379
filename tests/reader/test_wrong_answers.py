"""Answers with partitions that were not requested, with some twice, or without some.

Partitions that are left out count as not answered; partitions that were not requested are ignored. Each record is still
read once and in order, as soon as the broker answers in full.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.errors import Unreachable
from ottla.protocol.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from ottla.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from ottla.reader.events import Assign, Fetched, Finished, ReadFailed
from ottla.records.plain import decode_batches


def topics_of(answer: Any) -> list[Any]:
    if isinstance(answer, FetchResponse):
        return answer.responses
    return answer.topics if isinstance(answer, ListOffsetsResponse) else []


def unasked(answer: Any, topic: str, partition: int, error_code: int) -> Any:
    """A topic's part of an answer that nobody asked for."""
    if isinstance(answer, FetchResponse):
        told = PartitionData(partition_index=partition, error_code=error_code, high_watermark=7)
        return FetchableTopicResponse(topic=topic, partitions=[told])
    asked = ListOffsetsPartitionResponse(partition_index=partition, error_code=error_code, offset=1)
    return ListOffsetsTopicResponse(name=topic, partitions=[asked])


def with_unasked(answer: Any) -> Any:
    for error_code in (0, 1, 6, 29):
        topics_of(answer).insert(0, unasked(answer, "nobody-asked", 0, error_code))
        topics_of(answer).insert(0, unasked(answer, "flights", 77, error_code))
    return answer


def twice(answer: Any) -> Any:
    topics_of(answer).extend(list(topics_of(answer)))
    return answer


def nothing(answer: Any) -> Any:
    topics_of(answer).clear()
    return answer


def without_the_last(answer: Any) -> Any:
    for topic in topics_of(answer):
        del topic.partitions[-1:]
    return answer


def altered(draw: Callable[[int], int]) -> Callable[[Any], Any]:
    """An answer's parts shuffled, left out, repeated and mixed with strange ones, as `draw` says."""

    def change(answer: Any) -> Any:
        topics = topics_of(answer)
        for topic in topics:
            given = list(topic.partitions)
            topic.partitions.clear()
            for told in given:
                copies = draw(3)
                for _ in range(copies):
                    topic.partitions.insert(draw(len(topic.partitions) + 1), told)
            if draw(2):
                strange = unasked(answer, "flights", 3 + draw(3), (0, 1, 3, 6)[draw(4)])
                topic.partitions.insert(draw(len(topic.partitions) + 1), strange.partitions[0])
        if draw(2):
            topics.insert(draw(len(topics) + 1), unasked(answer, "elsewhere", draw(3), (0, 6)[draw(2)]))
        return answer

    return change


def values(said: list[Any], partition: int) -> list[bytes]:
    return [
        bytes(record.value)
        for output in said
        if isinstance(output, Fetched) and output.partition == partition
        for _, records in decode_batches(output.records)
        for record in records
    ]


@pytest.mark.parametrize("change", [with_unasked, twice], ids=["unasked", "twice"])
def test_what_was_not_asked_for_is_ignored(world: Any, change: Callable[[Any], Any]) -> None:
    world.leaders = [1, 1]
    world.store(0, b"a", b"b")
    world.store(1, b"c")
    world.alter = change
    for partition in (0, 1):
        world.core.receive(Assign("flights", partition, -2, -1), 0)
    said = world.run()
    assert values(said, 0) == [b"a", b"b"]
    assert values(said, 1) == [b"c"]
    assert [output for output in said if isinstance(output, Finished)] == [
        Finished("flights", 0, 2),
        Finished("flights", 1, 1),
    ]


@pytest.mark.parametrize("change", [nothing, without_the_last], ids=["nothing", "without the last"])
def test_what_was_left_out_is_asked_for_again_after_a_pause(world: Any, change: Callable[[Any], Any]) -> None:
    world.leaders = [1, 1]
    world.store(0, b"a")
    world.store(1, b"b")
    world.alter = change
    for partition in (0, 1):
        world.core.receive(Assign("flights", partition, -2, None), 0)
    said = world.run()
    asked = len(world.questions)
    assert world.core.deadline_us() > world.now_us
    assert world.run() == []
    assert len(world.questions) == asked
    for _ in range(5):
        said += world.later(200)
    assert len(world.questions) > asked
    world.alter = lambda answer: answer
    for _ in range(5):
        said += world.later(1000)
    assert values(said, 0) == [b"a"]
    assert values(said, 1) == [b"b"]


def test_a_partition_that_is_left_out_for_ever_fails_and_says_so(make_world: Callable[..., Any]) -> None:
    world = make_world(default_api_timeout_ms=5000)
    world.store(0, b"a")
    world.alter = nothing
    world.core.receive(Assign("flights", 0, 0, 1), 0)
    said = world.run()
    while not any(isinstance(output, ReadFailed) for output in said) and world.now_us < 10_000_000:
        said += world.later(100)
    error = said[-1].error
    assert isinstance(error, Unreachable)
    assert "the broker's answer leaves out the partition" in str(error)
    assert len(world.fetches) < 20


def test_an_end_that_no_broker_can_mean_is_asked_for_again(world: Any) -> None:
    """-1 says "no such record", and there is always an end."""
    world.store(0, b"a")

    def without_offset(answer: Any) -> Any:
        for topic in topics_of(answer):
            for told in topic.partitions:
                told.offset = -1
        return answer

    world.alter = without_offset
    world.core.receive(Assign("flights", 0, -2, -1), 0)
    assert world.run() == []
    assert len(world.questions) == 1
    world.alter = lambda answer: answer
    said = world.later(200) + world.later(200)
    assert values(said, 0) == [b"a"]


@given(draws=st.lists(st.integers(0, 1 << 16), min_size=1, max_size=60))
def test_however_wrong_the_answers_every_record_comes_once_and_in_order(
    make_world: Callable[..., Any], draws: list[int]
) -> None:
    world = make_world(max_partition_fetch_bytes=1)
    world.leaders = [1, 1, 2]
    kept = {partition: [b"%d-%d" % (partition, number) for number in range(4)] for partition in range(3)}
    for partition, stored in kept.items():
        for value in stored:
            world.store(partition, value)
    numbers: Iterator[int] = iter(draws)
    world.alter = altered(lambda below: next(numbers, 0) % below)
    for partition in range(3):
        world.core.receive(Assign("flights", partition, -2, -1), 0)
    said = world.run()
    for _ in range(3):
        said += world.later(1200)
    world.alter = lambda answer: answer
    while sum(isinstance(output, Finished) for output in said) < 3:
        assert world.now_us < 60_000_000
        said += world.later(1200)
    assert {partition: values(said, partition) for partition in range(3)} == kept
    assert not any(isinstance(output, ReadFailed) for output in said)
