"""TLS and SASL as settings, sockets and forks have it; tests/conformance/test_security.py has who comes in and who not.

Ways to show a certificate, versions and suites, settings that cannot be used on this machine, peers that do not speak
TLS as they should, and secrets, which nothing shows.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import os
import random
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.client.conftest import Peer
from tests.client.in_time import ahead, connections_lost
from tests.papers import KEY_PASSWORD, Papers

import ottla
from ottla import Listener
from ottla.client.tls import TlsSocket, client_context, openssl_name
from ottla.connection.loss import Lost
from ottla.producer.settings import ProducerSettings

pytest.importorskip("scramp")

PASSWORD = "lovelace-0815"
USERS = {"ada": PASSWORD}


@pytest.fixture(scope="module")
def cluster(papers: Papers) -> Iterator[ottla.Cluster]:
    tls = {"protocol": "SSL", "certificate": papers.server}
    listeners = {
        "SSL": Listener(**tls),
        "ELSEWHERE": Listener(protocol="SSL", certificate=papers.elsewhere),
        "EXPIRED": Listener(protocol="SSL", certificate=papers.expired),
        "MUTUAL": Listener(**tls, client_auth="required", client_ca=papers.ca),
        "SASL_SSL": Listener(protocol="SASL_SSL", certificate=papers.server, users=USERS),
    }
    with ottla.Cluster(brokers=2, listeners=listeners) as cluster:
        yield cluster


@pytest.fixture
def topic(cluster: ottla.Cluster, kafka_name: str) -> str:
    cluster.create_topic(kafka_name, partitions=3)
    return kafka_name


def settings_for(papers: Papers, protocol: str, mechanism: str = "PLAIN") -> dict[str, Any]:
    given: dict[str, Any] = {"security_protocol": protocol}
    if protocol.endswith("SSL"):
        given["ssl_truststore_location"] = str(papers.ca)
    if protocol.startswith("SASL"):
        given |= {"sasl_mechanism": mechanism, "sasl_username": "ada", "sasl_password": PASSWORD}
    return given


def round_trip(address: str, topic: str, given: dict[str, Any]) -> None:
    """Send a table and read it back, so that frames of many TLS records go both ways."""
    table = pa.table({"value": [bytes([n % 251]) * (n % 3000) for n in range(2000)]})
    with ottla.Producer(address, **given) as producer:
        producer.send_table(topic, table, value="value").result(30)
        small = producer.send(topic, b"small").result(30)
    with ottla.Admin(address, **given) as admin:
        assert sum(admin.end_offsets(topic).values()) == 2001
    back = ottla.read_table(address, topic, **given)
    assert sorted(back["value"].to_pylist()) == sorted([*table["value"].to_pylist(), b"small"])
    assert small.topic == topic


def test_an_async_producer_comes_in(cluster: ottla.Cluster, papers: Papers, topic: str) -> None:
    async def send() -> int:
        given = settings_for(papers, "SASL_SSL", "SCRAM-SHA-256")
        async with ottla.AsyncProducer(cluster.bootstrap_servers_of("SASL_SSL"), **given) as producer:
            return (await (await producer.send(topic, b"x"))).offset

    assert asyncio.run(send()) == 0


def test_small_socket_buffers_hold_back_nothing(cluster: ottla.Cluster, papers: Papers, topic: str) -> None:
    """What TLS could not send at once must be given to it again as it was, while more is queued behind it."""
    given = settings_for(papers, "SSL") | {"send_buffer_bytes": 4096, "receive_buffer_bytes": 4096}
    round_trip(cluster.bootstrap_servers_of("SSL"), topic, given)


def shown_certificates(papers: Papers) -> dict[str, dict[str, Any]]:
    key, certificates = papers.parts(papers.client)
    locked_key, _ = papers.parts(papers.locked)
    chain = {"ssl_keystore_certificate_chain": certificates.decode()}
    return {
        "locked file": {"ssl_keystore_location": str(papers.locked), "ssl_key_password": KEY_PASSWORD},
        "text": {"ssl_keystore_key": key.decode(), **chain},
        "locked text": {"ssl_keystore_key": locked_key.decode(), "ssl_key_password": KEY_PASSWORD, **chain},
    }


@pytest.mark.parametrize("way", ["locked file", "text", "locked text"])
def test_a_client_shows_its_certificate(cluster: ottla.Cluster, papers: Papers, topic: str, way: str) -> None:
    given = {"security_protocol": "SSL", "ssl_truststore_certificates": papers.ca.read_text()}
    round_trip(cluster.bootstrap_servers_of("MUTUAL"), topic, given | shown_certificates(papers)[way])


def test_a_certificate_for_another_host_is_taken_where_names_are_not_checked(
    cluster: ottla.Cluster, papers: Papers, topic: str
) -> None:
    given = settings_for(papers, "SSL") | {"ssl_endpoint_identification_algorithm": ""}
    round_trip(cluster.bootstrap_servers_of("ELSEWHERE"), topic, given)


def test_a_brokers_certificate_that_has_expired_is_to_be_renewed(cluster: ottla.Cluster, papers: Papers) -> None:
    told = "certificate has expired.*have the broker's certificate renewed, or set the clock of this machine right"
    with (
        pytest.raises(ottla.AuthenticationError, match=told),
        ottla.Admin(cluster.bootstrap_servers_of("EXPIRED"), **settings_for(papers, "SSL")) as admin,
    ):
        admin.list_topics()


def neighbouring_ports() -> tuple[socket.socket, socket.socket]:
    """Listen on two free ports that follow each other, and that no outgoing connection is given meanwhile."""
    outgoing = Path("/proc/sys/net/ipv4/ip_local_port_range")
    above = int(outgoing.read_text().split()[0]) if outgoing.exists() else 32_768
    while True:
        port = random.randrange(min(20_000, above - 1_000), above - 1)
        with contextlib.ExitStack() as opened, contextlib.suppress(OSError):
            first, second = (opened.enter_context(socket.create_server(("127.0.0.1", port + n))) for n in range(2))
            opened.pop_all()
            return first, second


class Relay:
    """Two ports that follow each other, each leading to another address: which listener of a broker clients come to."""

    def __init__(self) -> None:
        self._listening = neighbouring_ports()
        self.ports = tuple(each.getsockname()[1] for each in self._listening)
        self._ends: list[socket.socket] = []

    def start(self, *ports: int) -> None:
        for listening, port in zip(self._listening, ports, strict=True):
            threading.Thread(target=self._accept, args=(listening, port), daemon=True).start()

    def _accept(self, listening: socket.socket, port: int) -> None:
        with contextlib.suppress(OSError):
            while True:
                client = listening.accept()[0]
                broker = socket.create_connection(("127.0.0.1", port))
                self._ends += [client, broker]
                for each in ((client, broker), (broker, client)):
                    threading.Thread(target=self._carry, args=each, daemon=True).start()

    @staticmethod
    def _carry(source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65_536):
                target.sendall(data)
        for each in (source, target):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        for each in [*self._listening, *self._ends]:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()


@pytest.fixture
def relay() -> Iterator[Relay]:
    relay = Relay()
    yield relay
    relay.close()


def test_one_broker_with_a_wrong_certificate_does_not_keep_records_from_the_others(
    papers: Papers, relay: Relay
) -> None:
    pair = neighbouring_ports()
    port = pair[0].getsockname()[1]
    for each in pair:
        each.close()
    listeners = {
        "SSL": Listener(protocol="SSL", certificate=papers.server, port=port, advertised_port=relay.ports[0]),
        "ELSEWHERE": Listener(protocol="SSL", certificate=papers.elsewhere),
    }
    with ottla.Cluster(brokers=2, listeners=listeners) as cluster:
        relay.start(port, int(cluster.bootstrap_servers_of("ELSEWHERE").split(":")[-1]))
        cluster.create_topic("flights", partitions=4, replication_factor=1)
        good, bad = ([n for n in range(4) if cluster.leader("flights", n) == broker] for broker in (1, 2))
        assert good
        assert bad
        clock = ottla.Clock()
        given = settings_for(papers, "SSL") | {"clock": clock, "linger_ms": 0}
        with ottla.Producer(f"127.0.0.1:{relay.ports[0]}", **given) as producer, connections_lost(1) as wait:
            lost = [producer.send("flights", b"x", partition=number) for number in bad]
            stored = [producer.send("flights", b"x", partition=number) for _ in range(100) for number in good]
            assert all(delivery.exception(60) is None for delivery in stored)
            wait()
            clock.advance(120)
            for delivery in lost:
                error = delivery.exception(60)
                assert error is not None
                assert "not valid for '127.0.0.1'" in str(error)
                assert f"127.0.0.1:{relay.ports[1]}" in str(error)


@pytest.mark.parametrize(
    ("given", "version", "suite"),
    [
        ({}, "TLSv1.3", ""),
        ({"ssl_protocol": "TLSv1.2"}, "TLSv1.2", ""),
        ({"ssl_enabled_protocols": "TLSv1.2"}, "TLSv1.2", ""),
        ({"ssl_enabled_protocols": "TLSv1.3"}, "TLSv1.3", ""),
        (
            {"ssl_cipher_suites": "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"},
            "TLSv1.2",
            "ECDHE-ECDSA-AES256-GCM-SHA384",
        ),
        (
            {"ssl_cipher_suites": "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"},
            "TLSv1.2",
            "ECDHE-ECDSA-AES128-GCM-SHA256",
        ),
        ({"ssl_cipher_suites": ["TLS_AES_128_GCM_SHA256"]}, "TLSv1.3", ""),
    ],
    ids=str,
)
def test_versions_and_suites_can_be_chosen(
    cluster: ottla.Cluster, papers: Papers, topic: str, given: dict[str, Any], version: str, suite: str
) -> None:
    with ottla.Producer(cluster.bootstrap_servers_of("SSL"), **settings_for(papers, "SSL"), **given) as producer:
        assert producer.send(topic, b"x").result(30).offset == 0
        sockets = [c._tls._socket for c in list(producer._driver.loop._channels.values()) if c.connected]
        assert {each.version() for each in sockets} == {version}
        assert {each.cipher()[0] for each in sockets} == {suite} or not suite


@pytest.mark.parametrize(
    ("given", "versions"),
    [
        ({}, ("TLSv1_2", "TLSv1_3")),
        ({"ssl_enabled_protocols": "TLSv1.3"}, ("TLSv1_3", "TLSv1_3")),
        ({"ssl_protocol": "TLSv1.2"}, ("TLSv1_2", "TLSv1_2")),
    ],
    ids=str,
)
def test_no_other_version_would_be_spoken(given: dict[str, Any], versions: tuple[str, str]) -> None:
    settings = ProducerSettings({"bootstrap.servers": "one:1", "security.protocol": "SSL", **given})
    context = client_context(settings.connection.security)
    assert (context.minimum_version.name, context.maximum_version.name) == versions


def test_java_names_of_suites_are_openssls() -> None:
    names = {
        "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256": "ECDHE-RSA-AES128-GCM-SHA256",
        "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA384": "ECDHE-ECDSA-AES256-SHA384",
        "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-RSA-CHACHA20-POLY1305",
        "TLS_RSA_WITH_AES_256_GCM_SHA384": "AES256-GCM-SHA384",
        "ECDHE-RSA-AES128-GCM-SHA256": "ECDHE-RSA-AES128-GCM-SHA256",
    }
    assert {name: openssl_name(name) for name in names} == names


# ---- who does not come in --------------------------------------------------------------------------------------------


def test_who_hangs_up_in_the_handshake_and_is_not_kafka_may_yet_come_up(papers: Papers, peer: Peer) -> None:
    """As the proxy of a container does, whose broker is being started."""

    clock, attempts = ottla.Clock(), list[bool]()

    def hang_up(connection: socket.socket) -> None:
        # Between the attempts the client asks without TLS what this listener speaks.
        attempts.append(connection.recv(65536)[:1] == b"\x16")
        if sum(attempts) == 2:
            # So that no third attempt is under way when the time is over.
            clock.stop()
        connection.close()

    with (
        connections_lost() as wait,
        ottla.Producer(peer(hang_up), clock=clock, **settings_for(papers, "SSL")) as producer,
        ahead(clock, 60, wait),
        pytest.raises(ottla.Unreachable, match="ended within the TLS handshake; is it a listener without TLS"),
    ):
        producer.send("any", b"x")


def test_a_server_that_answers_tls_with_text_is_told(papers: Papers, peer: Peer) -> None:
    def smtp(connection: socket.socket) -> None:
        connection.sendall(b"220 mail.example ESMTP\r\n")
        connection.recv(65536)

    address = peer(smtp)
    with (
        ottla.Producer(address, **settings_for(papers, "SSL")) as producer,
        pytest.raises(ottla.AuthenticationError, match="does not speak TLS"),
    ):
        producer.send("any", b"x")


def test_a_server_that_resets_before_the_handshake_is_survived(papers: Papers, peer: Peer) -> None:
    def reset(connection: socket.socket) -> None:
        connection.sendall(b"x" * 100)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.close()

    address = peer(reset)
    given = settings_for(papers, "SSL") | {"reconnect_backoff_ms": 1, "reconnect_backoff_max_ms": 1}
    for _ in range(5):
        with (
            ottla.Producer(address, max_block_ms=100, **given) as producer,
            pytest.raises((ottla.Unreachable, ottla.AuthenticationError)),
        ):
            producer.send("any", b"x")


def test_a_refusal_that_came_before_the_first_request_left_is_told(papers: Papers, peer: Peer) -> None:
    """With TLS 1.3 a client's handshake is done before the broker has missed its certificate, and hung up."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(papers.ca))
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_cert_chain(papers.server)
    hung_up = threading.Event()

    def refuse(connection: socket.socket) -> None:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        with contextlib.suppress(ssl.SSLError):
            context.wrap_socket(connection, server_side=True)
        hung_up.set()

    address = peer(refuse)
    given = settings_for(papers, "SSL") | {"ssl_enabled_protocols": "TLSv1.3"}
    security = ProducerSettings({"bootstrap_servers": address, **given}).connection.security
    host, port = address.split(":")
    tls = TlsSocket(socket.create_connection((host, int(port))), client_context(security), host)
    assert tls.shake_hands() == 0
    assert hung_up.wait(30)
    with pytest.raises(Lost, match="the broker wants a certificate of yours"):
        tls.sendmsg([b"the first request"])
    tls.close()


