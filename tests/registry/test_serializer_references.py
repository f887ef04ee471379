"""Serializers whose schemas refer to others, and schemas that are registered normalised or as they are written."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.read_back import stored

import ottla

CITY = '{"type":"record","name":"geo.City","fields":[{"name":"name","type":"string"}]}'
FLIGHT = '{"type":"record","name":"Flight","fields":[{"name":"to","type":"geo.City"},{"name":"no","type":"int"}]}'
CITY_PROTO = 'syntax = "proto3"; package geo; message Other { int32 a = 1; } message City { string name = 1; }'
FLIGHT_PROTO = """syntax = "proto3"; import "geo/city.proto";
message Other { int32 a = 1; }
message Flight { geo.City to = 1; int32 no = 2; }"""
CITY_JSON = '{"type":"object","properties":{"name":{"type":"string"}},"required":["name"]}'
FLIGHT_JSON = '{"title":"Flight","type":"object","properties":{"to":{"$ref":"city.json"},"no":{"type":"integer"}}}'
VALUE = {"to": {"name": "Oslo"}, "no": 7}
# The serializer, the deserializer, the schema, what it refers to by which name, and settings of the serializer.
KINDS = {
    "AVRO": (ottla.AvroSerializer, ottla.AvroDeserializer, FLIGHT, CITY, "geo.City", {}),
    "PROTOBUF": (
        ottla.ProtobufSerializer,
        ottla.ProtobufDeserializer,
        FLIGHT_PROTO,
        CITY_PROTO,
        "geo/city.proto",
        {"message": "Flight"},
    ),
    "JSON": (ottla.JsonSchemaSerializer, ottla.JsonSchemaDeserializer, FLIGHT_JSON, CITY_JSON, "city.json", {}),
}


@pytest.fixture
def client(schema_registry: ottla.Registry) -> Iterator[ottla.RegistryClient]:
    with ottla.RegistryClient(schema_registry.url) as client:
        yield client


def send(cluster: ottla.Cluster, topic: str, serializer: Any, *values: Any) -> None:
    with ottla.Producer(cluster.bootstrap_servers, value_serializer=serializer) as producer:
        for value in values:
            producer.send(topic, value)


def read(cluster: ottla.Cluster, topic: str, deserializer: Any) -> list[Any]:
    with ottla.Reader(cluster.bootstrap_servers, topic, value_deserializer=deserializer) as reader:
        return [record.value for record in reader.records()]


@pytest.mark.parametrize("place", ["prefix", "header"])
@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_what_refers_to_another_schema_comes_back_as_it_was(
    kind: str,
    normalize: bool,
    place: str,
    client: ottla.RegistryClient,
    schema_registry: ottla.Registry,
    kafka_cluster: ottla.Cluster,
    kafka_topic: str,
) -> None:
    serializers, deserializers, text, city, name, more = KINDS[kind]
    referred = client.register(f"{kafka_topic}-city", city, kind)
    reference = ottla.SchemaReference(name, f"{kafka_topic}-city", 1)
    settings: Any = {"references": [reference], "normalize.schemas": normalize, "schema_id_in": place, **more}
    serializer: Any = serializers(client, text, **settings)
    send(kafka_cluster, kafka_topic, serializer, VALUE)
    registered = client.version(f"{kafka_topic}-value")
    assert (registered.kind, registered.references) == (kind, (reference,))
    assert client.referred(registered) == {name: referred.text}
    # A reader that knows nothing beforehand.
    deserializer: Any = deserializers(schema_registry.url)
    assert read(kafka_cluster, kafka_topic, deserializer) == [VALUE]
    # One that only looks up finds the schema with its references.
    looking: Any = serializers(client, text, auto_register_schemas=False, **settings)
    send(kafka_cluster, kafka_topic, looking, VALUE)
    [first, second] = stored(kafka_cluster, kafka_topic)
    assert first == second


@pytest.mark.parametrize("kind", KINDS)
def test_a_value_that_does_not_match_what_is_referred_to_is_refused(
    kind: str, client: ottla.RegistryClient, kafka_cluster: ottla.Cluster, kafka_topic: str
) -> None:
    serializers, _, text, city, name, more = KINDS[kind]
    client.register(f"{kafka_topic}-city", city, kind)
    settings: Any = {"references": [ottla.SchemaReference(name, f"{kafka_topic}-city", 1)], **more}
    serializer: Any = serializers(client, text, **settings)
    with pytest.raises(ottla.RecordError, match=r"to[./]name"):
        send(kafka_cluster, kafka_topic, serializer, {"to": {"name": 5}, "no": 7})
    assert stored(kafka_cluster, kafka_topic) == []


def test_subjects_are_named_by_records_that_refer_to_others(
    client: ottla.RegistryClient, kafka_cluster: ottla.Cluster, kafka_topic: str
) -> None:
    for kind, (serializers, _, text, city, name, more) in KINDS.items():
        client.register(f"{kafka_topic}-{kind}", city, kind)
        settings: Any = {"references": [ottla.SchemaReference(name, f"{kafka_topic}-{kind}", 1)], **more}
        topic = f"{kafka_topic}-{kind}-topic"
        kafka_cluster.create_topic(topic, partitions=1)
        serializer: Any = serializers(client, text, subject_name_strategy="topic_record", **settings)
        send(kafka_cluster, topic, serializer, VALUE)
        assert client.subjects(topic) == [f"{topic}-Flight"]


def test_older_records_are_read_by_a_schema_with_the_same_references(
    client: ottla.RegistryClient, kafka_cluster: ottla.Cluster, kafka_topic: str
) -> None:
    client.register(f"{kafka_topic}-city", CITY)
    references = [ottla.SchemaReference("geo.City", f"{kafka_topic}-city", 1)]
    send(kafka_cluster, kafka_topic, ottla.AvroSerializer(client, FLIGHT, references=references), VALUE)
    newer = FLIGHT.replace('{"name":"no","type":"int"}', '{"name":"note","type":"string","default":"-"}')
    deserializer = ottla.AvroDeserializer(client, newer)
    assert read(kafka_cluster, kafka_topic, deserializer) == [{"to": {"name": "Oslo"}, "note": "-"}]


def test_what_is_referred_to_and_is_not_there_is_told(
    client: ottla.RegistryClient, kafka_cluster: ottla.Cluster, kafka_topic: str
) -> None:
    reference = ottla.SchemaReference("geo.City", f"{kafka_topic}-city", 1)
    serializer = ottla.AvroSerializer(client, FLIGHT, references=[reference])
    with pytest.raises(ottla.RegistryError, match=f"{kafka_topic}-city"):
        send(kafka_cluster, kafka_topic, serializer, VALUE)
    assert stored(kafka_cluster, kafka_topic) == []


# Two ways to write a schema, and its normal form.
UNSORTED = {
    "AVRO": (
        '{"type":"record","name":"R","fields":[{"type":{"type":"int"},"name":"a"}]}',
        '{"fields":[{"name":"a","type":"int"}],"name":"R","type":"record"}',
        '{"name":"R","type":"record","fields":[{"name":"a","type":"int"}]}',
    ),
    "JSON": (
        '{"title":"R","type":"object","properties":{"a":{"type":"integer"}}}',
        '{"properties":{"a":{"type":"integer"}},"type":"object","title":"R"}',
        '{"properties":{"a":{"type":"integer"}},"title":"R","type":"object"}',
    ),
    "PROTOBUF": (
        'syntax = "proto3"; option java_package = "b"; option cc_enable_arenas = true; message R { int32 a = 1; }',
        'syntax = "proto3"; option cc_enable_arenas = true; option java_package = "b"; message R { int32 a = 1; }',
        'syntax = "proto3"; option cc_enable_arenas = true; option java_package = "b"; message R { int32 a = 1; }',
    ),
}


@pytest.mark.parametrize("kind", KINDS)
def test_two_ways_to_write_a_schema_are_one_when_they_are_normalised(
    kind: str, client: ottla.RegistryClient, kafka_cluster: ottla.Cluster, kafka_topic: str
) -> None:
    serializers, deserializers = KINDS[kind][:2]
    *ways, normal = UNSORTED[kind]
    for text in ways:
        settings: Any = {"normalize_schemas": True}
        serializer: Any = serializers(client, text, **settings)
        send(kafka_cluster, kafka_topic, serializer, {"a": 1})
    [first, second] = stored(kafka_cluster, kafka_topic)
    assert first == second
    assert client.versions(f"{kafka_topic}-value") == [1]
    # Without registering, either is found as well.
    for text in ways:
        looking: Any = serializers(client, text, normalize_schemas=True, auto_register_schemas=False)
        send(kafka_cluster, kafka_topic, looking, {"a": 1})
    deserializer: Any = deserializers(client)
    assert read(kafka_cluster, kafka_topic, deserializer) == [{"a": 1}] * 4
    assert client.version(f"{kafka_topic}-value").text == normal


@pytest.mark.parametrize("kind", KINDS)
def test_a_schema_is_kept_as_it_is_written_where_it_is_not_normalised(
    kind: str, client: ottla.RegistryClient, kafka_cluster: ottla.Cluster, kafka_topic: str
) -> None:
    text = UNSORTED[kind][0].replace("int32 a", f"int32 {'a' * len(kind)}").replace('"a"', f'"{kind}"')
    field = "a" * len(kind) if kind == "PROTOBUF" else kind
    serializer: Any = KINDS[kind][0](client, text)
    send(kafka_cluster, kafka_topic, serializer, {field: 1})
    assert client.version(f"{kafka_topic}-value").text == text
