"""Consumer groups of KIP-848 (`group.protocol=consumer`) of librdkafka and of Java against the embedded cluster."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, ConsumerGroupState, ConsumerGroupType
from confluent_kafka.admin import AdminClient

import ottla
from ottla.cluster.cluster import Cluster

_PARTITIONS = 4
_PATIENCE_S = 60
_OFTEN: dict[str, Any] = {"group_consumer_heartbeat_interval_ms": 100}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(brokers=3, settings=_OFTEN) as cluster:
        yield cluster


@pytest.fixture
def topic(cluster: Cluster, kafka_name: str) -> str:
    """A topic of the test's name; the group is called the same."""
    cluster.create_topic(kafka_name, partitions=_PARTITIONS)
    return kafka_name


def fill(cluster: Cluster, topic: str, numbers: range) -> None:
    with ottla.Producer(cluster.bootstrap_servers) as producer:
        for number in numbers:
            producer.send(topic, b"%d" % number, partition=number % _PARTITIONS)


class Member:
    """A consumer of librdkafka and what it has read."""

    def __init__(self, cluster: Cluster, group: str, subscription: str, **settings: Any) -> None:
        config = {"group.protocol": "consumer", "group.id": group, "auto.offset.reset": "earliest", "log_level": 0}
        self.consumer = Consumer({"bootstrap.servers": cluster.bootstrap_servers, **config, **settings})
        self.consumer.subscribe([subscription])
        self.values: list[int] = []

    @property
    def share(self) -> list[int]:
        return sorted(each.partition for each in self.consumer.assignment())

    def poll(self) -> None:
        message = self.consumer.poll(0.05)
        if message is not None and message.error() is None:
            self.values.append(int(message.value()))


def poll_until(members: list[Member], done: Callable[[], bool]) -> None:
    give_up = time.monotonic() + _PATIENCE_S
    while not done():
        assert time.monotonic() < give_up, [each.share for each in members]
        for member in members:
            member.poll()


def shares(*members: Member) -> list[int]:
    return sorted(index for member in members for index in member.share)


ALL = list(range(_PARTITIONS))


def test_two_consumers_share_the_partitions_and_one_takes_over(cluster: Cluster, topic: str) -> None:
    first = Member(cluster, topic, topic)
    poll_until([first], lambda: first.share == ALL)
    second = Member(cluster, topic, topic)
    poll_until([first, second], lambda: len(first.share) == len(second.share) == 2 and shares(first, second) == ALL)
    fill(cluster, topic, range(40))
    poll_until([first, second], lambda: len(first.values) + len(second.values) >= 40)
    assert sorted(first.values + second.values) == list(range(40))
    second.consumer.close()
    poll_until([first], lambda: first.share == ALL)
    first.consumer.close()
    third = Member(cluster, topic, topic)
    fill(cluster, topic, range(40, 44))
    poll_until([third], lambda: len(third.values) >= 4)
    assert sorted(third.values) == [40, 41, 42, 43]
    third.consumer.close()


@pytest.mark.prove
def test_a_pattern_takes_in_topics_that_are_made_later(cluster: Cluster, topic: str) -> None:
    member = Member(cluster, topic, f"^{topic}.*")
    poll_until([member], lambda: len(member.share) == _PARTITIONS)
    cluster.create_topic(f"{topic}-later", partitions=2)
    poll_until([member], lambda: len(member.share) == _PARTITIONS + 2)
    member.consumer.close()


@pytest.mark.prove
def test_a_static_member_is_given_its_partitions_back(cluster: Cluster, topic: str) -> None:
    other = Member(cluster, topic, topic, **{"group.instance.id": "other"})
    one = Member(cluster, topic, topic, **{"group.instance.id": "one"})
    poll_until([other, one], lambda: len(one.share) == len(other.share) == 2)
    kept = one.share
    one.consumer.close()
    one = Member(cluster, topic, topic, **{"group.instance.id": "one"})
    poll_until([other, one], lambda: one.share != [])
    assert one.share == kept
    one.consumer.close()
    other.consumer.close()


@pytest.mark.prove
def test_a_member_that_is_silent_past_its_session_is_replaced_and_comes_back(kafka_name: str) -> None:
    """Its coordinator hears nothing of it for a while."""
    topic = kafka_name
    with Cluster(brokers=3, settings={**_OFTEN, "group_consumer_session_timeout_ms": 3000}) as cluster:
        cluster.create_topic(topic, partitions=_PARTITIONS)
        fill(cluster, topic, range(20))
        first = Member(cluster, topic, topic, **{"client.id": "silent"})
        poll_until([first], lambda: len(first.values) >= 20)
        second = Member(cluster, topic, topic)
        poll_until([first, second], lambda: len(first.share) == len(second.share) == 2)
        with cluster.faults.unplug(broker_id=cluster.coordinator(group=topic), client_id="silent"):
            poll_until([first, second], lambda: second.share == ALL)
        poll_until([first, second], lambda: len(first.share) == len(second.share) == 2 and shares(first, second) == ALL)
        first.consumer.close()
        second.consumer.close()


