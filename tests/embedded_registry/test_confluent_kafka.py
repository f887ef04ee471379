"""confluent_kafka's own client and serializers, unchanged, against the embedded registry, and Apicurio's."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka.schema_registry import (
    Schema,
    SchemaReference,
    SchemaRegistryClient,
    ServerConfig,
    dual_schema_id_deserializer,
    header_schema_id_serializer,
)
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.common.schema_registry_client import ConfigCompatibilityLevel
from confluent_kafka.schema_registry.error import SchemaRegistryError
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext, SerializationError
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.message_factory import GetMessageClass
from tests.registries import EitherRegistry

from ottla.schemas.protobuf.schema import ProtobufSchema

AVRO = json.dumps({"type": "record", "name": "User", "fields": [{"name": "name", "type": "string"}]})
WIDER = AVRO.replace("}]}", '}, {"name": "age", "type": "int", "default": 7}]}')
# Apicurio Registry knows none.
NO_GUIDS = "Schema GUID is not set"
JSON = json.dumps(
    {"title": "User", "type": "object", "properties": {"name": {"type": "string"}}, "additionalProperties": False}
)


@pytest.fixture
def theirs(either_registry: EitherRegistry) -> Iterator[SchemaRegistryClient]:
    with SchemaRegistryClient({"url": either_registry.url}) as client:
        yield client


def of(topic: str, headers: Any = None) -> SerializationContext:
    return SerializationContext(topic, MessageField.VALUE, headers)


def test_their_client_registers_and_finds(
    theirs: SchemaRegistryClient, either_registry: EitherRegistry, kafka_name: str
) -> None:
    schema_id = theirs.register_schema(kafka_name, Schema(AVRO, "AVRO"))
    assert json.loads(str(theirs.get_schema(schema_id).schema_str)) == json.loads(AVRO)
    registered = theirs.lookup_schema(kafka_name, Schema(AVRO, "AVRO"))
    assert (registered.version, registered.schema_id) == (1, schema_id)
    assert theirs.get_latest_version(kafka_name).version == 1
    assert theirs.get_version(kafka_name, 1).schema_id == schema_id
    assert theirs.get_versions(kafka_name) == [1]
    assert kafka_name in theirs.get_subjects()
    assert [each.version for each in theirs.get_schema_versions(schema_id)] == [1]
    assert sorted(theirs.get_schema_types()) == ["AVRO", "JSON", "PROTOBUF"]
    with pytest.raises(SchemaRegistryError) as refused:
        theirs.get_schema(987_654)
    assert refused.value.error_code == 40403
    if either_registry.is_apicurio:
        assert registered.guid is None
        with pytest.raises(SchemaRegistryError, match="Could not find resource"):
            theirs.get_subjects_by_schema_id(schema_id)
    else:
        assert registered.guid is not None
        assert theirs.get_schema_by_guid(registered.guid).schema_str == registered.schema.schema_str
        assert theirs.get_subjects_by_schema_id(schema_id) == [kafka_name]


def test_their_client_compares(theirs: SchemaRegistryClient, kafka_name: str) -> None:
    theirs.register_schema(kafka_name, Schema(AVRO, "AVRO"))
    # Apicurio Registry compares what it is told to compare.
    theirs.set_compatibility(kafka_name, "BACKWARD")
    assert theirs.test_compatibility(kafka_name, Schema(WIDER, "AVRO"))
    broken = Schema(AVRO.replace('"string"', '"int"'), "AVRO")
    assert not theirs.test_compatibility(kafka_name, broken)
    assert not theirs.test_compatibility_all_versions(kafka_name, broken)
    with pytest.raises(SchemaRegistryError, match=r"(?i)incompatible") as refused:
        theirs.register_schema(kafka_name, broken)
    assert refused.value.http_status_code == 409
    theirs.set_compatibility(kafka_name, "NONE")
    assert theirs.get_compatibility(kafka_name) == "NONE"
    theirs.set_config(kafka_name, ServerConfig(compatibility=ConfigCompatibilityLevel.FULL))
    assert theirs.get_config(kafka_name).compatibility_level == "FULL"
    theirs.delete_config(kafka_name)
    theirs.set_compatibility(kafka_name, "NONE")
    assert theirs.register_schema(kafka_name, broken) > 0


def test_their_client_sets_a_mode(
    theirs: SchemaRegistryClient, either_registry: EitherRegistry, kafka_name: str
) -> None:
    theirs.register_schema(kafka_name, Schema(AVRO, "AVRO"))
    if either_registry.is_apicurio:
        with pytest.raises(SchemaRegistryError, match="Could not find resource"):
            theirs.update_mode(kafka_name, "READONLY")
        return
    theirs.update_mode(kafka_name, "READONLY")
    assert theirs.get_mode(kafka_name) == "READONLY"
    theirs.delete_mode(kafka_name)
    assert theirs.register_schema(kafka_name, Schema(WIDER, "AVRO")) > 0


def test_their_client_deletes(theirs: SchemaRegistryClient, kafka_name: str) -> None:
    theirs.register_schema(kafka_name, Schema(AVRO, "AVRO"))
    assert theirs.delete_version(kafka_name, 1) == 1
    theirs.register_schema(kafka_name, Schema(WIDER, "AVRO"))
    assert theirs.delete_subject(kafka_name) == [2]
    assert theirs.delete_subject(kafka_name, permanent=True) == [1, 2]


def test_avro_goes_there_and_back_and_grows_a_field(theirs: SchemaRegistryClient, kafka_name: str) -> None:
    written = AvroSerializer(theirs, AVRO)({"name": "Ada"}, of(kafka_name))
    assert written is not None
    assert written[:1] == b"\x00"
    assert AvroDeserializer(theirs, WIDER)(written, of(kafka_name)) == {"name": "Ada", "age": 7}
    wider = AvroSerializer(theirs, WIDER)({"name": "Ada", "age": 36}, of(kafka_name))
    assert AvroDeserializer(theirs, AVRO)(wider, of(kafka_name)) == {"name": "Ada"}
    assert theirs.get_versions(f"{kafka_name}-value") == [1, 2]


def test_avro_with_the_guid_in_a_header(
    theirs: SchemaRegistryClient, either_registry: EitherRegistry, kafka_name: str
) -> None:
    headers: list[Any] = []
    conf = {"schema.id.serializer": header_schema_id_serializer}
    read_by = {"schema.id.deserializer": dual_schema_id_deserializer}
    # Their deserializer takes no payload of less than six bytes.
    user = {"name": "Augusta Ada"}
    if either_registry.is_apicurio:
        with pytest.raises(SerializationError, match=NO_GUIDS):
            AvroSerializer(theirs, AVRO, conf=conf)(user, of(kafka_name, headers))
        return
    written = AvroSerializer(theirs, AVRO, conf=conf)(user, of(kafka_name, headers))
    assert headers[0][0] == "__value_schema_id"
    assert AvroDeserializer(theirs, conf=read_by)(written, of(kafka_name, headers)) == user


def test_avro_with_references(theirs: SchemaRegistryClient, kafka_name: str) -> None:
    theirs.register_schema(f"{kafka_name}-user", Schema(AVRO, "AVRO"))
    team = {"type": "record", "name": "Team", "fields": [{"name": "lead", "type": "User"}]}
    schema = Schema(json.dumps(team), "AVRO", [SchemaReference("User", f"{kafka_name}-user", 1)])
    written = AvroSerializer(theirs, schema)({"lead": {"name": "Ada"}}, of(kafka_name))
    assert AvroDeserializer(theirs)(written, of(kafka_name)) == {"lead": {"name": "Ada"}}


def test_json_goes_there_and_back(theirs: SchemaRegistryClient, kafka_name: str) -> None:
    written = JSONSerializer(JSON, theirs)({"name": "Ada"}, of(kafka_name))
    assert JSONDeserializer(JSON, schema_registry_client=theirs)(written, of(kafka_name)) == {"name": "Ada"}
    assert theirs.get_latest_version(f"{kafka_name}-value").schema.schema_type == "JSON"


USER = """
syntax = "proto3";
package {package};
import "google/protobuf/timestamp.proto";
message User {{ string name = 1; google.protobuf.Timestamp born = 2; repeated Team teams = 3; }}
message Team {{ string title = 1; }}
"""


@pytest.mark.parametrize("settings", [{}, {"schema.id.serializer": header_schema_id_serializer}])
def test_protobuf_goes_there_and_back(
    theirs: SchemaRegistryClient, either_registry: EitherRegistry, kafka_name: str, settings: dict[str, Any]
) -> None:
    package = kafka_name.replace("-", "_")
    file = ProtobufSchema(USER.format(package=package)).file
    kind = GetMessageClass(file.message_types_by_name["User"])
    user = kind(name="Ada", teams=[{"title": "engine"}])
    user.born.seconds = 3
    headers: list[Any] = []
    conf = {"use.deprecated.format": False}
    if settings and either_registry.is_apicurio:
        with pytest.raises(SerializationError, match=NO_GUIDS):
            ProtobufSerializer(kind, theirs, {**conf, **settings})(user, of(kafka_name, headers))
        return
    written = ProtobufSerializer(kind, theirs, {**conf, **settings})(user, of(kafka_name, headers))
    read_by = {**conf, **({"schema.id.deserializer": dual_schema_id_deserializer} if settings else {})}
    assert ProtobufDeserializer(kind, read_by, theirs)(written, of(kafka_name, headers)) == user
    registered = theirs.get_latest_version(f"{kafka_name}-value")
    assert registered.schema.schema_type == "PROTOBUF"


def test_protobuf_in_text_is_given_as_a_descriptor(
    theirs: SchemaRegistryClient, either_registry: EitherRegistry, kafka_name: str
) -> None:
    text = USER.format(package=kafka_name.replace("-", "_"))
    schema_id = theirs.register_schema(kafka_name, Schema(text, "PROTOBUF"))
    assert theirs.get_schema(schema_id).schema_str == text
    without_spaces = "// the same\n" + " ".join(text.split())
    if either_registry.is_apicurio:
        with SchemaRegistryClient({"url": either_registry.url}) as other:
            assert other.get_schema(schema_id, fmt="serialized").schema_str == text
        # With a comment it is another schema there.
        assert theirs.register_schema(kafka_name, Schema(without_spaces, "PROTOBUF")) != schema_id
        return
    file = FileDescriptorProto()
    # Another client: one remembers the first form it was given.
    with SchemaRegistryClient({"url": either_registry.url}) as other:
        file.ParseFromString(base64.b64decode(other.get_schema(schema_id, fmt="serialized").schema_str or ""))
    assert [message.name for message in file.message_type] == ["User", "Team"]
    assert theirs.register_schema(kafka_name, Schema(without_spaces, "PROTOBUF")) == schema_id
