"""Settings of topics and brokers are told with their sources, and what is changed holds at once and for ever.

The expectations in `APACHE` were taken from Apache Kafka 4.3.1, asked the same.
"""

from __future__ import annotations

from typing import Any

import pytest

from ottla.broker.dynamic_settings import DYNAMIC
from ottla.broker.setting_documentation import documentation_of
from ottla.broker.settings import BROKER_SETTINGS
from ottla.broker.topic_settings import TOPIC_SETTINGS
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages import alter_configs as legacy
from ottla.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from ottla.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)

from .world import TOPIC, World, batch_of

TOPIC_TYPE, BROKER_TYPE, LOGGER_TYPE, METRICS_TYPE, GROUP_TYPE = 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = range(4)
OK, UNKNOWN_TOPIC, INVALID_TOPIC, INVALID_CONFIG, INVALID_REQUEST = 0, 3, 17, 40, 42


@pytest.fixture
def world() -> World:
    world = World(3, log_retention_bytes=5_000_000)
    assert world.create_topic(replicas=3, segment_bytes=2_000_000) == 0
    return world


def described(world: World, kind: int, name: str, *keys: str, broker_id: int = 1, **more: Any) -> Any:
    resource = DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=list(keys) or None)
    message = DescribeConfigsRequest(resources=[resource], include_synonyms=True, **more)
    (result,) = world.ask(broker_id, message, version=4).results
    assert (result.resource_type, result.resource_name) == (kind, name)
    return result


def config(world: World, kind: int, name: str, key: str, broker_id: int = 1) -> Any:
    (found,) = described(world, kind, name, key, broker_id=broker_id).configs
    return found


def alter(
    world: World, kind: int, name: str, *operations: tuple[str, int, str | None], broker_id: int = 1, **more: Any
) -> int:
    configs = [AlterableConfig(name=key, config_operation=what, value=value) for key, what, value in operations]
    resource = AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)
    message = IncrementalAlterConfigsRequest(resources=[resource], **more)
    (result,) = world.ask(broker_id, message, version=1).responses
    assert (result.resource_type, result.resource_name) == (kind, name)
    assert bool(result.error_code) == bool(result.error_message)
    return int(result.error_code)


def test_a_topics_settings_are_told_with_where_they_come_from(world: World) -> None:
    found = {each.name: each for each in described(world, TOPIC_TYPE, TOPIC, broker_id=2).configs}
    assert list(found) == [setting.name for setting in TOPIC_SETTINGS]
    own = found["segment.bytes"]
    assert (own.value, own.config_source, own.config_type, own.read_only) == ("2000000", 1, 3, False)
    assert [(s.name, s.value, s.source) for s in own.synonyms] == [
        ("segment.bytes", "2000000", 1),
        ("log.segment.bytes", "1073741824", 5),
    ]
    static = found["retention.bytes"]
    assert (static.value, static.config_source, static.config_type) == ("5000000", 4, 5)
    assert [(s.name, s.value, s.source) for s in static.synonyms] == [
        ("log.retention.bytes", "5000000", 4),
        ("log.retention.bytes", "-1", 5),
    ]
    assert {each.config_source for each in found.values()} == {1, 4, 5}
    types = {name: found[name].config_type for name in ("preallocate", "compression.type", "cleanup.policy")}
    assert types == {"preallocate": 1, "compression.type": 2, "cleanup.policy": 7}
    assert found["min.cleanable.dirty.ratio"].value == "0.5"


def test_only_settings_asked_for_are_told(world: World) -> None:
    found = described(world, TOPIC_TYPE, TOPIC, "segment.bytes", "no.such.thing")
    assert [each.name for each in found.configs] == ["segment.bytes"]


def test_a_broker_tells_all_its_settings_and_which_can_be_changed(world: World) -> None:
    found = {each.name: each for each in described(world, BROKER_TYPE, "2", broker_id=2).configs}
    assert list(found) == ["broker.id", "node.id", *(setting.name for setting in BROKER_SETTINGS)]
    assert (found["broker.id"].value, found["broker.id"].read_only) == ("2", True)
    assert [name for name, each in found.items() if not each.read_only] == [
        setting.name for setting in BROKER_SETTINGS if setting.name in DYNAMIC
    ]
    assert (found["log.retention.bytes"].value, found["log.retention.bytes"].config_source) == ("5000000", 4)


