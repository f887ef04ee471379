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


def test_a_client_that_pushes_to_another_broker_is_told_once() -> None:
    with ottla.Cluster(brokers=2) as cluster:
        subscribe(cluster.bootstrap_servers)
        number, pushed = bytes(range(16)), []
        for at_ms, address in enumerate(cluster.bootstrap_servers.split(",")):
            wire = Wire(address)
            told = wire.ask(GetTelemetrySubscriptionsRequest(client_instance_id=number), 0)
            point = Point("org.apache.kafka.producer.connection.count", attributes({}), 1.0 + at_ms, None)
            message = PushTelemetryRequest(
                client_instance_id=number,
                subscription_id=told.subscription_id,
                terminating=at_ms == 1,
                compression_type=0,
                metrics=metrics_data([point], {}, 1, delta=True),
            )
            assert wire.ask(message, 0).error_code == 0
            wire.close()
            (client,) = cluster.client_metrics()
            (metric,) = client["metrics"]
            pushed.append((client["pushes"], client["is_terminated"], metric["value"]))
        assert pushed == [(1, False, 1.0), (2, True, 2.0)]
