"""A pytest fixture: a schema registry beside `kafka_cluster`. Loaded with the cluster's own plugin."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from ottla.embedded_registry.registry import Registry


@pytest.fixture(scope="session")
def schema_registry(kafka_cluster: Any) -> Iterator[Registry]:
    """A schema registry on `kafka_cluster`, shared by all tests of the session; `schema_registry.url` is its address.

    Subjects stay from one test to the next: give each test names of its own, such as that of `kafka_topic`.
    """
    from ottla.embedded_registry.registry import Registry

    with Registry(kafka_cluster.bootstrap_servers) as registry:
        yield registry
