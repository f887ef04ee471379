"""Every API and version that is advertised does what it is for: asked over a socket by kio, which reads the answer.

APIs are taken from the broker's own table. One without a case in `valid_requests.CASES` is asked with the defaults of
all fields; it needs a case if that gets an error, or an answer with nothing in it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from ottla import Listener
from ottla.broker.apis import OF_CLIENT_METRICS, VERSIONS
from ottla.cluster.cluster import Cluster
from ottla.protocol.apis import REQUESTS
from ottla.protocol.messages import MODULES

from .kio_wire import KioWire, build, empty_lists, error_codes, kio_class
from .valid_requests import CASES, PASSWORD, PLACES, SASL, STRAYED, USER, Situation, batch, request_of

_PRODUCE, _FETCH, _METADATA, _FIND_COORDINATOR, _API_VERSIONS, _END_TXN, _ELECT_LEADERS = 0, 1, 3, 10, 18, 26, 43
_LIST_PARTITION_REASSIGNMENTS, _DESCRIBE_QUORUM = 46, 55
_LIST_TRANSACTIONS, _LIST_CONFIG_RESOURCES, _DESCRIBE_TOPIC_PARTITIONS = 66, 74, 75
_COORDINATORS = [0, 1] if _END_TXN in VERSIONS else [0]
_ASKED = [
    # The latest one stands for all in `make test`.
    pytest.param(
        key, version, id=f"{MODULES[key][1]}-v{version}", marks=[pytest.mark.prove] if version < highest else []
    )
    for key, (lowest, highest) in sorted(VERSIONS.items())
    for version in range(lowest, highest + 1)
]


# What is not in the answer to a case: lists of what went wrong, and of what the case has nothing of.
MAY_BE_EMPTY: dict[int, set[str]] = {
    _PRODUCE: {"node_endpoints", "responses.partition_responses.record_errors"},
    _FETCH: {"node_endpoints"},
    _METADATA: {"topics.partitions.offline_replicas"},
    _API_VERSIONS: {"supported_features"},
    _LIST_TRANSACTIONS: {"unknown_state_filters"},
    _LIST_PARTITION_REASSIGNMENTS: {"topics"},
    _DESCRIBE_QUORUM: {"topics.partitions.observers"},
    _LIST_CONFIG_RESOURCES: {"config_resources"},
    _DESCRIBE_TOPIC_PARTITIONS: {
        f"topics.partitions.{each}" for each in ("eligible_leader_replicas", "last_known_elr", "offline_replicas")
    },
}


Situate = Callable[[int, int, str], Situation]


@pytest.fixture(scope="module")
def broker() -> Iterator[Cluster]:
    """A cluster of one broker, with two ways in."""
    pytest.importorskip("scramp")
    listeners = {"PLAINTEXT": Listener(), "SASL": Listener(protocol="SASL_PLAINTEXT", users={USER: PASSWORD})}
    with Cluster(brokers=1, listeners=listeners) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def pair() -> Iterator[Cluster]:
    """Two brokers, of which either may lead."""
    with Cluster(brokers=2) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def wire(broker: Cluster) -> Iterator[KioWire]:
    wire = KioWire(broker.bootstrap_servers)
    # Whoever asks for a coordinator makes the topic it keeps its state in.
    for key_type in _COORDINATORS:
        found = wire.ask(_FIND_COORDINATOR, 4, key_type=key_type, coordinator_keys=["any"])
        assert set(error_codes(found)) == {0}
    yield wire
    wire.close()


def filled(broker: Cluster, wire: KioWire, version: int, name: str) -> Situation:
    """A topic with three records."""
    topic = f"{name}-topic"
    broker.create_topic(topic, partitions=2)
    data = [{"name": topic, "partition_data": [{"index": 0, "records": batch()}]}]
    produced = wire.ask(_PRODUCE, 9, acks=-1, timeout_ms=10_000, topic_data=data)
    assert set(error_codes(produced)) == {0}
    found = wire.ask(_METADATA, 12, topics=[{"name": topic}]).topics[0]
    return Situation(wire, version, topic, found.topic_id, name)


@pytest.fixture
def situate(broker: Cluster, wire: KioWire, pair: Cluster) -> Iterator[Situate]:
    """Where an API is asked in a version."""
    wires: list[KioWire] = []

    def situation(api_key: int, version: int, name: str) -> Situation:
        place = PLACES.get(api_key)
        if place is None:
            return filled(broker, wire, version, name)
        wires.append(
            KioWire(broker.bootstrap_servers_of("SASL") if place == SASL else pair.bootstrap_servers.split(",")[0])
        )
        if place == STRAYED:
            pair.create_topic(name)
            pair.move_leader(name, 0)
        return Situation(wires[-1], version, name, None, name)

    yield situation
    for each in wires:
        each.close()


def test_what_is_advertised_is_the_table(wire: KioWire) -> None:
    told = wire.ask(_API_VERSIONS, 3, client_software_name="kio", client_software_version="1")
    listed = {each.api_key: (each.min_version, each.max_version) for each in told.api_keys}
    # Those by which clients push metrics are told once somebody has subscribed, which their cases do.
    always = {key: versions for key, versions in VERSIONS.items() if key not in OF_CLIENT_METRICS}
    assert {key: of for key, of in listed.items() if key not in OF_CLIENT_METRICS} == {
        **always,
        _PRODUCE: (0, VERSIONS[_PRODUCE][1]),
    }


def test_every_case_is_of_an_advertised_api() -> None:
    assert not CASES.keys() - VERSIONS.keys()


@pytest.mark.parametrize(("api_key", "version"), _ASKED)
def test_every_version_gets_the_answer_a_valid_request_deserves(
    situate: Situate, kafka_name: str, api_key: int, version: int
) -> None:
    at = situate(api_key, version, kafka_name.removeprefix("test-every-version-gets-the-answer-"))
    answer = at.wire.ask(api_key, version, **request_of(at, api_key))
    advice = "" if api_key in CASES else "; it needs a case in cluster/valid_requests.py"
    assert set(error_codes(answer)) <= {0}, f"{answer}{advice}"
    empty = set(empty_lists(answer)) - MAY_BE_EMPTY.get(api_key, set())
    assert not empty, f"{sorted(empty)} of {answer}{advice or '; or may they be empty (MAY_BE_EMPTY)?'}"
    if api_key == _FETCH:
        assert answer.responses[0].partitions[0].records


def test_an_election_in_every_version_gives_the_preferred_leader_its_leadership_back(
    situate: Situate, pair: Cluster, kafka_name: str
) -> None:
    lowest, highest = VERSIONS[_ELECT_LEADERS]
    for version in range(lowest, highest + 1):
        at = situate(_ELECT_LEADERS, version, f"{kafka_name}-{version}")
        strayed = pair.leader(at.topic, 0)
        at.wire.ask(_ELECT_LEADERS, version, **CASES[_ELECT_LEADERS](at))
        assert pair.leader(at.topic, 0) != strayed


@pytest.mark.parametrize("api_key", sorted(CASES))
def test_no_field_of_a_case_is_unknown_to_all_versions(situate: Situate, kafka_name: str, api_key: int) -> None:
    given = CASES[api_key](situate(api_key, VERSIONS[api_key][1], kafka_name))
    used: set[str] = set()
    for version in range(REQUESTS[api_key].MIN_VERSION, REQUESTS[api_key].MAX_VERSION + 1):
        build(kio_class(api_key, version, "request"), given, used)
    assert not given.keys() - used
