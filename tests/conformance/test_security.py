"""TLS and SASL: every way in carries all that a producer does; who does not come in is told why, in one sentence."""

from __future__ import annotations

import contextlib
import logging
import time
from typing import Any

import pyarrow as pa
import pytest

import ottla
from ottla.connection.authentication import unsecured_token

from ..markers import await_markers
from ..papers import Papers
from .sides import Side
from .ways_in import JAVA_LOGINS, MECHANISMS, PASSWORD, renewing_early, settings_for

_PASSWORDS = tuple(name for name in MECHANISMS if name != "OAUTHBEARER")
# Of three connections; more than there would be to the end of the sessions they begin with.
_RENEWALS = 24
_PATIENCE_S = 60


# ---- who comes in ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("listener", "mechanism"),
    [("SSL", ""), ("MUTUAL", "")] + [(name, each) for name in ("SASL_PLAINTEXT", "SASL_SSL") for each in MECHANISMS],
)
def test_producer_admin_and_reader_come_in_and_what_was_committed_is_there_once(
    side: Side, papers: Papers, topic: str, listener: str, mechanism: str
) -> None:
    address, given = side.bootstrap_servers_of(listener), settings_for(papers, listener, mechanism)
    # Values of up to 3 KB: frames of many TLS records go both ways.
    table = pa.table({"value": [bytes([n % 251]) * (n % 3000) for n in range(2000)]})
    with ottla.Producer(address, **given) as producer:
        producer.send_table(topic, table, value="value").result(_PATIENCE_S)
        sent = [producer.send(topic, b"%d" % n, b"key") for n in range(500)]
    offsets = [delivery.result(0).offset for delivery in sent]
    assert offsets == list(range(offsets[0], offsets[0] + 500))
    with ottla.Producer(address, transactional_id=topic, **given) as producer:
        with producer.transaction():
            producer.send(topic, b"committed")
        with contextlib.suppress(ZeroDivisionError), producer.transaction():
            producer.send(topic, b"aborted")
            raise ZeroDivisionError
    await_markers(side.bootstrap_servers, topic)
    with ottla.Admin(address, **given) as admin:
        assert sum(admin.end_offsets(topic).values()) >= 2502  # and the markers
    back = ottla.read_table(address, topic, isolation_level="read_committed", **given)
    expected = [*table["value"].to_pylist(), *(b"%d" % n for n in range(500)), b"committed"]
    assert sorted(back["value"].to_pylist()) == sorted(expected)


@pytest.mark.parametrize("mechanism", JAVA_LOGINS)
def test_the_settings_of_a_java_client_work(side: Side, papers: Papers, topic: str, mechanism: str) -> None:
    config = {
        "bootstrap.servers": side.bootstrap_servers_of("SASL_SSL"),
        "security.protocol": "SASL_SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(papers.ca),
        "sasl.mechanism": mechanism,
        "sasl.jaas.config": JAVA_LOGINS[mechanism],
    }
    with ottla.Producer.from_config(config) as producer:
        assert producer.send(topic, b"x").result(_PATIENCE_S).offset == 0


def test_sessions_renewed_within_a_stream_of_sends_lose_and_double_nothing(
    side: Side, papers: Papers, topic: str, reading: Any
) -> None:
    """Sessions of seconds (KIP-368), by every mechanism; nothing is sent again, so a lost connection would show."""
    once: dict[str, Any] = {"retries": 0, "enable_idempotence": False, "linger_ms": 0}
    with contextlib.ExitStack() as opened:
        opened.enter_context(renewing_early())
        producers = {
            mechanism: opened.enter_context(
                ottla.Producer(side.bootstrap_servers_of("SHORT"), **settings_for(papers, "SHORT", mechanism), **once)
            )
            for mechanism in MECHANISMS
        }

        def figures(name: str) -> dict[str, float]:
            return {mechanism: producer.metrics()[name] for mechanism, producer in producers.items()}

        connections, rounds, give_up_s = {}, 0, time.monotonic() + _PATIENCE_S
        while min(figures("successful-reauthentication-total").values()) < _RENEWALS:
            for partition in range(3):
                for mechanism, producer in producers.items():
                    producer.send(topic, b"%s %d" % (mechanism.encode(), rounds), partition=partition)
            for producer in producers.values():
                producer.flush()
            rounds += 1
            connections = connections or figures("connection-creation-total")
            assert time.monotonic() < give_up_s, figures("successful-reauthentication-total")
        assert figures("connection-creation-total") == connections
        assert set(figures("failed-reauthentication-total").values()) == {0}
    for stored in reading.values(side, topic).values():
        for mechanism in MECHANISMS:
            mine = [value for value in stored if value.startswith(mechanism.encode() + b" ")]
            assert mine == [b"%s %d" % (mechanism.encode(), number) for number in range(rounds)]


# ---- who does not come in --------------------------------------------------------------------------------------------


def everybody_is_told(address: str, given: dict[str, Any], error: type[Exception], said: str) -> str:
    """Producer, admin and reader get the same clear error; returns the producer's."""
    with ottla.Producer(address, max_block_ms=20_000, **given) as producer, pytest.raises(error, match=said) as caught:
        producer.send("any", b"x")
    with ottla.Admin(address, default_api_timeout_ms=20_000, **given) as admin, pytest.raises(error, match=said):
        admin.list_topics()
    with (
        ottla.Reader(address, "any", default_api_timeout_ms=20_000, **given) as reader,
        pytest.raises(error, match=said),
    ):
        list(reader.iter_raw())
    text = str(caught.value)
    assert any(each in text for each in address.split(","))
    assert "\n" not in text
    return text


