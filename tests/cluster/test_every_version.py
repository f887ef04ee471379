"""Every API and version that is advertised is really answered: asked over a socket by kio, which reads the answer.

APIs are taken from the broker's own table: a new one without a request in `valid_requests.CASES` fails here.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ottla.broker.apis import VERSIONS
from ottla.cluster.cluster import Cluster
from ottla.protocol.apis import REQUESTS
from ottla.protocol.messages import MODULES

from .kio_wire import KioWire, build, error_codes, kio_class
from .valid_requests import CASES, MAY_SAY, Situation, batch

_PRODUCE, _METADATA, _FIND_COORDINATOR, _API_VERSIONS, _END_TXN = 0, 3, 10, 18, 26
_COORDINATORS = [0, 1] if _END_TXN in VERSIONS else [0]
_ASKED = [
    pytest.param(key, version, id=f"{MODULES[key][1]}-v{version}")
    for key, (lowest, highest) in sorted(VERSIONS.items())
    for version in range(lowest, highest + 1)
]


@pytest.fixture(scope="module")
def wire(broker: Cluster) -> Iterator[KioWire]:
    wire = KioWire(broker.bootstrap_servers)
    # Whoever asks for a coordinator makes the topic it keeps its state in.
    for key_type in _COORDINATORS:
        found = wire.ask(_FIND_COORDINATOR, 4, key_type=key_type, coordinator_keys=["any"])
        assert set(error_codes(found)) == {0}
    yield wire
    wire.close()


def situation(broker: Cluster, wire: KioWire, version: int, name: str) -> Situation:
    topic = f"{name}-topic"
    broker.create_topic(topic, partitions=2)
    data = [{"name": topic, "partition_data": [{"index": 0, "records": batch()}]}]
    produced = wire.ask(_PRODUCE, 9, acks=-1, timeout_ms=10_000, topic_data=data)
    assert set(error_codes(produced)) == {0}
    found = wire.ask(_METADATA, 12, topics=[{"name": topic}]).topics[0]
    return Situation(wire, version, topic, found.topic_id, name)


def test_what_is_advertised_is_the_table(wire: KioWire) -> None:
    told = wire.ask(_API_VERSIONS, 3, client_software_name="kio", client_software_version="1")
    listed = {each.api_key: (each.min_version, each.max_version) for each in told.api_keys}
    assert listed == {**VERSIONS, _PRODUCE: (0, VERSIONS[_PRODUCE][1])}


def test_every_advertised_api_has_a_case() -> None:
    assert not VERSIONS.keys() - CASES.keys()


@pytest.mark.parametrize(("api_key", "version"), _ASKED)
def test_every_version_gets_the_answer_a_valid_request_deserves(
    broker: Cluster, wire: KioWire, kafka_name: str, api_key: int, version: int
) -> None:
    at = situation(broker, wire, version, kafka_name.removeprefix("test-every-version-gets-the-answer-"))
    answer = wire.ask(api_key, version, **CASES[api_key](at))
    assert set(error_codes(answer)) <= {0} | MAY_SAY.get(api_key, set()), answer


@pytest.mark.parametrize("api_key", sorted(VERSIONS))
def test_no_field_of_a_case_is_unknown_to_all_versions(
    broker: Cluster, wire: KioWire, kafka_name: str, api_key: int
) -> None:
    given = CASES[api_key](situation(broker, wire, VERSIONS[api_key][1], kafka_name))
    used: set[str] = set()
    for version in range(REQUESTS[api_key].MIN_VERSION, REQUESTS[api_key].MAX_VERSION + 1):
        build(kio_class(api_key, version, "request"), given, used)
    assert not given.keys() - used