def test_a_server_that_never_shakes_hands_is_given_up(papers: Papers, peer: Peer) -> None:
    address = peer(lambda connection: connection.recv(65536) and None)
    given = settings_for(papers, "SSL") | {"socket_connection_setup_timeout_ms": 200}
    with (
        ottla.Producer(address, max_block_ms=1500, **given) as producer,
        pytest.raises(ottla.Unreachable, match="no answer"),
    ):
        producer.send("any", b"x")


# ---- settings that cannot be used on this machine --------------------------------------------------------------------


CASES = (
    "trust missing",
    "trust a folder",
    "trust text",
    "trust jks",
    "trust pkcs12",
    "trust empty text",
    "key missing",
    "key without a key",
    "key locked",
    "key wrong password",
    "suites unknown",
    "suites of no version",
)


def unusable(papers: Papers, tmp_path: Path) -> dict[str, tuple[dict[str, Any], str]]:
    text, jks, pkcs12 = tmp_path / "text.pem", tmp_path / "store.jks", tmp_path / "store.p12"
    text.write_text("no certificate")
    jks.write_bytes(b"\xfe\xed\xfe\xed\0\0\0\2")
    pkcs12.write_bytes(b"\x30\x82\x0a\x0b")
    return {
        "trust missing": ({"ssl_truststore_location": "/no/such.pem"}, r"truststore\.location=/no/such\.pem cannot"),
        "trust a folder": ({"ssl_truststore_location": str(tmp_path)}, "cannot be read"),
        "trust text": ({"ssl_truststore_location": str(text)}, "holds no certificate; it must be PEM, JKS or PKCS12"),
        "trust jks": ({"ssl_truststore_location": str(jks)}, "is a JKS store that is damaged or cut off"),
        "trust pkcs12": ({"ssl_truststore_location": str(pkcs12)}, "truststore.password is missing: it must open"),
        "trust empty text": ({"ssl_truststore_certificates": "x"}, "ssl.truststore.certificates holds no certificate"),
        "key missing": ({"ssl_keystore_location": "/no/such.pem"}, r"ssl\.keystore\.location=/no/such\.pem cannot"),
        "key without a key": ({"ssl_keystore_location": str(papers.ca)}, "must hold a private key and the certificate"),
        "key locked": ({"ssl_keystore_location": str(papers.locked)}, "ssl.key.password is missing"),
        "key wrong password": (
            {"ssl_keystore_location": str(papers.locked), "ssl_key_password": "wrong-5150"},
            "ssl.key.password is wrong",
        ),
        "suites unknown": ({"ssl_cipher_suites": "TLS_RSA_WITH_NOTHING"}, "none that OpenSSL knows"),
        "suites of no version": (
            {"ssl_cipher_suites": "TLS_AES_128_GCM_SHA256", "ssl_protocol": "TLSv1.2"},
            "has none for the versions",
        ),
    }


