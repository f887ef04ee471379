"""What a user without permissions is told, by an Apache Kafka with an authorizer: the embedded cluster has none."""

from __future__ import annotations

import logging
import pickle
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
)
from pyspark.sql.types import StringType, StructField, StructType
from tests.acls import grant_only
from tools.apache_kafka import ApacheKafka, Java

import ottla
from ottla.errors import UserMistake
from ottla.sink import session
from ottla.spark import sink, topic_check
from ottla.spark.options import read_options
from ottla.spark.source import OttlaDataSource
from ottla.spark.stream_reader import OttlaStreamReader

pytestmark = pytest.mark.kafka

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
SETTINGS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
    "sasl.enabled.mechanisms": "PLAIN",
    "listener.name.users.plain.sasl.jaas.config": f'{PLAIN} user_reader="secret";',
}
ROWS = StructType([StructField("value", StringType())])

ON_TOPIC = [(ResourceType.TOPIC, "orders", ResourcePatternType.LITERAL, AclOperation.WRITE)]
ON_TOPICS_OF_THE_SINK = [
    (ResourceType.TOPIC, "__ottla_sink", ResourcePatternType.PREFIXED, operation)
    for operation in (AclOperation.CREATE, AclOperation.READ, AclOperation.WRITE)
]
ON_DECISIONS_ALONE = [
    (ResourceType.TOPIC, "__ottla_sink", ResourcePatternType.LITERAL, AclOperation.WRITE),
    (ResourceType.TOPIC, "__ottla_sink", ResourcePatternType.PREFIXED, AclOperation.READ),
]
DESCRIBE_ALONE = [(ResourceType.TOPIC, "orders", ResourcePatternType.LITERAL, AclOperation.DESCRIBE)]
READ_ORDERS = [(ResourceType.TOPIC, "orders", ResourcePatternType.LITERAL, AclOperation.READ)]
ON_THE_CLUSTER = [
    (ResourceType.BROKER, "kafka-cluster", ResourcePatternType.LITERAL, AclOperation.DESCRIBE),
]
ON_TRANSACTIONAL_IDS = [
    (ResourceType.TRANSACTIONAL_ID, "ottla-sink-", ResourcePatternType.PREFIXED, AclOperation.WRITE)
]


@pytest.fixture(scope="module")
def kafka(java: Java) -> Iterator[ApacheKafka]:
    with ApacheKafka(listeners={"USERS": "SASL_PLAINTEXT"}, settings=SETTINGS) as kafka:
        with ottla.Admin(kafka.bootstrap_servers) as admin:
            admin.create_topics("orders", partitions=2, replication_factor=1)
        yield kafka


@pytest.fixture(autouse=True)
def forget(monkeypatch: pytest.MonkeyPatch) -> None:
    """What this process has found out about permissions in the test before."""
    monkeypatch.setattr(topic_check, "_known_topics", set())
    monkeypatch.setattr(session, "_sessions", [])


def grant(kafka: ApacheKafka, *rules: tuple[ResourceType, str, ResourcePatternType, AclOperation]) -> None:
    """These permissions and no others."""
    granted = [
        AclBinding(kind, name, pattern, "User:reader", "*", operation, AclPermissionType.ALLOW)
        for kind, name, pattern, operation in rules
    ]
    grant_only(kafka.bootstrap_servers, granted)


def options(kafka: ApacheKafka, **more: str) -> dict[str, str]:
    return {
        "kafka.bootstrap.servers": kafka.bootstrap_servers_of("USERS"),
        "kafka.security.protocol": "SASL_PLAINTEXT",
        "kafka.sasl.mechanism": "PLAIN",
        "kafka.sasl.jaas.config": f'{PLAIN} username="reader" password="secret";',
    } | {name.replace("__", "."): value for name, value in more.items()}


def plan_source(kafka: ApacheKafka, **what: str) -> Sequence[Any]:
    source = OttlaDataSource(options(kafka, **what))
    return source.reader(source.schema()).partitions()


def plan_write(kafka: ApacheKafka) -> None:
    sink.batch_writer(options(kafka, topic="orders", write__id="w"), ROWS, overwrite=False)


def plan_micro_batch(kafka: ApacheKafka) -> None:
    pickle.dumps(sink.stream_writer(options(kafka, topic="orders", sink__id="s"), ROWS))


