"""Whole configurations of confluent-kafka and kafka-python: one error says what each name is called here."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from tests.client.librdkafka import properties

import ottla
from ottla.connection.foreign_settings import RENAMED
from ottla.errors import ConfigError
from ottla.producer.settings import ProducerSettings
from ottla.producer.settings_table import PRODUCER_SETTINGS
from ottla.reader.settings import READER_SETTINGS, ReaderSettings


def function(*_: Any) -> None:
    """A callback for settings that take one."""


CONFLUENT = {
    "bootstrap.servers": "pkc-1.example:9092,pkc-2.example:9092",
    "client.id": "billing",
    "security.protocol": "SASL_SSL",
    "sasl.mechanisms": "PLAIN",
    "sasl.username": "ada",
    "sasl.password": "HUSH",
    "ssl.ca.location": "/etc/ssl/cert.pem",
    "enable.idempotence": True,
    "request.required.acks": "all",
    "max.in.flight": 5,
    "compression.codec": "lz4",
    "compression.level": 3,
    "partitioner": "murmur2_random",
    "queue.buffering.max.messages": 100_000,
    "queue.buffering.max.kbytes": 1_048_576,
    "queue.buffering.max.ms": 50,
    "batch.num.messages": 10_000,
    "message.timeout.ms": 300_000,
    "message.send.max.retries": 10,
    "socket.keepalive.enable": True,
    "statistics.interval.ms": 5_000,
    "stats_cb": function,
    "error_cb": function,
    "on_delivery": function,
    "logger": logging.getLogger("mine"),
    "api.version.request": True,
    "broker.version.fallback": "0.10.0.0",
    "go.delivery.reports": True,
    "linger.mss": 5,
}
TOLD_OF_CONFLUENT = """23 names are no settings of this client:
  sasl.mechanisms is called sasl.mechanism here.
  ssl.ca.location is called ssl.truststore.location here.
  request.required.acks is called acks here.
  max.in.flight is called max.in.flight.requests.per.connection here.
  compression.codec is called compression.type here.
  compression.level is set per codec here: compression.gzip.level, compression.lz4.level, compression.zstd.level.
  partitioner is called partitioner.class here.
  queue.buffering.max.messages has no counterpart: buffer.memory is the limit, in bytes; leave it out.
  queue.buffering.max.kbytes is called buffer.memory (in bytes) here.
  queue.buffering.max.ms is called linger.ms here.
  batch.num.messages is called batch.size (in bytes) here.
  message.timeout.ms is called delivery.timeout.ms here.
  message.send.max.retries is called retries here.
  socket.keepalive.enable has no counterpart: ottla manages its sockets itself; leave it out.