@pytest.mark.parametrize("name", ["ssl_truststore_location", "ssl_keystore_location"])
def test_a_path_may_be_a_path_and_what_is_none_is_refused(papers: Papers, name: str) -> None:
    given = {"security_protocol": "SSL", "ssl_truststore_location": papers.ca, name: papers.client}
    ottla.Producer("localhost:1", **given).close()
    for wrong in ("a\0b", "\ud800", "a\nb", "x" * 2000):
        with pytest.raises(ottla.ConfigError, match=r"store\.location cannot be a file's path"):
            ottla.Producer("localhost:1", security_protocol="SSL", **{name: wrong})
    with pytest.raises(ottla.ConfigError, match=r"store\.location=<bytes> is not the path of a file"):
        ottla.Producer("localhost:1", security_protocol="SSL", **{name: b"a"})


@pytest.mark.parametrize("case", CASES)
def test_what_cannot_be_used_is_refused_before_anything_is_connected(papers: Papers, tmp_path: Path, case: str) -> None:
    given, said = unusable(papers, tmp_path)[case]
    with pytest.raises(ottla.ConfigError, match=said) as caught:
        ottla.Producer("localhost:1", security_protocol="SSL", **given)
    assert "wrong-5150" not in str(caught.value)


def test_scram_without_scramp_names_the_command(papers: Papers, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "scramp", None)
    with pytest.raises(ottla.MissingExtra, match=r'pip install "ottla\[sasl\]"'):
        ottla.Producer("localhost:1", **settings_for(papers, "SASL_PLAINTEXT", "SCRAM-SHA-256"))
    ottla.Producer("localhost:1", **settings_for(papers, "SASL_PLAINTEXT", "PLAIN")).close()


