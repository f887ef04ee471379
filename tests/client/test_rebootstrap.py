"""A producer whose brokers are gone for good, while another of its bootstrap addresses leads to a cluster (KIP-899)."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest

import ottla
from ottla.client.producer import Producer

TOPIC = "flights"


@pytest.fixture
def moved(closed_port: str) -> Iterator[Any]:
    """Call it with settings: it gives a producer that has sent to a cluster that is gone by now; another is there."""
    with contextlib.ExitStack() as open_things:

        def move(**settings: Any) -> Producer:
            with ottla.Cluster(brokers=1) as first:
                first.create_topic(TOPIC, partitions=1)
                addresses = f"{first.bootstrap_servers},{closed_port}"
                producer = Producer(addresses, linger_ms=0, reconnect_backoff_max_ms=100, **settings)
                assert producer.send(TOPIC, b"first").result(30).offset == 0
            second = open_things.enter_context(ottla.Cluster(brokers=1, port=int(closed_port.rpartition(":")[2])))
            open_things.callback(producer.close, 0)
            second.create_topic(TOPIC, partitions=1)
            return producer

        yield move


def test_the_other_bootstrap_address_is_found(moved: Any) -> None:
    producer = moved()
    assert producer.send(TOPIC, b"second").result(30).offset == 0


def test_with_recovery_none_the_producer_keeps_to_the_brokers_it_knows(moved: Any) -> None:
    producer = moved(metadata_recovery_strategy="none", request_timeout_ms=1_000, delivery_timeout_ms=3_000)
    delivery = producer.send(TOPIC, b"second")
    with pytest.raises(ottla.DeliveryFailed, match=r"delivery\.timeout\.ms"):
        delivery.result(30)
