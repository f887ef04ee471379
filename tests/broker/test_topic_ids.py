"""Produce and Fetch by topic id (KIP-516): the same as by name, and an id no topic has is told as such."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.delete_topics import DeleteTopicsRequest

from .world import TOPIC, World, batch_of, fetch_request, produce_request, records_of

STRANGE_ID = bytes(range(16))
FETCH_VERSIONS = (13, 15, 16, 17, 18)


@pytest.fixture
def world() -> World:
    world = World(3)
    assert world.create_topic("weather") == world.create_topic(partitions=2, replicas=3) == 0
    return world


def id_of(world: World, topic: str = TOPIC) -> bytes:
    return world.controller.image.topics[topic].topic_id


def produce(world: World, topic_id: bytes, *values: bytes, broker_id: int | None = None) -> Any:
    message = produce_request({("", 0): batch_of(*values)})
    message.topic_data[0].topic_id = topic_id
    (topic,) = world.ask(broker_id or world.leader(), message, version=13).responses
    assert topic.topic_id == topic_id
    return topic.partition_responses[0]


def fetch(world: World, topic_id: bytes, *, broker_id: int | None = None, version: int = 18) -> Any:
    message = fetch_request(topic="", max_wait_ms=0)
    message.topics[0].topic_id = topic_id
    answer = world.ask(broker_id or world.leader(), message, version=version)
    assert answer.responses[0].topic_id == topic_id
    return answer


@pytest.mark.parametrize("version", FETCH_VERSIONS)
def test_records_produced_by_id_are_fetched_by_id_and_by_name(world: World, version: int) -> None:
    assert produce(world, id_of(world), b"a", b"b").base_offset == 0
    (partition,) = fetch(world, id_of(world), version=version).responses[0].partitions
    assert [record.value for record in records_of(partition)] == [b"a", b"b"]
    assert [record.value for record in records_of(world.fetch())] == [b"a", b"b"]


@pytest.mark.parametrize("version", FETCH_VERSIONS)
def test_an_id_no_topic_has_is_told_partition_by_partition(world: World, version: int) -> None:
    assert produce(world, STRANGE_ID, b"a").error_code == ErrorCode.UNKNOWN_TOPIC_ID
    (partition,) = fetch(world, STRANGE_ID, version=version).responses[0].partitions
    assert partition.error_code == ErrorCode.UNKNOWN_TOPIC_ID


def test_one_unknown_id_does_not_hinder_other_topics_of_the_request(world: World) -> None:
    message = produce_request({(TOPIC, 0): batch_of(b"a"), ("nope", 0): batch_of(b"b")})
    message.topic_data[0].topic_id, message.topic_data[1].topic_id = id_of(world), STRANGE_ID
    responses = world.ask(world.leader(), message, version=13).responses
    assert [(each.topic_id, each.partition_responses[0].error_code) for each in responses] == [
        (id_of(world), 0),
        (STRANGE_ID, ErrorCode.UNKNOWN_TOPIC_ID),
    ]


def test_a_topic_made_again_has_another_id(world: World) -> None:
    old = id_of(world)
    produce(world, old, b"a")
    world.ask(1, DeleteTopicsRequest(topic_names=[TOPIC]))
    world.create_topic(replicas=3)
    assert produce(world, old, b"a").error_code == ErrorCode.UNKNOWN_TOPIC_ID
    assert fetch(world, old).responses[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID
    assert produce(world, id_of(world), b"b").base_offset == 0


def test_who_asks_the_wrong_broker_by_id_is_told_the_leader_and_where_it_is(world: World) -> None:
    leader = world.leader()
    other = leader % 3 + 1
    told = produce(world, id_of(world), b"a", broker_id=other)
    assert (told.error_code, told.current_leader.leader_id) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, leader)
    answer = fetch(world, id_of(world), broker_id=other)
    (partition,) = answer.responses[0].partitions
    assert (partition.error_code, partition.current_leader.leader_id) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, leader)
    assert [(each.node_id, each.host, each.port) for each in answer.node_endpoints] == [
        (leader, "localhost", 9090 + leader)
    ]
    assert fetch(world, id_of(world), broker_id=other, version=15).node_endpoints == []


def test_faults_that_name_a_topic_apply_to_requests_by_id(world: World) -> None:
    from ottla.faults.fault import make_fault

    world.faults.add(make_fault("refuse", topic=TOPIC, error=6, times=1))
    assert produce(world, id_of(world, "weather"), b"x", broker_id=world.leader("weather")).error_code == 0
    assert produce(world, id_of(world), b"a").error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert produce(world, id_of(world), b"a").error_code == 0
