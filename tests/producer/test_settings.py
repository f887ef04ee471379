"""The producer's settings: Kafka's defaults, Java's rules, and a sentence for each contradiction."""

from __future__ import annotations

import pytest

from ottla.client.tls import client_context
from ottla.connection.settings import CONNECTION_SETTINGS
from ottla.errors import ConfigError
from ottla.producer.settings import ProducerSettings
from ottla.producer.settings_table import PRODUCER_SETTINGS
from ottla.records.batch_header import CODECS


def settings(**given):
    return ProducerSettings({"bootstrap.servers": "one:9092", **given})


def dotted(**given):
    return settings(**{name.replace("_", "."): value for name, value in given.items()})


def test_defaults_are_those_of_kafka_4():
    defaults = settings()
    assert defaults.acks == -1
    assert defaults.idempotent
    assert defaults.retries == 2**31 - 1
    assert defaults.max_in_flight_requests_per_connection == 5
    assert defaults.delivery_timeout_ms == 120_000
    assert defaults.linger_ms == 5
    assert defaults.batch_size == 16_384
    assert defaults.buffer_memory == 32 * 2**20
    assert defaults.max_request_size == 2**20
    assert defaults.max_block_ms == 60_000
    assert defaults.compression_type == "none"
    assert defaults.compression_level is None
    assert not defaults.partitioner_ignore_keys
    assert defaults.connection.client_id == ""


def test_every_row_is_documented_and_named_once_and_has_an_attribute():
    names = [row.name for row in PRODUCER_SETTINGS]
    assert len(set(names)) == len(names)
    assert all(row.doc.endswith(".") for row in PRODUCER_SETTINGS)
    assert all(row.default is None or row.read(row.default) == row.default for row in PRODUCER_SETTINGS)
    given = settings()
    assert [row.name for row in PRODUCER_SETTINGS if not hasattr(given, row.keyword)] == [
        row.name for row in CONNECTION_SETTINGS
    ]


def test_both_spellings_mean_the_same():
    assert settings(linger_ms=7).linger_ms == dotted(linger_ms="7").linger_ms == 7


def test_what_acks_0_costs_is_told_where_acks_is():
    [acks] = [row for row in PRODUCER_SETTINGS if row.name == "acks"]
    assert "With 0 nobody is asked: what a broker refuses or never gets is lost without an error" in acks.doc
    assert "nothing but a full socket slows the producer down" in acks.doc


@pytest.mark.parametrize(("given", "acks"), [("all", -1), ("-1", -1), (-1, -1), ("1", 1), (1, 1), (0, 0), ("0", 0)])
def test_acks_in_every_spelling(given, acks):
    assert settings(acks=given).acks == acks


@pytest.mark.parametrize("given", [{"acks": 1}, {"acks": "0"}, {"retries": 0}, {"enable_idempotence": False}])
def test_idempotence_that_was_not_asked_for_gives_way(given):
    assert not settings(**given).idempotent


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (
            {"enable_idempotence": True, "acks": 1},
            "enable.idempotence=true needs acks=all, but acks=1 was given; set acks=all or enable.idempotence=false.",
        ),
        (
            {"enable_idempotence": "true", "retries": 0},
            "enable.idempotence=true needs retries above 0, but retries=0 was given; "
            "raise retries or set enable.idempotence=false.",
        ),
        (
            {"max_in_flight_requests_per_connection": 6},
            "enable.idempotence=true, its default, needs max.in.flight.requests.per.connection of 5 at most, because "
            "brokers remember no more batches of a producer, but max.in.flight.requests.per.connection=6 was given; "
            "lower it or set enable.idempotence=false.",
        ),
        (
            {"delivery_timeout_ms": 30_004},
            "delivery.timeout.ms=30004 must be at least linger.ms + request.timeout.ms, here 5 + 30000 = 30005; "
            "raise it or lower those two.",
        ),
        ({"acks": 2}, "acks=2 is not known; allowed are all, -1, 0, 1."),
        ({"acks": "al"}, "acks='al' is not known; allowed are all, -1, 0, 1. Did you mean all?"),
        (
            {"compression_type": "lz5"},
            f"compression.type='lz5' is not known; allowed are {', '.join(CODECS)}. Did you mean lz4?",
        ),
        (
            {"compression_gzip_level": 0},
            "compression.gzip.level=0 is out of range; allowed is a whole number from 1 to 9, or -1.",
        ),
        (
            {"linger.ms": "1_000"},
            "linger.ms='1_000' is not a whole number; allowed is a whole number from 0 to 9223372036854775807.",
        ),
        (
            {"sasl.login.refresh.window.factor": "0.8_0"},
            "sasl.login.refresh.window.factor='0.8_0' is not a number; allowed is a number from 0.5 to 1.0.",
        ),
        ({"enable_idempotence": "yes"}, "enable.idempotence='yes' is neither true nor false."),
        ({"linger": 5}, "linger is not a setting this client knows; did you mean linger.ms?"),
        ({"lingr.ms": 5}, "lingr.ms is not a setting this client knows; did you mean linger.ms?"),
        (
            {"group_id": "g"},
            "group.id is a setting of Kafka's that ottla does not support here; leave it out.",
        ),
        (
            {"transactional_id": "t", "acks": 1},
            "transactional.id='t' needs enable.idempotence=true, but acks=1 was given; leave out acks=1 or "
            "transactional.id.",
        ),
        (
            {"transactional_id": "t", "enable_idempotence": False},
            "transactional.id='t' needs enable.idempotence=true, but enable.idempotence=false was given; leave out "
            "enable.idempotence=false or transactional.id.",
        ),
        ({"transactional_id": ""}, "transactional.id is empty; give it a name, or leave it out."),
        ({"batch.size": -1}, "batch.size=-1 is out of range; allowed is a whole number from 0 to 2147483647."),
    ],
)
def test_contradictions_and_mistakes_are_named(given, sentence):
    with pytest.raises(ConfigError) as caught:
        settings(**given)
    assert str(caught.value) == sentence


