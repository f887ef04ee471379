"""TLS and SASL on the brokers' listeners, met by clients that were not written here."""

from __future__ import annotations

import asyncio
import contextlib
import json
import select
import socket
import ssl
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient
from tests.client.in_time import wait_until
from tests.papers import Papers

import ottla
from ottla import Listener
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.metadata import MetadataRequest
from ottla.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from ottla.protocol.messages.sasl_handshake import SaslHandshakeRequest

pytest.importorskip("scramp")

_SESSION_MS = 1500
USERS = {"ada": "lovelace", "grace": "hopper"}
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
BY_SASL = [(protocol, mechanism) for protocol in ("SASL_PLAINTEXT", "SASL_SSL") for mechanism in MECHANISMS]


@pytest.fixture(scope="module")
def cluster(papers: Papers) -> Iterator[ottla.Cluster]:
    listeners = {
        "PLAINTEXT": Listener(),
        "SSL": Listener(protocol="SSL", certificate=papers.server),
        "MUTUAL": Listener(protocol="SSL", certificate=papers.server, client_auth="required", client_ca=papers.ca),
        "SASL_PLAINTEXT": Listener(protocol="SASL_PLAINTEXT", users=USERS),
        "SASL_SSL": Listener(protocol="SASL_SSL", certificate=papers.server, users=USERS),
        "SHORT": Listener(protocol="SASL_PLAINTEXT", users=USERS, session_lifetime_ms=_SESSION_MS),
    }
    with ottla.Cluster(brokers=1, listeners=listeners) as cluster:
        yield cluster


def _client(
    cluster: ottla.Cluster, papers: Papers, protocol: str, mechanism: str = "PLAIN", **more: Any
) -> dict[str, Any]:
    """Settings of a confluent-kafka client."""
    config = {"bootstrap.servers": cluster.bootstrap_servers_of(protocol), "security.protocol": protocol}
    if protocol.endswith("SSL"):
        config["ssl.ca.location"] = str(papers.ca)
    if protocol.startswith("SASL"):
        config |= {"sasl.mechanism": mechanism, "sasl.username": "ada", "sasl.password": "lovelace"}
    return {**config, **{name.replace("_", "."): value for name, value in more.items()}}


