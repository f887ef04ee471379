"""The registries that clients are tested against: our embedded one, and Apicurio Registry with OTTLA_SOAK=1.

Both have the REST API of Confluent's registry. Where Apicurio Registry answers otherwise, a test says what it does.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import pytest
from tools.apicurio import Apicurio
from tools.kafka_jars import JarsUnavailable

import ottla

from .needs import lacking
from .soak import SOAK


class EitherRegistry(NamedTuple):
    """One that runs at `url`."""

    url: str
    is_apicurio: bool


@pytest.fixture(scope="module", params=["embedded", pytest.param("apicurio", marks=[pytest.mark.kafka, SOAK])])
def either_registry(request: pytest.FixtureRequest) -> Iterator[EitherRegistry]:
    """Our registry, and Apicurio Registry after it."""
    if request.param == "embedded":
        with ottla.Cluster(brokers=1) as cluster, ottla.Registry(cluster.bootstrap_servers) as registry:
            yield EitherRegistry(registry.url, is_apicurio=False)
        return
    try:
        apicurio = Apicurio()
    except JarsUnavailable as missing:
        lacking("kafka", missing)
    with apicurio:
        yield EitherRegistry(apicurio.url, is_apicurio=True)
