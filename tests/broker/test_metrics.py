"""Metrics under Kafka's names: every count moves with what it counts, and nothing else."""

from __future__ import annotations

import random

import pytest

from ottla.broker import metric_beans
from ottla.broker.events import PartitionImage
from ottla.broker.metrics import BrokerMetrics
from ottla.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from ottla.protocol.messages.metadata import MetadataRequest

from .world import TOPIC, World, batch_of, fetch_request

_TRAFFIC = "kafka.server:type=BrokerTopicMetrics,name="


def read(world: World, broker_id: int = 1) -> metric_beans.Beans:
    return metric_beans.read(world.brokers[broker_id], 10.0)


def test_what_is_produced_and_fetched_is_counted_by_topic_and_in_all() -> None:
    world = World(1)
    world.create_topic()
    world.create_topic("other")
    batch = batch_of(b"one", b"two", b"three")
    world.produce(batch)
    world.produce(batch)
    world.produce(batch_of(b"four"), topic="other")
    world.fetch()
    beans = read(world)
    assert beans[f"{_TRAFFIC}MessagesInPerSec,topic={TOPIC}"] == {"Count": 6, "MeanRate": 0.6}
    assert beans[f"{_TRAFFIC}BytesInPerSec,topic={TOPIC}"]["Count"] == 2 * len(batch)
    assert beans[f"{_TRAFFIC}BytesOutPerSec,topic={TOPIC}"]["Count"] == 2 * len(batch)
    assert beans[f"{_TRAFFIC}BytesOutPerSec,topic=other"]["Count"] == 0
    assert beans[f"{_TRAFFIC}MessagesInPerSec"]["Count"] == 7
    assert beans[f"{_TRAFFIC}TotalProduceRequestsPerSec"]["Count"] == 3
    assert beans[f"{_TRAFFIC}TotalFetchRequestsPerSec,topic={TOPIC}"]["Count"] == 1
    assert beans[f"{_TRAFFIC}FailedProduceRequestsPerSec"]["Count"] == 0


def test_a_deleted_topic_leaves_the_sums_as_they_were() -> None:
    world = World(1)
    world.create_topic()
    world.produce(batch_of(b"one"))
    world.ask(1, DeleteTopicsRequest(topics=[DeleteTopicState(name=TOPIC)]))
    beans = read(world)
    assert f"{_TRAFFIC}MessagesInPerSec,topic={TOPIC}" not in beans
    assert beans[f"{_TRAFFIC}MessagesInPerSec"]["Count"] == 1


def test_failures_are_counted_and_unknown_names_take_no_memory() -> None:
    world = World(1)
    world.create_topic()
    for number in range(20):
        world.produce(batch_of(b"lost"), topic=f"nowhere-{number}", broker_id=1)
    world.produce(b"\0" * 80, partition=0)
    world.ask(1, fetch_request(topic="nowhere", max_wait_ms=0))
    world.fetch(99)
    beans = read(world)
    assert beans[f"{_TRAFFIC}FailedProduceRequestsPerSec"]["Count"] == 21
    assert beans[f"{_TRAFFIC}FailedProduceRequestsPerSec,topic={TOPIC}"]["Count"] == 1
    assert beans[f"{_TRAFFIC}FailedFetchRequestsPerSec"]["Count"] == 2
    assert not [name for name in beans if "nowhere" in name]
    assert len(world.brokers[1].metrics.topics) == 2


def test_replication_is_counted_apart() -> None:
    world = World(3)
    world.create_topic(replicas=3)
    batch = batch_of(b"value")
    world.produce(batch)
    leader = world.leader()
    for broker_id in world.brokers:
        beans = read(world, broker_id)
        leads = broker_id == leader
        assert beans[f"{_TRAFFIC}ReplicationBytesOutPerSec"]["Count"] == 2 * len(batch) * leads
        assert beans[f"{_TRAFFIC}ReplicationBytesInPerSec"]["Count"] == len(batch) * (not leads)
        assert beans[f"{_TRAFFIC}BytesOutPerSec"]["Count"] == 0
        assert ("kafka.network:type=RequestMetrics,name=RequestsPerSec,request=FetchFollower" in beans) is leads
        assert beans["kafka.server:type=ReplicaManager,name=LeaderCount"] == {"Value": leads}
        assert beans["kafka.server:type=ReplicaManager,name=PartitionCount"] == {"Value": 1}