@pytest.mark.prove
def test_a_group_goes_on_when_its_coordinator_is_killed(topic: str, cluster: Cluster) -> None:
    first, second = Member(cluster, topic, topic), Member(cluster, topic, topic)
    poll_until([first, second], lambda: len(first.share) == len(second.share) == 2)
    fill(cluster, topic, range(20))
    poll_until([first, second], lambda: len(first.values) + len(second.values) >= 20)
    killed = cluster.coordinator(group=topic)
    cluster.kill(killed)
    third = Member(cluster, topic, topic)
    members = [first, second, third]
    poll_until(members, lambda: shares(*members) == ALL and all(each.share for each in members))
    fill(cluster, topic, range(20, 40))
    poll_until(members, lambda: {number for each in members for number in each.values} == {*range(40)})
    cluster.start(killed)
    for member in members:
        member.consumer.close()


@pytest.mark.prove
def test_librdkafkas_admin_sees_the_group_and_deletes_it(cluster: Cluster, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})
    fill(cluster, topic, range(4))
    member = Member(cluster, topic, topic)
    poll_until([member], lambda: len(member.values) == 4)
    told = admin.describe_consumer_groups([topic])[topic].result(_PATIENCE_S)
    assert (told.state, told.type) == (ConsumerGroupState.STABLE, ConsumerGroupType.CONSUMER)
    (only,) = told.members
    assert sorted(each.partition for each in only.assignment.topic_partitions) == ALL
    member.consumer.close()
    listed = admin.list_consumer_groups(types={ConsumerGroupType.CONSUMER}).result(_PATIENCE_S)
    assert topic in [each.group_id for each in listed.valid]
    assert admin.delete_consumer_groups([topic])[topic].result(_PATIENCE_S) is None


@pytest.mark.kafka
def test_javas_console_consumer_reads_as_a_consumer_group_and_its_tool_describes_it(
    cluster: Cluster, topic: str, java: Any
) -> None:
    fill(cluster, topic, range(20))
    where = ["--bootstrap-server", cluster.bootstrap_servers]
    reading = ["--topic", topic, "--group", topic, "--from-beginning", "--max-messages", "20"]
    protocol = ["--command-property", "group.protocol=consumer"]
    said = java.run("org.apache.kafka.tools.consumer.ConsoleConsumer", *where, *reading, *protocol)
    assert sorted(map(int, said.split())) == list(range(20))
    tool = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
    told = java.run(tool, *where, "--describe", "--group", topic).decode()
    rows = [line.split() for line in told.splitlines() if topic in line.split()[:1]]
    assert sorted((int(row[2]), int(row[3]), int(row[5])) for row in rows) == [(n, 5, 0) for n in range(_PARTITIONS)]
    listed = java.run(tool, *where, "--list", "--type", "consumer").decode()
    assert topic in listed.split()


@pytest.mark.kafka
def test_javas_log_dump_understands_what_is_stored_of_a_consumer_group(java: Any, tmp_path: Path) -> None:
    with Cluster(brokers=1, data_dir=tmp_path / "data") as cluster:
        cluster.create_topic("read", partitions=_PARTITIONS)
        member = Member(cluster, "readers", "read", **{"group.instance.id": "one"})
        poll_until([member], lambda: member.share == ALL)
        other = Member(cluster, "readers", "read")
        poll_until([member, other], lambda: len(member.share) == len(other.share) == 2)
        other.consumer.close()
        member.consumer.close()
    logs = sorted((tmp_path / "data" / "broker-1").glob("__consumer_offsets-*/*.log"))
    files = ["--offsets-decoder", "--files", ",".join(map(str, logs))]
    said = java.run("org.apache.kafka.tools.DumpLogSegments", *files).decode()
    records = [json.loads(found) for found in re.findall(r"payload: (\{.*\})$", said, re.MULTILINE)]
    keys = [json.loads(found) for found in re.findall(r"key: (\{.*\}) payload", said)]
    assert {key["type"] for key in keys} == {"3", "5", "6", "7", "8"}
    owned = [each["data"]["assignedPartitions"] for each in records if "assignedPartitions" in each["data"]]
    assert [sorted(topic["partitions"]) for topic in owned[0]] == [ALL]
    assert owned[0][0]["assignmentEpochs"] == [2] * _PARTITIONS
    names = [each["data"]["instanceId"] for each in records if "instanceId" in each["data"]]
    assert "one" in names
    assert None in names


@pytest.mark.kafka
def test_java_and_librdkafka_share_a_group(cluster: Cluster, topic: str, java: Any) -> None:
    """Java's verifiable consumer reads beside librdkafka's, and each has half of the partitions."""
    fill(cluster, topic, range(400))
    member = Member(cluster, topic, topic)
    poll_until([member], lambda: member.share == ALL)
    where = ["--bootstrap-server", cluster.bootstrap_servers, "--topic", topic, "--group-id", topic]
    reading = ["--max-messages", "100", "--group-protocol", "consumer", "--reset-policy", "earliest"]
    with ThreadPoolExecutor(1) as pool:
        said = pool.submit(java.run, "org.apache.kafka.tools.VerifiableConsumer", *where, *reading)
        poll_until([member], lambda: len(member.share) == 2)
        fill(cluster, topic, range(400, 800))
        poll_until([member], said.done)
        assert b'"partitions_assigned"' in said.result()
    poll_until([member], lambda: member.share == ALL)
    member.consumer.close()