def test_every_setting_has_a_sentence_of_documentation(world: World) -> None:
    for setting in (*BROKER_SETTINGS, *TOPIC_SETTINGS):
        assert documentation_of(setting.name).endswith("."), setting.name
    told = described(world, TOPIC_TYPE, TOPIC, "segment.bytes", include_documentation=True).configs[0]
    assert told.documentation == documentation_of("log.segment.bytes")
    assert described(world, TOPIC_TYPE, TOPIC, "segment.bytes").configs[0].documentation is None


@pytest.mark.parametrize(
    ("kind", "name", "error_code"),
    [
        (TOPIC_TYPE, "nope", UNKNOWN_TOPIC),
        (TOPIC_TYPE, "", INVALID_TOPIC),
        (TOPIC_TYPE, "a b", INVALID_TOPIC),
        (BROKER_TYPE, "2", INVALID_REQUEST),
        (BROKER_TYPE, "x", INVALID_REQUEST),
        (BROKER_TYPE, "-1", INVALID_REQUEST),
        (LOGGER_TYPE, "", INVALID_REQUEST),
        (LOGGER_TYPE, "2", INVALID_REQUEST),
        (LOGGER_TYPE, "1", OK),
        (METRICS_TYPE, "", INVALID_REQUEST),
        (GROUP_TYPE, "", INVALID_REQUEST),
        (3, "y", INVALID_REQUEST),
    ],
)
def test_what_has_no_settings_here_is_refused_as_by_apache_kafka(
    world: World, kind: int, name: str, error_code: int
) -> None:
    found = described(world, kind, name)
    assert (found.error_code, found.configs) == (error_code, [])


APACHE: list[tuple[int, str, tuple[str, int, str | None], int]] = [
    (TOPIC_TYPE, TOPIC, ("retention.ms", SET, None), INVALID_REQUEST),
    (TOPIC_TYPE, TOPIC, ("retention.ms", SET, "abc"), INVALID_CONFIG),
    (TOPIC_TYPE, TOPIC, ("retention.ms", SET, "-7"), INVALID_CONFIG),
    (TOPIC_TYPE, TOPIC, ("nope", SET, "abc"), INVALID_CONFIG),
    (TOPIC_TYPE, TOPIC, ("nope", DELETE, None), OK),
    (TOPIC_TYPE, TOPIC, ("retention.ms", APPEND, "1"), INVALID_CONFIG),
    (TOPIC_TYPE, TOPIC, ("nope", APPEND, "delete"), INVALID_CONFIG),
    (TOPIC_TYPE, "nope", ("retention.ms", SET, "1000"), UNKNOWN_TOPIC),
    (TOPIC_TYPE, "nope", ("retention.ms", SET, "x"), INVALID_CONFIG),
    (TOPIC_TYPE, "", ("retention.ms", SET, "1000"), INVALID_REQUEST),
    (TOPIC_TYPE, "a b", ("retention.ms", SET, "1000"), INVALID_TOPIC),
    (BROKER_TYPE, "1", ("num.partitions", SET, "3"), INVALID_REQUEST),
    (BROKER_TYPE, "", ("num.partitions", SET, "3"), INVALID_REQUEST),
    (BROKER_TYPE, "1", ("log.retention.ms", SET, "abc"), INVALID_REQUEST),
    (BROKER_TYPE, "2", ("log.retention.ms", SET, "1"), INVALID_REQUEST),
    (BROKER_TYPE, "x", ("log.retention.ms", SET, "1"), INVALID_REQUEST),
    (BROKER_TYPE, "", ("log.retention.ms", APPEND, "1"), INVALID_CONFIG),
    (BROKER_TYPE, "", ("log.retention.ms", 7, "1"), INVALID_REQUEST),
    (LOGGER_TYPE, "1", ("nope", SET, "INFO"), INVALID_CONFIG),
    (3, "m", ("interval.ms", SET, "1"), INVALID_REQUEST),
]


@pytest.mark.parametrize(("kind", "name", "operation", "error_code"), APACHE)
def test_changes_are_judged_as_by_apache_kafka(
    world: World, kind: int, name: str, operation: tuple[str, int, str | None], error_code: int
) -> None:
    before = world.controller.image
    assert alter(world, kind, name, operation) == error_code
    assert world.controller.image is before