# ---- forks, secrets --------------------------------------------------------------------------------------------------


def test_a_forked_child_does_not_spoil_its_parents_tls(cluster: ottla.Cluster, papers: Papers, topic: str) -> None:
    with ottla.Producer(cluster.bootstrap_servers_of("SSL"), **settings_for(papers, "SSL")) as producer:
        producer.send(topic, b"before").result(30)
        child = os.fork()
        if not child:
            try:
                producer.send(topic, b"child")
            except ottla.ForkError:
                del producer
                gc.collect()
                os._exit(0)
            os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        opened = producer.metrics()["connection-creation-total"]
        for _ in range(20):
            producer.send(topic, b"after").result(30)
        assert producer.metrics()["connection-creation-total"] == opened


def _texts(thing: Any, seen: set[int], depth: int) -> Iterator[str]:
    """The `repr` of an object and of all that hangs on it, a few steps deep."""
    if id(thing) in seen or depth == 0 or isinstance(thing, str | bytes | type):
        return
    seen.add(id(thing))
    if type(thing).__module__.startswith("ottla"):
        yield repr(thing)
    names = [*getattr(thing, "__dict__", {}), *getattr(type(thing), "__slots__", ())]
    for name in names:
        value = getattr(thing, name, None)
        if not isinstance(value, Callable):  # type: ignore[arg-type]
            yield from _texts(value, seen, depth - 1)


