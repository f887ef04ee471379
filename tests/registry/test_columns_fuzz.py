"""Altered prefixes and headers: a column of values is what they are one by one, and nothing else is raised."""

from __future__ import annotations

import json
import random
import uuid
from collections.abc import Iterator
from typing import Any, NamedTuple

import pyarrow as pa
import pytest
from tests.drawn import commit_seeds, fixed_seeds

import ottla
from ottla.errors import DeserializationError
from ottla.registry.client import RegistryClient
from ottla.registry.columns import ColumnDecoder, ColumnEncoder
from ottla.registry.registered import JSON, PROTOBUF, RegisteredSchema

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
FIRST = {"type": "record", "name": "V", "fields": [{"name": "x", "type": "int"}, {"name": "s", "type": "string"}]}
LATER = {
    "type": "record",
    "name": "V",
    "fields": [*FIRST["fields"], {"name": "y", "type": ["null", "double"], "default": None}],
}
PROTO = 'syntax = "proto3"; message A { int32 x = 1; } message B { int32 x = 1; message C { int32 q = 1; } }'
OBJECT = json.dumps({"type": "object", "properties": {"x": {"type": "integer"}}})
INDEXES = [b"\0", b"\2\0", b"\2\2", b"\4\2\0", b"\x80\0", b"\xff", b""]


class Registered(NamedTuple):
    """Schemas of one registry, and values of each as they are sent."""

    client: RegistryClient
    later: RegisteredSchema
    proto: RegisteredSchema
    object: RegisteredSchema
    values: list[bytes]
    headers: list[bytes | None]


@pytest.fixture(scope="module")
def registered(kafka_cluster: ottla.Cluster) -> Iterator[Registered]:
    with (
        ottla.Registry(kafka_cluster.bootstrap_servers) as registry,
        ottla.RegistryClient(registry.url, cache_capacity=100_000) as client,
    ):
        first, later = (client.register("avro", json.dumps(text)) for text in (FIRST, LATER))
        proto, object_ = client.register("proto", PROTO, PROTOBUF), client.register("object", OBJECT, JSON)
        values: list[bytes] = []
        for schema, message, table in (
            (first, None, {"x": [1, 2], "s": ["a", "bb"]}),
            (later, None, {"x": [1, 2], "s": ["a", "bb"], "y": [None, 0.5]}),
            (proto, "A", {"x": [1]}),
            (proto, "B", {"x": [1]}),
            (proto, "B.C", {"q": [1]}),
            (object_, None, {"x": [1, 2, 3]}),
        ):
            made: Any = pa.array(ColumnEncoder(client, schema, message=message).encode(pa.record_batch(table)))
            framed: list[bytes] = made.to_pylist()
            by_guid = [b"\1" + uuid.UUID(schema.guid).bytes + value[5:] for value in framed]
            values += [*framed, *by_guid, *(value[5:] for value in framed)]
        guids = [b"\1" + uuid.UUID(schema.guid).bytes for schema in (first, later, proto, object_)]
        by_message = [guids[2] + indexes for indexes in INDEXES]
        yield Registered(client, later, proto, object_, values, [*guids, *by_message, b"", b"\0\0\0\0\1", b"x", None])


def altered(value: bytes, draw: random.Random) -> bytes:
    """The value with other bytes, most often among those that name its schema."""
    made = bytearray(value)
    if draw.random() < 0.3:
        made[5:6] = draw.choice(INDEXES)
    for _ in range(draw.choice([0, 0, 1, 1, 2])):
        at = min(draw.choice([0, 1, 4, 5, 5, 6, 17, len(made)]), len(made))
        made[at : at + draw.randrange(3)] = bytes([draw.choice([0, 1, 2, 3, 4, 5, 128, 255])] * draw.randrange(3))
    return bytes(made)


def alone(reading: Any, columns: Any, value: bytes | None, headers: list[dict[str, Any]] | None) -> Any:
    """What a deserializer of records reads, with the fields that the columns have; None for what it refuses."""
    if value is None:
        return None
    named = [(each["key"], each["value"]) for each in headers or []]
    try:
        found = reading.deserialize_with_headers("t", value, named)
    except (ottla.OttlaError, ValueError):
        return None
    return {field.name: found.get(field.name, 0 if reading.kind == PROTOBUF else None) for field in columns}


def check(registered: Registered, seed: int, count: int) -> None:
    draw = random.Random(seed)
    client = registered.client
    values = [None if draw.random() < 0.03 else altered(draw.choice(registered.values), draw) for _ in range(count)]
    names = ["__value_schema_id", "__key_schema_id", "other"]
    headers = [
        [{"key": draw.choice(names), "value": draw.choice(registered.headers)} for _ in range(draw.randrange(3))]
        if draw.random() < 0.4
        else None
        for _ in range(count)
    ]
    readings: list[tuple[str, RegisteredSchema, dict[str, Any], Any]] = [
        ("avro", registered.later, {}, ottla.AvroDeserializer(client, registered.later.text)),
        ("protobuf", registered.proto, {"message": "A"}, ottla.ProtobufDeserializer(client, message="A")),
        ("json", registered.object, {}, ottla.JsonSchemaDeserializer(client)),
    ]
    for value_format, schema, message, deserializer in readings:
        for part in ("value", "key"):
            reading = deserializer.of_part(part)
            reading.kind = deserializer.kind
            lenient, strict = (
                ColumnDecoder(client, value_format, schema, mode=mode, part=part, **message)
                for mode in ("null", "fail")
            )
            skipped = draw.randrange(5)
            column = pa.array(values, pa.binary()).slice(skipped)
            told = pa.array(headers, HEADERS).slice(skipped)
            found = lenient.decode(column, told)
            found.validate(full=True)
            rows = found.to_pylist()
            # NaN is not equal to itself.
            for row, value, named in zip(rows, values[skipped:], headers[skipped:], strict=True):
                assert repr(row) == repr(alone(reading, lenient.type, value, named)), (value_format, value, named)
            refused = [row for row, value in enumerate(values[skipped:]) if value is not None and rows[row] is None]
            assert 0 < len(refused) < len(rows) - column.null_count
            # The error is of one of these rows; which one comes first depends on their schemas.
            with pytest.raises(DeserializationError, match=rf"^Row \d+\b.*\({part}\)") as error:
                strict.decode(column, told)
            assert int(str(error.value).split()[1].rstrip(":")) in refused
            for row, reason in zip(refused[:50], strict.reasons(column, told, refused[:50]), strict=True):
                assert f"({part})" in reason, (value_format, column[row], told[row])


@pytest.mark.parametrize("seed", fixed_seeds(1))
def test_altered_prefixes_are_read_in_columns_as_in_records(seed: int, registered: Registered) -> None:
    check(registered, seed, 300)


@pytest.mark.prove
@pytest.mark.parametrize("seed", commit_seeds(5, soak=200))
def test_many_altered_prefixes(seed: int, registered: Registered) -> None:
    check(registered, seed, 500)
