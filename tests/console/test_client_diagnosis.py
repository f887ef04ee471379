"""What limits a client, told from the metrics that it has pushed: in the words of the producer's own diagnosis."""

from __future__ import annotations

import math
import subprocess
from typing import Any

import pytest
from tools.apache_kafka import Java

import ottla
from ottla.console.client_diagnosis import diagnosis
from ottla.console.console import Console
from ottla.console.server import ConsoleServer

from ..cluster.test_client_metrics import subscribe, wait_for
from .conftest import Asking, controlled

SECOND_NS = 10**9
# A producer of two brokers that sends a thousand records a second, ten of them in a request.
CALM = {
    "record.send.total": 1000,
    "records.per.request.avg": 10.0,
    "batch.size.avg": 5000.0,
    "batch.size.max": 9000.0,
    "record.queue.time.avg": 5.0,
    "buffer.total.bytes": 33_554_432.0,
    "buffer.available.bytes": 33_000_000.0,
    "compression.rate.avg": 1.0,
}
NODES = {1: (50, 2.0), 2: (50, 3.0)}


def pushed(figures: dict[str, float], nodes: dict[int, tuple[int, float]] = NODES) -> list[dict[str, Any]]:
    """Points as a broker reads them."""

    def point(name: str, value: float, **attributes: str) -> dict[str, Any]:
        kind = "sum" if name.endswith("total") else "gauge"
        times = {"start_ns": 0, "time_ns": SECOND_NS}
        return {"name": f"org.apache.kafka.producer.{name}", "kind": kind, "value": value, **times} | {
            "attributes": attributes
        }

    points = [point(name, value) for name, value in figures.items()]
    size = 500 * figures.get("record.send.total", 0)
    points += [
        point("topic.byte.total", size, topic="t"),
        point("topic.record.send.total", figures.get("record.send.total", 0), topic="t"),
    ]
    for number, (answers, latency_ms) in nodes.items():
        points += [
            point("node.response.total", answers, node_id=f"node-{number}"),
            point("node.request.latency.avg", latency_ms, node_id=f"node-{number}"),
        ]
    # Whoever asked for metadata only.
    points += [
        point("node.response.total", 3, node_id="node--1"),
        point("node.request.latency.avg", math.nan, node_id="node--1"),
    ]
    return points


def limits(points: list[dict[str, Any]]) -> list[str]:
    found = diagnosis(points, lambda topic: 4)
    assert found is not None
    return [each["limit"] for each in found["findings"]]


def test_a_calm_producer_is_limited_by_nothing() -> None:
    found = diagnosis(pushed(CALM), lambda topic: 4)
    assert found is not None
    assert (found["findings"], found["is_certain"], found["seconds"]) == ([], True, 1.0)
    assert "1,000 records/s" in found["sentence"]
    assert found["assumed"] == {"batch.size": 16384, "linger.ms": 5}


@pytest.mark.parametrize(
    ("figures", "nodes", "limit"),
    [
        ({"record.retry.total": 100}, NODES, "records are sent again"),
        ({"produce.throttle.time.avg": 4.0}, NODES, "held back by a quota"),
        ({"bufferpool.wait.time.ns.total": 4e8}, NODES, "buffer.memory is full"),
        ({"flush.time.ns.total": 6e8}, NODES, "flush comes before batches fill"),
        ({"txn.commit.time.ns.total": 3e8, "txn.begin.time.ns.total": 1e8}, NODES, "transactions are short"),
        ({"batch.size.avg": 16000.0, "record.queue.time.avg": 90.0}, {1: (500, 40.0)}, "answers take long"),
        ({}, {1: (50, 2.0), 2: (50, 80.0)}, "one broker is slow"),
    ],
)
def test_what_limits_a_producer_is_found_in_what_it_pushed(
    figures: dict[str, float], nodes: dict[int, tuple[int, float]], limit: str
) -> None:
    assert limits(pushed(CALM | figures, nodes)) == [limit]


