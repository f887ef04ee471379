"""The same moves of replicas in the embedded cluster and in Apache Kafka: error codes, replicas, leaders agree."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Protocol

import pytest
from tests.client.in_time import wait_until
from tools.apache_kafka import ApacheKafka
from tools.kafka_jars import JarsUnavailable

from ottla.cluster.cluster import Cluster
from ottla.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from ottla.protocol.messages.create_topics import CreatableReplicaAssignment, CreatableTopic, CreateTopicsRequest
from ottla.protocol.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.records.plain import Record, encode_batch

from ..needs import lacking
from ..wire import Wire

pytestmark = pytest.mark.kafka

_PATIENCE_S = 60
_TOPIC = "moves"
# What a broker of Apache Kafka says that has not heard yet what the controller decided: that it leads the partition.
_NOT_LED_HERE = {3, 6}


class Brokers(Protocol):
    """Either cluster, of three brokers."""

    @property
    def bootstrap_servers(self) -> str: ...

    def kill(self, broker_id: int, /) -> None: ...

    def start(self, broker_id: int, /) -> Any: ...


class Session:
    """One cluster, and what was seen of it."""

    def __init__(self, brokers: Brokers) -> None:
        self.brokers = brokers
        self.addresses = brokers.bootstrap_servers.split(",")
        self.seen: list[Any] = []
        self._wire = Wire(self.addresses[0])
        self._first_epoch = 0
        assignments = [CreatableReplicaAssignment(partition_index=0, broker_ids=[1, 2])]
        topic = CreatableTopic(name=_TOPIC, num_partitions=-1, replication_factor=-1, assignments=assignments)
        assert self._wire.ask(CreateTopicsRequest(topics=[topic], timeout_ms=30_000), 7).topics[0].error_code == 0
        self.until(lambda: bool(self.metadata().topics[0].partitions) and self.partition().leader_id == 1)
        self._first_epoch = self.partition().leader_epoch

    def until(self, came_true: Callable[[], bool]) -> None:
        wait_until(came_true, lambda: self.seen, _PATIENCE_S)

    def metadata(self) -> Any:
        return self._wire.ask(MetadataRequest(topics=[MetadataRequestTopic(name=_TOPIC)]), 12)

    def partition(self) -> Any:
        return self.metadata().topics[0].partitions[0]

    def down(self, broker_id: int) -> None:
        self.brokers.kill(broker_id)
        self.until(lambda: broker_id not in [each.node_id for each in self.metadata().brokers])

    def send(self, count: int) -> None:
        records = [Record(index, 1_700_000_000_000, None, b"v") for index in range(count)]
        topic = TopicProduceData(
            name=_TOPIC, partition_data=[PartitionProduceData(index=0, records=encode_batch(records))]
        )
        request = ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=[topic])
        give_up = time.monotonic() + _PATIENCE_S
        while True:
            wire = Wire(self.addresses[self.partition().leader_id - 1])
            told = wire.ask_until_ready(request, 9).responses[0].partition_responses[0]
            wire.close()
            if told.error_code not in _NOT_LED_HERE or time.monotonic() > give_up:
                break
            time.sleep(0.02)
        self.seen.append(("sent", told.error_code, told.base_offset))

    def move(self, target: list[int] | None, *, topic: str = _TOPIC, index: int = 0, resize: bool = True) -> None:
        partition = ReassignablePartition(partition_index=index, replicas=target)
        message = AlterPartitionReassignmentsRequest(
            timeout_ms=30_000,
            allow_replication_factor_change=resize,
            topics=[ReassignableTopic(name=topic, partitions=[partition])],
        )
        told = self._wire.ask(message, 1)
        codes = [(part.partition_index, part.error_code) for each in told.responses for part in each.partitions]
        self.seen.append(("move", target, told.error_code, codes))

    def moving(self) -> list[Any]:
        told = self._wire.ask(ListPartitionReassignmentsRequest(topics=None), 0)
        return [
            (each.replicas, each.adding_replicas, each.removing_replicas)
            for topic in told.topics
            for each in topic.partitions
        ]

    def look(self, label: str, replicas: list[int]) -> None:
        """Note the moves that go on, and who leads the partition, once these brokers are said to hold it.

        A broker of Apache Kafka hears of that some time after the controller has decided it.
        """
        self.until(lambda: self.partition().replica_nodes == replicas)
        each = self.partition()
        epoch = each.leader_epoch - self._first_epoch
        self.seen.append((label, self.moving(), each.replica_nodes, sorted(each.isr_nodes), each.leader_id, epoch))

    def settle(self, label: str, replicas: list[int]) -> None:
        """As `look`, once nothing moves and all replicas are in sync."""

        def is_settled() -> bool:
            each = self.partition()
            is_told = each.replica_nodes == replicas and len(each.isr_nodes) == len(replicas)
            return is_told and not self.moving()

        self.until(is_settled)
        self.look(label, replicas)


def seen_by(session: Session) -> list[Any]:
    session.send(10)
    session.move([2, 3])
    session.settle("the leader goes", [2, 3])
    session.send(5)
    session.move([3, 2])
    session.settle("another order", [3, 2])
    session.move([1, 2, 3], resize=False)
    session.move([1, 2, 3])
    session.settle("one more", [1, 2, 3])
    session.move([2])
    session.settle("fewer", [2])
    session.send(5)
    session.move(None)
    session.move([9])
    session.move([2, 2])
    session.move([])
    session.move([1], index=7)
    session.move([1], topic="none")
    session.down(3)
    session.move([3, 1])
    session.until(lambda: 1 in session.partition().isr_nodes)
    session.look("one of two new replicas is down", [3, 1, 2])
    session.move([3], resize=False)
    session.send(5)
    session.move(None)
    session.settle("cancelled on its way", [2])
    session.move([3])
    session.send(5)
    session.move([1])
    session.settle("sent elsewhere", [1])
    session.move([3])
    session.look("waiting", [3, 1])
    session.move(None)
    session.settle("cancelled", [1])
    session.move([1, 3])
    session.look("waiting for one more", [1, 3])
    session.move([3])
    session.look("the others go, too", [3, 1])
    session.move(None)
    session.settle("cancelled, and nothing was moved", [1])
    session.move([3])
    session.brokers.start(3)
    session.settle("it came back", [3])
    session.send(5)
    return session.seen


def test_moves_end_as_in_apache_kafka() -> None:
    try:
        kafka = ApacheKafka(3)
    except JarsUnavailable as missing:
        lacking("kafka", missing)
    with Cluster(brokers=3) as cluster:
        ours = seen_by(Session(cluster))
    with kafka:
        theirs = seen_by(Session(kafka))
    assert ours == theirs
