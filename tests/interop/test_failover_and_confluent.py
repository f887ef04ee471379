"""librdkafka's producer and consumer live through the death of the brokers they talk to."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from ottla.cluster.cluster import Cluster

_PATIENCE_S = 60


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    settings = {"broker_session_timeout_ms": 600, "broker_heartbeat_interval_ms": 100}
    with Cluster(brokers=3, settings=settings) as cluster:
        cluster.create_topic("flights", configs={"min.insync.replicas": "2"})
        yield cluster


def consumer_of(cluster: Cluster) -> Consumer:
    settings = {"group.id": "readers", "auto.offset.reset": "earliest", "enable.auto.commit": False, "log_level": 0}
    return Consumer({"bootstrap.servers": cluster.bootstrap_servers, **settings})


def read(consumer: Consumer, count: int) -> list[bytes]:
    values: list[bytes] = []
    give_up = time.monotonic() + _PATIENCE_S
    while len(values) < count:
        assert time.monotonic() < give_up, f"{len(values)} of {count} read"
        message = consumer.poll(0.1)
        if message is not None and message.error() is None:
            values.append(message.value())
    return values


def committed(consumer: Consumer) -> int:
    """What the group has committed, as soon as a coordinator tells."""
    give_up = time.monotonic() + _PATIENCE_S
    while True:
        try:
            (found,) = consumer.committed([TopicPartition("flights", 0)], timeout=5)
            return int(found.offset)
        except KafkaException:
            assert time.monotonic() < give_up


def test_what_librdkafka_was_told_is_safe_is_there_after_its_leader_was_killed(cluster: Cluster) -> None:
    told: list[Any] = []
    producer = Producer(
        {"bootstrap.servers": cluster.bootstrap_servers, "enable.idempotence": True, "linger.ms": 1, "log_level": 0}
    )
    for number in range(2000):
        if number == 700:
            producer.flush(_PATIENCE_S)
            cluster.kill(cluster.leader("flights", 0))
        producer.produce("flights", b"%d" % number, partition=0, on_delivery=lambda error, _: told.append(error))
        producer.poll(0)
    assert producer.flush(_PATIENCE_S) == 0
    assert told == [None] * 2000
    consumer = consumer_of(cluster)
    consumer.assign([TopicPartition("flights", 0, 0)])
    assert read(consumer, 2000) == [b"%d" % number for number in range(2000)]
    consumer.close()


def test_a_group_goes_on_where_it_had_committed_when_its_coordinator_is_killed(cluster: Cluster) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})
    for number in range(100):
        producer.produce("flights", b"%d" % number)
    assert producer.flush(_PATIENCE_S) == 0
    consumer = consumer_of(cluster)
    consumer.subscribe(["flights"])
    first = read(consumer, 40)
    consumer.commit(offsets=[TopicPartition("flights", 0, 40)], asynchronous=False)
    cluster.kill(cluster.coordinator(group="readers"))
    # Who knows the next coordinator takes his leave of it; else his session would have to end before others read.
    assert committed(consumer) == 40
    consumer.close()
    again = consumer_of(cluster)
    again.subscribe(["flights"])
    assert first + read(again, 60) == [b"%d" % number for number in range(100)]
    again.close()
