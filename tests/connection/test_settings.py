"""The connection's settings: both spellings, text and numbers, and sentences for what cannot be used."""

from __future__ import annotations

import numpy as np
import pytest

from ottla.connection.setting import Setting, nearest_name
from ottla.connection.settings import CONNECTION_SETTINGS, ConnectionSettings, parse_bootstrap
from ottla.errors import ConfigError


def test_defaults_are_kafkas():
    settings = ConnectionSettings({"bootstrap.servers": "one:9092"})
    assert settings.request_timeout_ms == 30_000
    assert settings.reconnect_backoff_ms == 50
    assert settings.reconnect_backoff_max_ms == 1_000
    assert settings.retry_backoff_ms == 100
    assert settings.retry_backoff_max_ms == 1_000
    assert settings.metadata_max_age_ms == 300_000
    assert settings.connections_max_idle_ms == 540_000


def test_every_row_has_an_attribute_and_a_sentence():
    settings = ConnectionSettings({"bootstrap.servers": "one:9092"})
    for row in CONNECTION_SETTINGS:
        # Those about security stand together, see test_security_settings.py.
        assert hasattr(settings, row.keyword) or row.group == "Security"
        assert row.doc.endswith(".")


def test_dotted_and_snake_case_names_and_text_are_taken():
    settings = ConnectionSettings(
        {"bootstrap_servers": ["one:9092", "two:9093"], "request.timeout.ms": "1500", "client_id": "me"}
    )
    assert settings.bootstrap_servers == (("one", 9092), ("two", 9093))
    assert settings.request_timeout_ms == 1500
    assert settings.client_id == "me"


def test_a_first_value_above_its_maximum_is_cut_to_it_and_said():
    settings = ConnectionSettings(
        {
            "bootstrap.servers": "one:1",
            "retry.backoff.ms": 5000,
            "reconnect.backoff.ms": 2000,
            "reconnect.backoff.max.ms": 1500,
            "socket.connection.setup.timeout.ms": 40_000,
        }
    )
    assert settings.retry_backoff_ms == 1000
    assert settings.reconnect_backoff_ms == 1500
    assert settings.socket_connection_setup_timeout_ms == 30_000
    assert settings.warnings == [
        "reconnect.backoff.ms=2000 is above reconnect.backoff.max.ms=1500; 1500 is used from the beginning",
        "retry.backoff.ms=5000 is above retry.backoff.max.ms=1000; 1000 is used from the beginning",
        "socket.connection.setup.timeout.ms=40000 is above socket.connection.setup.timeout.max.ms=30000; "
        "30000 is used from the beginning",
    ]


def test_a_reconnect_pause_given_without_its_maximum_does_not_grow():
    settings = ConnectionSettings({"bootstrap.servers": "one:1", "reconnect.backoff.ms": 2000})
    assert (settings.reconnect_backoff_ms, settings.reconnect_backoff_max_ms) == (2000, 2000)
    assert settings.warnings == []


def test_words_are_taken_in_the_case_java_takes():
    given = {"bootstrap.servers": "one:1", "metadata.recovery.strategy": "NONE"}
    assert ConnectionSettings(given).metadata_recovery_strategy == "none"
    with pytest.raises(ConfigError, match="Did you mean use_all_dns_ips"):
        ConnectionSettings({"bootstrap.servers": "one:1", "client.dns.lookup": "USE_ALL_DNS_IPS"})


def test_a_whole_number_may_be_one_of_numpys() -> None:
    settings = ConnectionSettings({"bootstrap.servers": "one:1", "request.timeout.ms": np.int64(7)})
    assert settings.request_timeout_ms == 7
    assert type(settings.request_timeout_ms) is int
    for given in (np.True_, np.float64(7), np.array([7])):
        with pytest.raises(ConfigError, match="is not a whole number"):
            ConnectionSettings({"bootstrap.servers": "one:1", "request.timeout.ms": given})


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({}, "bootstrap.servers is missing; give host:port, several separated by commas."),
        (
            {"request.timeout.ms": 0},
            "request.timeout.ms=0 is out of range; allowed is a whole number from 1 to 2147483647.",
        ),
        (
            {"request.timeout.ms": "soon"},
            "request.timeout.ms='soon' is not a whole number; allowed is a whole number from 1 to 2147483647.",
        ),
        (
            {"request.timeout.ms": True},
            "request.timeout.ms=True is not a whole number; allowed is a whole number from 1 to 2147483647.",
        ),
        ({"client.id": 5}, "client.id=5 is not text."),
        (
            {"request.timeot.ms": 5},
            "request.timeot.ms is not a setting this client knows; did you mean request.timeout.ms?",
        ),
        (
            {"retry_backof_ms": 5},
            "retry_backof_ms is not a setting this client knows; did you mean retry_backoff_ms?",
        ),
        (
            {"group_id": "flights"},
            "group.id is a setting of Kafka's that ottla does not support here; leave it out.",
        ),
        (
            {"client.id": "a", "client_id": "b"},
            "client.id is given twice, as client.id and as client_id; keep one.",
        ),
    ],
)
def test_what_cannot_be_used_is_named_with_what_is_allowed(given, sentence):
    with pytest.raises(ConfigError) as caught:
        ConnectionSettings(given)
    assert str(caught.value) == sentence


