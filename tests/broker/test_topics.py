"""Topics come and go through any broker, and Metadata tells the same everywhere."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.message import ZERO_UUID
from ottla.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from ottla.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic

from .world import TOPIC, World, batch_of


def create(world: World, *topics: CreatableTopic, broker_id: int = 1, **more: Any) -> list[Any]:
    response = world.ask(broker_id, CreateTopicsRequest(topics=list(topics), **more), version=7)
    return list(response.topics)


def topic(name: str = "weather", partitions: int = 1, factor: int = 1, **more: Any) -> CreatableTopic:
    return CreatableTopic(name=name, num_partitions=partitions, replication_factor=factor, **more)


def metadata(world: World, *names: str, broker_id: int = 1, version: int = 12) -> Any:
    topics = [MetadataRequestTopic(name=name) for name in names] or None
    return world.ask(broker_id, MetadataRequest(topics=topics), version=version)


def test_a_created_topic_is_known_to_every_broker_and_led_in_turn() -> None:
    world = World(3)
    (result,) = create(world, topic(partitions=6, factor=3), broker_id=2)
    assert (result.error_code, result.num_partitions, result.replication_factor) == (0, 6, 3)
    for broker_id in (1, 2, 3):
        response = metadata(world, "weather", broker_id=broker_id)
        assert [(b.node_id, b.host, b.port) for b in response.brokers] == [
            (n, "localhost", 9090 + n) for n in (1, 2, 3)
        ]
        (found,) = response.topics
        assert (found.error_code, found.topic_id) == (0, result.topic_id)
        leaders = [p.leader_id for p in found.partitions]
        assert leaders == [leaders[0], leaders[0] % 3 + 1, (leaders[0] + 1) % 3 + 1] * 2
        for partition in found.partitions:
            assert sorted(partition.replica_nodes) == [1, 2, 3]
            assert partition.replica_nodes[0] == partition.leader_id
            assert partition.isr_nodes == partition.replica_nodes
            assert (partition.leader_epoch, partition.offline_replicas) == (0, [])


def test_topics_of_one_partition_are_spread_over_the_brokers() -> None:
    world = World(3)
    for name in ("a", "b", "c"):
        create(world, topic(name))
    assert sorted(world.leader(name) for name in ("a", "b", "c")) == [1, 2, 3]


def test_the_image_is_out_before_the_answer(world: World) -> None:
    world.order.clear()
    create(world, topic())
    assert world.order == ["ImagePublished", "ControllerResponse"]


def test_defaults_are_the_brokers() -> None:
    (result,) = create(World(1, num_partitions=4), topic(partitions=-1, factor=-1))
    assert (result.num_partitions, result.replication_factor) == (4, 1)
    (result,) = create(World(4), topic(partitions=-1, factor=-1))
    assert (result.num_partitions, result.replication_factor) == (1, 3)
    (result,) = create(World(4, default_replication_factor=2), topic(partitions=-1, factor=-1))
    assert result.replication_factor == 2


@pytest.mark.parametrize(
    ("asked", "error_code"),
    [
        (topic(TOPIC), ErrorCode.TOPIC_ALREADY_EXISTS),
        (topic("a/b"), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (topic(""), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (topic(".."), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (topic("ä"), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (topic("x" * 250), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (topic(partitions=0), ErrorCode.INVALID_PARTITIONS),
        (topic(partitions=-2), ErrorCode.INVALID_PARTITIONS),
        (topic(partitions=2_000_000_000), ErrorCode.POLICY_VIOLATION),
        (topic(factor=0), ErrorCode.INVALID_REPLICATION_FACTOR),
        (topic(factor=2), ErrorCode.INVALID_REPLICATION_FACTOR),
        (topic(configs=[CreatableTopicConfig(name="retention.ms", value="-2")]), ErrorCode.INVALID_CONFIG),
        (topic(configs=[CreatableTopicConfig(name="cleanup.policy", value="shrink")]), ErrorCode.INVALID_CONFIG),
        (topic(configs=[CreatableTopicConfig(name="segment.bytes", value="12")]), ErrorCode.INVALID_CONFIG),
        (topic(configs=[CreatableTopicConfig(name="segment.bytes", value="1e6")]), ErrorCode.INVALID_CONFIG),
        (topic(configs=[CreatableTopicConfig(name="segment.bytes", value=None)]), ErrorCode.INVALID_CONFIG),
        (topic(configs=[CreatableTopicConfig(name="colour", value="red")]), ErrorCode.INVALID_CONFIG),
    ],
)
def test_what_cannot_be_created_is_told_with_a_sentence(world: World, asked: CreatableTopic, error_code: int) -> None:
    bad, good = create(world, asked, topic("fine"))
    assert bad.error_code == error_code
    assert bad.error_message
    assert good.error_code == 0
    assert list(world.controller.image.topics) == [TOPIC, "fine"]


def test_the_same_name_twice_in_a_request_is_refused(world: World) -> None:
    results = create(world, topic("a"), topic("a"), topic("b"))
    assert [r.error_code for r in results] == [ErrorCode.INVALID_REQUEST, ErrorCode.INVALID_REQUEST, 0]


def test_the_longest_name_works(world: World) -> None:
    name = "x" * 249
    assert create(world, topic(name))[0].error_code == 0
    assert world.produce(batch_of(b"a"), topic=name).base_offset == 0


def test_validate_only_creates_nothing(world: World) -> None:
    results = create(world, topic("a"), topic(TOPIC), validate_only=True)
    assert [r.error_code for r in results] == [0, ErrorCode.TOPIC_ALREADY_EXISTS]
    assert list(world.controller.image.topics) == [TOPIC]


def assigned(*replicas: list[int], **more: Any) -> CreatableTopic:
    assignments = [CreatableReplicaAssignment(partition_index=i, broker_ids=ids) for i, ids in enumerate(replicas)]
    return topic("hand", -1, -1, assignments=assignments, **more)


def test_replicas_can_be_assigned_by_hand() -> None:
    world = World(3)
    assert create(world, assigned([2, 3], [3, 1]))[0].error_code == 0
    image = world.controller.image.topics["hand"]
    assert [(p.leader, p.replicas) for p in image.partitions] == [(2, (2, 3)), (3, (3, 1))]


@pytest.mark.parametrize(
    "asked", [assigned([]), assigned([1, 1]), assigned([9]), assigned([1], [1, 2]), assigned([1], [2])]
)
def test_impossible_assignments_are_refused(asked: CreatableTopic) -> None:
    if [a.broker_ids for a in asked.assignments] == [[1], [2]]:
        asked.assignments[1].partition_index = 5
    assert create(World(3), asked)[0].error_code == ErrorCode.INVALID_REPLICA_ASSIGNMENT


def test_assignments_and_counts_exclude_each_other() -> None:
    asked = assigned([1])
    asked.num_partitions = 1
    assert create(World(1), asked)[0].error_code == ErrorCode.INVALID_REQUEST


def test_supported_settings_are_kept_and_told(world: World) -> None:
    configs = [
        CreatableTopicConfig(name="segment.bytes", value="2048"),
        CreatableTopicConfig(name="cleanup.policy", value="delete"),
    ]
    (result,) = create(world, topic(configs=configs))
    told = {config.name: (config.value, config.config_source) for config in result.configs}
    assert [name for name, (_, source) in told.items() if source == 1] == ["cleanup.policy", "segment.bytes"]
    assert (told["segment.bytes"], told["cleanup.policy"]) == (("2048", 1), ("delete", 1))
    assert told["retention.ms"] == ("604800000", 5)


def test_a_deleted_topic_is_gone_everywhere_with_its_files() -> None:
    world = World(3)
    create(world, topic(TOPIC, 3, 3))
    world.produce(batch_of(b"a"))
    (result,) = world.ask(3, DeleteTopicsRequest(topic_names=[TOPIC])).responses
    assert (result.error_code, result.name) == (0, TOPIC)
    for broker_id in (1, 2, 3):
        assert metadata(world, TOPIC, broker_id=broker_id).topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert not [path for path in world.storages[broker_id].contents if path.startswith(TOPIC)]
    create(world, topic(TOPIC, 1, 3))
    assert world.produce(batch_of(b"b")).base_offset == 0


def test_deleting_answers_whoever_waits_for_replication(replicated: World) -> None:
    from .world import produce_request

    leader = replicated.leader()
    replicated.unreachable = {1, 2, 3} - {leader}
    connection = replicated.send(leader, produce_request({(TOPIC, 0): batch_of(b"a")}))
    replicated.ask(leader, DeleteTopicsRequest(topic_names=[TOPIC]))
    answer = replicated.answers[connection][0].responses[0].partition_responses[0]
    assert answer.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_topics_can_be_deleted_by_id(world: World) -> None:
    topic_id = world.controller.image.topics[TOPIC].topic_id
    states = [
        DeleteTopicState(name=None, topic_id=topic_id),
        DeleteTopicState(name=None, topic_id=b"\x01" * 16),
        DeleteTopicState(name="missing", topic_id=ZERO_UUID),
    ]
    results = world.ask(1, DeleteTopicsRequest(topics=states), version=6).responses
    assert [r.error_code for r in results] == [0, ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert results[0].name == TOPIC


def test_without_a_controller_topics_are_to_be_asked_for_again(world: World) -> None:
    world.without_controller = True
    assert create(world, topic())[0].error_code == ErrorCode.NOT_CONTROLLER
    deleted = world.ask(1, DeleteTopicsRequest(topic_names=[TOPIC])).responses[0]
    assert deleted.error_code == ErrorCode.NOT_CONTROLLER
    assert world.produce(batch_of(b"a")).error_code == 0


def test_metadata_of_all_topics_and_of_none(world: World) -> None:
    create(world, topic("weather"))
    assert [t.name for t in metadata(world).topics] == [TOPIC, "weather"]
    assert world.ask(1, MetadataRequest(topics=[]), version=12).topics == []
    assert [t.name for t in world.ask(1, MetadataRequest(topics=[]), version=0).topics] == [TOPIC, "weather"]
    assert metadata(world).controller_id == 1
    assert len(metadata(world).cluster_id) == 22


def test_metadata_of_topics_that_are_not_there(world: World) -> None:
    missing, illegal = metadata(world, "missing", "a b").topics
    assert (missing.name, missing.error_code) == ("missing", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    assert illegal.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert "missing" not in world.controller.image.topics


def test_metadata_by_topic_id(world: World) -> None:
    topic_id = world.controller.image.topics[TOPIC].topic_id
    asked = [
        MetadataRequestTopic(name=None, topic_id=topic_id),
        MetadataRequestTopic(name=None, topic_id=b"\x01" * 16),
    ]
    for version, no_name in ((12, None), (10, "")):
        found, unknown = world.ask(1, MetadataRequest(topics=asked), version=version).topics
        assert (found.name, found.error_code) == (TOPIC, 0)
        assert (unknown.name, unknown.error_code) == (no_name, ErrorCode.UNKNOWN_TOPIC_ID)


def test_a_given_cluster_id_is_told() -> None:
    import random

    from ottla.broker.controller.core import ControllerCore
    from ottla.broker.events import BrokerAddress
    from ottla.broker.settings import BrokerSettings

    from .world import MemoryStorage

    addresses = [BrokerAddress(1, "localhost", 9092)]
    core = ControllerCore(addresses, MemoryStorage(), BrokerSettings(), random.Random(1), cluster_id="mine")
    assert core.image.cluster_id == "mine"
