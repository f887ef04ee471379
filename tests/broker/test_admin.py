"""Partitions are added, and clusters, partitions and log folders described, as Apache Kafka 4.3.1 does it."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.message import ZERO_UUID
from ottla.protocol.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from ottla.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.protocol.messages.describe_cluster import DescribeClusterRequest
from ottla.protocol.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from ottla.protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    RequestCursor,
    TopicRequest,
)
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic

from .world import TOPIC, World, batch_of

INVALID_PARTITIONS, INVALID_ASSIGNMENT = ErrorCode.INVALID_PARTITIONS, ErrorCode.INVALID_REPLICA_ASSIGNMENT


@pytest.fixture
def world() -> World:
    world = World(3)
    assert world.create_topic(partitions=3, replicas=2) == 0
    return world


def growing(name: str, count: int, assigned: list[list[int]] | None = None) -> CreatePartitionsTopic:
    assignments = None if assigned is None else [CreatePartitionsAssignment(broker_ids=each) for each in assigned]
    return CreatePartitionsTopic(name=name, count=count, assignments=assignments)


def grow(world: World, *topics: CreatePartitionsTopic, **more: Any) -> list[Any]:
    return list(world.ask(2, CreatePartitionsRequest(topics=list(topics), **more), version=3).results)


# CreatePartitions.


def test_a_grown_topic_keeps_its_records_and_takes_new_ones_in_every_partition(world: World) -> None:
    assert world.produce(batch_of(b"old"), partition=1).error_code == 0
    (result,) = grow(world, growing(TOPIC, 7))
    assert (result.name, result.error_code, result.error_message) == (TOPIC, 0, None)
    partitions = world.controller.image.topics[TOPIC].partitions
    assert [len(each.replicas) for each in partitions] == [2] * 7
    assert sorted({each.leader for each in partitions[3:]}) == [1, 2, 3]
    for index in range(7):
        assert world.produce(batch_of(b"new"), partition=index).error_code == 0
    assert [record.value for record in world.stored(partition=1)] == [b"old", b"new"]
    assert len(world.stored(partition=6)) == 1


def test_new_partitions_can_be_assigned_by_hand_and_outlive_a_restart(world: World) -> None:
    (result,) = grow(world, growing(TOPIC, 5, [[3, 1], [2, 3]]))
    assert result.error_code == 0
    world.close()
    partitions = World(3, world.storages).controller.image.topics[TOPIC].partitions
    assert [each.replicas for each in partitions[3:]] == [(3, 1), (2, 3)]


@pytest.mark.parametrize(
    ("asked", "error_code"),
    [
        (growing(TOPIC, 3), INVALID_PARTITIONS),
        (growing(TOPIC, 1), INVALID_PARTITIONS),
        (growing(TOPIC, 0), INVALID_PARTITIONS),
        (growing(TOPIC, -1), INVALID_PARTITIONS),
        (growing(TOPIC, 30_000), INVALID_PARTITIONS),
        (growing("nope", 3), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (growing(TOPIC, 5, [[1, 2]]), INVALID_ASSIGNMENT),
        (growing(TOPIC, 5, []), INVALID_ASSIGNMENT),
        (growing(TOPIC, 4, [[1, 9]]), INVALID_ASSIGNMENT),
        (growing(TOPIC, 4, [[1, 1]]), INVALID_ASSIGNMENT),
        (growing(TOPIC, 4, [[]]), INVALID_ASSIGNMENT),
        (growing(TOPIC, 5, [[1, 2], [1]]), INVALID_ASSIGNMENT),
    ],
)
def test_impossible_growth_is_refused(world: World, asked: CreatePartitionsTopic, error_code: int) -> None:
    before = world.controller.image
    (result,) = grow(world, asked)
    assert (result.name, result.error_code) == (asked.name, error_code)
    assert result.error_message
    assert world.controller.image is before


def test_a_topic_named_twice_does_not_grow(world: World) -> None:
    (result,) = grow(world, growing(TOPIC, 4), growing(TOPIC, 5))
    assert result.error_code == ErrorCode.INVALID_REQUEST


def test_growth_that_is_only_validated_changes_nothing(world: World) -> None:
    before = world.controller.image
    assert grow(world, growing(TOPIC, 9), validate_only=True)[0].error_code == 0
    assert world.controller.image is before


def test_a_controller_that_cannot_write_or_be_reached_grows_nothing(world: World) -> None:
    world.storages[0].failure = 28
    assert grow(world, growing(TOPIC, 9))[0].error_code == ErrorCode.KAFKA_STORAGE_ERROR
    world.without_controller = True
    assert grow(world, growing(TOPIC, 9))[0].error_code == ErrorCode.NOT_CONTROLLER
    assert len(world.controller.image.topics[TOPIC].partitions) == 3


def test_topics_whose_names_differ_in_dots_and_underscores_only_are_refused(world: World) -> None:
    def create(name: str, partitions: int = 1) -> int:
        topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)
        return int(world.ask(1, CreateTopicsRequest(topics=[topic]), version=7).topics[0].error_code)

    assert create("a.b") == 0
    assert create("a_b") == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert create("a.b") == ErrorCode.TOPIC_ALREADY_EXISTS
    assert create("many", 20_000) == ErrorCode.POLICY_VIOLATION


# DescribeCluster.


@pytest.mark.parametrize("version", [0, 1, 2])
def test_any_broker_describes_the_cluster(world: World, version: int) -> None:
    told = world.ask(3, DescribeClusterRequest(), version=version)
    assert (told.error_code, told.cluster_id) == (0, world.controller.image.cluster_id)
    assert [(each.broker_id, each.host, each.port) for each in told.brokers] == [
        (number, "localhost", 9090 + number) for number in (1, 2, 3)
    ]
    assert told.controller_id in (1, 2, 3)
    assert told.cluster_authorized_operations == -(1 << 31)


def test_everybody_may_do_everything_with_the_cluster(world: World) -> None:
    asked = DescribeClusterRequest(include_cluster_authorized_operations=True)
    assert world.ask(1, asked, version=2).cluster_authorized_operations == 8096


def test_there_are_no_endpoints_of_controllers(world: World) -> None:
    for endpoint_type, error_code in ((2, 114), (3, 115)):
        told = world.ask(1, DescribeClusterRequest(endpoint_type=endpoint_type), version=2)
        assert (told.error_code, told.brokers) == (error_code, [])


# DescribeTopicPartitions.


def pages(world: World, *names: str, cursor: tuple[str, int] | None = None, limit: int = 2000) -> Any:
    message = DescribeTopicPartitionsRequest(
        topics=[TopicRequest(name=name) for name in names],
        response_partition_limit=limit,
        cursor=None if cursor is None else RequestCursor(topic_name=cursor[0], partition_index=cursor[1]),
    )
    told = world.ask(1, message, version=0)
    next_page = told.next_cursor and (told.next_cursor.topic_name, told.next_cursor.partition_index)
    return [(t.name, t.error_code, [p.partition_index for p in t.partitions]) for t in told.topics], next_page


def test_topics_are_described_page_by_page(world: World) -> None:
    world.create_topic("a", partitions=1)
    world.create_topic("z", partitions=2)
    everything = [("a", 0, [0]), (TOPIC, 0, [0, 1, 2]), ("z", 0, [0, 1])]
    assert pages(world) == (everything, None)
    assert pages(world, "z", TOPIC, "z") == (everything[1:], None)
    assert pages(world, limit=2) == ([("a", 0, [0]), (TOPIC, 0, [0])], (TOPIC, 1))
    assert pages(world, limit=4, cursor=(TOPIC, 1)) == ([(TOPIC, 0, [1, 2]), ("z", 0, [0, 1])], None)
    assert pages(world, limit=1, cursor=(TOPIC, 2)) == ([(TOPIC, 0, [2])], ("z", 0))
    assert pages(world, limit=0) == ([("a", 0, [0])], (TOPIC, 0))
    assert pages(world, cursor=("b", 7)) == (everything[1:], None)


def test_unknown_topics_and_cursors_are_told_apart(world: World) -> None:
    assert pages(world, "nope", "a b", TOPIC)[0] == [("a b", 17, []), (TOPIC, 0, [0, 1, 2]), ("nope", 3, [])]
    assert pages(world, cursor=(TOPIC, -1))[0] == [(TOPIC, ErrorCode.INVALID_REQUEST, [])]


def test_partitions_are_described_with_leaders_and_replicas(world: World) -> None:
    message = DescribeTopicPartitionsRequest(topics=[TopicRequest(name=TOPIC)])
    (topic,) = world.ask(1, message, version=0).topics
    image = world.controller.image.topics[TOPIC]
    assert (topic.topic_id, topic.is_internal, topic.topic_authorized_operations) == (image.topic_id, False, 3576)
    for told, known in zip(topic.partitions, image.partitions, strict=True):
        assert (told.leader_id, told.leader_epoch) == (known.leader, known.leader_epoch)
        assert (told.replica_nodes, told.isr_nodes) == (list(known.replicas), list(known.isr))


# DescribeLogDirs.


def log_dir(world: World, broker_id: int, *topics: tuple[str, list[int]], everything: bool = False) -> Any:
    asked = None if everything else [DescribableLogDirTopic(topic=name, partitions=each) for name, each in topics]
    told = world.ask(broker_id, DescribeLogDirsRequest(topics=asked), version=4)
    (result,) = told.results
    assert (told.error_code, result.error_code) == (0, 0)
    return result


def test_a_broker_tells_how_large_its_logs_are(world: World) -> None:
    batch = batch_of(b"x" * 5000)
    world.produce(batch, partition=0)
    world.produce(batch, partition=0)
    leader = world.leader()
    for broker_id in world.controller.image.topics[TOPIC].partitions[0].replicas:
        result = log_dir(world, broker_id, (TOPIC, [0]))
        (topic,) = result.topics
        ((index, size, lag, moving),) = [
            (p.partition_index, p.partition_size, p.offset_lag, p.is_future_key) for p in topic.partitions
        ]
        assert (topic.name, index, size, lag, moving) == (TOPIC, 0, 2 * len(batch), 0, False)
        assert 0 < result.usable_bytes < result.total_bytes
    everything = log_dir(world, leader, everything=True)
    assert [topic.name for topic in everything.topics] == [TOPIC]
    assert len(everything.topics[0].partitions) == len(world.brokers[leader].topics[TOPIC])


def test_logs_a_broker_does_not_hold_are_left_out(world: World) -> None:
    assert log_dir(world, 1, ("nope", [0]), (TOPIC, [99])).topics == []
    assert log_dir(world, 1).topics == []


# Topics made by being asked for.


def ask_for(world: World, *names: str, allowed: bool = True) -> list[Any]:
    topics = [MetadataRequestTopic(name=name) for name in names]
    return list(world.ask(1, MetadataRequest(topics=topics, allow_auto_topic_creation=allowed), version=12).topics)


def test_topics_are_made_on_demand_where_broker_and_client_allow_it() -> None:
    world = World(3, auto_create_topics_enable=True, num_partitions=2)
    assert [topic.error_code for topic in ask_for(world, "new", allowed=False)] == [3]
    made, internal, wrong = ask_for(world, "new", "__consumer_offsets", "a b")
    assert (made.error_code, [len(p.replica_nodes) for p in made.partitions]) == (0, [3, 3])
    assert (internal.error_code, internal.is_internal) == (3, True)
    assert (wrong.error_code, wrong.topic_id) == (17, ZERO_UUID)
    assert world.produce(batch_of(b"x"), topic="new").error_code == 0


def test_topics_are_not_made_on_demand_by_default(world: World) -> None:
    assert [topic.error_code for topic in ask_for(world, "new")] == [3]
    assert list(world.controller.image.topics) == [TOPIC]
