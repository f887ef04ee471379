"""The same APIs in the same versions as Apache Kafka, but for those listed here, each with its reason."""

from __future__ import annotations

from typing import Any

import pytest
from tests.wire import Wire

from ottla.cluster.cluster import Cluster
from ottla.protocol.messages.api_versions import ApiVersionsRequest

pytestmark = pytest.mark.kafka

# Why Apache Kafka answers these API keys and the embedded cluster does not.
LACKING = {
    "there is no authorization": (29, 30, 31),
    "a broker has one log folder": (34,),
    "there are no delegation tokens": (38, 39, 40, 41),
    "users are given with the listener": (50, 51),
    "the controller is no Raft quorum": (80, 81),
    "brokers come and go with their cluster": (64,),
    "there are no share groups": (76, 77, 78, 79, 83, 84, 85, 86, 87, 90, 91, 92),
    "there are no Streams groups": (88, 89),
}
# The features whose levels decide what clients do; those of the controller and of other groups say nothing here.
FEATURES = {"group.version", "transaction.version"}


def told(address: str, version: int) -> Any:
    wire = Wire(address)
    answer = wire.ask(ApiVersionsRequest(client_software_name="ottla", client_software_version="1"), version)
    wire.close()
    return answer


def ranges(answer: Any) -> dict[int, tuple[int, int]]:
    return {each.api_key: (each.min_version, each.max_version) for each in answer.api_keys}


def features(answer: Any) -> tuple[dict[str, tuple[int, int]], dict[str, tuple[int, int]]]:
    """Those that clients are to know: supported, and finalized."""
    supported = {each.name: (each.min_version, each.max_version) for each in answer.supported_features}
    finalized = {each.name: (each.min_version_level, each.max_version_level) for each in answer.finalized_features}
    return (
        {name: span for name, span in supported.items() if name in FEATURES},
        {name: span for name, span in finalized.items() if name in FEATURES},
    )


@pytest.mark.parametrize("version", [0, 3, 4])
def test_the_same_versions_are_told_as_by_apache_kafka(apache_kafka: str, version: int) -> None:
    with Cluster(brokers=1) as cluster:
        ours = told(cluster.bootstrap_servers, version)
    theirs = told(apache_kafka, version)
    lacking = {key: "not answered" for keys in LACKING.values() for key in keys}
    assert ranges(ours) | lacking == ranges(theirs) | lacking
    assert lacking.keys() == ranges(theirs).keys() - ranges(ours).keys()
    assert features(ours) == features(theirs)
