"""What admin tools ask about things that there are none of here, or one: quorum, features."""

from __future__ import annotations

import pytest

from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.describe_quorum import DescribeQuorumRequest, RequestPartitionData, RequestTopicData
from ottla.protocol.messages.list_config_resources import ListConfigResourcesRequest
from ottla.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest

from .world import TOPIC, World


@pytest.fixture
def world() -> World:
    world = World(3)
    assert world.create_topic() == 0
    return world


@pytest.mark.parametrize("version", [0, 1, 2])
def test_the_one_controller_is_the_quorum(world: World, version: int) -> None:
    asked = RequestTopicData(
        topic_name="__cluster_metadata", partitions=[RequestPartitionData(), RequestPartitionData(partition_index=1)]
    )
    told = world.ask(2, DescribeQuorumRequest(topics=[asked]), version=version)
    image = world.controller.image
    first, second = told.topics[0].partitions
    assert (told.error_code, first.error_code, first.leader_id) == (0, 0, image.controller_id)
    assert [voter.replica_id for voter in first.current_voters] == [image.controller_id]
    assert first.high_watermark == first.current_voters[0].log_end_offset == image.version
    assert first.observers == []
    assert second.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if version == 2:
        assert [(node.node_id, node.listeners[0].port) for node in told.nodes] == [
            (image.controller_id, 9090 + image.controller_id)
        ]


def listed(world: World, *types: int, version: int = 1) -> list[tuple[int, str]]:
    told = world.ask(1, ListConfigResourcesRequest(resource_types=list(types)), version=version)
    assert told.error_code == 0
    return [(each.resource_type, each.resource_name) for each in told.config_resources]


def test_all_that_has_settings_is_listed_by_type_and_name(world: World) -> None:
    assert world.create_topic("a") == 0
    brokers, loggers = ([(kind, str(number)) for number in (1, 2, 3)] for kind in (4, 8))
    assert listed(world) == [(2, "a"), (2, TOPIC), *brokers, *loggers]
    assert listed(world, 4) == brokers
    assert listed(world, 32, 16) == []


def test_the_first_version_lists_settings_of_client_metrics_which_nobody_has(world: World) -> None:
    assert listed(world, version=0) == []


def test_a_type_of_settings_that_does_not_exist_is_refused(world: World) -> None:
    told = world.ask(1, ListConfigResourcesRequest(resource_types=[2, 3]), version=1)
    assert (told.error_code, told.config_resources) == (ErrorCode.UNSUPPORTED_VERSION, [])


@pytest.mark.parametrize("version", [0, 1, 2])
@pytest.mark.parametrize(
    ("feature", "level", "said"),
    [
        ("transaction.version", 2, None),
        ("transaction.version", 1, "transaction.version is 2, a broker setting: start the cluster with another one"),
        (
            "share.version",
            1,
            "this cluster has no feature 'share.version'; it has group.version and transaction.version",
        ),
    ],
)
def test_levels_of_features_are_broker_settings(
    world: World, feature: str, level: int, said: str | None, version: int
) -> None:
    update = FeatureUpdateKey(feature=feature, max_version_level=level)
    told = world.ask(1, UpdateFeaturesRequest(feature_updates=[update]), version=version)
    answer = told if version == 2 else told.results[0]
    code = 0 if said is None else ErrorCode.INVALID_UPDATE_VERSION
    assert (answer.error_code, answer.error_message) == (code, said)
