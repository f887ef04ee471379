"""A cluster of three brokers that is controlled over HTTP."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import ottla
from ottla.remote.server import ControlServer

from .http_client import Http

QUICK = {"broker_session_timeout_ms": 600, "broker_heartbeat_interval_ms": 100}


@pytest.fixture(scope="module")
def cluster() -> Iterator[ottla.Cluster]:
    """Brokers that are missed soon, with a clock that can be set ahead."""
    with ottla.Cluster(3, settings=QUICK, clock=ottla.Clock()) as cluster:
        cluster.create_topic("orders", partitions=2)
        yield cluster


@pytest.fixture(scope="module")
def control(cluster: ottla.Cluster) -> Iterator[ControlServer]:
    """It listens on a free port of this machine."""
    with ControlServer("127.0.0.1", 0) as control, control.serving(cluster):
        yield control


@pytest.fixture
def http(cluster: ottla.Cluster, control: ControlServer) -> Iterator[Http]:
    """A client; after the test all faults are healed and all brokers run."""
    yield Http(control.address)
    cluster.faults.heal()
    states = cluster.brokers().values()
    if "paused" in states:
        cluster.resume()
    if "down" in states:
        cluster.start()
    for partition in range(2):
        cluster.await_isr("orders", partition, 3, timeout=60)
