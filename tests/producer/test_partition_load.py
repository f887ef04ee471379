"""Which partitions the core has records without a key go to: those with a leader, by their queues (KIP-794)."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.errors import ConfigError
from ottla.producer.settings import ProducerSettings
from ottla.records.partitions import PartitionLoad


def last_load(world: Any) -> PartitionLoad | None:
    return world.loads[-1].load if world.loads else None


def test_nothing_is_told_while_all_partitions_are_alike(make_world: Any) -> None:
    world = make_world(partitions=3)
    world.want("flights")
    for partition in range(3):
        world.send("x", partition=partition)
        world.pass_ms(5)
    world.store_all()
    world.pass_ms(5)
    assert world.loads == []


def test_shares_fall_with_the_queue(make_world: Any) -> None:
    world = make_world(partitions=3, max_in_flight_requests_per_connection=1)
    world.want("flights")
    world.send("first")  # in flight: what follows has to wait
    world.pass_ms(5)
    for partition, count in ((1, 3), (2, 1)):
        world.send_each(*"abc"[:count], partition=partition)
    world.pass_ms(5)
    assert last_load(world) == PartitionLoad((0, 1, 2), (4, 5, 8))
    world.store_all()
    while world.produces:
        world.store_all()
    world.pass_ms(5)
    assert last_load(world) is None


def test_queues_do_not_count_where_adaptive_partitioning_is_off(make_world: Any) -> None:
    world = make_world(
        partitions=3, max_in_flight_requests_per_connection=1, partitioner_adaptive_partitioning_enable=False
    )
    world.want("flights")
    world.send("first")
    world.send_each("a", "b", "c", partition=1)
    world.pass_ms(5)
    assert world.loads == []


def test_a_partition_without_a_leader_gets_nothing_until_it_has_one(make_world: Any) -> None:
    world = make_world(topics={"flights": [1, -1, 1]}, metadata_max_age_ms=1000)
    world.want("flights")
    world.pass_ms(5)
    assert last_load(world) == PartitionLoad((0, 2), (1, 2))
    world.move_leader("flights", 1, 1)
    world.pass_ms(1000)
    assert last_load(world) is None


def test_a_topic_that_was_forgotten_is_told_of_anew(make_world: Any) -> None:
    world = make_world(topics={"flights": [1, -1, 1]}, metadata_max_age_ms=1000, metadata_max_idle_ms=5000)
    world.want("flights")
    world.pass_ms(5)
    for _ in range(8):
        world.pass_ms(1000)
    assert world.topics_forgotten == ["flights"]
    assert len(world.loads) == 1
    world.want("flights")
    world.pass_ms(5)
    assert [told.load for told in world.loads] == [PartitionLoad((0, 2), (1, 2))] * 2


def test_all_partitions_are_alike_where_none_has_a_leader(make_world: Any) -> None:
    world = make_world(topics={"flights": [-1, -1]})
    world.want("flights")
    world.pass_ms(5)
    assert world.loads == []


def test_a_broker_that_takes_nothing_is_left_out_after_the_timeout_and_taken_in_again(make_world: Any) -> None:
    world = make_world(
        partitions=4, brokers=2, max_in_flight_requests_per_connection=1, partitioner_availability_timeout_ms=500
    )
    world.want("flights")
    world.send("in flight", partition=0)  # broker 1 leads 0 and 2
    world.send("waits", partition=0)
    world.pass_ms(5)
    world.pass_ms(400)
    assert last_load(world) == PartitionLoad((0, 1, 2, 3), (1, 3, 5, 7))
    world.pass_ms(200)
    # Partition 2 has nothing waiting, but its leader takes nothing either.
    assert last_load(world) == PartitionLoad((1, 3), (1, 2))
    while world.produces:
        world.store_all()
    world.pass_ms(5)
    assert last_load(world) is None


def test_brokers_that_are_all_stuck_count_as_available(make_world: Any) -> None:
    world = make_world(partitions=2, max_in_flight_requests_per_connection=1, partitioner_availability_timeout_ms=500)
    world.want("flights")
    world.send("in flight")
    world.send("waits")
    world.pass_ms(5)
    world.pass_ms(1000)
    assert last_load(world) == PartitionLoad((0, 1), (1, 3))


def test_queues_are_looked_at_a_hundredth_of_the_time_at_most(make_world: Any) -> None:
    world = make_world(partitions=3, max_in_flight_requests_per_connection=1)
    world.want("flights")
    world.send("first")
    world.pass_ms(5)
    for _ in range(20):
        world.send("more", partition=1)
    assert len(world.loads) <= 1
    world.pass_ms(5)
    assert last_load(world) == PartitionLoad((0, 1, 2), (21, 22, 43))


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ("org.apache.kafka.clients.producer.RoundRobinPartitioner", "round_robin"),
        ("org.apache.kafka.clients.producer.UniformStickyPartitioner", "uniform_sticky"),
        ("org.apache.kafka.clients.producer.internals.DefaultPartitioner", "default"),
        ("murmur2_random", "default"),
        ("consistent_random", "consistent_random"),
    ],
)
def test_partitioners_go_by_javas_names_and_short_ones(given: str, name: str) -> None:
    assert ProducerSettings({"bootstrap.servers": "b:1", "partitioner.class": given}).partitioner_class == name


@pytest.mark.parametrize(
    ("given", "words"),
    [("round-robin", "Did you mean round_robin"), (5, "partitioner.class=5"), ("com.example.Mine", "allowed are")],
)
def test_a_partitioner_nobody_knows_is_refused(given: object, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        ProducerSettings({"bootstrap.servers": "b:1", "partitioner.class": given})
