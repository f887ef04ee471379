"""Foreign admin clients against the embedded cluster: librdkafka's AdminClient, and Kafka's own tools."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
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

_PATIENCE_S = 30
_GROUPS = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"


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


# librdkafka.


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
    other = cluster.await_leader("trimmed", 0, other_than=first)
    cluster.start(first)
    cluster.await_isr("trimmed", 0)
    assert cluster.leader("trimmed", 0) == other
    told = admin.elect_leaders(ElectionType.PREFERRED, [place]).result(_PATIENCE_S)
    assert told[place] is None
    assert cluster.leader("trimmed", 0) == first


# Kafka's own tools.


def run(java: Any, cluster: Cluster, tool: str, *arguments: str) -> str:
    main_class = tool if tool.startswith(("org.", "kafka.")) else f"org.apache.kafka.tools.{tool}"
    said: bytes = java.run(main_class, "--bootstrap-server", cluster.bootstrap_servers, *arguments)
    return said.decode()


def test_kafka_topics_makes_describes_and_grows_a_topic(cluster: Cluster, java: Any) -> None:
    size = ["--partitions", "2", "--replication-factor", "3"]
    run(java, cluster, "TopicCommand", "--create", "--topic", "java.topic", *size, "--config", "retention.ms=77000")
    run(java, cluster, "TopicCommand", "--alter", "--topic", "java.topic", "--partitions", "4")
    said = run(java, cluster, "TopicCommand", "--describe", "--topic", "java.topic")
    head, *partitions = said.strip().splitlines()
    assert "PartitionCount: 4" in head
    assert "ReplicationFactor: 3" in head
    assert "Configs: retention.ms=77000" in head
    leaders = [int(re.search(r"Leader: (\d+)", line)[1]) for line in partitions]  # type: ignore[index]
    assert leaders == [cluster.leader("java.topic", index) for index in range(4)]


def test_kafka_configs_changes_topics_and_brokers(cluster: Cluster, java: Any) -> None:
    def configs(*arguments: str) -> str:
        return run(java, cluster, "kafka.admin.ConfigCommand", *arguments)

    cluster.create_topic("configured", partitions=1)
    topic = ["--entity-type", "topics", "--entity-name", "configured"]
    configs("--alter", *topic, "--add-config", "max.message.bytes=5000,cleanup.policy=[compact,delete]")
    said = configs("--describe", *topic)
    assert "max.message.bytes=5000 sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:max.message.bytes=5000" in said
    assert "cleanup.policy=compact,delete" in said
    configs("--alter", *topic, "--delete-config", "max.message.bytes")
    assert "max.message.bytes" not in configs("--describe", *topic)
    everybody = ["--entity-type", "brokers", "--entity-default"]
    configs("--alter", *everybody, "--add-config", "log.retention.bytes=123456789")
    assert "log.retention.bytes=123456789" in configs("--describe", *everybody)
    one = configs("--describe", "--all", "--entity-type", "brokers", "--entity-name", "2")
    assert "log.retention.bytes=123456789 sensitive=false synonyms={DYNAMIC_DEFAULT_BROKER_CONFIG" in one
    assert "broker.id=2" in one
    configs("--alter", *everybody, "--delete-config", "log.retention.bytes")
    assert "log.retention.bytes" not in configs("--describe", *everybody)


def test_kafka_log_dirs_tells_sizes(cluster: Cluster, java: Any) -> None:
    cluster.create_topic("sized", partitions=1)
    send(cluster, "sized", 100)
    said = run(java, cluster, "LogDirsCommand", "--describe", "--topic-list", "sized")
    told = json.loads(said.splitlines()[-1])
    sizes = [
        (partition["partition"], partition["size"], partition["offsetLag"])
        for broker in told["brokers"]
        for folder in broker["logDirs"]
        for partition in folder["partitions"]
    ]
    assert [each[0] for each in sizes] == ["sized-0"] * 3
    assert all(size > 100 and lag == 0 for _, size, lag in sizes)


def test_kafka_get_offsets_cluster_and_groups_tell_what_there_is(cluster: Cluster, java: Any) -> None:
    cluster.create_topic("counted", partitions=1)
    send(cluster, "counted", 7)
    offsets = run(java, cluster, "GetOffsetShell", "--topic", "counted")
    assert offsets.split() == ["counted:0:7"]
    identity = java.run(
        "org.apache.kafka.tools.ClusterTool", "cluster-id", "--bootstrap-server", cluster.bootstrap_servers
    )
    assert re.fullmatch(r"Cluster ID: [\w-]{22}", identity.decode().strip())
    config = {"bootstrap.servers": cluster.bootstrap_servers, "group.id": "java-looks", "log_level": 0}
    consumer = Consumer(config)
    consumer.commit(offsets=[TopicPartition("counted", 0, 3)], asynchronous=False)
    consumer.close()
    group = ["--group", "java-looks"]
    rows = run(java, cluster, _GROUPS, "--describe", *group).splitlines()
    row = next(line.split() for line in rows if "counted" in line)
    assert row[:6] == ["java-looks", "counted", "0", "3", "7", "4"]
    forgotten = run(java, cluster, _GROUPS, "--delete-offsets", *group, "--topic", "counted")
    assert re.search(r"counted\s+0\s+Successful", forgotten)
    run(java, cluster, _GROUPS, "--delete", *group)
    assert "java-looks" not in run(java, cluster, _GROUPS, "--list").split()


def test_kafka_delete_records_and_leader_election_do_their_work(cluster: Cluster, java: Any, tmp_path: Path) -> None:
    cluster.create_topic("cut", partitions=1)
    send(cluster, "cut", 7)
    wanted = tmp_path / "offsets.json"
    wanted.write_text(json.dumps({"partitions": [{"topic": "cut", "partition": 0, "offset": 4}], "version": 1}))
    assert "low_watermark: 4" in run(java, cluster, "DeleteRecordsCommand", "--offset-json-file", str(wanted))
    assert run(java, cluster, "GetOffsetShell", "--topic", "cut", "--time", "earliest").split() == ["cut:0:4"]
    elected = run(
        java, cluster, "LeaderElectionCommand", "--election-type", "preferred", "--topic", "cut", "--partition", "0"
    )
    assert "Valid replica already elected for partitions cut-0" in elected
