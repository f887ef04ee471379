"""A producer's own metrics, pushed to the brokers of an embedded cluster that subscribes to them (KIP-714)."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from tests.wire import Wire

import ottla
from ottla.producer.otlp import Point, attributes, metrics_data
from ottla.protocol.messages.get_telemetry_subscriptions import GetTelemetrySubscriptionsRequest
from ottla.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from ottla.protocol.messages.push_telemetry import PushTelemetryRequest

_CLIENT_METRICS = 16
_UNKNOWN_SUBSCRIPTION_ID = 117
_PATIENCE_S = 30


def subscribe(bootstrap_servers: str, **configs: str) -> None:
    """Subscribe to clients' metrics, all of them ten times a second where `configs` do not say otherwise."""
    given = {"metrics": "*", "interval.ms": "100", **configs}
    changes = [AlterableConfig(name=name, config_operation=0, value=value) for name, value in given.items()]
    resource = AlterConfigsResource(resource_type=_CLIENT_METRICS, resource_name="all", configs=changes)
    wire = Wire(bootstrap_servers)
    (told,) = wire.ask(IncrementalAlterConfigsRequest(resources=[resource]), 1).responses
    assert told.error_code == 0
    wire.close()


def wait_for(found: Callable[[], Any]) -> Any:
    give_up = time.monotonic() + _PATIENCE_S
    while not (value := found()):
        assert time.monotonic() < give_up
        time.sleep(0.02)
    return value


def test_a_producer_pushes_its_metrics_where_somebody_subscribes(own_kafka_cluster: ottla.Cluster) -> None:
    cluster = own_kafka_cluster
    cluster.create_topic("orders", partitions=1)
    assert cluster.client_metrics() == []
    subscribe(cluster.bootstrap_servers)
    with ottla.Producer(cluster.bootstrap_servers, client_id="shop") as producer:
        producer.send("orders", b"one").result(_PATIENCE_S)
        (client,) = wait_for(cluster.client_metrics)
        assert client["client_id"] == "shop"
        assert client["software_name"] == "ottla"
        assert not client["is_terminated"]
        assert str(producer.client_instance_id(_PATIENCE_S)) == client["client_instance_id"]
    (client,) = wait_for(lambda: [each for each in cluster.client_metrics() if each["is_terminated"]])
    assert client["pushes"] >= 1
    assert "org.apache.kafka.producer.record.send.total" in {each["name"] for each in client["metrics"]}


def test_nobody_pushes_where_nobody_subscribes(own_kafka_cluster: ottla.Cluster) -> None:
    own_kafka_cluster.create_topic("orders", partitions=1)
    with ottla.Producer(own_kafka_cluster.bootstrap_servers) as producer:
        producer.send("orders", b"one").result(_PATIENCE_S)
    assert own_kafka_cluster.client_metrics() == []


def push(address: str, number: bytes, value: float, *, terminating: bool = False, off_by: int = 0) -> int:
    """Push one figure to a broker, under a subscription that may be off; its error code."""
    wire = Wire(address)
    told = wire.ask(GetTelemetrySubscriptionsRequest(client_instance_id=number), 0)
    point = Point("org.apache.kafka.producer.connection.count", attributes({}), value, None)
    message = PushTelemetryRequest(
        client_instance_id=number,
        subscription_id=told.subscription_id + off_by,
        terminating=terminating,
        compression_type=0,
        metrics=metrics_data([point], {}, 1, delta=True),
    )
    error_code = wire.ask(message, 0).error_code
    wire.close()
    return int(error_code)


def test_a_client_that_pushes_to_another_broker_is_told_once() -> None:
    clock = ottla.Clock(stopped=True)
    with ottla.Cluster(brokers=2, clock=clock) as cluster:
        subscribe(cluster.bootstrap_servers)
        number, addresses = bytes(range(16)), cluster.bootstrap_servers.split(",")

        def told() -> tuple[int, bool, float]:
            (client,) = cluster.client_metrics()
            (metric,) = client["metrics"]
            return client["pushes"], client["is_terminated"], metric["value"]

        assert push(addresses[0], number, 1.0) == 0
        assert told() == (1, False, 1.0)
        clock.advance(1)
        assert push(addresses[1], number, 2.0) == 0
        assert told() == (2, False, 2.0)
        # Refused: the last push that was taken stays.
        clock.advance(1)
        assert push(addresses[0], number, 3.0, off_by=1) == _UNKNOWN_SUBSCRIPTION_ID
        assert told() == (2, False, 2.0)
        clock.advance(1)
        assert push(addresses[1], number, 4.0, terminating=True) == 0
        assert told() == (3, True, 4.0)
