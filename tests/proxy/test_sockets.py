"""Connections in bad shape: what is no Kafka, who leaves in the middle, brokers that go and come back, many at once."""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import threading

import pytest

import ottla
from ottla.errors import ClosedError, ForkError
from ottla.patience import comes_within
from ottla.protocol.frames import decode_response, encode_request
from ottla.protocol.messages.api_versions import ApiVersionsRequest
from ottla.protocol.messages.metadata import MetadataRequest

_PATIENCE_S = 60
_CONNECTIONS = 200


def connect(proxy: ottla.Proxy, place: int = 0) -> socket.socket:
    host, port = proxy.bootstrap_servers.split(",")[place].split(":")
    return socket.create_connection((host, int(port)), _PATIENCE_S)


def asked(correlation_id: int = 1) -> bytes:
    return b"".join(map(bytes, encode_request(correlation_id, "by hand", ApiVersionsRequest(), 0)))


def read_answer(sock: socket.socket) -> int:
    """The correlation id of the next answer."""
    with sock.makefile("rb") as stream:
        frame = stream.read(int.from_bytes(stream.read(4), "big"))
    return decode_response(memoryview(frame), ApiVersionsRequest, 0)[0]


def is_well(proxy: ottla.Proxy, topic: str) -> bool:
    with ottla.Producer(proxy.bootstrap_servers) as producer:
        producer.send(topic, b"well").result(_PATIENCE_S)
    return True


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"GET / HTTP/1.1\r\nHost: kafka\r\n\r\n", "a frame of 1,195,725,856 bytes was announced"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "it begins with TLS, which is not spoken here"),
        (b"\xff\xff\xff\xff", "a frame of negative length -1 was announced"),
        (b"\x00\x00\x00\x02\x00\x03", "a request cannot be read: 8 bytes wanted"),
        (b"\x00\x00\x00\x0c\x00\x03\x00\x63\x00\x00\x00\x01\xff\xff\x00\x00", "Metadata version 99 cannot be read"),
    ],
)
def test_what_is_no_kafka_is_sent_away_and_told(
    proxy: ottla.Proxy, topic: str, caplog: pytest.LogCaptureFixture, content: bytes, said: str
) -> None:
    with caplog.at_level(logging.WARNING, "ottla.proxy"), connect(proxy) as sock:
        sock.sendall(content)
        with contextlib.suppress(ConnectionResetError):
            assert sock.recv(100) == b""
    assert comes_within(_PATIENCE_S, lambda: said in caplog.text), caplog.text
    assert is_well(proxy, topic)


def test_a_client_that_hangs_up_in_mid_request_harms_nobody(proxy: ottla.Proxy, topic: str) -> None:
    for cut in range(1, len(asked())):
        with connect(proxy) as sock:
            sock.sendall(asked()[:cut])
    assert is_well(proxy, topic)


def test_a_request_that_comes_byte_by_byte_is_answered(proxy: ottla.Proxy) -> None:
    with connect(proxy) as sock:
        for byte in asked(77):
            sock.sendall(bytes([byte]))
        assert read_answer(sock) == 77


def test_requests_that_come_at_once_are_answered_in_order(proxy: ottla.Proxy) -> None:
    with connect(proxy) as sock:
        sock.sendall(b"".join(map(asked, range(500))))
        assert [read_answer_of(sock) for _ in range(500)] == list(range(500))


def read_answer_of(sock: socket.socket) -> int:
    """As `read_answer`, without reading ahead."""
    size = int.from_bytes(exactly(sock, 4), "big")
    return decode_response(memoryview(exactly(sock, size)), ApiVersionsRequest, 0)[0]


def exactly(sock: socket.socket, size: int) -> bytes:
    found = b""
    while len(found) < size:
        piece = sock.recv(size - len(found))
        assert piece
        found += piece
    return found