def _round_trip(cluster: ottla.Cluster, config: dict[str, Any], topic: str, values: list[bytes]) -> list[bytes]:
    cluster.create_topic(topic)
    producer = Producer(config)
    for value in values:
        producer.produce(topic, value)
    assert producer.flush(30) == 0
    consumer = Consumer({**config, "group.id": topic, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    try:
        return [message.value() for _ in values if (message := consumer.poll(30)) is not None]
    finally:
        consumer.close()


def _stays_out(config: dict[str, Any], *reasons: str) -> None:
    """A client does not come in, and says why, in its own words."""
    said: list[str] = []
    # librdkafka tries again for ever; its callback tells of each failure.
    admin = AdminClient({**config, "error_cb": lambda error: said.append(f"{error.name()} {error}")})

    def told_all() -> bool:
        with pytest.raises(KafkaException):
            admin.list_topics(timeout=1)
        admin.poll(0)
        return all(reason in " ".join(said) for reason in reasons)

    wait_until(told_all, f"never said: {reasons}")


@pytest.mark.parametrize(("protocol", "mechanism"), [("SSL", "PLAIN"), *BY_SASL])
def test_librdkafka_writes_and_reads(
    cluster: ottla.Cluster, papers: Papers, kafka_name: str, protocol: str, mechanism: str
) -> None:
    values = [f"{protocol} {number}".encode() for number in range(50)]
    assert _round_trip(cluster, _client(cluster, papers, protocol, mechanism), kafka_name, values) == values


def test_a_client_that_shows_a_certificate_comes_in(cluster: ottla.Cluster, papers: Papers, kafka_name: str) -> None:
    config = _client(cluster, papers, "SSL")
    config |= {
        "bootstrap.servers": cluster.bootstrap_servers_of("MUTUAL"),
        "ssl.certificate.location": str(papers.client),
        "ssl.key.location": str(papers.client),
    }
    assert _round_trip(cluster, config, kafka_name, [b"mutual"]) == [b"mutual"]


@pytest.mark.parametrize("shown", ["none", "an untrusted one"])
def test_a_client_without_a_good_certificate_stays_out(
    cluster: ottla.Cluster, papers: Papers, shown: str, caplog: pytest.LogCaptureFixture
) -> None:
    context = ssl.create_default_context(cafile=str(papers.ca))
    if shown != "none":
        context.load_cert_chain(str(papers.untrusted))
    host, port = cluster.bootstrap_servers_of("MUTUAL").split(":")
    with socket.create_connection((host, int(port)), timeout=30) as plain:
        wrapped = context.wrap_socket(plain, server_hostname=host)
        with wrapped, pytest.raises((ssl.SSLError, ConnectionError)):
            wrapped.recv(1)  # with TLS 1.3 the refusal comes with the first read
    assert _complaints(cluster, caplog, "MUTUAL", "the TLS handshake failed") == 1


def _complaints(cluster: ottla.Cluster, caplog: pytest.LogCaptureFixture, listener: str, text: str) -> int:
    """How often the broker said so; what it said comes by the same way as answers to commands, in order."""
    with contextlib.suppress(ottla.KafkaError):
        cluster.leader("nowhere", 0)
    return sum(f"(listener {listener})" in line and text in line for line in caplog.messages)


def test_a_client_that_does_not_trust_the_certificate_stays_out(cluster: ottla.Cluster, papers: Papers) -> None:
    config = _client(cluster, papers, "SSL") | {"ssl.ca.location": str(papers.other_ca)}
    _stays_out(config, "certificate verify failed")


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_wrong_password_stays_out_and_is_told_so(
    cluster: ottla.Cluster, papers: Papers, mechanism: str, caplog: pytest.LogCaptureFixture
) -> None:
    config = _client(cluster, papers, "SASL_SSL", mechanism, sasl_password="byron")
    _stays_out(config, "_AUTHENTICATION", f"Authentication failed by {mechanism}")
    assert _complaints(cluster, caplog, "SASL_SSL", "'ada'") >= 1
    assert "byron" not in caplog.text


@pytest.mark.parametrize("delay_ms", [0, 600_000])
def test_a_wrong_guess_is_answered_after_the_delay_and_nobody_else_waits(
    wire_to: Callable[[str], Any], delay_ms: int
) -> None:
    listeners = {"SASL": Listener(protocol="SASL_PLAINTEXT", users=USERS)}
    settings = {"connection.failed.authentication.delay.ms": delay_ms}
    with ottla.Cluster(brokers=1, listeners=listeners, settings=settings) as cluster:
        guesser, other = (wire_to(cluster.bootstrap_servers) for _ in range(2))
        guesser.call(SaslHandshakeRequest(mechanism="PLAIN"), 1)
        guesser.ask(SaslAuthenticateRequest(auth_bytes=b"\0ada\0byron"), 2)
        # A second guess on the connection is not looked at.
        guesser.ask(SaslHandshakeRequest(mechanism="PLAIN"), 1)
        other.call(SaslHandshakeRequest(mechanism="PLAIN"), 1)
        assert other.call(SaslAuthenticateRequest(auth_bytes=b"\0ada\0lovelace"), 2).error_code == 0
        for _ in range(20):
            assert other.call(MetadataRequest(), 12).brokers
        if delay_ms:
            assert not select.select([guesser.socket], [], [], 0)[0]
        else:
            assert guesser.answer().error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
            assert guesser.is_closed_by_broker()


def test_a_guess_that_waits_for_its_answer_does_not_keep_the_brokers_from_ending(
    wire_to: Callable[[str], Any],
) -> None:
    listeners = {"SASL": Listener(protocol="SASL_PLAINTEXT", users=USERS)}
    settings = {"connection.failed.authentication.delay.ms": 600_000}
    with ottla.Cluster(brokers=1, listeners=listeners, settings=settings) as cluster:
        guesser = wire_to(cluster.bootstrap_servers)
        guesser.call(SaslHandshakeRequest(mechanism="PLAIN"), 1)
        guesser.ask(SaslAuthenticateRequest(auth_bytes=b"\0ada\0byron"), 2)
    assert guesser.is_closed_by_broker()


def test_a_mechanism_that_is_not_offered_is_told_so(
    cluster: ottla.Cluster, wire_to: Callable[[str], Any], caplog: pytest.LogCaptureFixture
) -> None:
    wire = wire_to(cluster.bootstrap_servers_of("SASL_PLAINTEXT"))
    answer = wire.call(SaslHandshakeRequest(mechanism="OAUTHBEARER"), 1)
    assert (answer.error_code, answer.mechanisms) == (ErrorCode.UNSUPPORTED_SASL_MECHANISM, list(MECHANISMS))
    assert wire.is_closed_by_broker()
    assert _complaints(cluster, caplog, "SASL_PLAINTEXT", "'OAUTHBEARER' is not offered") == 1


def test_a_request_before_authentication_closes_the_connection(
    cluster: ottla.Cluster, wire_to: Callable[[str], Any], caplog: pytest.LogCaptureFixture
) -> None:
    wire = wire_to(cluster.bootstrap_servers_of("SASL_PLAINTEXT"))
    wire.ask(MetadataRequest(), 12)
    assert wire.is_closed_by_broker()
    assert _complaints(cluster, caplog, "SASL_PLAINTEXT", "Metadata before the client has proved") == 1


def test_an_unknown_client_cannot_announce_a_large_frame(cluster: ottla.Cluster, wire_to: Callable[[str], Any]) -> None:
    wire = wire_to(cluster.bootstrap_servers_of("SASL_PLAINTEXT"))
    wire.send((1 << 20).to_bytes(4))
    assert wire.is_closed_by_broker()


def test_requests_sent_ahead_of_the_proof_wait_for_it(cluster: ottla.Cluster, wire_to: Callable[[str], Any]) -> None:
    wire = wire_to(cluster.bootstrap_servers_of("SASL_PLAINTEXT"))
    wire.ask(SaslHandshakeRequest(mechanism="PLAIN"), 1)
    wire.ask(SaslAuthenticateRequest(auth_bytes=b"\0ada\0lovelace"), 2)
    wire.ask(MetadataRequest(), 12)
    assert wire.answer().error_code == 0
    assert wire.answer().error_code == 0
    assert len(wire.answer().brokers) == 1


def test_bare_tokens_after_version_0_of_the_handshake(cluster: ottla.Cluster, wire_to: Callable[[str], Any]) -> None:
    wire = wire_to(cluster.bootstrap_servers_of("SASL_PLAINTEXT"))
    wire.call(SaslHandshakeRequest(mechanism="PLAIN"), 0)
    token = b"\0ada\0lovelace"
    wire.send(len(token).to_bytes(4) + token)
    assert bytes(wire.next_frame()) == b""
    assert len(wire.call(MetadataRequest(), 12).brokers) == 1


@pytest.mark.parametrize("listener", ["PLAINTEXT", "SASL_PLAINTEXT"])
def test_sasl_out_of_turn_is_illegal(cluster: ottla.Cluster, wire_to: Callable[[str], Any], listener: str) -> None:
    wire = wire_to(cluster.bootstrap_servers_of(listener))
    if listener != "PLAINTEXT":
        wire.call(SaslHandshakeRequest(mechanism="PLAIN"), 1)
        wire.call(SaslAuthenticateRequest(auth_bytes=b"\0ada\0lovelace"), 2)
    assert wire.call(SaslHandshakeRequest(mechanism="PLAIN"), 1).error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert wire.call(SaslAuthenticateRequest(), 2).error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert wire.call(MetadataRequest(), 12).brokers


def test_librdkafka_renews_a_short_session(cluster: ottla.Cluster, kafka_name: str) -> None:
    """A producer outlives its session without losing its connection.

    It renews a little before the end, and sends only after that: were it late, nobody would mind.
    """
    cluster.create_topic(kafka_name)
    lost: list[str] = []
    told: list[object] = []
    proofs = [0]

    def count(statistics: str) -> None:
        asked = (each["req"].get("SaslHandshake", 0) for each in json.loads(statistics)["brokers"].values())
        proofs[0] = min(filter(None, asked), default=0)

    config = {
        "bootstrap.servers": cluster.bootstrap_servers_of("SHORT"),
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "grace",
        "sasl.password": "hopper",
        "retries": 0,
        "error_cb": lambda error: lost.append(str(error)),
        "statistics.interval.ms": 50,
        "stats_cb": count,
    }
    producer = Producer(config)
    # The second renewal comes after the end of the session that was begun with.
    for renewals in range(3):

        def has_proved(times: int = renewals + 1) -> bool:
            producer.poll(0.05)
            return proofs[0] >= times

        wait_until(has_proved, "the session was not renewed")
        producer.produce(kafka_name, str(renewals).encode(), on_delivery=lambda error, _: told.append(error))
        assert producer.flush(30) == 0
    assert told == [None] * 3
    assert lost == []


def test_a_session_that_is_not_renewed_ends(cluster: ottla.Cluster, wire_to: Callable[[str], Any]) -> None:
    wire = wire_to(cluster.bootstrap_servers_of("SHORT"))
    # All at once, so that the session is still young when the first Metadata comes.
    wire.ask_together(
        (SaslHandshakeRequest(mechanism="PLAIN"), 1),
        (SaslAuthenticateRequest(auth_bytes=b"\0ada\0lovelace"), 2),
        (MetadataRequest(), 12),
    )
    assert wire.answer().error_code == 0
    assert wire.answer().session_lifetime_ms == _SESSION_MS
    assert wire.answer().brokers
    with contextlib.suppress(EOFError, ConnectionError):
        while wire.call(MetadataRequest(), 12).brokers:
            pass


def test_a_plaintext_client_at_a_tls_listener_harms_nobody(
    cluster: ottla.Cluster, papers: Papers, wire_to: Callable[[str], Any], caplog: pytest.LogCaptureFixture
) -> None:
    good = AdminClient(_client(cluster, papers, "SSL"))
    assert good.list_topics(timeout=30).brokers
    wire = wire_to(cluster.bootstrap_servers_of("SSL"))
    wire.ask(MetadataRequest(), 12)
    with contextlib.suppress(ConnectionError):
        while wire.socket.recv(100):  # an alert of TLS, then the end
            pass
    assert _complaints(cluster, caplog, "SSL", "does not begin with TLS") == 1
    assert good.list_topics(timeout=30).brokers


def test_a_tls_client_at_a_plaintext_listener_harms_nobody(
    cluster: ottla.Cluster, papers: Papers, wire_to: Callable[[str], Any], caplog: pytest.LogCaptureFixture
) -> None:
    other = wire_to(cluster.bootstrap_servers)
    assert other.call(MetadataRequest(), 12).brokers
    host, port = cluster.bootstrap_servers.split(":")
    context = ssl.create_default_context(cafile=str(papers.ca))
    refused = pytest.raises((ssl.SSLError, ConnectionError))
    with socket.create_connection((host, int(port)), timeout=30) as plain, refused:
        context.wrap_socket(plain, server_hostname=host)
    assert _complaints(cluster, caplog, "PLAINTEXT", "begins with TLS") == 1
    assert other.call(MetadataRequest(), 12).brokers


class TlsWire:
    """A raw connection through TLS."""

    def __init__(self, cluster: ottla.Cluster, papers: Papers) -> None:
        host, port = cluster.bootstrap_servers_of("SSL").split(":")
        context = ssl.create_default_context(cafile=str(papers.ca))
        self.plain = socket.create_connection((host, int(port)), timeout=30)
        self.socket = context.wrap_socket(self.plain, server_hostname=host)

    def frame(self) -> bytes:
        return self.read(int.from_bytes(self.read(4)))

    def read(self, size: int) -> bytes:
        content = bytearray()
        while len(content) < size:
            piece = self.socket.recv(size - len(content))
            assert piece
            content += piece
        return bytes(content)


@pytest.fixture
def tls_wire(cluster: ottla.Cluster, papers: Papers) -> Iterator[TlsWire]:
    wire = TlsWire(cluster, papers)
    yield wire
    wire.socket.close()


def test_many_requests_in_one_tls_record_are_all_answered(tls_wire: TlsWire, make: Any) -> None:
    """What TLS has decrypted is not seen by a selector any more: it must be read on all the same."""
    tls_wire.socket.sendall(b"".join(make.frame(MetadataRequest(), 12, number) for number in range(3000)))
    assert [int.from_bytes(tls_wire.frame()[:4]) for _ in range(3000)] == list(range(3000))


def test_large_records_come_through_tls_whole(
    cluster: ottla.Cluster, tls_wire: TlsWire, make: Any, kafka_name: str, processes: Any
) -> None:
    """Ten megabytes in, twice; twenty out to a client that reads late: no file is read into memory as a whole."""
    cluster.create_topic(kafka_name, configs={"max.message.bytes": str(20 << 20)})
    value = bytes(range(256)) * 40_000
    for _ in range(2):
        tls_wire.socket.sendall(make.frame(make.produce(kafka_name, value), 9))
        tls_wire.frame()
    before = processes.resident_bytes(cluster.pid)
    tls_wire.socket.sendall(make.frame(make.fetch(kafka_name), 12))
    assert cluster.leader(kafka_name, 0) == 1
    grown = processes.resident_bytes(cluster.pid) - before
    content = tls_wire.frame()
    assert content.count(value) == 2
    assert grown < 8 << 20


def test_a_certificate_that_is_none_is_a_clear_mistake(papers: Papers, tmp_path: Path) -> None:
    broken = tmp_path / "broken.pem"
    broken.write_text("not a certificate")
    for path in (broken, tmp_path / "missing.pem", papers.ca):  # the last one has no key
        with pytest.raises(ottla.UserMistake, match=f"listener A cannot use its certificate .*{path.name}"):
            ottla.Cluster(brokers=1, listeners={"A": Listener(protocol="SSL", certificate=path)})


def test_passwords_are_not_shown() -> None:
    listener = Listener(protocol="SASL_PLAINTEXT", users=USERS)
    assert "lovelace" not in repr(listener)


def test_aiokafka_comes_in_by_scram(cluster: ottla.Cluster, papers: Papers, kafka_name: str) -> None:
    aiokafka = pytest.importorskip("aiokafka")
    from aiokafka.helpers import create_ssl_context

    cluster.create_topic(kafka_name)
    config = {
        "bootstrap_servers": cluster.bootstrap_servers_of("SASL_SSL"),
        "security_protocol": "SASL_SSL",
        "ssl_context": create_ssl_context(cafile=str(papers.ca)),
        "sasl_mechanism": "SCRAM-SHA-256",
        "sasl_plain_username": "ada",
        "sasl_plain_password": "lovelace",
    }

    async def send_and_read() -> bytes:
        async with aiokafka.AIOKafkaProducer(**config) as producer:
            await producer.send_and_wait(kafka_name, b"from aiokafka")
        async with aiokafka.AIOKafkaConsumer(kafka_name, auto_offset_reset="earliest", **config) as consumer:
            return (await asyncio.wait_for(consumer.getone(), 30)).value

    assert asyncio.run(send_and_read()) == b"from aiokafka"


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_kafka_python_comes_in(cluster: ottla.Cluster, papers: Papers, kafka_name: str, mechanism: str) -> None:
    kafka = pytest.importorskip("kafka")
    cluster.create_topic(kafka_name)
    producer = kafka.KafkaProducer(
        bootstrap_servers=cluster.bootstrap_servers_of("SASL_SSL"),
        security_protocol="SASL_SSL",
        ssl_cafile=str(papers.ca),
        sasl_mechanism=mechanism,
        sasl_plain_username="grace",
        sasl_plain_password="hopper",
    )
    try:
        assert producer.send(kafka_name, b"value").get(30).offset == 0
    finally:
        producer.close(10)
