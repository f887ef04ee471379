"""Serializers and deserializers with a registry: there and back, beside confluent_kafka's own, and what is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient, topic_record_subject_name_strategy
from confluent_kafka.schema_registry.avro import AvroDeserializer as ConfluentDeserializer
from confluent_kafka.schema_registry.avro import AvroSerializer as ConfluentSerializer
from google.protobuf.timestamp_pb2 import Timestamp
from tests.read_back import stored
from tests.registries import EitherRegistry

import ottla

AVRO = json.dumps(
    {
        "type": "record",
        "name": "com.acme.Order",
        "fields": [{"name": "item", "type": "string"}, {"name": "count", "type": "int", "default": 1}],
    }
)
PROTO = """syntax = "proto3"; package acme;
message Other { string a = 1; }
message Order { string item = 1; int32 count = 2; }"""
ORDER = {"item": "tea", "count": 2}
# Apicurio Registry knows none.
NO_GUIDS = "The registry gives schemas no GUIDs; use schema_id_in='prefix' with it"


@pytest.fixture
def url(either_registry: EitherRegistry) -> str:
    return either_registry.url


def send(cluster: ottla.Cluster, topic: str, value: Any, **settings: Any) -> None:
    with ottla.Producer(cluster.bootstrap_servers, **settings) as producer:
        producer.send(topic, value, value if "key_serializer" in settings else None)


def read(cluster: ottla.Cluster, topic: str, **settings: Any) -> list[ottla.ReadRecord]:
    with ottla.Reader(cluster.bootstrap_servers, topic, **settings) as reader:
        return list(reader.records())


@pytest.mark.parametrize("place", ["prefix", "header"])
def test_avro_comes_back_as_it_was(
    place: str, kafka_cluster: ottla.Cluster, kafka_topic: str, either_registry: EitherRegistry
) -> None:
    url = either_registry.url
    serializer = ottla.AvroSerializer(url, AVRO, schema_id_in=place)
    if place == "header" and either_registry.is_apicurio:
        with pytest.raises(ottla.ConfigError, match=NO_GUIDS):
            send(kafka_cluster, kafka_topic, ORDER, value_serializer=serializer)
        return
    send(kafka_cluster, kafka_topic, ORDER, key_serializer=serializer, value_serializer=serializer)
    deserializer = ottla.AvroDeserializer(url)
    [record] = read(kafka_cluster, kafka_topic, key_deserializer=deserializer, value_deserializer=deserializer)
    assert (record.key, record.value) == (ORDER, ORDER)
    assert [name for name, _ in record.headers] == (
        [] if place == "prefix" else ["__key_schema_id", "__value_schema_id"]
    )
    with ottla.RegistryClient(url) as client:
        assert set(client.subjects(kafka_topic)) == {f"{kafka_topic}-key", f"{kafka_topic}-value"}


@pytest.mark.parametrize("place", ["prefix", "header"])
def test_messages_come_back_as_they_were(
    place: str, kafka_cluster: ottla.Cluster, kafka_topic: str, either_registry: EitherRegistry
) -> None:
    url = either_registry.url
    serializer = ottla.ProtobufSerializer(url, PROTO, message="Order", schema_id_in=place)
    if place == "header" and either_registry.is_apicurio:
        with pytest.raises(ottla.ConfigError, match=NO_GUIDS):
            send(kafka_cluster, kafka_topic, ORDER, value_serializer=serializer)
        return
    send(kafka_cluster, kafka_topic, ORDER, value_serializer=serializer)
    for deserializer in (ottla.ProtobufDeserializer(url), ottla.ProtobufDeserializer(url, message="acme.Order")):
        [record] = read(kafka_cluster, kafka_topic, value_deserializer=deserializer)
        assert record.value == ORDER
    with pytest.raises(ottla.DeserializationError, match=r"it is a message acme\.Order, not Other"):
        read(kafka_cluster, kafka_topic, value_deserializer=ottla.ProtobufDeserializer(url, message="Other"))


def test_what_confluents_client_wrote_is_read_and_the_other_way_round(
    kafka_cluster: ottla.Cluster, kafka_topic: str, url: str
) -> None:
    theirs = SchemaRegistryClient({"url": url})
    send(kafka_cluster, kafka_topic, ORDER, value_serializer=ConfluentSerializer(theirs, AVRO))
    send(kafka_cluster, kafka_topic, ORDER, value_serializer=ottla.AvroSerializer(url, AVRO))
    first, second = stored(kafka_cluster, kafka_topic)
    assert first == second
    for deserializer in (ottla.AvroDeserializer(url), ConfluentDeserializer(theirs)):
        found = read(kafka_cluster, kafka_topic, value_deserializer=deserializer)
        assert [record.value for record in found] == [ORDER, ORDER]


def test_records_of_an_older_schema_are_read_as_a_newer_one(
    kafka_cluster: ottla.Cluster, kafka_topic: str, url: str
) -> None:
    send(kafka_cluster, kafka_topic, ORDER, value_serializer=ottla.AvroSerializer(url, AVRO))
    newer = json.loads(AVRO)
    newer["fields"] = [{"name": "item", "type": "string"}, {"name": "note", "type": "string", "default": "-"}]
    deserializer = ottla.AvroDeserializer(url, json.dumps(newer), from_dict=lambda found: tuple(found.values()))
    [record] = read(kafka_cluster, kafka_topic, value_deserializer=deserializer)
    assert record.value == ("tea", "-")


def test_the_latest_schema_of_a_subject_is_written(kafka_cluster: ottla.Cluster, kafka_topic: str, url: str) -> None:
    with ottla.RegistryClient(url) as client:
        client.register("com.acme.Order", AVRO)
        latest = client.version("com.acme.Order")
        by_name = ottla.AvroSerializer(
            client, AVRO, subject_name_strategy="record", auto_register_schemas=False, to_dict=vars
        )

        class Order:
            def __init__(self) -> None:
                self.item, self.count = "tea", 2

        send(kafka_cluster, kafka_topic, Order(), value_serializer=by_name)
        assert client.subjects(kafka_topic) == []
    [value] = stored(kafka_cluster, kafka_topic)
    assert value[:5] == b"\0" + latest.id.to_bytes(4, "big")


def test_topics_that_take_turns_get_the_schema_of_each(
    kafka_cluster: ottla.Cluster, kafka_topic: str, url: str
) -> None:
    topics = [kafka_topic, f"{kafka_topic}-2"]
    kafka_cluster.create_topic(topics[1], partitions=1)
    with ottla.RegistryClient(url) as client:
        other = AVRO.replace("com.acme.Order", "com.acme.Other")
        ids = [client.register(f"{topic}-value", text).id for topic, text in zip(topics, [AVRO, other], strict=True)]
        serializer = ottla.AvroSerializer(client, use_latest_version=True)
        with ottla.Producer(kafka_cluster.bootstrap_servers, value_serializer=serializer) as producer:
            for _ in range(3):
                for topic in topics:
                    producer.send(topic, ORDER)
                    producer.send("".join(topic), ORDER)
    assert ids[0] != ids[1]
    for topic, number in zip(topics, ids, strict=True):
        assert {value[:5] for value in stored(kafka_cluster, topic)} == {b"\0" + number.to_bytes(4, "big")}


def test_a_value_that_does_not_match_is_refused_and_the_next_one_is_sent(
    kafka_cluster: ottla.Cluster, kafka_topic: str, url: str
) -> None:
    serializer = ottla.AvroSerializer(url, AVRO)
    with ottla.Producer(kafka_cluster.bootstrap_servers, value_serializer=serializer) as producer:
        with pytest.raises(ottla.RecordError, match=r"The value of 'item' is 7 \(int\), which is not of its type"):
            producer.send(kafka_topic, {"item": 7})
        producer.send(kafka_topic, ORDER)
    assert len(stored(kafka_cluster, kafka_topic)) == 1


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (b"plain", "The magic byte is 112; it is 0 before a schema's id"),
        (
            b"\0\0\x7f\0\0x",
            r"\(40403: (Schema 8323072 not found|No content with id/hash 'contentId-8323072' was found)\)",
        ),
        (b"\0\0", "There are 2 bytes; the schema's id or GUID alone needs 5"),
    ],
)
def test_a_record_that_cannot_be_read_is_named(
    value: bytes, told: str, kafka_cluster: ottla.Cluster, kafka_topic: str, url: str
) -> None:
    with ottla.Producer(kafka_cluster.bootstrap_servers) as producer:
        place = producer.send(kafka_topic, value).result()
    with pytest.raises(
        ottla.DeserializationError, match=f"offset {place.offset} of {kafka_topic}-{place.partition} .*{told}"
    ):
        read(kafka_cluster, kafka_topic, value_deserializer=ottla.AvroDeserializer(url))


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({}, "schema is missing: give its text, or use_latest_version=True"),
        ({"schema": AVRO, "schema_id_in": "footer"}, "schema_id_in='footer' is not known; allowed are prefix, header"),
        ({"schema": AVRO, "subject_name_strategy": "x"}, r"subject\.name\.strategy='x' is not known"),
    ],
)
def test_what_cannot_be_used_is_refused(given: dict[str, Any], told: str, url: str) -> None:
    with pytest.raises(ottla.ConfigError, match=told):
        ottla.AvroSerializer(url, **given)


@pytest.mark.parametrize(
    ("arguments", "settings"),
    [
        ((None, AVRO, None, {"auto.register.schemas": False}), {}),
        ((), {"schema_registry_client": None, "schema_str": AVRO}),
        (("http://localhost:8081",), {"schema_str": AVRO}),
        (("http://localhost:8081", AVRO), {"conf": {}}),
    ],
)
def test_calls_of_another_library_are_told_how_it_is_called_here(arguments: Any, settings: Any) -> None:
    for kind in (ottla.AvroSerializer, ottla.AvroDeserializer):
        with pytest.raises(ottla.ConfigError, match=rf"{kind.__name__} takes the registry's address first"):
            kind(*arguments, **settings)


def test_an_argument_that_does_not_exist_is_named() -> None:
    for kind, settings, told in (
        (ottla.ProtobufSerializer, {"mesage": "M"}, "has no argument 'mesage'; did you mean message"),
        (
            ottla.AvroSerializer,
            {"auto_register": False},
            "AvroSerializer has no argument 'auto_register'; did you mean",
        ),
        (ottla.ProtobufSerializer, {"auto.register.schema": False}, "'auto_register_schema'; did you mean auto_regist"),
        (ottla.JsonSchemaDeserializer, {"zzz": 1}, "JsonSchemaDeserializer has no argument 'zzz'; there are from_dict"),
    ):
        with pytest.raises(ottla.ConfigError, match=told):
            kind("http://localhost:8081", AVRO, **settings)


def test_settings_may_have_dots_as_in_other_libraries(kafka_cluster: ottla.Cluster, kafka_topic: str, url: str) -> None:
    settings: Any = {"auto.register.schemas": True, "subject.name.strategy": topic_record_subject_name_strategy}
    serializer = ottla.AvroSerializer(url, AVRO, **settings)
    send(kafka_cluster, kafka_topic, ORDER, value_serializer=serializer)
    with ottla.RegistryClient(url) as client:
        assert client.versions(f"{kafka_topic}-com.acme.Order") == [1]


def test_a_client_of_another_library_is_no_registry(url: str) -> None:
    with pytest.raises(ottla.ConfigError, match=r"registry is a SchemaRegistryClient: give the registry's address"):
        ottla.AvroSerializer(SchemaRegistryClient({"url": url}), AVRO)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("kind", "schema", "told"),
    [
        (ottla.AvroSerializer, AVRO.replace('"int"', '"integer"'), "integer"),
        (ottla.AvroSerializer, AVRO[:-1], "JSON"),
        (ottla.JsonSchemaSerializer, '{"type": "object"', "JSON"),
        (ottla.AvroSerializer, json.loads(AVRO), "schema is of type dict: give its text"),
        (
            ottla.AvroSerializer,
            "schemas/order.avsc",
            "schema is the name of a file, 'schemas/order",
        ),
        (ottla.ProtobufSerializer, "order.proto", r"give its text, Path\(name\).read_text\(\)"),
        (ottla.ProtobufDeserializer, Timestamp, r"schema is Timestamp: give the text of its \.proto file, or a Regis"),
    ],
)
def test_a_schema_that_is_none_is_refused_before_anything_is_sent(kind: Any, schema: Any, told: str) -> None:
    with pytest.raises(ottla.ConfigError, match=told):
        kind("http://localhost:8081", schema)


def test_what_is_not_registered_says_what_to_do(kafka_cluster: ottla.Cluster, kafka_topic: str, url: str) -> None:
    subject = f"{kafka_topic}-value"
    for settings, told in (
        ({"auto_register_schemas": False}, f"{subject}.* auto_register_schemas=False: register it first"),
        ({"use_latest_version": True}, f"no schema for the subject '{subject}'.*: register one first"),
    ):
        serializer = ottla.AvroSerializer(url, AVRO, **settings)
        with pytest.raises(ottla.RegistryError, match=told) as refused:
            send(kafka_cluster, kafka_topic, ORDER, value_serializer=serializer)
        assert (refused.value.code, refused.value.status) == (40401, 404)
    with pytest.raises(ottla.RegistryError, match=f"no schema for the subject '{subject}'.*give the schema to read as"):
        ottla.read_table(kafka_cluster.bootstrap_servers, kafka_topic, value_format="avro", registry=url)