@pytest.mark.parametrize("plan", [plan_write, plan_micro_batch])
@pytest.mark.parametrize(
    ("rules", "told"),
    [
        ([], "'orders', which this user may not write to: have it granted Describe and Write on the topic"),
        (DESCRIBE_ALONE, "'orders', which this user may not write to: have it granted Describe and Write on the topic"),
        (ON_TOPIC, r"'__ottla_sink'\)\. Have it granted Create, Read, .* on topics __ottla_sink and __ottla_sink_m"),
        ([*ON_TOPIC, *ON_TOPICS_OF_THE_SINK], "Have it granted Write and Describe on transactional ids that begin"),
    ],
)
def test_what_a_sink_may_not_do_is_said_when_planning(kafka: ApacheKafka, plan, rules, told) -> None:
    grant(kafka, *rules)
    with pytest.raises(UserMistake, match=told):
        plan(kafka)


@pytest.mark.parametrize("plan", [plan_write, plan_micro_batch])
def test_a_sink_that_may_see_its_own_topics_and_not_write_to_them_is_told_when_planning(
    kafka: ApacheKafka, plan
) -> None:
    with ottla.Admin(kafka.bootstrap_servers) as admin:
        known = admin.list_topics()
        admin.create_topics({"__ottla_sink", "__ottla_sink_markers"} - set(known), replication_factor=1)
        for topic in ("__ottla_sink", "__ottla_sink_markers"):
            admin.alter_configs(topic=topic, configs={"cleanup.policy": "compact"})
    grant(kafka, *ON_TOPIC, *ON_DECISIONS_ALONE, *ON_TRANSACTIONAL_IDS)
    with pytest.raises(
        UserMistake, match=r"'__ottla_sink_markers': no WRITE on the topic\)\. Have it granted Create, "
    ):
        plan(kafka)


@pytest.mark.parametrize("rules", [[], DESCRIBE_ALONE])
def test_a_source_that_may_not_read_is_told_when_planning(kafka: ApacheKafka, rules) -> None:
    grant(kafka, *rules)
    with pytest.raises(UserMistake, match="'orders', which this user may not read: have it granted DESCRIBE and READ"):
        plan_source(kafka, subscribe="orders")


def test_a_stream_by_bytes_needs_to_see_the_sizes_of_logs(kafka: ApacheKafka) -> None:
    grant(kafka, *READ_ORDERS)
    given = read_options(options(kafka, subscribe="orders", maxBytesPerTrigger="1m"), streaming=True)
    schema = OttlaDataSource(options(kafka, subscribe="orders")).schema()
    assert isinstance(schema, StructType)
    denied = OttlaStreamReader(given, schema)
    with pytest.raises(UserMistake, match="Have this user granted DESCRIBE on the cluster"):
        denied.initialOffset()
    denied.stop()
    grant(kafka, *READ_ORDERS, *ON_THE_CLUSTER)
    allowed = OttlaStreamReader(given, schema)
    assert allowed.initialOffset() == {"orders": {"0": 0, "1": 0}}
    allowed.stop()


def test_a_pattern_that_finds_topics_which_may_not_be_read_is_told_when_planning(kafka: ApacheKafka) -> None:
    grant(kafka, *DESCRIBE_ALONE)
    with pytest.raises(UserMistake, match="subscribePattern names topic 'orders', which this user may not read"):
        plan_source(kafka, subscribePattern="ord.*")


def test_a_pattern_that_finds_nothing_says_that_it_may_be_for_want_of_rights(
    kafka: ApacheKafka, caplog: pytest.LogCaptureFixture
) -> None:
    grant(kafka)
    with caplog.at_level(logging.WARNING, logger="ottla.spark"):
        assert not plan_source(kafka, subscribePattern="ord.*")
    assert "subscribePattern (ord.*); topics on which this user has no DESCRIBE are not seen" in caplog.text


def test_what_the_page_says_a_sink_needs_is_enough(kafka: ApacheKafka) -> None:
    grant(kafka, *ON_TOPIC, *ON_TOPICS_OF_THE_SINK, *ON_TRANSACTIONAL_IDS)
    plan_write(kafka)
    plan_micro_batch(kafka)
