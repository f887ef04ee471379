"""pytest fixtures: a Kafka cluster for a test session, a fresh topic for each test.

Loaded by pytest through the entry point `pytest11` in every project that has ottla installed, so nothing but pytest
itself is imported before a test asks for a fixture.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from ottla.cluster.cluster import Cluster


@pytest.fixture(scope="session")
def kafka_cluster() -> Iterator[Cluster]:
    """Three brokers in a process of their own, shared by all tests of the session."""
    from ottla.cluster.cluster import Cluster

    with Cluster(brokers=3) as cluster:
        yield cluster


@pytest.fixture
def kafka_topic(kafka_cluster: Cluster, request: pytest.FixtureRequest) -> Iterator[str]:
    """The name of an empty topic with three partitions that no other test sees; deleted after the test."""
    count = request.session.stash.get(_TOPICS_MADE, 0)
    request.session.stash[_TOPICS_MADE] = count + 1
    plain = "".join(c if c.isascii() and c.isalnum() else "-" for c in request.node.name)
    topic = f"{plain[:100]}-{count}"
    kafka_cluster.create_topic(topic, partitions=3)
    yield topic
    kafka_cluster.delete_topic(topic)


_TOPICS_MADE = pytest.StashKey[int]()