def test_who_waits_is_in_a_purgatory() -> None:
    world = World(3)
    world.create_topic(replicas=3)
    leader = world.leader()
    world.unreachable = set(world.brokers) - {leader}
    world.produce(batch_of(b"waits for followers"))
    world.send(leader, fetch_request(1, max_wait_ms=60_000))
    queue = "kafka.network:type=RequestChannel,name=RequestQueueSize"
    purgatory = "kafka.server:type=DelayedOperationPurgatory,name=PurgatorySize,delayedOperation="
    beans = read(world, leader)
    assert beans[f"{purgatory}Produce"] == {"Value": 1}
    assert beans[f"{purgatory}Fetch"]["Value"] >= 1
    assert beans[queue] == {"Value": 0}
    connection = world.send(leader, fetch_request(1, max_wait_ms=60_000))
    world.send(leader, MetadataRequest(), connection=connection)
    assert read(world, leader)[queue] == {"Value": 1}


@pytest.mark.parametrize(
    ("new", "counted"),
    [
        (PartitionImage(1, 5, (1, 2, 3), (1, 2)), (1, 0, 0, 0)),
        (PartitionImage(1, 5, (1, 2, 3), (1, 2, 3)), (0, 0, 0, 0)),
        (PartitionImage(2, 6, (1, 2, 3), (2, 3)), (0, 0, 1, 0)),
        (PartitionImage(4, 6, (1, 2, 4), (4,)), (0, 0, 1, 1)),
        (PartitionImage(-1, 6, (1, 2, 3), (1,)), (0, 0, 0, 0)),
    ],
)
def test_changes_of_leaders_and_replicas_in_sync_are_told_apart(
    new: PartitionImage, counted: tuple[int, int, int, int]
) -> None:
    found = BrokerMetrics()
    found.partition_changed(PartitionImage(1, 5, (1, 2, 3), (1, 2, 3)), new, 1)
    numbers = (found.isr_shrinks, found.isr_expands, found.leader_elections, found.unclean_leader_elections)
    assert numbers == counted


def test_replicas_that_fall_behind_show() -> None:
    world = World(3, replica_lag_time_max_ms=1000, min_insync_replicas=3)
    world.create_topic(replicas=3)
    leader = world.leader()
    manager = "kafka.server:type=ReplicaManager,name="
    assert read(world, leader)[f"{manager}UnderReplicatedPartitions"] == {"Value": 0}
    assert read(world, leader)[f"{manager}AtMinIsrPartitionCount"] == {"Value": 1}
    lost = next(broker_id for broker_id in world.brokers if broker_id != leader)
    world.unreachable = {lost}
    world.produce(batch_of(b"value"), acks=1)
    world.pass_time(3000)
    beans = read(world, leader)
    assert beans[f"{manager}UnderReplicatedPartitions"] == {"Value": 1}
    assert beans[f"{manager}UnderMinIsrPartitionCount"] == {"Value": 1}
    assert beans[f"{manager}IsrShrinksPerSec"]["Count"] == 1
    world.unreachable = set()
    world.pass_time(3000)
    beans = read(world, leader)
    assert beans[f"{manager}UnderReplicatedPartitions"] == {"Value": 0}
    assert beans[f"{manager}IsrExpandsPerSec"]["Count"] == 1


def test_flushes_are_counted_and_timed() -> None:
    world = World(1)
    world.create_topic(flush_messages=1)
    flushes = "kafka.log:type=LogFlushStats,name=LogFlushRateAndTimeMs"
    before = read(world)[flushes]["Count"]
    for time_us, value in ((1500, b"one"), (4500, b"two")):
        world.storages[1].sync_time_us = time_us
        world.produce(batch_of(value))
    told = read(world)[flushes]
    assert told["Count"] == before + 2
    assert told["Mean"] == 6 / (before + 2)
    assert told["Max"] == 4.5


def test_the_controllers_counts_are_told_once() -> None:
    world = World(3)
    world.create_topic(partitions=4, replicas=2)
    for name, number in (("GlobalTopicCount", 1), ("GlobalPartitionCount", 4), ("ActiveControllerCount", 1)):
        bean = f"kafka.controller:type=KafkaController,name={name}"
        assert sum(read(world, broker_id)[bean]["Value"] for broker_id in world.brokers) == number


def test_percentiles_lie_within_an_eighth_of_the_truth() -> None:
    rng = random.Random(3)
    counters = BrokerMetrics()
    times = sorted(int(rng.lognormvariate(6, 2)) for _ in range(5000))
    for time_us in times:
        counters.answered(0, (0, time_us, 0, 0, 0))
    found = counters.requests[0].stages[-1]
    for part in (0.5, 0.95, 0.99, 0.999):
        true = times[int(part * len(times)) - 1]
        assert found.percentile_us(part) == pytest.approx(true, rel=0.13, abs=1)
    assert found.sum_us == sum(times)
    assert found.max_us == times[-1]


def test_no_time_is_too_long_for_the_buckets() -> None:
    counters = BrokerMetrics()
    counters.answered(0, (1 << 50, 0, 0, 0, 0))
    counters.answered(0, (0, 0, 0, 0, 0))
    assert counters.requests[0].stages[-1].percentile_us(0.999) <= 1 << 50
