"""The log of connections: refused, lost, without an answer, usable again; no line while nothing is wrong."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from tests.client.in_time import ahead, connections_lost, wait_until

import ottla
from ottla.client.connection_log import ConnectionLog

MINUTE_US = 60_000_000
LOGGER = "ottla.client"


@pytest.fixture
def said(caplog: pytest.LogCaptureFixture) -> Any:
    """What was logged of connections at INFO and above, as (level, message)."""
    caplog.set_level(logging.INFO, LOGGER)

    def read() -> list[tuple[str, str]]:
        return [(each.levelname, each.getMessage()) for each in caplog.records if each.name == LOGGER]

    return read


def test_the_first_refusal_is_told_at_once_and_then_one_a_minute_with_their_number(said: Any) -> None:
    log = ConnectionLog("orders")
    for now_us in range(0, 3 * MINUTE_US, MINUTE_US // 10):
        log.lost("b1", 9092, "connection refused", now_us)
    assert said() == [
        ("WARNING", "orders: b1:9092 cannot be used: connection refused"),
        ("WARNING", "orders: b1:9092 cannot be used: connection refused (10 failures since the last warning)"),
        ("WARNING", "orders: b1:9092 cannot be used: connection refused (10 failures since the last warning)"),
    ]


def test_each_address_is_told_of_by_itself(said: Any) -> None:
    log = ConnectionLog("orders")
    log.lost("b1", 9092, "connection refused", 0)
    log.lost("::1", 9093, "closed by the broker", 1)
    assert [message for _, message in said()] == [
        "orders: b1:9092 cannot be used: connection refused",
        "orders: [::1]:9093 cannot be used: closed by the broker",
    ]


def test_an_address_that_is_back_is_told_of_once(said: Any) -> None:
    log = ConnectionLog("orders")
    log.lost("b1", 9092, "connection refused", 1_000_000)
    log.lost("b1", 9092, "connection refused", 2_000_000)
    assert log.is_missed("b1", 9092)
    log.back("b1", 9092, 13_500_000)
    assert not log.is_missed("b1", 9092)
    log.back("b1", 9092, 14_000_000)
    assert said()[1:] == [("INFO", "orders: b1:9092 can be used again, after 12.5 s and 2 failures")]


def test_an_address_that_comes_and_goes_is_told_of_no_more_often(said: Any) -> None:
    log = ConnectionLog("orders")
    for now_us in range(0, MINUTE_US, 1_000_000):
        log.lost("b1", 9092, "closed by the broker", now_us)
        log.back("b1", 9092, now_us + 500_000)
    assert [level for level, _ in said()] == ["WARNING", "INFO"]
    log.lost("b1", 9092, "closed by the broker", MINUTE_US)
    assert said()[2] == (
        "WARNING",
        "orders: b1:9092 cannot be used: closed by the broker (60 failures since the last warning)",
    )


def test_a_producer_tells_that_nobody_listens_and_its_error_names_each_address(said: Any, closed_port: str) -> None:
    clock = ottla.Clock()
    with (
        ottla.Producer(closed_port, max_block_ms=2_000, client_id="orders", clock=clock) as producer,
        connections_lost() as wait,
        ahead(clock, 2, wait),
        pytest.raises(ottla.Unreachable) as failed,
    ):
        producer.send("flights", b"x")
    assert f"{closed_port} (connection refused)" in str(failed.value)
    assert said() == [("WARNING", f"orders: {closed_port} cannot be used: connection refused")]


def test_a_broker_that_is_killed_and_comes_back_is_told_of(said: Any) -> None:
    with ottla.Cluster(brokers=1) as cluster, ottla.Producer(cluster.bootstrap_servers, client_id="orders") as producer:
        cluster.create_topic("flights")
        producer.send("flights", b"before").result(30)
        assert said() == []
        cluster.kill(1)
        waiting = producer.send("flights", b"meanwhile")
        wait_until(said)
        cluster.start(1)
        waiting.result(60)
        address = cluster.bootstrap_servers
    levels = [level for level, _ in said()]
    assert levels == ["WARNING", "INFO"]
    assert said()[0][1].startswith(f"orders: {address} cannot be used: ")
    assert said()[1][1].startswith(f"orders: {address} can be used again, after ")


def test_brokers_that_metadata_named_are_in_the_error_of_a_send_that_waited_in_vain(said: Any) -> None:
    with ottla.Cluster(brokers=3) as cluster:
        addresses = cluster.bootstrap_servers.split(",")
        clock = ottla.Clock()

        def two_refuse() -> None:
            wait_until(lambda: sum("connection refused" in message for _, message in said()) > 1)

        with ottla.Producer(addresses[0], clock=clock) as sender:
            cluster.create_topic("flights", partitions=3)
            for partition in range(3):
                sender.send("flights", b"before", partition=partition).result(30)
            for broker in (1, 2, 3):
                cluster.kill(broker)
            with ahead(clock, 60, two_refuse), pytest.raises(ottla.Unreachable) as failed:
                sender.send("weather", b"x")
    assert addresses[0] in str(failed.value)
    assert any(address in str(failed.value) for address in addresses[1:])
    assert str(failed.value).count("(connection refused)") >= 2


def test_closing_and_idle_connections_are_not_told_of(said: Any) -> None:
    clock = ottla.Clock()
    with ottla.Cluster(brokers=1, clock=clock, settings={"connections_max_idle_ms": 600_000}) as cluster:
        cluster.create_topic("flights")
        with ottla.Producer(cluster.bootstrap_servers) as producer:
            for _ in range(2):
                producer.send("flights", b"x").result(30)
                assert producer.metrics()["connection-count"]
                clock.advance(601)
                wait_until(lambda: producer.metrics()["connection-count"] == 0)
        with ottla.Producer(cluster.bootstrap_servers, connections_max_idle_ms=200) as producer:
            producer.send("flights", b"x").result(30)
            wait_until(lambda: producer.metrics()["connection-count"] == 0)
    assert said() == []


def test_readers_and_admins_tell_too(said: Any, closed_port: str) -> None:
    clock = ottla.Clock()
    with (
        ottla.Admin(closed_port, client_id="boss", default_api_timeout_ms=2_000, clock=clock) as admin,
        connections_lost() as wait,
        ahead(clock, 2, wait),
        pytest.raises(ottla.Unreachable),
    ):
        admin.list_topics()
    with (
        ottla.Reader(closed_port, "flights", client_id="eyes", default_api_timeout_ms=2_000, clock=clock) as reader,
        connections_lost() as wait,
        ahead(clock, 2, wait),
        pytest.raises(ottla.Unreachable),
    ):
        next(iter(reader))
    assert said() == [
        ("WARNING", f"boss: {closed_port} cannot be used: connection refused"),
        ("WARNING", f"eyes: {closed_port} cannot be used: connection refused"),
    ]


def test_a_lost_answer_is_not_put_down_to_the_security_protocol(
    kafka_cluster: ottla.Cluster, kafka_topic: str, said: Any
) -> None:
    """The connection on which it was lost had answered nothing else yet; others had."""
    partition = 0
    kafka_cluster.move_leader(kafka_topic, partition, 2)
    first = kafka_cluster.bootstrap_servers.split(",")[0]
    with kafka_cluster.faults.lose_ack(topic=kafka_topic, nth=1) as lost, ottla.Producer(first) as producer:
        producer.send(kafka_topic, b"value", partition=partition).result(60)
    assert lost.fired == 1
    [warning] = [message for level, message in said() if level == "WARNING"]
    assert warning.endswith("cannot be used: closed by the broker")
