"""A cluster of three brokers, and a proxy in front of it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import ottla


@pytest.fixture(scope="package")
def cluster() -> Iterator[ottla.Cluster]:
    with ottla.Cluster(brokers=3) as cluster:
        yield cluster


@pytest.fixture
def proxy(cluster: ottla.Cluster) -> Iterator[ottla.Proxy]:
    with ottla.Proxy(cluster.bootstrap_servers) as proxy:
        yield proxy


@pytest.fixture
def topic(cluster: ottla.Cluster, kafka_name: str) -> str:
    cluster.create_topic(kafka_name)
    return kafka_name
