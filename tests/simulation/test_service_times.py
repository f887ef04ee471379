"""Brokers that need time: they handle the requests of one connection one after the other, as Kafka does."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

from ottla.host.crossing import Crossing
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.protocol.messages.produce import ProduceRequest, ProduceResponse
from ottla.simulation.clients import SimulatedProducer
from ottla.simulation.world import World

TOPIC = "flights"
TAKES_US = 20_000


class Watched:
    """One broker with one partition; what crossed of Produce."""

    def __init__(self, seed: int = 1) -> None:
        self.world = World(seed, brokers=1)
        self.world.create_topic(TOPIC, replication_factor=1)
        self.asked: list[Crossing] = []
        self.answered: list[Crossing] = []
        self.world.trace.listeners.append(self._hear)

    def _hear(self, crossing: Crossing) -> None:
        if type(crossing.message) is ProduceRequest:
            self.asked.append(crossing)
        elif type(crossing.message) is ProduceResponse:
            self.answered.append(crossing)

    def producer(self) -> SimulatedProducer:
        """Known to the broker, so that five requests may be in flight.

        Each record fills a batch, which leaves in a request of its own once the next record has come: a batch that is
        still open waits for the answers.
        """
        producer = self.world.producer(SimulatedProducer, linger_ms=0, batch_size=200)
        producer.send(TOPIC, b"first")
        producer.flush()
        self.asked.clear()
        self.answered.clear()
        return producer

    @property
    def apart_us(self) -> list[int]:
        """How long after the previous answer each answer left."""
        times = [each.at_us for each in self.answered]
        return [later - earlier for earlier, later in pairwise(times)]


def take_time(world: World) -> None:
    world.take_time(0, TAKES_US, TAKES_US)


def have_a_slow_disk(world: World) -> None:
    world.host.slow_down(0, TAKES_US)


def send(producer: SimulatedProducer, count: int) -> None:
    for _ in range(count):
        producer.send(TOPIC, b"x" * 150)
    producer.flush()


@pytest.mark.parametrize("slow", [take_time, have_a_slow_disk])
def test_one_connections_requests_are_handled_one_after_the_other(slow: Callable[[World], None]) -> None:
    seen = Watched()
    producer = seen.producer()
    slow(seen.world)
    send(producer, 6)
    assert [each.number for each in seen.answered] == [each.number for each in seen.asked]
    assert seen.asked[4].at_us < seen.answered[0].at_us, "five were in flight at once"
    assert seen.apart_us[:4] == [TAKES_US] * 4


def test_connections_are_handled_side_by_side() -> None:
    seen = Watched()
    producers = [seen.producer() for _ in range(3)]
    take_time(seen.world)
    for producer in producers:
        producer.send(TOPIC, b"x")
    for producer in producers:
        producer.flush()
    assert len(seen.answered) == 3
    assert all(apart_us < TAKES_US for apart_us in seen.apart_us)


def test_varying_times_stay_in_their_bounds_and_repeat_with_the_same_seed() -> None:
    def apart_us() -> list[int]:
        seen = Watched(7)
        producer = seen.producer()
        seen.world.take_time(0, TAKES_US // 4, TAKES_US)
        send(producer, 20)
        return seen.apart_us

    found = apart_us()
    assert len(set(found)) > 10
    assert all(each >= TAKES_US // 4 for each in found)
    assert apart_us() == found


def test_waiting_requests_are_dropped_with_their_connection() -> None:
    """The request that is being handled was read already, and is stored."""
    seen = Watched()
    producer = seen.producer()
    take_time(seen.world)
    for _ in range(6):
        producer.send(TOPIC, b"x" * 150)
    seen.world.run_until(lambda: len(seen.asked) == 5)
    seen.world.run_until(lambda: False, limit_us=TAKES_US // 2)
    producer.die()
    seen.world.run_until(lambda: False, limit_us=10 * TAKES_US)
    assert len(seen.world.reader().read(TOPIC, 0)) == 2


def test_a_broker_that_is_fast_again_answers_what_waits() -> None:
    seen = Watched()
    producer = seen.producer()
    take_time(seen.world)
    deliveries = [producer.send(TOPIC, b"x" * 150) for _ in range(5)]
    seen.world.run_until(lambda: bool(seen.answered))
    seen.world.take_time(0, 0, 0)
    producer.flush()
    assert [each.result(0).offset for each in deliveries] == [1, 2, 3, 4, 5]
    assert all(apart_us < TAKES_US for apart_us in seen.apart_us)


def test_a_committed_offset_waits_for_a_slow_disk() -> None:
    world = World(1, brokers=1)
    world.create_topic(TOPIC, replication_factor=1)
    admin = world.admin()

    def ask(message: Any) -> Any:
        token = admin.ask(message, 0, 60_000_000)
        world.run_until(admin.is_answered)
        return admin.answers[token].message

    def commit() -> int:
        """How long the offset took until it was committed."""
        committed = OffsetCommitRequestPartition(partition_index=0, committed_offset=0)
        topic = OffsetCommitRequestTopic(name=TOPIC, partitions=[committed])
        begun_us = world.scheduler.now_us
        answer = ask(OffsetCommitRequest(group_id="g", topics=[topic]))
        assert answer.topics[0].partitions[0].error_code == 0
        return world.scheduler.now_us - begun_us

    assert world.run_until(lambda: not ask(FindCoordinatorRequest(key="g")).error_code)
    assert commit() < TAKES_US
    slow = world.host.slow_down(0, TAKES_US)
    assert commit() >= TAKES_US
    assert slow.fired == 1


def test_a_follower_that_gets_no_records_writes_nothing() -> None:
    world = World(1, brokers=3)
    world.create_topic(TOPIC)
    leader = world.controller.core.image.topics[TOPIC].partitions[0].leader  # type: ignore[attr-defined]
    slow = world.host.slow_down((leader + 1) % 3, TAKES_US)
    world.run_until(lambda: False, limit_us=5_000_000)
    assert slow.fired == 0
    producer = world.producer(SimulatedProducer)
    producer.send(TOPIC, b"x")
    producer.flush()
    assert slow.fired == 1