def test_resources_and_settings_named_twice_are_refused(world: World) -> None:
    assert alter(world, TOPIC_TYPE, TOPIC, ("retention.ms", SET, "1"), ("retention.ms", SET, "1")) == INVALID_REQUEST
    one = AlterConfigsResource(
        resource_type=TOPIC_TYPE, resource_name=TOPIC, configs=[AlterableConfig(name="retention.ms", value="1")]
    )
    answer = world.ask(1, IncrementalAlterConfigsRequest(resources=[one, one]), version=1)
    assert [each.error_code for each in answer.responses] == [INVALID_REQUEST, INVALID_REQUEST]
    assert config(world, TOPIC_TYPE, TOPIC, "retention.ms").config_source == 5


def test_one_resource_that_is_refused_does_not_hinder_another(world: World) -> None:
    world.create_topic("weather")
    wanted = [(TOPIC_TYPE, "weather", "1000"), (BROKER_TYPE, "9", "1"), (TOPIC_TYPE, TOPIC, "many")]
    resources = [
        AlterConfigsResource(
            resource_type=kind, resource_name=name, configs=[AlterableConfig(name="retention.ms", value=value)]
        )
        for kind, name, value in wanted
    ]
    answer = world.ask(1, IncrementalAlterConfigsRequest(resources=resources), version=1)
    codes = [(each.resource_name, each.error_code) for each in answer.responses]
    assert codes == [("weather", 0), ("9", INVALID_REQUEST), (TOPIC, INVALID_CONFIG)]
    assert config(world, TOPIC_TYPE, "weather", "retention.ms").value == "1000"


def test_lists_are_appended_to_and_subtracted_from(world: World) -> None:
    def policy_after(operation: int, value: str) -> tuple[str, int]:
        assert alter(world, TOPIC_TYPE, TOPIC, ("cleanup.policy", operation, value)) == 0
        found = config(world, TOPIC_TYPE, TOPIC, "cleanup.policy")
        return found.value, found.config_source

    assert policy_after(APPEND, "compact") == ("delete,compact", 1)
    assert policy_after(APPEND, "compact") == ("delete,compact", 1)
    assert policy_after(SUBTRACT, "delete") == ("compact", 1)
    assert policy_after(SUBTRACT, "compact") == ("", 1)
    assert policy_after(DELETE, "") == ("delete", 5)


def test_validate_only_changes_nothing(world: World) -> None:
    before = world.controller.image
    assert alter(world, TOPIC_TYPE, TOPIC, ("retention.ms", SET, "5000"), validate_only=True) == 0
    assert alter(world, TOPIC_TYPE, TOPIC, ("retention.ms", SET, "many"), validate_only=True) == INVALID_CONFIG
    assert world.controller.image is before


def test_a_changed_topic_setting_holds_for_the_next_request(world: World) -> None:
    batch = batch_of(b"x" * 2000)
    assert world.produce(batch).error_code == 0
    assert alter(world, TOPIC_TYPE, TOPIC, ("max.message.bytes", SET, "1000"), broker_id=3) == 0
    assert world.produce(batch).error_code == ErrorCode.MESSAGE_TOO_LARGE
    assert alter(world, TOPIC_TYPE, TOPIC, ("max.message.bytes", DELETE, None)) == 0
    assert world.produce(batch).error_code == 0
    assert len(world.stored(broker_id=world.leader() % 3 + 1)) == 2


def test_a_setting_changed_for_all_brokers_holds_for_topics_that_say_nothing(world: World) -> None:
    world.create_topic("strict", max_message_bytes=9000)
    assert alter(world, BROKER_TYPE, "", ("message.max.bytes", SET, "1000"), broker_id=2) == 0
    batch = batch_of(b"x" * 2000)
    assert world.produce(batch).error_code == ErrorCode.MESSAGE_TOO_LARGE
    assert world.produce(batch, topic="strict").error_code == 0
    found = config(world, TOPIC_TYPE, TOPIC, "max.message.bytes", broker_id=3)
    assert (found.value, found.config_source) == ("1000", 3)
    assert [(s.name, s.value, s.source) for s in found.synonyms] == [
        ("message.max.bytes", "1000", 3),
        ("message.max.bytes", "1048588", 5),
    ]
    changed = described(world, BROKER_TYPE, "").configs
    assert [(each.name, each.value, each.config_source) for each in changed] == [("message.max.bytes", "1000", 3)]