@pytest.mark.parametrize("trust", ["system", "other"])
def test_a_broker_nobody_vouches_for_is_not_believed(side: Side, papers: Papers, trust: str) -> None:
    given = {"security_protocol": "SSL"}
    if trust == "other":
        given["ssl_truststore_location"] = str(papers.other_ca)
    said = "name who issued .* in ssl.truststore.location"
    everybody_is_told(side.bootstrap_servers_of("SSL"), given, ottla.AuthenticationError, said)


def test_a_certificate_for_another_host_is_not_believed(side: Side, papers: Papers) -> None:
    given = settings_for(papers, "ELSEWHERE")
    address = side.bootstrap_servers_of("ELSEWHERE")
    text = everybody_is_told(address, given, ottla.AuthenticationError, "not valid for '127.0.0.1'")
    assert "ssl.endpoint.identification.algorithm" in text


@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
def test_without_its_certificate_a_client_is_told(side: Side, papers: Papers, version: str) -> None:
    given = settings_for(papers, "SSL") | {"ssl_enabled_protocols": version}
    said = r"the broker wants a certificate of yours.*ssl\.keystore\.location"
    everybody_is_told(side.bootstrap_servers_of("MUTUAL"), given, ottla.AuthenticationError, said)


def test_a_client_with_an_untrusted_certificate_is_told(side: Side, papers: Papers) -> None:
    given = settings_for(papers, "SSL") | {"ssl_keystore_location": str(papers.untrusted)}
    address = side.bootstrap_servers_of("MUTUAL")
    everybody_is_told(address, given, ottla.AuthenticationError, "does not know who issued")


@pytest.mark.parametrize("listener", ["SASL_PLAINTEXT", "SASL_SSL"])
@pytest.mark.parametrize("mechanism", _PASSWORDS)
def test_a_wrong_password_is_told_in_the_brokers_words_too_and_never_shown(
    side: Side, papers: Papers, listener: str, mechanism: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    given = settings_for(papers, listener, mechanism) | {"sasl_password": "byron-1788"}
    said = f"does not take user 'ada' with this password by {mechanism}.*it says: Authentication failed"
    # One broker will do: Apache Kafka takes its time before it refuses.
    address = side.bootstrap_servers_of(listener).split(",")[0]
    text = everybody_is_told(address, given, ottla.AuthenticationError, said)
    assert "byron" not in text + caplog.text
    assert PASSWORD not in text + caplog.text


def test_a_token_that_is_over_is_told_and_never_shown(
    side: Side, papers: Papers, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    token = unsecured_token({"sub": "ada"}, time.time() - 10_000).value
    given = settings_for(papers, "SASL_SSL", "OAUTHBEARER") | {"sasl_oauthbearer_token_provider": lambda: token}
    said = r"does not take the token \(invalid_token\)"
    address = side.bootstrap_servers_of("SASL_SSL").split(",")[0]
    text = everybody_is_told(address, given, ottla.AuthenticationError, said)
    assert token not in text + caplog.text


@pytest.mark.parametrize(("listener", "protocol"), [("PLAINTEXT", "SASL_PLAINTEXT"), ("SSL", "SASL_SSL")])
def test_sasl_where_nobody_asks_for_it_is_told(side: Side, papers: Papers, listener: str, protocol: str) -> None:
    said = f"set security.protocol to {listener}"
    given = settings_for(papers, protocol, "PLAIN")
    everybody_is_told(side.bootstrap_servers_of(listener), given, ottla.AuthenticationError, said)


NO_TLS = r"speaks no TLS; set security\.protocol to "
WHO = r"requires authentication; set security\.protocol to "
TLS = r"looks like a TLS listener \(this client speaks plaintext"


@pytest.mark.parametrize(
    ("listener", "protocol", "error", "said"),
    [
        ("PLAINTEXT", "SSL", ottla.AuthenticationError, NO_TLS + r"PLAINTEXT\)"),
        ("PLAINTEXT", "SASL_SSL", ottla.AuthenticationError, NO_TLS + r"PLAINTEXT\)"),
        ("SASL_PLAINTEXT", "SSL", ottla.AuthenticationError, NO_TLS + "SASL_PLAINTEXT and .* one of .*PLAIN"),
        ("SASL_PLAINTEXT", "SASL_SSL", ottla.AuthenticationError, NO_TLS + "SASL_PLAINTEXT and .* one of .*PLAIN"),
        ("SASL_PLAINTEXT", "PLAINTEXT", ottla.AuthenticationError, WHO + "SASL_PLAINTEXT and .* one of .*PLAIN"),
        ("SASL_SSL", "SSL", ottla.AuthenticationError, WHO + "SASL_SSL and .* one of .*PLAIN"),
        ("SSL", "PLAINTEXT", ottla.NotKafka, TLS),
        ("SASL_SSL", "SASL_PLAINTEXT", ottla.NotKafka, TLS),
    ],
)
def test_the_wrong_protocol_is_told_at_once(
    side: Side, papers: Papers, listener: str, protocol: str, error: type[Exception], said: str
) -> None:
    address = side.bootstrap_servers_of(listener).split(",")[0]
    given = settings_for(papers, protocol, "PLAIN" if protocol.startswith("SASL") else "")
    everybody_is_told(address, given, error, said)
