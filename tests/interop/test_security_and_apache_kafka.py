"""TLS and SASL against a real Apache Kafka: every way in, and what who stays out is told."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import trustme
from cryptography.hazmat.primitives import serialization
from tools.apache_kafka import ApacheKafka
from tools.kafka_jars import JarsUnavailable

import ottla
from ottla.connection.authentication import unsecured_token

pytest.importorskip("scramp")
pytestmark = pytest.mark.kafka

PASSWORD = "lovelace-0815"
MODULES = "org.apache.kafka.common.security"
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
LISTENERS = {
    "SSL": "SSL",
    "MUTUAL": "SSL",
    "SASL_PLAINTEXT": "SASL_PLAINTEXT",
    "SASL_SSL": "SASL_SSL",
    "SHORT": "SASL_PLAINTEXT",
}


class Papers:
    """PEM files as Apache Kafka wants them: keys in PKCS #8."""

    def __init__(self, folder: Path) -> None:
        ours, other = trustme.CA(), trustme.CA()
        self._folder = folder
        self.server = self._issue(ours, "server", "127.0.0.1", "localhost")
        self.client = self._issue(ours, "client", "client@ottla.example")
        self.ca = folder / "ca.pem"
        ours.cert_pem.write_to_path(str(self.ca))
        self.other_ca = folder / "other-ca.pem"
        other.cert_pem.write_to_path(str(self.other_ca))

    def _issue(self, authority: Any, name: str, *whom: str) -> Path:
        issued = authority.issue_cert(*whom)
        key = serialization.load_pem_private_key(issued.private_key_pem.bytes(), None).private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        path = self._folder / f"{name}.pem"
        path.write_bytes(key + b"".join(each.bytes() for each in issued.cert_chain_pems))
        return path


@pytest.fixture(scope="module")
def papers(tmp_path_factory: pytest.TempPathFactory) -> Papers:
    return Papers(tmp_path_factory.mktemp("papers"))


@pytest.fixture(scope="module")
def kafka(papers: Papers) -> Iterator[ApacheKafka]:
    logins = {
        "plain": f'{MODULES}.plain.PlainLoginModule required user_ada="{PASSWORD}";',
        "scram-sha-256": f"{MODULES}.scram.ScramLoginModule required;",
        "scram-sha-512": f"{MODULES}.scram.ScramLoginModule required;",
        "oauthbearer": f'{MODULES}.oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="broker";',
    }
    settings: dict[str, Any] = {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": papers.server,
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": papers.ca,
        "listener.name.mutual.ssl.client.auth": "required",
        "sasl.enabled.mechanisms": ",".join(MECHANISMS),
    }
    for listener in ("sasl_plaintext", "sasl_ssl", "short"):
        for mechanism, login in logins.items():
            settings[f"listener.name.{listener}.{mechanism}.sasl.jaas.config"] = login
    for mechanism in logins:
        settings[f"listener.name.short.{mechanism}.connections.max.reauth.ms"] = 1500
    scram = [f"{name}=[name=ada,password={PASSWORD}]" for name in MECHANISMS if name.startswith("SCRAM")]
    arguments = [word for each in scram for word in ("--add-scram", each)]
    try:
        with ApacheKafka(listeners=LISTENERS, settings=settings, format_arguments=arguments) as kafka:
            yield kafka
    except JarsUnavailable as missing:
        pytest.skip(str(missing))


@pytest.fixture
def topic(kafka: ApacheKafka, kafka_name: str) -> str:
    with ottla.Admin(kafka.bootstrap_servers) as admin:
        admin.create_topics(kafka_name, partitions=2, replication_factor=1)
        admin.end_offsets(kafka_name)
    return kafka_name


def settings_for(papers: Papers, protocol: str, mechanism: str = "PLAIN") -> dict[str, Any]:
    given: dict[str, Any] = {"security_protocol": protocol}
    if protocol.endswith("SSL"):
        given["ssl_truststore_location"] = str(papers.ca)
    if protocol.startswith("SASL"):
        given["sasl_mechanism"] = mechanism
        if mechanism == "OAUTHBEARER":
            given["sasl_oauthbearer_token_provider"] = lambda: unsecured_token({"sub": "ada"}, time.time())
        else:
            given |= {"sasl_username": "ada", "sasl_password": PASSWORD}
    return given


def round_trip(address: str, topic: str, given: dict[str, Any]) -> None:
    table = pa.table({"value": [bytes([n % 251]) * (n % 3000) for n in range(1000)]})
    with ottla.Producer(address, **given) as producer:
        producer.send_table(topic, table, value="value").result(60)
    back = ottla.read_table(address, topic, **given)
    assert sorted(back["value"].to_pylist()) == sorted(table["value"].to_pylist())


@pytest.mark.parametrize(
    ("protocol", "mechanism"),
    [("SSL", "")] + [(protocol, name) for protocol in ("SASL_PLAINTEXT", "SASL_SSL") for name in MECHANISMS],
)
def test_producer_reader_and_admin_come_in(
    kafka: ApacheKafka, papers: Papers, topic: str, protocol: str, mechanism: str
) -> None:
    round_trip(kafka.bootstrap_servers_of(protocol), topic, settings_for(papers, protocol, mechanism))


