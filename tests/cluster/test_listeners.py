"""Several ways into the brokers: each client is told the addresses of the listener it came in by."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from tools.ports import free_ports

import ottla
from ottla import Listener
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.metadata import MetadataRequest

TOPIC = "flights"
TOLD = "kafka.example"


@pytest.fixture(scope="module")
def external_port() -> int:
    return free_ports(3)[0]


@pytest.fixture(scope="module")
def cluster(external_port: int) -> Iterator[ottla.Cluster]:
    listeners = {
        "INTERNAL": Listener(),
        "EXTERNAL": Listener(port=external_port, advertised_host=TOLD, advertised_port=31_000),
        "FORWARDED": Listener(host="0.0.0.0", advertised_host="localhost"),
    }
    with ottla.Cluster(brokers=3, listeners=listeners) as cluster:
        cluster.create_topic(TOPIC, partitions=3)
        yield cluster


@pytest.fixture
def wires(cluster: ottla.Cluster, external_port: int, wire_to: Callable[[str], Any]) -> dict[str, Any]:
    """A connection to broker 1 by each listener."""
    names = ("INTERNAL", "FORWARDED")
    found = {name: wire_to(cluster.bootstrap_servers_of(name).split(",")[0]) for name in names}
    return {**found, "EXTERNAL": wire_to(f"127.0.0.1:{external_port}")}


def _addresses(nodes: list[Any]) -> str:
    return ",".join(f"{node.host}:{node.port}" for node in nodes)


def test_the_first_listener_is_the_one_to_bootstrap_from(cluster: ottla.Cluster) -> None:
    assert cluster.bootstrap_servers == cluster.bootstrap_servers_of("INTERNAL")
    assert cluster.bootstrap_servers_of("EXTERNAL") == f"{TOLD}:31000,{TOLD}:31001,{TOLD}:31002"


def test_metadata_tells_the_addresses_of_the_listener_it_was_asked_on(
    cluster: ottla.Cluster, wires: dict[str, Any]
) -> None:
    told = {name: _addresses(wire.call(MetadataRequest(), 12).brokers) for name, wire in wires.items()}
    assert told == {name: cluster.bootstrap_servers_of(name) for name in wires}
    assert len(set(told.values())) == 3


def test_a_coordinator_is_named_by_the_listeners_address(cluster: ottla.Cluster, wires: dict[str, Any]) -> None:
    for name, wire in wires.items():
        found = wire.call(FindCoordinatorRequest(coordinator_keys=["a-group"]), 6).coordinators[0]
        assert found.error_code == 0
        assert _addresses([found]) == cluster.bootstrap_servers_of(name).split(",")[found.node_id - 1]


def test_a_new_leader_is_named_by_the_listeners_address(
    cluster: ottla.Cluster, wires: dict[str, Any], make: Any
) -> None:
    """KIP-951: who produces to the wrong broker is told where the right one is."""
    partition = next(number for number in range(3) if cluster.leader(TOPIC, number) != 1)
    for name, wire in wires.items():
        answer = wire.call(make.produce(TOPIC, b"astray", partition=partition), 12)
        assert answer.responses[0].partition_responses[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        leader = cluster.leader(TOPIC, partition)
        assert [node.node_id for node in answer.node_endpoints] == [leader]
        assert _addresses(answer.node_endpoints) == cluster.bootstrap_servers_of(name).split(",")[leader - 1]


@pytest.mark.parametrize("name", ["INTERNAL", "FORWARDED"])
def test_a_foreign_client_works_by_any_listener(cluster: ottla.Cluster, name: str) -> None:
    servers = {"bootstrap.servers": cluster.bootstrap_servers_of(name)}
    topic = f"through-{name}"
    cluster.create_topic(topic, partitions=3)
    producer = Producer(servers)
    for partition in range(3):
        producer.produce(topic, name.encode(), partition=partition)
    assert producer.flush(30) == 0
    consumer = Consumer({**servers, "group.id": name, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    try:
        got = [message for _ in range(3) if (message := consumer.poll(30)) is not None]
    finally:
        consumer.close()
    assert sorted(message.partition() for message in got) == [0, 1, 2]
    assert {message.value() for message in got} == {name.encode()}


def test_an_ipv6_listener_is_told_in_brackets() -> None:
    if not socket.has_ipv6:
        pytest.skip("no IPv6 here")
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        pytest.skip("no IPv6 loopback here")
    with ottla.Cluster(brokers=1, listeners={"SIX": Listener(host="::1")}) as cluster:
        assert cluster.bootstrap_servers.startswith("[::1]:")
        with ottla.Admin(cluster.bootstrap_servers) as admin:
            assert admin.list_topics() == []


def test_without_listeners_there_is_one_in_plaintext() -> None:
    with ottla.Cluster(brokers=1) as cluster:
        assert cluster.bootstrap_servers_of("PLAINTEXT") == cluster.bootstrap_servers
        with pytest.raises(ottla.ConfigError, match="no listener 'INTERNAL', only PLAINTEXT"):
            cluster.bootstrap_servers_of("INTERNAL")


def test_a_taken_port_leaves_no_listener_open() -> None:
    first = free_ports(2)[0]
    with socket.create_server(("127.0.0.1", first + 1)):
        listeners = {"A": Listener(port=first), "B": Listener(port=first + 1)}
        with pytest.raises(ottla.UserMistake, match=f"port {first + 1} on 127.0.0.1 is in use"):
            ottla.Cluster(brokers=1, listeners=listeners)
    socket.create_server(("127.0.0.1", first)).close()


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        ({"protocol": "SSH"}, "protocol='SSH' must be one of"),
        ({"protocol": "SSL"}, "needs a certificate"),
        ({"certificate": "server.pem"}, "takes no certificate"),
        ({"protocol": "SSL", "certificate": "server.pem", "client_auth": "required"}, "go together"),
        ({"protocol": "SSL", "certificate": "server.pem", "client_auth": "maybe"}, "none, requested, required"),
        ({"protocol": "SASL_PLAINTEXT"}, "needs users"),
        ({"users": {"ada": "lovelace"}}, "takes no users"),
        ({"protocol": "SASL_PLAINTEXT", "users": {"a": "b"}, "sasl_mechanisms": ["GSSAPI"]}, "some of PLAIN, SCRAM"),
        ({"protocol": "SASL_PLAINTEXT", "users": {"a": "b"}, "session_lifetime_ms": -1}, "session_lifetime_ms=-1"),
        ({"port": 70_000}, "port=70000 must be an integer"),
        ({"port": True}, "port=True must be an integer"),
        ({"advertised_port": -1}, "advertised_port=-1 must be"),
        ({"host": "0.0.0.0"}, "needs an advertised_host"),
        ({"host": "0.0.0.0", "advertised_host": "0.0.0.0"}, "needs an advertised_host"),
    ],
)
def test_a_listener_that_cannot_be_is_refused(fields: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ottla.ConfigError, match=complaint):
        Listener(**fields)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({"listeners": {}}, "at least one listener"),
        ({"listeners": {"A B": Listener()}}, "listener name 'A B'"),
        ({"listeners": {"A": "PLAINTEXT"}}, "must be an ottla.Listener"),
        ({"listeners": {"A": Listener(port=65_534)}, "brokers": 3}, "leave room for 3 brokers"),
        ({"listeners": {"A": Listener()}, "port": 9092}, "exclude each other"),
    ],
)
def test_listeners_that_cannot_be_are_refused(arguments: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ottla.ConfigError, match=complaint):
        ottla.Cluster(**arguments)
