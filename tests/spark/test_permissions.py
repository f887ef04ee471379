"""What a user without permissions is told, by an Apache Kafka with an authorizer: the embedded cluster has none."""

from __future__ import annotations

import pickle
from collections.abc import Iterator

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)
from pyspark.sql.types import StringType, StructField, StructType
from tools.apache_kafka import ApacheKafka, Java

import ottla
from ottla.errors import UserMistake
from ottla.spark import sink
from ottla.spark.source import OttlaDataSource

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
ON_TRANSACTIONAL_IDS = [
    (ResourceType.TRANSACTIONAL_ID, "ottla-sink-", ResourcePatternType.PREFIXED, AclOperation.WRITE)
]


@pytest.fixture(scope="module")
def kafka(java: Java) -> Iterator[ApacheKafka]:
    with ApacheKafka(listeners={"USERS": "SASL_PLAINTEXT"}, settings=SETTINGS) as kafka:
        with ottla.Admin(kafka.bootstrap_servers) as admin:
            admin.create_topics("orders", partitions=2, replication_factor=1)
        yield kafka


def grant(kafka: ApacheKafka, *rules: tuple[ResourceType, str, ResourcePatternType, AclOperation]) -> None:
    """These permissions and no others."""
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
    every = (ResourceType.ANY, None, ResourcePatternType.ANY, None, None, AclOperation.ANY, AclPermissionType.ANY)
    for done in admin.delete_acls([AclBindingFilter(*every)]).values():
        done.result()
    granted = [
        AclBinding(kind, name, pattern, "User:reader", "*", operation, AclPermissionType.ALLOW)
        for kind, name, pattern, operation in rules
    ]
    for done in admin.create_acls(granted).values() if granted else ():
        done.result()


def options(kafka: ApacheKafka, **more: str) -> dict[str, str]:
    return {
        "kafka.bootstrap.servers": kafka.bootstrap_servers_of("USERS"),
        "kafka.security.protocol": "SASL_PLAINTEXT",
        "kafka.sasl.mechanism": "PLAIN",
        "kafka.sasl.jaas.config": f'{PLAIN} username="reader" password="secret";',
    } | {name.replace("__", "."): value for name, value in more.items()}


def plan_source(kafka: ApacheKafka) -> None:
    source = OttlaDataSource(options(kafka, subscribe="orders"))
    source.reader(source.schema()).partitions()


def plan_write(kafka: ApacheKafka) -> None:
    sink.batch_writer(options(kafka, topic="orders", write__id="w"), ROWS, overwrite=False)


def plan_micro_batch(kafka: ApacheKafka) -> None:
    pickle.dumps(sink.stream_writer(options(kafka, topic="orders", sink__id="s"), ROWS))


@pytest.mark.parametrize("plan", [plan_write, plan_micro_batch])
@pytest.mark.parametrize(
    ("rules", "told"),
    [
        ([], "'orders', which this user may not: have it granted Describe and Write on the topic"),
        (ON_TOPIC, r"'__ottla_sink'\)\. Have it granted Create, Read, .* on topics __ottla_sink and __ottla_sink_m"),
        ([*ON_TOPIC, *ON_TOPICS_OF_THE_SINK], "Have it granted Write and Describe on transactional ids that begin"),
    ],
)
def test_what_a_sink_may_not_do_is_said_when_planning(kafka: ApacheKafka, plan, rules, told, monkeypatch) -> None:
    monkeypatch.setattr(sink, "_known_topics", set())
    grant(kafka, *rules)
    with pytest.raises(UserMistake, match=told):
        plan(kafka)


def test_a_source_that_may_not_read_is_told_when_planning(kafka: ApacheKafka) -> None:
    grant(kafka)
    with pytest.raises(UserMistake, match="'orders', which this user may not read: have it granted DESCRIBE and READ"):
        plan_source(kafka)


def test_what_the_page_says_a_sink_needs_is_enough(kafka: ApacheKafka) -> None:
    grant(kafka, *ON_TOPIC, *ON_TOPICS_OF_THE_SINK, *ON_TRANSACTIONAL_IDS)
    plan_write(kafka)
    plan_micro_batch(kafka)