def test_a_brokers_own_setting_comes_before_that_of_all_brokers(world: World) -> None:
    leader = world.leader()
    assert alter(world, BROKER_TYPE, "", ("message.max.bytes", SET, "1000")) == 0
    assert alter(world, BROKER_TYPE, str(leader), ("message.max.bytes", SET, "7000"), broker_id=leader) == 0
    assert world.produce(batch_of(b"x" * 2000)).error_code == 0
    own = config(world, BROKER_TYPE, str(leader), "message.max.bytes", broker_id=leader)
    assert [(s.value, s.source) for s in own.synonyms] == [("7000", 2), ("1000", 3), ("1048588", 5)]
    other = leader % 3 + 1
    found = config(world, BROKER_TYPE, str(other), "message.max.bytes", broker_id=other)
    assert (found.value, found.config_source) == ("1000", 3)
    assert alter(world, BROKER_TYPE, str(leader), ("message.max.bytes", DELETE, None), broker_id=leader) == 0
    assert world.produce(batch_of(b"x" * 2000)).error_code == ErrorCode.MESSAGE_TOO_LARGE


def test_changed_settings_outlive_a_restart(world: World) -> None:
    alter(world, TOPIC_TYPE, TOPIC, ("retention.ms", SET, "77000"))
    alter(world, BROKER_TYPE, "", ("message.max.bytes", SET, "1000"))
    world.close()
    world = World(3, world.storages)
    assert config(world, TOPIC_TYPE, TOPIC, "retention.ms").value == "77000"
    assert world.produce(batch_of(b"x" * 2000)).error_code == ErrorCode.MESSAGE_TOO_LARGE


def test_a_full_disk_of_the_controller_changes_nothing(world: World) -> None:
    before = world.controller.image
    world.storages[0].failure = 28
    assert alter(world, TOPIC_TYPE, TOPIC, ("retention.ms", SET, "77000")) == ErrorCode.KAFKA_STORAGE_ERROR
    assert world.controller.image is before


def test_without_a_controller_clients_are_told_to_ask_again(world: World) -> None:
    world.without_controller = True
    assert alter(world, TOPIC_TYPE, TOPIC, ("retention.ms", SET, "77000")) == ErrorCode.NOT_CONTROLLER


def test_a_changed_setting_leaves_leaders_followers_and_waiting_acks_alone(world: World) -> None:
    leader = world.leader()
    epoch = world.brokers[leader].topics[TOPIC][0].leader_epoch
    world.unreachable = {1, 2, 3} - {leader}
    world.drain()
    waiting = world.produce(batch_of(b"x"))
    assert waiting == "waiting"
    connection = world.last_connection
    assert alter(world, TOPIC_TYPE, TOPIC, ("retention.ms", SET, "77000"), broker_id=leader) == 0
    assert world.brokers[leader].topics[TOPIC][0].leader_epoch == epoch
    world.unreachable = set()
    world.pass_time(1000)
    assert world.answers[connection][0].responses[0].partition_responses[0].error_code == 0


def test_alter_configs_replaces_all_settings_of_a_topic(world: World) -> None:
    def replace(kind: int, name: str, *given: tuple[str, str | None]) -> int:
        configs = [legacy.AlterableConfig(name=key, value=value) for key, value in given]
        resource = legacy.AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)
        (result,) = world.ask(1, legacy.AlterConfigsRequest(resources=[resource]), version=2).responses
        return int(result.error_code)

    assert replace(TOPIC_TYPE, TOPIC, ("retention.ms", "1000")) == 0
    assert config(world, TOPIC_TYPE, TOPIC, "retention.ms").value == "1000"
    assert config(world, TOPIC_TYPE, TOPIC, "segment.bytes").config_source == 5
    assert replace(TOPIC_TYPE, TOPIC, ("retention.ms", None)) == INVALID_REQUEST
    assert replace(TOPIC_TYPE, TOPIC, ("retention.ms", "x")) == INVALID_CONFIG
    assert replace(BROKER_TYPE, "1", ("num.partitions", "3")) == INVALID_REQUEST
    assert replace(LOGGER_TYPE, "1", ("num.partitions", "3")) == INVALID_REQUEST
    assert replace(BROKER_TYPE, "1", ("log.cleanup.policy", "compact")) == 0
    assert config(world, BROKER_TYPE, "1", "log.cleanup.policy").config_source == 2
