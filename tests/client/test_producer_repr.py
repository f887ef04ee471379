"""The `repr` of a producer: its ids, brokers and state; no request is sent for it."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

import ottla
from ottla.client.leaving import INTERRUPTED, Look


def test_an_open_producer_counts_what_it_holds(kafka_cluster: ottla.Cluster, kafka_topic: str) -> None:
    address = kafka_cluster.bootstrap_servers
    with ottla.Producer(address, client_id="billing", linger_ms=60_000, delivery_timeout_ms=120_000) as producer:
        promise = "client.id billing, acks=all, idempotence on>"
        assert repr(producer) == f"<Producer for {address}: open, 0 records buffered, {promise}"
        producer.send(kafka_topic, b"x")
        assert repr(producer) == f"<Producer for {address}: open, 1 record buffered, {promise}"
        producer.flush()
        assert repr(producer) == f"<Producer for {address}: open, 0 records buffered, {promise}"
    assert repr(producer) == f"<Producer for {address}: closed, {promise}"


def test_ipv6_addresses_stand_in_brackets() -> None:
    servers = "[::1]:1,localhost:1"
    with ottla.Producer(servers) as producer:
        assert f"<Producer for {servers}: open" in repr(producer)
        assert (
            Look(producer._driver, INTERRUPTED, "close", 1)
            ._told()
            .startswith(f"interrupted: waiting up to 1 s for the last answers of {servers};")
        )
    with ottla.Admin(servers) as admin:
        assert f"<Admin for {servers}, open>" in repr(admin)


def test_a_producer_of_coroutines_says_so(kafka_cluster: ottla.Cluster) -> None:
    async def shown() -> list[str]:
        async with ottla.AsyncProducer(kafka_cluster.bootstrap_servers, client_id="billing") as producer:
            is_open = repr(producer)
        return [is_open, repr(producer)]

    is_open, closed = asyncio.run(shown())
    assert is_open.startswith(f"<AsyncProducer for {kafka_cluster.bootstrap_servers}: open, 0 records buffered, ")
    assert closed.startswith(f"<AsyncProducer for {kafka_cluster.bootstrap_servers}: closed, client.id billing, ")


def test_a_fenced_producer_says_so(kafka_cluster: ottla.Cluster, kafka_topic: str) -> None:
    old = ottla.Producer(kafka_cluster.bootstrap_servers, transactional_id=kafka_topic)
    new = ottla.Producer(kafka_cluster.bootstrap_servers, transactional_id=kafka_topic)
    old.begin_transaction()
    # Stored before the close: a record that reached its leader later would be refused, and the repr would say that.
    old.send(kafka_topic, b"x").result(60)
    new.init_transactions()
    with pytest.raises(ottla.ProducerFenced):
        old.commit_transaction()
    assert f": fenced, 0 records buffered, client.id producer-{kafka_topic}, transactional.id {kafka_topic}, " in repr(
        old
    )
    assert ": open, 0 records buffered, " in repr(new)
    old.close()
    assert ": fenced and closed, client.id " in repr(old)
    new.close()


def test_a_producer_whose_thread_has_stopped_says_so(kafka_cluster: ottla.Cluster) -> None:
    producer = ottla.Producer(kafka_cluster.bootstrap_servers)
    producer._driver.loop.post(object())  # which no core knows what to do with
    producer._driver.loop.join()
    assert f"<Producer for {kafka_cluster.bootstrap_servers}: crashed, " in repr(producer)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_producer_of_another_process_says_so(kafka_cluster: ottla.Cluster, tmp_path: Path) -> None:
    with ottla.Producer(kafka_cluster.bootstrap_servers) as producer:
        child = os.fork()
        if child == 0:
            try:
                (tmp_path / "shown").write_text(repr(producer))
            finally:
                os._exit(0)
        os.waitpid(child, 0)
    assert ": belongs to the parent process, " in (tmp_path / "shown").read_text()


def test_a_producer_that_was_never_made_has_a_repr_too() -> None:
    """Debuggers and pytest show one where settings were refused."""
    assert repr(ottla.Producer.__new__(ottla.Producer)) == "<Producer that was not made>"
