"""`Reader.records`: records as objects, what deserializers make of keys and values, and what they cannot take."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from confluent_kafka import serialization

import ottla
from ottla.client.read_records import Headers

_JAVA = "org.apache.kafka.common.serialization."
_ID = uuid.UUID("0d2d2f1c-90a7-4a3b-9c4e-4f1d6b0e5f7a")


def read(cluster: ottla.Cluster, topic: str, **settings: Any) -> list[ottla.ReadRecord]:
    with ottla.Reader(cluster.bootstrap_servers, topic, **settings) as reader:
        return sorted(reader.records(), key=lambda record: record.timestamp_ms or 0)


def test_records_are_as_they_are_stored(kafka_cluster: ottla.Cluster, kafka_topic: str) -> None:
    with ottla.Producer(kafka_cluster.bootstrap_servers) as producer:
        first = producer.send(kafka_topic, b"v", b"k", headers=[("a", b"1"), ("b", None)], timestamp_ms=1)
        second = producer.send(kafka_topic, timestamp_ms=2)
    places = [(delivery.result().partition, delivery.result().offset) for delivery in (first, second)]
    assert read(kafka_cluster, kafka_topic) == [
        (kafka_topic, *places[0], 1, 0, b"k", b"v", (("a", b"1"), ("b", None))),
        (kafka_topic, *places[1], 2, 0, None, None, ()),
    ]


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("bytes", b"\0\1"),
        ("string", "käse"),
        ("json", {"a": [1, None, 2.5]}),
        ("uuid", _ID),
        ("boolean", True),
        ("boolean", False),
        ("short", -2),
        ("integer", 2**31 - 1),
        ("long", -(2**63)),
        ("float", 0.5),
        ("double", 0.1),
    ],
)
def test_names_read_what_the_serializer_of_that_name_wrote(
    name: str, given: Any, kafka_cluster: ottla.Cluster, kafka_topic: str
) -> None:
    with ottla.Producer(kafka_cluster.bootstrap_servers, key_serializer=name, value_serializer=name) as producer:
        producer.send(kafka_topic, given, given)
    java = {"bytes": "ByteArray", "uuid": "UUID", "json": ""}.get(name, name.title())
    names = [name, f"{_JAVA}{java}Deserializer"] if java else [name]
    for each in names:
        [record] = read(kafka_cluster, kafka_topic, key_deserializer=each, value_deserializer=each)
        assert (record.key, record.value) == (given, given)


class WithPlace:
    def deserialize(self, topic: str, stored: bytes) -> tuple[str, bytes]:
        return topic, stored


class WithHeaders:
    def deserialize_with_headers(self, topic: str, stored: bytes, headers: Headers) -> tuple[str, bytes, Headers]:
        return topic, stored, headers


class OfConfluent(serialization.Deserializer):
    def __call__(self, value: bytes | None, ctx: serialization.SerializationContext | None = None) -> Any:
        assert ctx is not None
        return ctx.topic, str(ctx.field), value, ctx.headers


def test_functions_and_objects_are_told_what_they_ask_for(kafka_cluster: ottla.Cluster, kafka_topic: str) -> None:
    with ottla.Producer(kafka_cluster.bootstrap_servers) as producer:
        producer.send(kafka_topic, b"v", b"7", headers=[("a", b"1")])
    headers = (("a", b"1"),)
    [record] = read(kafka_cluster, kafka_topic, key_deserializer=int, value_deserializer=WithPlace())
    assert (record.key, record.value) == (7, (kafka_topic, b"v"))
    [record] = read(kafka_cluster, kafka_topic, value_deserializer=WithHeaders())
    assert record.value == (kafka_topic, b"v", headers)
    [record] = read(kafka_cluster, kafka_topic, value_deserializer=OfConfluent())
    assert record.value == (kafka_topic, "value", b"v", list(headers))


def test_a_record_that_cannot_be_read_is_named(kafka_cluster: ottla.Cluster, kafka_topic: str) -> None:
    with ottla.Producer(kafka_cluster.bootstrap_servers) as producer:
        place = producer.send(kafka_topic, b"seven").result()
    with pytest.raises(
        ottla.DeserializationError,
        match=rf"the value of the record at offset {place.offset} of {kafka_topic}-{place.partition} cannot be read by "
        r"value\.deserializer: ValueError: an integer has 4 bytes, not 5",
    ) as raised:
        read(kafka_cluster, kafka_topic, value_deserializer="integer")
    assert (raised.value.topic, raised.value.partition) == (kafka_topic, place.partition)


def test_nulls_stay_none(kafka_cluster: ottla.Cluster, kafka_topic: str) -> None:
    with ottla.Producer(kafka_cluster.bootstrap_servers) as producer:
        producer.send(kafka_topic)
    [record] = read(kafka_cluster, kafka_topic, key_deserializer="integer", value_deserializer=int)
    assert (record.key, record.value) == (None, None)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("jason", r"value\.deserializer='jason' is not known; allowed are .* Did you mean json\?"),
        (7, r"value\.deserializer is a name, a function of one object, or an object with a method deserialize\(topic"),
        (WithPlace, r"value\.deserializer=WithPlace is a class; give an object of it"),
    ],
)
def test_what_is_no_deserializer_is_refused(
    given: Any, told: str, kafka_cluster: ottla.Cluster, kafka_topic: str
) -> None:
    with pytest.raises(ottla.ConfigError, match=told):
        read(kafka_cluster, kafka_topic, value_deserializer=given)
