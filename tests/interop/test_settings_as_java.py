"""Settings against Java's own: its tables of them, and what its producer makes of those that contradict each other.

One run of a JVM on a source file of its own: `java SettingsOfJava.java` with Kafka's jars on the class path.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from ottla.client.client_ids import client_id_of
from ottla.connection.kafka_settings import KAFKA_SETTINGS
from ottla.connection.setting import INT32_MAX, INT64_MAX, Setting
from ottla.errors import ConfigError
from ottla.producer.settings import ProducerSettings
from ottla.producer.settings_table import PRODUCER_SETTINGS
from ottla.reader.settings import READER_SETTINGS

pytestmark = pytest.mark.kafka

_SOURCE = Path(__file__).with_name("SettingsOfJava.java")
_KINDS = {"INT": int, "LONG": int, "SHORT": int, "DOUBLE": float, "BOOLEAN": bool, "STRING": str, "PASSWORD": str}
# Settings of ours whose defaults are not Java's; why stands in each row's sentence or in the reader's docstring.
OTHER_DEFAULTS = {
    "max.partition.fetch.bytes",
    "receive.buffer.bytes",
    "sasl.login.connect.timeout.ms",
    "sasl.login.read.timeout.ms",
    "sasl.mechanism",
    "send.buffer.bytes",
    "ssl.keystore.type",
    "ssl.truststore.type",
}
# 0 of these can be given in Java and means that nothing can ever succeed, or be measured.
NOT_ZERO = {
    "default.api.timeout.ms",
    "fetch.max.bytes",
    "max.partition.fetch.bytes",
    "metrics.sample.window.ms",
    "request.timeout.ms",
}
# What Java's clients take as classes or in their constructors, or not at all.
OTTLAS_OWN = {
    "bootstrap.refused.timeout.ms",
    "clock",
    "decompressed.batch.max.bytes",
    "prefetch.max.bytes",
    "sasl.oauthbearer.token.provider",
    "sasl.password",
    "sasl.username",
}
CHOICES: dict[str, tuple[Any, ...]] = {
    "acks": (None, "all", "-1", "1", "0"),
    "retries": (None, 0, 3),
    "enable.idempotence": (None, "true", "false"),
    "max.in.flight.requests.per.connection": (None, 1, 5, 6),
    "delivery.timeout.ms": (None, 10, 200_000, "+200000", "200_000", "0x30d40", "2e5"),
    "linger.ms": (None, 0, 100_000),
    "request.timeout.ms": (None, 5, 200_000, INT32_MAX),
    "reconnect.backoff.ms": (None, 3_000),
    "reconnect.backoff.max.ms": (None, 4_000),
    "transactional.id": (None, None, "one"),
}


def combinations() -> Iterator[dict[str, Any]]:
    """Every one of the first four, each with some of the rest."""
    rng = Random(43)
    names = list(CHOICES)
    for values in itertools.product(*(CHOICES[name] for name in names[:4])):
        for _ in range(6):
            drawn = [rng.choice(CHOICES[name]) for name in names[4:]]
            given = zip(names, (*values, *drawn), strict=True)
            yield {name: value for name, value in given if value is not None}


@pytest.fixture(scope="module")
def said(java: Any) -> list[list[str]]:
    """What the program told, line by line, cut at the bars."""
    given = "\n".join(" ".join(f"{name}={value}" for name, value in made.items()) for made in combinations())
    told: bytes = java.run(str(_SOURCE), given=given.encode())
    return [line.split("|") for line in told.decode().splitlines()]


@pytest.fixture(scope="module")
def tables(said: list[list[str]]) -> dict[str, dict[str, tuple[str, str, str]]]:
    """Client -> name -> (type, default, validator)."""
    found: dict[str, dict[str, tuple[str, str, str]]] = {}
    for line in said:
        if line[0] == "row":
            client, name, kind, default, validator = line[1:]
            found.setdefault(client.rpartition(".")[2], {})[name] = kind, default, validator
    return found


def test_contradictions_end_as_in_java(said: list[list[str]]) -> None:
    outcomes = [line[1] for line in said if line[0] == "made"]
    given = list(combinations())
    assert len(outcomes) == len(given) > 1000
    assert 100 < outcomes.count("refused") < len(outcomes) - 100
    for settings, outcome in zip(given, outcomes, strict=True):
        assert made_by_ottla(settings) == outcome, settings


def made_by_ottla(given: dict[str, Any]) -> str:
    try:
        made = ProducerSettings({"bootstrap.servers": "localhost:9092", **given})
    except ConfigError:
        return "refused"
    told = (made.acks, made.delivery_timeout_ms, made.connection.reconnect_backoff_max_ms)
    return " ".join([str(made.idempotent).lower(), *map(str, told)])


def test_producers_without_a_name_are_called_as_in_java(said: list[list[str]]) -> None:
    names = [line[1] for line in said if line[0] == "named"]
    assert names == ["producer-1", "producer-2", "producer-flights", "me"]
    assert names[2:] == [client_id_of("producer", given, "flights") for given in ("", "me")]


@pytest.mark.parametrize(
    ("client", "rows"),
    [("ProducerConfig", PRODUCER_SETTINGS), ("ConsumerConfig", READER_SETTINGS)],
    ids=["producer", "reader"],
)
def test_names_types_defaults_and_ranges_are_javas(
    tables: dict[str, dict[str, tuple[str, str, str]]], client: str, rows: tuple[Setting, ...]
) -> None:
    table = tables[client]
    unknown = {row.name for row in rows} - OTTLAS_OWN - table.keys()
    assert not unknown, f"Java has no {sorted(unknown)}: name them in OTTLAS_OWN"
    for row in rows:
        if row.name in OTTLAS_OWN or row.reads is not None:
            continue
        kind, default, validator = table[row.name]
        assert row.kind is _KINDS[kind], row.name
        if row.name not in OTHER_DEFAULTS:
            assert str(row.default).lower() == {"null": "none"}.get(default, default).lower(), row.name
        if row.kind is int:
            assert (row.lowest, row.highest, row.special) == range_of(row, kind, validator), row.name
        elif row.kind is str and "[" in validator:
            words = validator[validator.index("[") + 1 : -1].split(", ")
            assert {word.lower() for word in row.allowed} == {word.lower() for word in words}, row.name
            assert row.any_case == validator.startswith("(case insensitive)"), row.name


def range_of(row: Setting, kind: str, validator: str) -> tuple[float | None, float | None, int | None]:
    """What Java allows: "[0,...]", "[1,...,9]", "[1,...,9] or -1"; where it says nothing, nothing is compared."""
    bounds = re.match(r"\[(-?\d+),\.\.\.(?:,(-?\d+))?\](?: or (-?\d+))?", validator)
    if bounds is None:
        return row.lowest, row.highest, row.special
    low, high, special = bounds.groups()
    lowest = 1 if row.name in NOT_ZERO else int(low)
    return lowest, int(high) if high else INT32_MAX if kind == "INT" else INT64_MAX, int(special) if special else None


def test_every_name_java_knows_is_known_by_name(tables: dict[str, dict[str, tuple[str, str, str]]]) -> None:
    assert {name for table in tables.values() for name in table} == KAFKA_SETTINGS