def test_no_repr_and_no_log_shows_a_secret(
    cluster: ottla.Cluster, papers: Papers, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    given = settings_for(papers, "SASL_SSL", "PLAIN") | {
        "ssl_keystore_location": str(papers.locked),
        "ssl_key_password": KEY_PASSWORD,
    }
    with ottla.Producer(cluster.bootstrap_servers_of("SASL_SSL"), **given) as producer:
        producer.send(topic, b"x").result(30)
        shown = "\n".join(_texts(producer, set(), 6))
        figures = repr(producer.metrics())
    assert "<SecuritySettings SASL_SSL PLAIN>" in shown
    for secret in (PASSWORD, KEY_PASSWORD):
        assert secret not in shown + figures + caplog.text


def test_a_crash_of_the_io_thread_does_not_show_a_secret(
    cluster: ottla.Cluster, papers: Papers, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    given = settings_for(papers, "SASL_SSL", "PLAIN")
    producer = ottla.Producer(cluster.bootstrap_servers_of("SASL_SSL"), **given)
    producer.send(topic, b"x").result(30)
    producer._driver.loop.post(object())
    producer._driver.loop.join(30)
    with pytest.raises(ottla.OttlaError, match="internal error") as caught:
        producer.send(topic, b"x")
    assert PASSWORD not in str(caught.value) + caplog.text
