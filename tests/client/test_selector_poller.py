"""The same clients over the `selectors` module, as on machines without epoll and eventfd (macOS).

Once with the default selector of this machine and once with `select`, which changes events as the one of macOS does.
"""

from __future__ import annotations

import os
import selectors
import socket
import threading
from typing import Any

import pytest
from tests.client.in_time import run, wait_until

import ottla
from ottla.client import poller
from ottla.client.poller import READABLE, WRITABLE, Doorbell, is_readable

SELECTORS = [selectors.DefaultSelector, selectors.SelectSelector]


@pytest.fixture(params=SELECTORS, ids=lambda kind: kind.__name__)
def elsewhere(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """This machine has neither epoll nor eventfd."""
    monkeypatch.setattr(poller, "HAS_EPOLL", False)
    monkeypatch.setattr("ottla.client.producer_driver.HAS_EPOLL", False)
    monkeypatch.setattr(selectors, "DefaultSelector", request.param)
    monkeypatch.delattr(os, "eventfd", raising=False)


def is_over_selectors(driver: Any) -> bool:
    return type(driver.loop._poller) is poller._SelectorPoller and not driver.loop._doorbell.is_counter


@pytest.mark.usefixtures("elsewhere")
def test_what_is_ready_is_told_until_it_is_done() -> None:
    waiting = poller.new_poller()
    ours, theirs = socket.socketpair()
    with ours, theirs:
        waiting.watch(ours.fileno(), WRITABLE)
        assert waiting.wait(0) == [(ours.fileno(), WRITABLE)]
        waiting.change(ours.fileno(), READABLE)
        assert waiting.wait(0) == []
        theirs.send(b"x")
        assert waiting.wait(-1) == [(ours.fileno(), READABLE)]
        assert waiting.wait(0) == [(ours.fileno(), READABLE)]
        waiting.change(ours.fileno(), READABLE | WRITABLE)
        assert waiting.wait(0) == [(ours.fileno(), READABLE | WRITABLE)]
        ours.recv(1)
        waiting.change(ours.fileno(), READABLE)
        theirs.close()
        ((_, mask),) = waiting.wait(-1)
        assert is_readable(mask)
        waiting.forget(ours.fileno())
        assert waiting.wait(0) == []
    waiting.close()


@pytest.mark.usefixtures("elsewhere")
def test_who_waits_for_nothing_now_is_told_nothing() -> None:
    waiting = poller.new_poller()
    ours, theirs = socket.socketpair()
    with ours, theirs:
        waiting.watch(ours.fileno(), READABLE)
        theirs.send(b"x")
        waiting.change(ours.fileno(), 0)
        assert waiting.wait(0) == []
        waiting.change(ours.fileno(), READABLE)
        assert waiting.wait(0) == [(ours.fileno(), READABLE)]
        waiting.change(ours.fileno(), 0)
        waiting.forget(ours.fileno())
    waiting.close()


@pytest.mark.usefixtures("elsewhere")
def test_every_ring_ends_one_wait_and_a_bell_takes_any_number() -> None:
    waiting, bell = poller.new_poller(), Doorbell()
    waiting.watch_doorbell(bell)
    for _ in range(3):
        ringer = threading.Thread(target=bell.ring)
        ringer.start()
        assert waiting.wait(-1) == [(bell.fd, READABLE)]
        bell.heard()
        ringer.join(30)
        assert waiting.wait(0) == []
    for _ in range(10_000):
        bell.ring()
    while waiting.wait(0):
        bell.heard()
    bell.heard()
    bell.ring()
    assert waiting.wait(-1) == [(bell.fd, READABLE)]
    waiting.close()


@pytest.mark.usefixtures("elsewhere")
def test_a_producer_sends_one_by_one_and_by_the_thousand_from_many_threads(
    kafka_cluster: ottla.Cluster, kafka_topic: str
) -> None:
    with ottla.Producer(kafka_cluster.bootstrap_servers) as producer:
        assert is_over_selectors(producer._driver)
        for number in range(50):
            assert producer.send(kafka_topic, b"%d" % number, partition=number % 3).result(30).offset >= 0

        def send_many(name: str) -> None:
            for number in range(1000):
                producer.send(kafka_topic, b"%s %d" % (name.encode(), number))

        threads = [threading.Thread(target=send_many, args=(name,)) for name in "abc"]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        producer.flush(60)
        assert producer.metrics()["record-error-total"] == 0
    with ottla.Reader(kafka_cluster.bootstrap_servers, kafka_topic) as reader:
        assert is_over_selectors(reader._driver)
        assert sum(batch.num_rows for batch in reader) == 3050


@pytest.mark.usefixtures("elsewhere")
def test_what_no_socket_takes_at_once_arrives_whole(kafka_cluster: ottla.Cluster, kafka_topic: str) -> None:
    values = [bytes([number]) * 900_000 for number in range(9)]
    with ottla.Producer(kafka_cluster.bootstrap_servers, send_buffer_bytes=16_384) as producer:
        for number, value in enumerate(values):
            producer.send(kafka_topic, value, partition=number % 3)
        producer.flush(60)
    with ottla.Reader(kafka_cluster.bootstrap_servers, kafka_topic) as reader:
        read = [value for batch in reader for value in batch["value"].to_pylist()]
    assert sorted(read) == values


@pytest.mark.usefixtures("elsewhere")
def test_many_connections_wait_beside_each_other_and_outlive_a_broker() -> None:
    with ottla.Cluster(brokers=3) as cluster:
        cluster.create_topic("flights", partitions=6, replication_factor=3)
        producers = [ottla.Producer(cluster.bootstrap_servers) for _ in range(8)]
        try:
            for producer in producers:
                deliveries = [producer.send("flights", b"x", partition=partition) for partition in range(6)]
                assert all(delivery.result(30).offset >= 0 for delivery in deliveries)
            cluster.kill(2)
            waiting = [producer.send("flights", b"y", partition=n % 6) for n, producer in enumerate(producers)]
            cluster.start(2)
            assert all(delivery.result(60).offset >= 0 for delivery in waiting)
        finally:
            for producer in producers:
                producer.close(60)


@pytest.mark.usefixtures("elsewhere")
def test_an_admin_asks_and_is_answered(kafka_cluster: ottla.Cluster, kafka_topic: str) -> None:
    with ottla.Admin(kafka_cluster.bootstrap_servers) as admin:
        assert is_over_selectors(admin._driver)
        assert kafka_topic in admin.list_topics()


@pytest.mark.usefixtures("elsewhere")
def test_coroutines_send_one_by_one_and_all_at_once(kafka_cluster: ottla.Cluster, kafka_topic: str) -> None:

    async def send() -> None:
        async with ottla.AsyncProducer(kafka_cluster.bootstrap_servers) as producer:
            assert is_over_selectors(producer._driver)
            for number in range(30):
                assert (await (await producer.send(kafka_topic, b"%d" % number))).offset >= 0
            deliveries = [await producer.send(kafka_topic, b"%d" % number) for number in range(500)]
            for delivery in deliveries:
                await delivery

    run(send())
    with ottla.Reader(kafka_cluster.bootstrap_servers, kafka_topic) as reader:
        assert sum(batch.num_rows for batch in reader) == 530


@pytest.mark.usefixtures("elsewhere")
def test_an_idle_producer_hears_of_the_end_of_its_connections() -> None:
    with (
        ottla.Cluster(brokers=1, settings={"connections_max_idle_ms": 200}) as cluster,
        ottla.Producer(cluster.bootstrap_servers) as producer,
    ):
        cluster.create_topic("flights")
        producer.send("flights", b"x").result(30)
        wait_until(lambda: producer.metrics()["connection-count"] == 0)
        producer.send("flights", b"y").result(30)