def test_a_connection_is_never_idle_at_once():
    """With 0 it would be closed before anything could be sent."""
    for taken in (-1, 1):
        given = {"bootstrap.servers": "one:1", "connections.max.idle.ms": taken}
        assert ConnectionSettings(given).connections_max_idle_ms == taken
    for refused in (0, -2):
        with pytest.raises(ConfigError, match=rf"connections\.max\.idle\.ms={refused} is out of range; .*, or -1\."):
            ConnectionSettings({"bootstrap.servers": "one:1", "connections.max.idle.ms": refused})


@pytest.mark.parametrize("given", [{1: 2}, {None: 2}, {b"client.id": "x"}])
def test_the_name_of_a_setting_is_text(given):
    with pytest.raises(ConfigError, match=r"is no name of a setting; names are text, such as 'bootstrap\.servers'"):
        ConnectionSettings({"bootstrap.servers": "one:1", **given})


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("ssl.ca.location", "ssl.ca.location is called ssl.truststore.location here."),
        ("ssl_ca_location", "ssl_ca_location is called ssl_truststore_location here."),
        ("metadata.broker.list", "metadata.broker.list is called bootstrap.servers here."),
        ("socket.timeout.ms", "socket.timeout.ms is called request.timeout.ms here."),
        ("sasl.mechanisms", "sasl.mechanisms is called sasl.mechanism here."),
        # Of no use to a client that sends nothing.
        (
            "batch.num.messages",
            "batch.num.messages (batch.size in Kafka) is not a setting of this client; leave it out.",
        ),
    ],
)
def test_a_name_of_librdkafkas_is_translated(name, sentence):
    with pytest.raises(ConfigError) as caught:
        ConnectionSettings({"bootstrap.servers": "one:1", name: 5})
    assert str(caught.value).startswith(sentence)


def test_a_name_like_nothing_known_gets_the_page_that_has_them_all():
    with pytest.raises(ConfigError) as caught:
        ConnectionSettings({"zzz": 1})
    assert (
        str(caught.value)
        == 'zzz is not a setting this client knows; the page "Settings" of the documentation lists all.'
    )
    assert nearest_name("zzz", ["acks"]) is None


def test_numbers_words_and_secrets_are_read_by_their_row():
    factor = Setting("a.factor", float, 0.8, "A factor.", group="Security", lowest=0.5, highest=1)
    assert factor.read("0.7") == 0.7
    assert factor.read(1) == 1.0
    for wrong in (True, "x", "nan", 2):
        with pytest.raises(ConfigError, match=r"allowed is a number from 0\.5 to 1\."):
            factor.read(wrong)
    level = Setting("a.level", str, "INFO", "A level.", group="Metrics", allowed=("INFO", "DEBUG"), any_case=True)
    assert level.read("debug") == "DEBUG"
    secret = Setting("a.password", str, None, "A password.", group="Security", secret=True)
    assert secret.read(" kept as it is ") == " kept as it is "
    with pytest.raises(ConfigError, match=r"a\.password=\[hidden\] is not text\."):
        secret.read(b"hush")


def test_a_row_may_bring_its_own_reading():
    def reads(value):
        if not callable(value):
            raise ConfigError(f"a.callable={value!r} cannot be called; give a function.")
        return value

    row = Setting("a.callable", object, None, "Something.", group="Security", takes="Callable[[], str]", reads=reads)
    assert row.read(str) is str
    with pytest.raises(ConfigError, match="cannot be called"):
        row.read(5)


@pytest.mark.parametrize(
    ("text", "addresses"),
    [
        ("localhost:9092", (("localhost", 9092),)),
        (" a:1 , b:2,, a:1 ", (("a", 1), ("b", 2))),
        ("[::1]:9092", (("::1", 9092),)),
        (("a:1", "b:2,c:3"), (("a", 1), ("b", 2), ("c", 3))),
    ],
)
def test_bootstrap_addresses_are_read(text, addresses):
    assert parse_bootstrap(text) == addresses


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "bootstrap.servers is empty"),
        (" , ", "bootstrap.servers is empty"),
        ("localhost", "'localhost' has no port"),
        (":9092", "':9092' has no port"),
        ("::1", "'::1' has no port"),
        ("a:port", "the port in 'a:port' must be a number from 1 to 65535"),
        ("a:0", "the port in 'a:0' must be a number from 1 to 65535"),
        ("a:65536", "must be a number from 1 to 65535"),
        ("http://a:80", "'http://a:80' is a URL; give host:port alone"),
        (9092, "bootstrap.servers=9092 is not text"),
        ([9092], "is not text"),
    ],
)
def test_bad_bootstrap_addresses_are_named(text, sentence):
    with pytest.raises(ConfigError) as caught:
        parse_bootstrap(text)
    assert sentence in str(caught.value)
