"""A foreign admin client against the embedded cluster: librdkafka's. Kafka's own: test_java_admin_and_embedded.py."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import (
    OFFSET_END,
    Consumer,
    ConsumerGroupTopicPartitions,
    ElectionType,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from ottla.cluster.cluster import Cluster

pytestmark = pytest.mark.kafka

_PATIENCE_S = 120


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(brokers=3) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def admin(cluster: Cluster) -> AdminClient:
    return AdminClient({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})


def done(futures: Any) -> Any:
    """The result of the one thing asked for."""
    futures = list(futures.values()) if isinstance(futures, dict) else [futures]
    (future,) = futures
    return future.result(_PATIENCE_S)


def topic_config(admin: AdminClient, topic: str, name: str) -> ConfigEntry:
    return done(admin.describe_configs([ConfigResource(ResourceType.TOPIC, topic)]))[name]


def send(cluster: Cluster, topic: str, count: int, partition: int = 0) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})
    for number in range(count):
        producer.produce(topic, f"value {number}", partition=partition)
    assert producer.flush(_PATIENCE_S) == 0


def test_librdkafka_makes_a_topic_and_reads_its_settings(admin: AdminClient) -> None:
    done(admin.create_topics([NewTopic("made", 2, 3, config={"retention.ms": "77000"})]))
    own = topic_config(admin, "made", "retention.ms")
    assert (own.value, own.source, own.is_default) == ("77000", ConfigSource.DYNAMIC_TOPIC_CONFIG.value, False)
    other = topic_config(admin, "made", "segment.bytes")
    assert (other.value, other.is_default, list(other.synonyms)) == ("1073741824", True, ["log.segment.bytes"])


def test_librdkafka_changes_settings_one_by_one(admin: AdminClient) -> None:
    done(admin.create_topics([NewTopic("changed", 1, 3)]))

    def change(name: str, value: str | None, what: AlterConfigOpType) -> None:
        entry = ConfigEntry(name, value, incremental_operation=what)
        done(
            admin.incremental_alter_configs(
                [ConfigResource(ResourceType.TOPIC, "changed", incremental_configs=[entry])]
            )
        )

    change("max.message.bytes", "5000", AlterConfigOpType.SET)
    change("cleanup.policy", "compact", AlterConfigOpType.APPEND)
    assert topic_config(admin, "changed", "max.message.bytes").value == "5000"
    assert topic_config(admin, "changed", "cleanup.policy").value == "delete,compact"
    change("cleanup.policy", "delete", AlterConfigOpType.SUBTRACT)
    change("max.message.bytes", None, AlterConfigOpType.DELETE)
    assert topic_config(admin, "changed", "max.message.bytes").is_default
    assert topic_config(admin, "changed", "cleanup.policy").value == "compact"
    with pytest.raises(KafkaException, match="INVALID_CONFIG"):
        change("max.message.bytes", "many", AlterConfigOpType.SET)


def test_librdkafka_changes_brokers_one_by_one_and_together(admin: AdminClient) -> None:
    def change(broker: str, value: str | None, what: AlterConfigOpType) -> None:
        entry = ConfigEntry("log.retention.bytes", value, incremental_operation=what)
        resource = ConfigResource(ResourceType.BROKER, broker, incremental_configs=[entry])
        done(admin.incremental_alter_configs([resource]))

    def told(broker: int) -> tuple[str, int]:
        found = done(admin.describe_configs([ConfigResource(ResourceType.BROKER, str(broker))]))["log.retention.bytes"]
        return found.value, found.source

    change("2", "1000000", AlterConfigOpType.SET)
    assert told(2) == ("1000000", ConfigSource.DYNAMIC_BROKER_CONFIG.value)
    assert told(3) == ("-1", ConfigSource.DEFAULT_CONFIG.value)
    change("2", None, AlterConfigOpType.DELETE)
    assert told(2) == told(3)


def test_librdkafka_adds_partitions_and_describes_topics(admin: AdminClient, cluster: Cluster) -> None:
    from confluent_kafka import TopicCollection

    done(admin.create_topics([NewTopic("growing", 2, 3)]))
    done(admin.create_partitions([NewPartitions("growing", 5)]))
    found = done(admin.describe_topics(TopicCollection(["growing"])))
    assert [(each.id, each.leader.id, len(each.replicas)) for each in found.partitions] == [
        (index, cluster.leader("growing", index), 3) for index in range(5)
    ]
    with pytest.raises(KafkaException, match="INVALID_PARTITIONS"):
        done(admin.create_partitions([NewPartitions("growing", 4)]))
    send(cluster, "growing", 10, partition=4)


def test_librdkafka_describes_the_cluster(admin: AdminClient, cluster: Cluster) -> None:
    found = admin.describe_cluster(include_authorized_operations=True).result(_PATIENCE_S)
    assert sorted(f"{node.host}:{node.port}" for node in found.nodes) == sorted(cluster.bootstrap_servers.split(","))
    assert found.controller.id in (1, 2, 3)
    assert found.authorized_operations


def test_librdkafka_manages_groups_and_their_offsets(admin: AdminClient, cluster: Cluster) -> None:
    done(admin.create_topics([NewTopic("read", 2, 3)]))
    send(cluster, "read", 5)
    group = "readers"
    config = {"bootstrap.servers": cluster.bootstrap_servers, "group.id": group, "auto.offset.reset": "earliest"}
    consumer = Consumer({**config, "enable.auto.commit": False, "log_level": 0})
    consumer.subscribe(["read"])
    assert len(consumer.consume(5, _PATIENCE_S)) == 5
    consumer.commit(asynchronous=False)
    described = done(admin.describe_consumer_groups([group]))
    assert (described.state.name, len(described.members)) == ("STABLE", 1)
    with pytest.raises(KafkaException):
        done(admin.delete_consumer_groups([group]))
    consumer.close()
    assert group in [each.group_id for each in admin.list_consumer_groups().result(_PATIENCE_S).valid]

    def committed() -> list[int]:
        asked = ConsumerGroupTopicPartitions(group, [TopicPartition("read", 0)])
        found = done(admin.list_consumer_group_offsets([asked]))
        return [each.offset for each in found.topic_partitions]

    assert committed() == [5]
    moved = ConsumerGroupTopicPartitions(group, [TopicPartition("read", 0, 2)])
    done(admin.alter_consumer_group_offsets([moved]))
    assert committed() == [2]
    done(admin.delete_consumer_groups([group]))
    assert group not in [each.group_id for each in admin.list_consumer_groups().result(_PATIENCE_S).valid]


def test_librdkafka_deletes_records_and_elects_leaders(admin: AdminClient, cluster: Cluster) -> None:
    done(admin.create_topics([NewTopic("trimmed", 1, 3)]))
    send(cluster, "trimmed", 7)
    assert done(admin.delete_records([TopicPartition("trimmed", 0, 4)])).low_watermark == 4
    assert done(admin.list_offsets({TopicPartition("trimmed", 0): OffsetSpec.earliest()})).offset == 4
    with pytest.raises(KafkaException, match="OFFSET_OUT_OF_RANGE"):
        done(admin.delete_records([TopicPartition("trimmed", 0, 8)]))
    assert done(admin.delete_records([TopicPartition("trimmed", 0, OFFSET_END)])).low_watermark == 7
    place = TopicPartition("trimmed", 0)
    told = admin.elect_leaders(ElectionType.PREFERRED, [place]).result(_PATIENCE_S)
    assert told[place].name() == "ELECTION_NOT_NEEDED"
    first = cluster.leader("trimmed", 0)
    cluster.stop(first)
    other = cluster.await_leader("trimmed", 0, other_than=first, timeout=_PATIENCE_S)
    cluster.start(first)
    cluster.await_isr("trimmed", 0, timeout=_PATIENCE_S)
    assert cluster.leader("trimmed", 0) == other
    told = admin.elect_leaders(ElectionType.PREFERRED, [place]).result(_PATIENCE_S)
    assert told[place] is None
    assert cluster.leader("trimmed", 0) == first
