"""A bootstrap address where nobody listens, or something answers that is not Kafka: one clear sentence."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable

import pytest
from tests.client.conftest import Peer
from tests.client.in_time import ahead, connections_lost

import ottla
from ottla.client.admin import Admin
from ottla.client.producer import Producer
from ottla.client.reader import Reader
from ottla.connection.address_book import AddressBook, LastingError
from ottla.connection.loss import REFUSED, Loss, LossKind, not_kafka


def http_server(connection: socket.socket) -> None:
    connection.recv(65536)
    connection.sendall(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
    connection.close()


def ssh_server(connection: socket.socket) -> None:
    connection.sendall(b"SSH-2.0-OpenSSH_9.9\r\n")


def tls_server(connection: socket.socket) -> None:
    connection.recv(65536)
    connection.sendall(b"\x15\x03\x03\x00\x02\x02\x0a")
    connection.close()


def closing_server(connection: socket.socket) -> None:
    connection.recv(65536)
    connection.close()


def babbling_server(connection: socket.socket) -> None:
    connection.recv(65536)
    connection.sendall(b"\x00\x00\x00\x0a" + b"\xff" * 10)


@pytest.mark.parametrize(
    ("server", "seen"),
    [
        (http_server, "it looks like an HTTP server"),
        (ssh_server, "it looks like an SSH server"),
        (tls_server, "it looks like a TLS listener"),
        (babbling_server, "answered with something that is not the Kafka protocol"),
    ],
)
def test_what_is_not_kafka_is_named_at_once(server: Callable[[socket.socket], None], seen: str, peer: Peer) -> None:
    address = peer(server)
    with Producer(address) as producer, pytest.raises(ottla.NotKafka, match=seen) as caught:
        producer.send("flights", b"x")
    assert address in str(caught.value)
    assert "bootstrap_servers must name Kafka" in str(caught.value)


def test_admin_and_reader_name_what_is_not_kafka_too(peer: Peer) -> None:
    address = peer(ssh_server)
    with Admin(address) as admin, pytest.raises(ottla.NotKafka, match="SSH server"):
        admin.list_topics()
    with Reader(address, "flights") as reader, pytest.raises(ottla.NotKafka, match="SSH server"):
        list(reader.iter_raw())


def test_nobody_listens_is_unreachable_with_the_address_and_the_reason(closed_port: str) -> None:
    clock = ottla.Clock()
    with (
        Producer(closed_port, max_block_ms=2_000, clock=clock) as producer,
        connections_lost() as wait,
        ahead(clock, 2, wait),
        pytest.raises(ottla.Unreachable) as caught,
    ):
        producer.send("flights", b"x")
    assert str(caught.value) == (
        f"no Kafka broker could be reached within 2000 ms at {closed_port} (connection refused); "
        "check that the brokers are running and that the address is right"
    )


def test_admin_and_reader_say_that_nobody_listens(closed_port: str) -> None:
    clock = ottla.Clock()
    with (
        Admin(closed_port, clock=clock) as admin,
        connections_lost() as wait,
        ahead(clock, 60, wait),
        pytest.raises(ottla.Unreachable, match=f"{closed_port} .connection refused"),
    ):
        admin.cluster()
    with (
        Reader(closed_port, "flights", clock=clock) as reader,
        connections_lost() as wait,
        ahead(clock, 60, wait),
        pytest.raises(ottla.Unreachable, match=f"{closed_port} .connection refused"),
    ):
        list(reader.iter_raw())


def test_who_does_not_answer_is_unreachable(peer: Peer) -> None:
    clock, asked = ottla.Clock(), threading.Event()

    def silent_server(connection: socket.socket) -> None:
        connection.recv(65536)
        asked.set()

    address = peer(silent_server)
    with (
        # Less than request.timeout.ms, behind which it is known that nothing was answered.
        Producer(address, max_block_ms=2_000, clock=clock) as producer,
        ahead(clock, 2, asked.wait),
        pytest.raises(ottla.Unreachable, match="no answer yet") as caught,
    ):
        producer.send("flights", b"x")
    assert address in str(caught.value)


def test_who_hangs_up_is_unreachable(peer: Peer) -> None:
    clock, address = ottla.Clock(), peer(closing_server)
    with (
        Producer(address, clock=clock) as producer,
        connections_lost() as wait,
        ahead(clock, 60, wait),
        pytest.raises(ottla.Unreachable, match="closed it without an answer") as caught,
    ):
        producer.send("flights", b"x")
    assert address in str(caught.value)


def test_a_name_that_does_not_exist_is_said_at_once() -> None:
    with Producer("no-such-host.invalid:9092") as producer, pytest.raises(ottla.Unreachable) as caught:
        producer.send("flights", b"x")
    assert "no-such-host.invalid:9092 (the name cannot be resolved" in str(caught.value)


@pytest.mark.parametrize("host", ["a..b", "a" * 64 + ".example"])
def test_a_name_with_a_part_that_is_empty_or_too_long_is_said_like_any_other(host: str) -> None:
    with Producer(f"{host}:9092") as producer, pytest.raises(ottla.Unreachable) as caught:
        producer.send("flights", b"x")
    assert f"{host}:9092 (the name cannot be resolved" in str(caught.value)


def test_every_address_is_named(closed_port: str, peer: Peer) -> None:
    clock, not_kafka = ottla.Clock(), peer(ssh_server)
    with (
        Producer([closed_port, not_kafka], clock=clock) as producer,
        # Both of them, and one once more.
        connections_lost(3) as wait,
        ahead(clock, 60, wait),
        pytest.raises(ottla.NotKafka) as caught,
    ):
        producer.send("flights", b"x")
    assert closed_port in str(caught.value)
    assert not_kafka in str(caught.value)


def test_one_good_address_is_enough(
    closed_port: str, peer: Peer, kafka_cluster: ottla.Cluster, kafka_topic: str
) -> None:
    servers = [closed_port, peer(ssh_server), kafka_cluster.bootstrap_servers]
    with Producer(servers) as producer:
        assert producer.send(kafka_topic, b"x").result(30).offset == 0


@pytest.mark.parametrize("address", ["", "localhost", "localhost:http", "http://localhost:9092", "localhost:99999"])
def test_an_address_that_is_none_is_a_config_error(address: str) -> None:
    with pytest.raises(ottla.ConfigError, match=r"bootstrap\.servers"):
        Producer(address)


@pytest.mark.parametrize("name", ["\ud800", "f" * 70_000])
def test_a_topic_name_that_cannot_be_sent_fails_alone(
    kafka_cluster: ottla.Cluster, kafka_topic: str, name: str
) -> None:
    with Producer(kafka_cluster.bootstrap_servers) as producer:
        with pytest.raises(ottla.KafkaError, match="INVALID_TOPIC"):
            producer.send(name, b"x")
        assert producer.send(kafka_topic, b"x").result(30).offset >= 0


def test_a_wait_tells_what_it_saw_though_the_next_try_has_begun() -> None:
    """The next try may end otherwise, just before the waiting thread runs."""
    addresses = AddressBook([("one", 9092)])
    lasting = LastingError(addresses)
    assert not lasting.seen()
    addresses.lost("one", 9092, not_kafka(), 0)
    assert lasting.seen()
    addresses.lost("one", 9092, REFUSED, 1)
    assert lasting.seen()
    assert isinstance(lasting.error, ottla.NotKafka)


def test_a_lasting_error_is_of_the_moment_at_which_it_was_seen() -> None:
    """The I/O thread may find an address that can be used while another thread asks what is wrong."""
    addresses = AddressBook([("one", 9092)])

    class ReadyMeanwhile(Loss):
        @property
        def is_lasting(self) -> bool:
            addresses.ready("one", 9092)
            return True

    addresses.lost("one", 9092, ReadyMeanwhile(LossKind.SASL_FAILED, "the broker does not take the token"), 0)
    error = addresses.lasting_error()
    assert isinstance(error, ottla.AuthenticationError)
    assert "does not take the token" in str(error)
