"""`Cluster.metrics()`: what the brokers of a running cluster have counted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import ottla
from ottla.protocol.messages.metadata import MetadataRequest


def test_a_running_cluster_tells_its_metrics_by_kafkas_names(
    broker: Any, connect: Callable[[Any], Any], make: Any, kafka_name: str
) -> None:
    broker.create_topic(kafka_name)
    wire = connect(broker)
    before = broker.metrics(1)
    for _ in range(5):
        wire.call(make.produce(kafka_name, b"value"), 9)
    wire.call(make.fetch(kafka_name), 12)
    after = broker.metrics(1)
    produce = "kafka.network:type=RequestMetrics,name={},request=Produce"
    assert after[produce.format("RequestsPerSec")]["Count"] == 5
    assert after[produce.format("RequestBytes")]["Mean"] == len(make.frame(make.produce(kafka_name, b"value"), 9)) - 4
    times = after[produce.format("TotalTimeMs")]
    assert times["Count"] == 5
    assert 0 < times["Mean"] <= times["Max"]
    assert times["50thPercentile"] <= times["99thPercentile"] <= times["Max"]
    assert after["kafka.network:type=RequestMetrics,name=TotalTimeMs,request=FetchConsumer"]["Count"] == 1
    topic = f"kafka.server:type=BrokerTopicMetrics,name=MessagesInPerSec,topic={kafka_name}"
    assert (before[topic]["Count"], after[topic]["Count"]) == (0, 5)
    assert after[topic]["MeanRate"] > 0
    sockets = "kafka.server:type=socket-server-metrics,listener=PLAINTEXT,networkProcessor=0"
    assert after[sockets] == {"connection-count": 1}


def test_the_time_a_request_waits_is_in_its_time(
    broker: Any, connect: Callable[[Any], Any], make: Any, kafka_name: str
) -> None:
    broker.create_topic(kafka_name)
    wire = connect(broker)
    with broker.faults.delay_ack(topic=kafka_name, delay_ms=250):
        wire.call(make.produce(kafka_name, b"late"), 9)
    assert broker.metrics(1)["kafka.network:type=RequestMetrics,name=TotalTimeMs,request=Produce"]["Max"] >= 250


REQUEST = "kafka.network:type=RequestMetrics,name={},request={}"
STAGES = ("RequestQueueTimeMs", "LocalTimeMs", "RemoteTimeMs", "ResponseQueueTimeMs", "ResponseSendTimeMs")


def test_each_stage_of_a_request_is_measured_and_all_of_them_are_its_time(
    broker: Any, connect: Callable[[Any], Any], make: Any, kafka_name: str
) -> None:
    broker.create_topic(kafka_name)
    wire = connect(broker)
    wire.call(make.produce(kafka_name, b"at once"), 9)
    with broker.faults.delay_ack(topic=kafka_name, delay_ms=250):
        wire.call(make.produce(kafka_name, b"late"), 9)
    beans = broker.metrics(1)
    stages = {name: beans[REQUEST.format(name, "Produce")] for name in (*STAGES, "TotalTimeMs")}
    assert len({stage["Count"] for stage in stages.values()}) == 1
    assert sum(stages[name]["Mean"] for name in STAGES) == pytest.approx(stages["TotalTimeMs"]["Mean"])
    assert stages["RemoteTimeMs"]["Max"] >= 250
    assert stages["LocalTimeMs"]["Mean"] > 0


def test_a_request_that_waits_behind_another_one_waits_in_the_queue(
    broker: Any, connect: Callable[[Any], Any], make: Any, kafka_name: str
) -> None:
    broker.create_topic(kafka_name)
    wire = connect(broker)
    with broker.faults.delay_ack(topic=kafka_name, delay_ms=250):
        wire.ask(make.produce(kafka_name, b"late"), 9)
        wire.ask(MetadataRequest(), 12)
        wire.answer()
        wire.answer()
    beans = broker.metrics(1)
    queue = beans[REQUEST.format("RequestQueueTimeMs", "Metadata")]
    assert queue["Max"] >= 250
    assert beans[REQUEST.format("RemoteTimeMs", "Metadata")]["Max"] < 250


def test_requests_that_wait_for_their_turn_are_seen(
    broker: Any, connect: Callable[[Any], Any], make: Any, kafka_name: str
) -> None:
    broker.create_topic(kafka_name)
    wire = connect(broker)
    wire.send(make.frame(make.fetch(kafka_name, max_wait_ms=600_000), 12) + make.frame(MetadataRequest(), 12) * 3)
    queue = "kafka.network:type=RequestChannel,name=RequestQueueSize"
    purgatory = "kafka.server:type=DelayedOperationPurgatory,name=PurgatorySize,delayedOperation=Fetch"
    for _ in range(1000):
        found = broker.metrics(1)
        if found[queue]["Value"]:
            break
    assert (found[queue]["Value"], found[purgatory]["Value"]) == (3, 1)


def test_all_brokers_are_told_by_id() -> None:
    with ottla.Cluster(brokers=2) as cluster:
        cluster.create_topic("t", partitions=4)
        assert list(cluster.metrics()) == [1, 2]
        led = "kafka.server:type=ReplicaManager,name=LeaderCount"
        assert sum(beans[led]["Value"] for beans in cluster.metrics().values()) == 4
        with pytest.raises(ottla.ConfigError, match="broker 7 is not running, only 1, 2"):
            cluster.metrics(7)