MISPLACED = {
    "dict": {"sasl.password": "HUSH"},
    "list": [{"sasl.password": "HUSH"}],
    "bytes": b"HUSH",
    "jaas": 'org.apache.kafka.common.security.plain.PlainLoginModule required username="ada" password="HUSH";',
    "pem": "-----BEGIN PRIVATE KEY-----\nHUSH\n-----END PRIVATE KEY-----",
    "one line of a key": "HUSH" * 30,
    "address": "one:9092,ada:x,HUSH@two:9092",
    "url": "kafka://ada:HUSH@one",
}


@pytest.mark.parametrize("kind", MISPLACED)
@pytest.mark.parametrize("row", PRODUCER_SETTINGS, ids=lambda row: row.name)
def test_a_secret_in_the_wrong_place_is_not_told(row, kind):
    given = {"bootstrap.servers": "one:9092", row.name: MISPLACED[kind]}
    # Some things are refused only once all is known about security.
    for more in ({}, {"security.protocol": "SSL"}, {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN"}):
        # Only where no secrets are at home, one long word is told by its beginning.
        if row.group == "Security" or kind != "one line of a key":
            assert "HUSH" not in what_is_told_of({**more, **given})


def what_is_told_of(given):
    try:
        security = ProducerSettings(given).connection.security
        if security.is_tls:
            client_context(security)
    except ConfigError as error:
        return str(error)
    return ""


def test_a_transactional_id_that_no_request_can_carry_is_refused():
    assert settings(transactional_id="x" * 32_767).transactional_id
    for too_long in ("x" * 32_768, "\u20ac" * 11_000):
        with pytest.raises(ConfigError, match=r"transactional\.id is longer than the 32767 bytes"):
            settings(transactional_id=too_long)


def test_a_dict_of_settings_is_sent_to_from_config():
    with pytest.raises(ConfigError, match=r"=<dict> is not text; .* go to Producer\.from_config"):
        ProducerSettings({"bootstrap_servers": {"bootstrap.servers": "one:9092", "sasl.password": "HUSH"}})


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"bootstrap.servers": "u:HUSH@host:9092"}, r"a user is named before 'host:9092'; .* sasl\.username"),
        ({"bootstrap.servers": ["one:1", "kafka://u:HUSH@host"]}, r"a user is named before 'host'"),
        ({"ssl.keystore.location": MISPLACED["pem"]}, r"is the text of a PEM file .* belongs in ssl\.keystore\.key"),
        ({"ssl.truststore.location": MISPLACED["pem"]}, r"belongs in ssl\.truststore\.certificates"),
        ({"sasl.mechanism": MISPLACED["jaas"]}, r"sasl\.mechanism=\[hidden\] is not known; allowed are PLAIN"),
        ({"client.id": MISPLACED["dict"]}, r"client\.id=<dict> is not text"),
        ({"linger.ms": 10**5000}, r"linger\.ms=<int> is out of range"),
        ({"linger.ms": "5 ms"}, r"linger\.ms='5 ms' is not a whole number"),
    ],
)
def test_what_is_told_of_a_value_that_may_be_a_secret(given, sentence):
    with pytest.raises(ConfigError, match=sentence) as caught:
        ProducerSettings({"bootstrap.servers": "one:9092", **given})
    assert "HUSH" not in str(caught.value)


def test_more_in_flight_is_fine_without_idempotence():
    given = settings(max_in_flight_requests_per_connection=50, enable_idempotence=False)
    assert given.max_in_flight_requests_per_connection == 50


def test_a_delivery_timeout_that_was_not_given_grows_with_the_request_timeout():
    assert settings(request_timeout_ms=200_000, linger_ms=10).delivery_timeout_ms == 200_010
    assert settings(delivery_timeout_ms=30_005).delivery_timeout_ms == 30_005
    assert settings(request_timeout_ms=2**31 - 1).delivery_timeout_ms == 2**31 - 1


def test_a_buffer_smaller_than_a_batch_is_accepted_as_java_does_and_warned_of():
    assert settings().warnings == []
    given = settings(buffer_memory=100)
    assert given.buffer_memory == 100
    [warning] = given.warnings
    assert warning.startswith("buffer.memory=100 is below batch.size=16384: ")


def test_idempotence_that_yielded_says_to_what():
    assert settings().promise() == "acks=all, idempotence on"
    assert settings(acks=1).promise() == "acks=1, idempotence off because of acks=1"
    assert settings(retries=0).promise() == "acks=all, idempotence off because of retries=0"
    assert settings(enable_idempotence=False, acks=0).promise() == "acks=0, idempotence off"


def test_the_level_of_the_codec_in_use_counts():
    assert settings(compression_type="zstd", compression_zstd_level=7).compression_level == 7
    assert settings(compression_type="zstd").compression_level is None
    assert settings(compression_type="lz4", compression_zstd_level=7).compression_level is None
    assert settings(compression_type="gzip", compression_gzip_level=-1).compression_level is None
    assert settings(compression_type="snappy").compression_level is None
    # What Java calls lz4's level 9 is its fast compressor, which takes no level.
    assert settings(compression_type="lz4", compression_lz4_level=9).compression_level is None
    assert settings(compression_type="lz4", compression_lz4_level=10).compression_level == 10