def test_a_slow_broker_is_called_by_its_id() -> None:
    found = diagnosis(pushed(CALM, {4: (50, 2.0), 7: (50, 80.0)}), lambda topic: 4)
    assert found is not None
    assert found["sentence"].startswith("Broker 7 answers slowly")


def test_a_batch_size_that_was_seen_is_not_taken_for_the_default() -> None:
    found = diagnosis(pushed(CALM | {"batch.size.max": 100_000.0}), lambda topic: 4)
    assert found is not None
    assert found["assumed"]["batch.size"] == 100_000


@pytest.mark.parametrize("figures", [{}, {"record.send.total": 0}, CALM | {"records.per.request.avg": math.nan}])
def test_too_little_is_said_to_be_too_little(figures: dict[str, float]) -> None:
    found = diagnosis(pushed(figures), lambda topic: 4)
    assert found is None or not found["is_certain"]


def test_what_is_no_producers_has_no_diagnosis() -> None:
    points = [{"name": "org.apache.kafka.consumer.fetch.manager.records.lag", "value": 1, "kind": "gauge"}]
    assert diagnosis(points, lambda topic: 4) is None


@pytest.mark.kafka
def test_what_limits_a_producer_of_java_is_found_in_what_it_pushes(java: Java) -> None:
    with ottla.Cluster(1) as cluster:
        cluster.create_topic("perf", partitions=4)
        subscribe(cluster.bootstrap_servers, **{"interval.ms": "500"})
        settings = f"bootstrap.servers={cluster.bootstrap_servers}", "buffer.memory=300000"
        records = "--num-records", "2000000", "--record-size", "500", "--throughput", "-1"
        command = java.command(
            "org.apache.kafka.tools.ProducerPerformance", "--topic", "perf", *records, "--producer-props", *settings
        )

        def full_buffer() -> str | None:
            told = (diagnosis(each["metrics"], lambda topic: 4) for each in cluster.client_metrics())
            return next(
                (each["sentence"] for each in told if each and "buffer.memory is full" in each["sentence"]), None
            )

        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as running:
            try:
                assert "send waits for room" in wait_for(full_buffer)
            finally:
                running.kill()


def test_the_served_cluster_tells_what_limits_a_client_and_what_is_in_flight() -> None:
    with (
        ottla.Cluster(1) as cluster,
        controlled(cluster) as control,
        Console(cluster.bootstrap_servers, control=control) as console,
        ConsoleServer(console, "127.0.0.1", 0) as server,
    ):
        asking = Asking(server.url)
        cluster.create_topic("orders", partitions=2)
        assert asking.get("api/served/clients") == {"clients": []}
        assert asking.change("POST", "api/served/subscription", {"interval_ms": 100})[0] == 200
        with ottla.Producer(cluster.bootstrap_servers, client_id="shop", buffer_memory=1 << 17) as producer:

            def told() -> dict[str, Any] | None:
                for _ in range(500):
                    producer.send("orders", bytes(1000))
                [client] = asking.get("api/served/clients")["clients"] or [None]
                found: dict[str, Any] | None = client and client["diagnosis"]
                return found if found and found["findings"] else None

            found = wait_for(told)
            assert {each["limit"] for each in found["findings"]} <= {each.value for each in ottla.Limit}
            with cluster.faults.hold(topic="orders", api="Produce") as held:
                producer.send("orders", b"held")
                held.await_fired(1)
                live = wait_for(lambda: next(iter(console.served.live(None)))["connections"])
                [shop] = [each for each in live if each["client_id"] == "shop" and each["request"]]
                assert (shop["request"], shop["requests_in_flight"] >= 1) == ("Produce", True)
        assert asking.change("POST", "api/served/subscription", {"interval_ms": 0})[0] == 200
        for wrong, says in (
            ({"interval_ms": -1}, "interval_ms must be"),
            ({"interval_ms": 5}, "interval.ms=5 must be"),
        ):
            status, refused = asking.change("POST", "api/served/subscription", wrong)
            assert (status, says in refused["error"]) == (400, True), refused
