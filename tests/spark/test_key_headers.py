"""Keys whose schemas are named in headers, without Spark itself: a key's header is not its value's."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

import ottla
from ottla.errors import ConfigError
from ottla.spark.schema_functions import part_of
from ottla.spark.value_decoding import value_decoder


@pytest.fixture(scope="module")
def url(kafka_cluster: ottla.Cluster) -> Iterator[str]:
    with ottla.Registry(kafka_cluster.bootstrap_servers) as registry:
        yield registry.url


def record_of(*names: str) -> str:
    return json.dumps({"type": "record", "name": "R", "fields": [{"name": name, "type": "long"} for name in names]})


@pytest.mark.parametrize("mode", ["fail", "null", "dead-letter"])
def test_keys_are_decoded_by_the_header_of_keys(
    mode: str, kafka_cluster: ottla.Cluster, kafka_topic: str, url: str
) -> None:
    # Each schema can read what the other one wrote, and takes one number for the other.
    keys, values = (
        ottla.AvroSerializer(url, record_of(*names), schema_id_in="header") for names in (("a", "b"), ("b", "a"))
    )
    servers = kafka_cluster.bootstrap_servers
    with ottla.Producer(servers, key_serializer=keys, value_serializer=values) as producer:
        producer.send(kafka_topic, {"a": 1, "b": 2}, {"a": 10, "b": 20})
    table = ottla.read_table(servers, kafka_topic)
    registry = ottla.RegistryClient(url)
    for part, sent in (("key", {"a": 10, "b": 20}), ("value", {"a": 1, "b": 2})):
        decoder = value_decoder(registry, "avro", f"{kafka_topic}-{part}", None, None, mode, part)
        column, headers = (table.column(name).combine_chunks() for name in (part, "headers"))
        found = decoder.decode(column, headers)
        assert found.to_pylist() == [sent]
        assert decoder.undecoded(column, headers, found).to_pylist() == [None]


class Shown:
    """Shows itself as Spark's columns do."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __repr__(self) -> str:
        return f"Column<'{self._name}'>"


@pytest.mark.parametrize(
    ("column", "subject", "part", "expected"),
    [
        ("key", None, None, "key"),
        ("record.`key`", None, None, "key"),
        (Shown("KEY"), None, None, "key"),
        (Shown("record.key"), "orders-value", None, "key"),
        ("bytes", "orders-key", None, "key"),
        ("value", "sort-key", None, "value"),
        ("value", "orders-value", None, "value"),
        (Shown("monkey"), "com.acme.Monkey", None, "value"),
        ("key", "orders-key", "value", "value"),
        ("value", None, "key", "key"),
    ],
)
def test_a_column_of_keys_is_known_by_its_name_or_its_subject(
    column: Any, subject: str | None, part: str | None, expected: str
) -> None:
    assert part_of(column, subject, part) == expected


def test_a_record_has_no_other_parts() -> None:
    with pytest.raises(ConfigError, match="part='header' is not known; allowed are key, value"):
        part_of("value", None, "header")