def test_two_hundred_connections_at_once(proxy: ottla.Proxy, topic: str) -> None:
    with contextlib.ExitStack() as all_of_them:
        socks = [all_of_them.enter_context(connect(proxy, number % 3)) for number in range(_CONNECTIONS)]
        for number, sock in enumerate(socks):
            sock.sendall(asked(number))
        assert [read_answer(sock) for sock in socks] == list(range(_CONNECTIONS))
        assert proxy.describe()["connections"] == _CONNECTIONS
        assert is_well(proxy, topic)


def test_a_client_that_never_reads_keeps_nobody_waiting(proxy: ottla.Proxy, topic: str) -> None:
    with connect(proxy) as sock:
        sock.settimeout(0.2)
        with contextlib.suppress(TimeoutError):
            for _ in range(2_000):
                sock.sendall(asked() * 50)
        assert is_well(proxy, topic)


def test_an_upstream_that_goes_and_comes_back(kafka_name: str, caplog: pytest.LogCaptureFixture) -> None:
    with (
        caplog.at_level(logging.INFO, "ottla.proxy"),
        ottla.Cluster(brokers=1) as cluster,
        ottla.Proxy(cluster.bootstrap_servers) as proxy,
    ):
        cluster.create_topic(kafka_name)
        with ottla.Producer(proxy.bootstrap_servers) as producer:
            producer.send(kafka_name, b"before").result(_PATIENCE_S)
            cluster.kill(1)
            delivery = producer.send(kafka_name, b"meanwhile")
            assert comes_within(
                _PATIENCE_S, lambda: "broker 1 at 127.0.0.1" in caplog.text and "sent away" in caplog.text
            )
            cluster.start(1)
            delivery.result(_PATIENCE_S)
        assert comes_within(_PATIENCE_S, lambda: "can be reached again" in caplog.text)
        assert ottla.read_table(proxy.bootstrap_servers, kafka_name).num_rows == 2


def test_large_batches_and_answers_pass(cluster: ottla.Cluster, proxy: ottla.Proxy, topic: str) -> None:
    values = [os.urandom(900_000) for _ in range(20)]
    with ottla.Producer(proxy.bootstrap_servers, max_request_size=2_000_000) as producer:
        for value in values:
            producer.send(topic, value)
        producer.flush(_PATIENCE_S)
    assert ottla.read_table(proxy.bootstrap_servers, topic).column("value").to_pylist() == values


def test_a_broker_that_comes_later_gets_a_port(kafka_name: str) -> None:
    with ottla.Cluster(brokers=2) as cluster:
        cluster.kill(2)
        with ottla.Proxy(cluster.bootstrap_servers.split(",")[0]) as proxy:
            cluster.start(2)

            def knows_both() -> bool:
                with connect(proxy) as sock:
                    sock.sendall(b"".join(map(bytes, encode_request(1, "by hand", MetadataRequest(topics=[]), 1))))
                    exactly(sock, int.from_bytes(exactly(sock, 4), "big"))
                return {"broker 1", "broker 2"} <= {node["node"] for node in proxy.describe()["nodes"]}

            assert comes_within(_PATIENCE_S, knows_both)


def test_close_is_quick_and_counts_stay(cluster: ottla.Cluster, topic: str) -> None:
    proxy = ottla.Proxy(cluster.bootstrap_servers)
    fault = proxy.faults.lose_ack(topic=topic, nth=1)
    assert is_well(proxy, topic)
    threads = threading.active_count()
    with connect(proxy):
        proxy.close()
    proxy.close()
    assert threading.active_count() < threads
    assert (fault.fired, fault.matched) == (1, 2)
    assert proxy.describe()["connections"] >= 1
    assert repr(proxy) == "<Proxy, closed>"
    with pytest.raises(ClosedError, match="this Proxy is closed"):
        proxy.faults.lose_ack()


def test_a_forked_child_is_told(proxy: ottla.Proxy) -> None:
    child = os.fork()
    if not child:
        try:
            proxy.faults.lose_ack()
        except ForkError:
            os._exit(0)
        os._exit(1)
    assert os.waitpid(child, 0)[1] == 0
