"""Where partitions begin and end, asked again and again; and what a group that nobody is a member of has reached."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from tests.client.in_time import ahead, connections_lost

import ottla
from ottla.client.offset_lookup import OffsetLookup
from ottla.errors import KafkaError, Unreachable
from ottla.reader.position import EARLIEST, LATEST


@pytest.fixture
def lookup(kafka_cluster: ottla.Cluster) -> Iterator[OffsetLookup]:
    asking = OffsetLookup(kafka_cluster.bootstrap_servers)
    yield asking
    asking.close()


def send(cluster: ottla.Cluster, topic: str, partition: int, times_ms: list[int]) -> None:
    with ottla.Producer(cluster.bootstrap_servers) as producer:
        for time_ms in times_ms:
            producer.send(topic, b"x", partition=partition, timestamp_ms=time_ms)


def committed(cluster: ottla.Cluster, group_id: str, topic: str, partitions: int) -> list[int]:
    """What a client that shares no code with ours finds; -1001 for nothing."""
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": group_id})
    try:
        wanted = [TopicPartition(topic, partition) for partition in range(partitions)]
        return [found.offset for found in consumer.committed(wanted, timeout=60)]
    finally:
        consumer.close()


def test_offsets_of_several_kinds_are_asked_at_the_same_time(
    kafka_cluster: ottla.Cluster, kafka_topic: str, lookup: OffsetLookup
) -> None:
    send(kafka_cluster, kafka_topic, 0, [1000, 2000, 3000])
    send(kafka_cluster, kafka_topic, 2, [5000])
    assert kafka_topic in lookup.topics()
    assert lookup.known_partitions([kafka_topic]) == {kafka_topic: (0, 1, 2)}
    places = [(kafka_topic, partition) for partition in range(3)]
    first, end, by_time = lookup.offsets_of(
        [dict.fromkeys(places, EARLIEST), dict.fromkeys(places, LATEST), dict.fromkeys(places, 1500)]
    )
    assert [first[place] for place in places] == [0, 0, 0]
    assert [end[place] for place in places] == [3, 0, 1]
    assert [by_time[place] for place in places] == [1, -1, 0]


def test_partitions_that_were_added_are_found(
    kafka_cluster: ottla.Cluster, kafka_topic: str, lookup: OffsetLookup
) -> None:
    assert lookup.partitions([kafka_topic]) == {kafka_topic: (0, 1, 2)}
    with ottla.Admin(kafka_cluster.bootstrap_servers) as admin:
        admin.create_partitions(kafka_topic, 5)
    assert lookup.partitions([kafka_topic]) == {kafka_topic: (0, 1, 2, 3, 4)}
    assert lookup.offsets({(kafka_topic, 4): LATEST}) == {(kafka_topic, 4): 0}


def test_what_does_not_exist_is_named(kafka_topic: str, lookup: OffsetLookup) -> None:
    with pytest.raises(KafkaError, match=r"UNKNOWN_TOPIC_OR_PARTITION.*no-such-topic"):
        lookup.partitions([kafka_topic, "no-such-topic"])
    with pytest.raises(KafkaError, match="the topic has 3 partitions, counted from 0"):
        lookup.offsets({(kafka_topic, 3): LATEST})


def test_a_leader_that_is_gone_is_looked_for_again() -> None:
    with ottla.Cluster() as cluster:
        cluster.create_topic("t", partitions=3)
        send(cluster, "t", 1, [1, 2])
        asking = OffsetLookup(cluster.bootstrap_servers)
        asking.partitions(["t"])
        cluster.kill(cluster.leader("t", 1))
        assert asking.offsets({("t", partition): LATEST for partition in range(3)})["t", 1] == 2
        cluster.kill(cluster.leader("t", 1))
        sizes = asking.sizes([("t", partition) for partition in range(3)])
        assert sizes["t", 1] > sizes["t", 0] == sizes["t", 2] == 0
        asking.close()


def test_a_connection_that_breaks_is_asked_over_again(
    kafka_cluster: ottla.Cluster, kafka_topic: str, lookup: OffsetLookup
) -> None:
    lookup.partitions([kafka_topic])
    with kafka_cluster.faults.lose_request(api="ListOffsets", topic=kafka_topic, nth=1) as lost:
        assert lookup.offsets({(kafka_topic, 0): LATEST}) == {(kafka_topic, 0): 0}
        assert lost.fired == 1


def test_a_group_learns_what_was_processed(
    kafka_cluster: ottla.Cluster, kafka_topic: str, kafka_name: str, lookup: OffsetLookup
) -> None:
    send(kafka_cluster, kafka_topic, 0, [1, 2, 3])
    lookup.commit(kafka_name, {(kafka_topic, 0): 2, (kafka_topic, 1): 0}, 60_000)
    assert committed(kafka_cluster, kafka_name, kafka_topic, 3) == [2, 0, -1001]
    kafka_cluster.move_coordinator(group=kafka_name)
    lookup.commit(kafka_name, {(kafka_topic, 0): 3}, 60_000)
    assert committed(kafka_cluster, kafka_name, kafka_topic, 3) == [3, 0, -1001]


def test_a_group_with_members_is_not_committed_to(
    kafka_cluster: ottla.Cluster, kafka_topic: str, kafka_name: str, lookup: OffsetLookup
) -> None:
    member = Consumer({"bootstrap.servers": kafka_cluster.bootstrap_servers, "group.id": kafka_name})
    joined: list[Any] = []
    member.subscribe([kafka_topic], on_assign=lambda _, partitions: joined.append(partitions))
    try:
        while not joined:
            member.poll(0.2)
        with pytest.raises(KafkaError, match=rf"UNKNOWN_MEMBER_ID.*group '{kafka_name}' could not be committed"):
            lookup.commit(kafka_name, {(kafka_topic, 0): 2}, 60_000)
    finally:
        member.close()


def test_nobody_there_is_said_with_the_address() -> None:
    clock = ottla.Clock()
    asking = OffsetLookup("127.0.0.1:1", clock=clock)
    with (
        connections_lost() as wait,
        ahead(clock, 60, wait),
        pytest.raises(Unreachable, match=r"127\.0\.0\.1:1 \(connection refused\)"),
    ):
        asking.partitions(["t"])
    asking.close()