"""

KAFKA_PYTHON = {
    "bootstrap_servers": ["one.example:9092", "two.example:9092"],
    "client_id": "billing",
    "acks": "all",
    "retries": 5,
    "linger_ms": 10,
    "batch_size": 32_768,
    "buffer_memory": 33_554_432,
    "compression_type": "gzip",
    "max_in_flight_requests_per_connection": 5,
    "max_request_size": 1_048_576,
    "request_timeout_ms": 30_000,
    "api_version": (2, 8, 0),
    "api_version_auto_timeout_ms": 2_000,
    "key_serializer": str.encode,
    "value_serializer": str.encode,
    "security_protocol": "SASL_SSL",
    "ssl_cafile": "/etc/ssl/cert.pem",
    "ssl_certfile": "/etc/ssl/me.pem",
    "ssl_check_hostname": True,
    "sasl_mechanism": "PLAIN",
    "sasl_plain_username": "ada",
    "sasl_plain_password": "HUSH",
}
TOLD_OF_KAFKA_PYTHON = """7 names are no settings of this client:
  api_version has no counterpart: ottla asks each broker for its API versions; leave it out.
  api_version_auto_timeout_ms has no counterpart: ottla asks each broker for its API versions; leave it out.
  ssl_cafile is called ssl_truststore_location here.
  ssl_certfile is called ssl_keystore_location (one PEM file with the certificate and its key) here.
  ssl_check_hostname is called ssl_endpoint_identification_algorithm (https for True, empty for False) here.
  sasl_plain_username is called sasl_username here.
  sasl_plain_password is called sasl_password here."""


def refusal(make: Callable[[dict[str, Any]], Any], given: dict[str, Any]) -> str:
    with pytest.raises(ConfigError) as caught:
        make(given)
    return str(caught.value)


@pytest.mark.parametrize("kind", [ottla.Producer, ottla.AsyncProducer])
def test_a_configuration_of_confluent_kafka_is_answered_whole(kind: type[ottla.Producer]) -> None:
    told = refusal(kind.from_config, CONFLUENT)
    assert told.startswith(TOLD_OF_CONFLUENT)
    assert "\n  on_delivery belongs to each record here: producer.send(..., on_delivery=function).\n" in told
    assert told.endswith("\n  linger.mss is not a setting this client knows; did you mean linger.ms?")
    assert "HUSH" not in told


def test_a_configuration_of_kafka_python_is_answered_whole() -> None:
    assert refusal(lambda given: ottla.Producer(**given), KAFKA_PYTHON) == TOLD_OF_KAFKA_PYTHON


@pytest.mark.parametrize("given", [CONFLUENT, KAFKA_PYTHON], ids=["confluent-kafka", "kafka-python"])
def test_who_does_as_told_has_settings(given: dict[str, Any]) -> None:
    changed = dict(given)
    for line in refusal(ProducerSettings, given).splitlines()[1:]:
        name = line.split()[0]
        value = changed.pop(name)
        called = re.search(r" is called ([\w.]+)( \(in bytes\))?", line)
        if called:
            changed[called[1]] = {True: "https"}.get(value, value) if "check_hostname" in name else value
    assert ProducerSettings(changed).connection.security.username == "ada"


def test_readers_and_admins_answer_whole_configurations_too() -> None:
    consumer = {
        "bootstrap.servers": "one:9092",
        "group.id": "billing",
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "session.timeout.ms": 6_000,
        "fetch.wait.max.ms": 100,
        "queue.buffering.max.ms": 5,
    }
    expected = [
        "6 names are no settings of this client:",
        "group.id is a setting of Kafka's that ottla does not support here; leave it out.",
        'auto.offset.reset belongs to a Reader: ottla.Reader(..., start="earliest").',
        "enable.auto.commit is a setting of Kafka's that ottla does not support here; leave it out.",
        "session.timeout.ms is for consumer groups, which ottla does not have; leave it out.",
        "fetch.wait.max.ms is called fetch.max.wait.ms here.",
        "queue.buffering.max.ms (linger.ms in Kafka) is not a setting of this client; leave it out.",
    ]
    assert refusal(ReaderSettings, consumer).splitlines() == [expected[0], *(f"  {line}" for line in expected[1:])]
    keywords: dict[str, Any] = {name.replace(".", "_"): value for name, value in consumer.items()}
    for make in (lambda given: ottla.Reader(topic="t", **given), lambda given: ottla.Admin(**given)):
        assert refusal(make, keywords).count("\n") == 6


@pytest.mark.parametrize(("name", "called"), RENAMED.items())
def test_what_is_called_otherwise_is_a_setting_here(name: str, called: str) -> None:
    target = called.partition(" ")[0]
    assert target in {row.name for row in (*PRODUCER_SETTINGS, *READER_SETTINGS)}
    if target in {row.name for row in PRODUCER_SETTINGS}:
        told = refusal(ProducerSettings, {"bootstrap.servers": "one:9092", name: 5})
        assert told == f"{name} is called {called} here."


def unanswered(names: Iterable[str]) -> list[str]:
    """Those of these names that the error calls unknown."""
    known = {row.keyword for row in PRODUCER_SETTINGS}
    asked = {name: None for name in names if name.replace(".", "_") not in known}
    told = refusal(ProducerSettings, asked).splitlines()[1:]
    assert len(told) == len(asked)
    return [line.split()[0] for line in told if "is not a setting this client knows" in line]


def test_every_setting_of_kafka_python_is_answered() -> None:
    kafka = pytest.importorskip("kafka")
    names = {**kafka.KafkaProducer.DEFAULT_CONFIG, **kafka.KafkaConsumer.DEFAULT_CONFIG}
    assert unanswered(names) == []


@pytest.mark.parametrize("name", ["ssl.crl.location", "ssl_context", "https.ca.location"])
def test_settings_of_tls_that_are_not_here_lead_to_the_page_that_has_them(name: str) -> None:
    told = refusal(ProducerSettings, {"bootstrap.servers": "one:9092", name: "/etc/ssl"})
    assert told.startswith(f'{name} has no counterpart: the page "Security" of the documentation has the settings')


def test_every_setting_of_librdkafka_is_answered(tmp_path: Path) -> None:
    assert unanswered(properties(tmp_path)) == []