@pytest.mark.parametrize(
    ("mechanism", "line"),
    [
        ("PLAIN", f'{MODULES}.plain.PlainLoginModule required username="ada" password="{PASSWORD}";'),
        ("SCRAM-SHA-512", f'{MODULES}.scram.ScramLoginModule required username="ada" password="{PASSWORD}";'),
        ("OAUTHBEARER", f'{MODULES}.oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="ada";'),
    ],
)
def test_the_settings_of_a_java_client_work(
    kafka: ApacheKafka, papers: Papers, topic: str, mechanism: str, line: str
) -> None:
    config = {
        "bootstrap.servers": kafka.bootstrap_servers_of("SASL_SSL"),
        "security.protocol": "SASL_SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(papers.ca),
        "sasl.mechanism": mechanism,
        "sasl.jaas.config": line,
    }
    with ottla.Producer.from_config(config) as producer:
        assert producer.send(topic, b"x").result(60).offset == 0


def test_a_client_shows_its_certificate(kafka: ApacheKafka, papers: Papers, topic: str) -> None:
    given = settings_for(papers, "SSL") | {"ssl_keystore_location": str(papers.client)}
    round_trip(kafka.bootstrap_servers_of("MUTUAL"), topic, given)


@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
def test_without_its_certificate_it_is_told(kafka: ApacheKafka, papers: Papers, version: str) -> None:
    given = settings_for(papers, "SSL") | {"ssl_enabled_protocols": version}
    with (
        ottla.Producer(kafka.bootstrap_servers_of("MUTUAL"), **given) as producer,
        pytest.raises(ottla.AuthenticationError, match=r"certificate of yours.*ssl\.keystore\.location"),
    ):
        producer.send("any", b"x")


def test_a_broker_nobody_vouches_for_is_not_believed(kafka: ApacheKafka, papers: Papers) -> None:
    given = settings_for(papers, "SSL") | {"ssl_truststore_location": str(papers.other_ca)}
    with (
        ottla.Admin(kafka.bootstrap_servers_of("SSL"), **given) as admin,
        pytest.raises(ottla.AuthenticationError, match=r"ssl\.truststore\.location"),
    ):
        admin.list_topics()


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_a_wrong_password_is_told_in_kafkas_words_too(kafka: ApacheKafka, papers: Papers, mechanism: str) -> None:
    given = settings_for(papers, "SASL_SSL", mechanism) | {"sasl_password": "byron-1788"}
    with (
        ottla.Producer(kafka.bootstrap_servers_of("SASL_SSL"), **given) as producer,
        pytest.raises(
            ottla.AuthenticationError, match=r"does not take user 'ada'.*it says: Authentication failed"
        ) as e,
    ):
        producer.send("any", b"x")
    assert "byron" not in str(e.value)


def test_a_token_that_is_over_is_told(kafka: ApacheKafka, papers: Papers) -> None:
    given = settings_for(papers, "SASL_PLAINTEXT", "OAUTHBEARER")
    given["sasl_oauthbearer_token_provider"] = lambda: unsecured_token({"sub": "ada"}, time.time() - 10_000).value
    with (
        ottla.Producer(kafka.bootstrap_servers_of("SASL_PLAINTEXT"), **given) as producer,
        pytest.raises(ottla.AuthenticationError, match=r"does not take the token \(invalid_token\)"),
    ):
        producer.send("any", b"x")


@pytest.mark.parametrize(
    ("listener", "protocol", "error", "said"),
    [
        ("PLAINTEXT", "SASL_PLAINTEXT", ottla.AuthenticationError, "set security.protocol to PLAINTEXT"),
        ("SSL", "SASL_SSL", ottla.AuthenticationError, "set security.protocol to SSL"),
        ("PLAINTEXT", "SSL", ottla.AuthenticationError, "speaks no TLS; set security.protocol to PLAINTEXT"),
        ("SASL_PLAINTEXT", "SASL_SSL", ottla.AuthenticationError, "speaks no TLS; .* to SASL_PLAINTEXT and .* PLAIN"),
        ("SSL", "PLAINTEXT", ottla.NotKafka, "looks like a TLS listener"),
        ("SASL_SSL", "SASL_PLAINTEXT", ottla.NotKafka, "looks like a TLS listener"),
        ("SASL_PLAINTEXT", "PLAINTEXT", ottla.AuthenticationError, "who you are; .* to SASL_PLAINTEXT and .* PLAIN"),
        ("SASL_SSL", "SSL", ottla.AuthenticationError, "who you are; .* to SASL_SSL and .* PLAIN"),
    ],
)
def test_the_wrong_protocol_is_told_at_once(
    kafka: ApacheKafka, papers: Papers, listener: str, protocol: str, error: type[Exception], said: str
) -> None:
    given = settings_for(papers, protocol)
    with (
        ottla.Producer(kafka.bootstrap_servers_of(listener), max_block_ms=30_000, **given) as producer,
        pytest.raises(error, match=said),
    ):
        producer.send("any", b"x")


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_producer_outlives_its_session_on_the_same_connection(
    kafka: ApacheKafka, papers: Papers, topic: str, mechanism: str
) -> None:
    given = settings_for(papers, "SASL_PLAINTEXT", mechanism) | {"retries": 0, "enable_idempotence": False}
    until_s, sent, opened = time.monotonic() + 5, 0, None
    with ottla.Producer(kafka.bootstrap_servers_of("SHORT"), **given) as producer:
        while sent < 500 or time.monotonic() < until_s:
            for _ in range(50):
                producer.send(topic, b"x" * 100)
            producer.flush()
            sent += 50
            if sent == 500:
                opened = producer.metrics()["connection-creation-total"]
        assert producer.metrics()["connection-creation-total"] == opened
    with ottla.Admin(kafka.bootstrap_servers) as admin:
        assert sum(admin.end_offsets(topic).values()) == sent
