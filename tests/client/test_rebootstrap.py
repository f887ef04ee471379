"""A producer whose brokers are gone for good, while another of its bootstrap addresses leads to a cluster (KIP-899)."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator
from typing import Any

import pytest
from tests.client.in_time import connections_lost

import ottla
from ottla.client.producer import Producer

TOPIC = "flights"


@pytest.fixture
def moved(taken_port: socket.socket) -> Iterator[Any]:
    """Call it with settings: it gives a producer that has sent to a cluster that is gone by now; another is there."""
    with contextlib.ExitStack() as open_things:

        def move(**settings: Any) -> Producer:
            port = taken_port.getsockname()[1]
            with ottla.Cluster(brokers=1) as first:
                first.create_topic(TOPIC, partitions=1)
                addresses = f"{first.bootstrap_servers},127.0.0.1:{port}"
                producer = Producer(addresses, linger_ms=0, reconnect_backoff_max_ms=100, **settings)
                assert producer.send(TOPIC, b"first").result(30).offset == 0
            taken_port.close()
            second = open_things.enter_context(ottla.Cluster(brokers=1, port=port))
            open_things.callback(producer.close, 0)
            second.create_topic(TOPIC, partitions=1)
            return producer

        yield move


def test_the_other_bootstrap_address_is_found(moved: Any) -> None:
    producer = moved()
    assert producer.send(TOPIC, b"second").result(30).offset == 0


def test_with_recovery_none_the_producer_keeps_to_the_brokers_it_knows(moved: Any) -> None:
    clock = ottla.Clock()
    producer = moved(metadata_recovery_strategy="none", clock=clock)
    with connections_lost(20) as wait:
        delivery = producer.send(TOPIC, b"second")
        wait()
    clock.advance(120)
    with pytest.raises(ottla.DeliveryFailed, match=r"delivery\.timeout\.ms"):
        delivery.result(60)
