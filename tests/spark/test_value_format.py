"""`value.format`: the source's column `value` by the schemas of a registry, without Spark itself."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import BinaryType, LongType, StringType, StructField, StructType

import ottla
from ottla.spark.source import OttlaDataSource

ORDER = '{"type":"record","name":"Order","fields":[{"name":"id","type":"long"}]}'
LATER = json.dumps(
    {
        "type": "record",
        "name": "Order",
        "fields": [{"name": "id", "type": "long"}, {"name": "note", "type": "string", "default": "-"}],
    }
)
PROTO = """syntax = "proto3";
message Other { string a = 1; }
message Order { uint64 id = 1; optional string note = 2; }"""


@pytest.fixture(scope="module")
def url(kafka_cluster: ottla.Cluster) -> Iterator[str]:
    with ottla.Registry(kafka_cluster.bootstrap_servers) as registry:
        yield registry.url


@pytest.fixture
def given(kafka_cluster: ottla.Cluster, kafka_topic: str, url: str) -> dict[str, str]:
    servers = kafka_cluster.bootstrap_servers
    return {
        "kafka.bootstrap.servers": servers,
        "subscribe": kafka_topic,
        "value.format": "avro",
        "registry": url,
    }


def write(given: dict[str, str], rows: list[dict[str, Any]] | pa.Table, schema: str, **more: Any) -> None:
    topic = given["subscribe"]
    data = rows if isinstance(rows, pa.Table) else pa.Table.from_pylist(rows)
    more = {"value_format": "avro", "registry": given["registry"], "value_schema": schema} | more
    ottla.write_table(given["kafka.bootstrap.servers"], topic, data, **more)


def send(given: dict[str, str], *values: bytes | None, **more: Any) -> None:
    with ottla.Producer(given["kafka.bootstrap.servers"]) as producer:
        for value in values:
            producer.send(given["subscribe"], value, **more)


def planned(given: dict[str, str]) -> Any:
    """The source as Spark carries it on from the question about its schema, which is asked once."""
    source = OttlaDataSource(given)
    schema = source.schema()
    return pickle.loads(pickle.dumps(source)), schema


def read(given: dict[str, str]) -> list[dict[str, Any]]:
    return rows_of(*planned(given))


def rows_of(source: Any, schema: Any) -> list[dict[str, Any]]:
    reader = source.reader(schema)
    tasks = pickle.loads(pickle.dumps(reader))
    found = [batch for part in reader.partitions() for batch in tasks.read(part)]
    return [row for batch in found for row in batch.to_pylist()]


def ids(rows: list[dict[str, Any]]) -> list[int]:
    return sorted(row["value"]["id"] for row in rows)


def test_values_are_structs_and_all_else_is_as_it_was(given: dict[str, str]) -> None:
    write(given, [{"id": 1}, {"id": 2}], ORDER)
    send(given, None, key=b"gone")
    source, schema = planned(given)
    assert schema["value"].dataType == StructType([StructField("id", LongType())])
    assert schema.names == ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType"]
    rows = rows_of(source, schema)
    assert ids([row for row in rows if row["value"]]) == [1, 2]
    [tombstone] = [row for row in rows if row["value"] is None]
    assert tombstone["key"] == b"gone"
    assert tombstone["topic"] == given["subscribe"]


def test_chosen_columns_alone_are_read(given: dict[str, str]) -> None:
    write(given, [{"id": 1}], ORDER)
    assert read(given | {"columns": "value"}) == [{"value": {"id": 1}}]
    # Who reads no values asks no registry.
    assert read(given | {"columns": "offset", "registry": "http://127.0.0.1:1"}) == [{"offset": 0}]


def test_a_schema_that_changes_while_a_query_runs_changes_no_type(given: dict[str, str]) -> None:
    write(given, [{"id": 1}], ORDER)
    source, schema = planned(given)
    write(given, [{"id": 2, "note": "new"}], LATER)
    assert [row["value"] for row in sorted(rows_of(source, schema), key=lambda row: row["value"]["id"])] == [
        {"id": 1},
        {"id": 2},
    ]
    # A new query has the new type, and reads old values by it.
    notes = {row["value"]["id"]: row["value"]["note"] for row in read(given)}
    assert notes == {1: "-", 2: "new"}


def test_a_stream_decodes_as_a_batch_does(given: dict[str, str]) -> None:
    write(given, [{"id": 1}], ORDER)
    source, schema = planned(given | {"startingOffsets": "earliest"})
    stream = source.streamReader(schema)
    try:
        start = stream.initialOffset()
        write(given, [{"id": 2, "note": "new"}], LATER)
        end = stream.latestOffset(start, stream.getDefaultReadLimit())
        tasks = pickle.loads(pickle.dumps(stream))
        found = [batch for part in stream.partitions(start, end) for batch in tasks.read(part)]
    finally:
        stream.stop()
    assert ids([row for batch in found for row in batch.to_pylist()]) == [1, 2]


def test_the_schema_to_read_as_can_be_given(given: dict[str, str]) -> None:
    write(given, [{"id": 1, "note": "a"}], LATER)
    assert [row["value"] for row in read(given | {"value.schema": ORDER})] == [{"id": 1}]
    with ottla.RegistryClient(given["registry"]) as client:
        first = client.register(f"{given['subscribe']}-other", ORDER)
    assert [row["value"] for row in read(given | {"value.schema": str(first.id)})] == [{"id": 1}]
    assert [row["value"] for row in read(given | {"subject": f"{given['subscribe']}-other"})] == [{"id": 1}]


def test_messages_of_protobuf(given: dict[str, str]) -> None:
    row = pa.table({"id": pa.array([2**63], pa.uint64())})
    write(given, row, PROTO, value_format="protobuf", value_message="Order")
    options = given | {"value.format": "protobuf", "value.message": "Order"}
    # Spark has no unsigned numbers.
    assert [row["value"] for row in read(options)] == [{"id": Decimal(2**63), "note": None}]


def test_a_time_that_spark_does_not_have_is_a_value_that_cannot_be_decoded(given: dict[str, str]) -> None:
    at = {"type": "long", "logicalType": "timestamp-millis"}
    inner = {"type": "record", "name": "In", "fields": [{"name": "at", "type": at}]}
    schema = json.dumps({"type": "record", "name": "R", "fields": [{"name": "in", "type": ["null", inner]}]})
    with ottla.RegistryClient(given["registry"]) as client:
        head = b"\0" + client.register(f"{given['subscribe']}-value", schema).id.to_bytes(4, "big")
    beyond = head + b"\2" + b"\xfe" + b"\xff" * 8 + b"\1"
    for value in (head + b"\2\2", beyond, head + b"\0"):
        send(given, value, partition=1)
    with pytest.raises(ottla.DeserializationError, match=r"The record at offset 1 of \S+-1 cannot be .* beyond micros"):
        read(given)
    send(given, head + b"\2", partition=1)
    found = read(given | {"undecodable": "dead-letter"})
    assert [row["value"] is None or row["value"]["in"] is None for row in found] == [False, True, True, True]
    errors = [row["valueError"] or "" for row in found]
    assert errors[0] == errors[2] == ""
    assert "a time is beyond microseconds of 64 bits, which Spark has" in errors[1]
    assert "ends too early" in errors[3]
    assert [row["valueBytes"] for row in found] == [None, beyond, None, head + b"\2"]


def test_a_broken_message_of_protobuf_is_named_by_its_record(given: dict[str, str]) -> None:
    options = given | {"value.format": "protobuf", "value.message": "Order"}
    write(given, pa.table({"id": pa.array([1], pa.uint64())}), PROTO, value_format="protobuf", value_message="Order")
    with ottla.RegistryClient(given["registry"]) as client:
        head = b"\0" + client.version(f"{given['subscribe']}-value").id.to_bytes(4, "big")
    # The text of field 2 is said to have five bytes.
    send(given, head + b"\2\2\x12\x05ab", partition=1)
    with pytest.raises(ottla.DeserializationError, match=r"The record at offset \d+ of \S+-1, .*undecodable=null"):
        read(options)
    [bad] = [row for row in read(options | {"undecodable": "dead-letter"}) if row["valueError"]]
    assert bad["valueError"].startswith("field ")


def test_dead_letters_of_an_unknown_id_do_not_ask_the_registry_each_time(
    given: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    write(given, [{"id": 1}], ORDER)
    send(given, b"\0\0\x0f\0\1\2")
    asked: list[int] = []
    by_id = ottla.RegistryClient.by_id

    def counted(client: ottla.RegistryClient, number: int) -> Any:
        asked.append(number)
        return by_id(client, number)

    monkeypatch.setattr(ottla.RegistryClient, "by_id", counted)
    for _ in range(5):
        assert sum(row["valueError"] is not None for row in read(given | {"undecodable": "dead-letter"})) == 1
    # Once to decode, and once to say why.
    assert asked.count(0x0F0001) == 2


def test_a_schema_named_in_a_header_is_found(given: dict[str, str]) -> None:
    with ottla.RegistryClient(given["registry"]) as client:
        schema = client.register(f"{given['subscribe']}-value", ORDER)
    guid = b"\1" + bytes.fromhex(schema.guid.replace("-", ""))
    send(given, b"\x0e", headers=[("__value_schema_id", guid)])
    assert ids(read(given)) == [7]


def test_what_cannot_be_decoded_fails_or_is_null_or_is_told(given: dict[str, str]) -> None:
    write(given, [{"id": 1}], ORDER)
    place = {"partition": 1}
    send(given, b"plain", None, **place)
    with pytest.raises(ottla.DeserializationError, match=r"offset \d+ of \S+-1 cannot be decoded .*undecodable=null"):
        read(given)
    rows = read(given | {"undecodable": "null"})
    assert sorted(row["value"] is None for row in rows) == [False, True, True]

    source, schema = planned(given | {"undecodable": "dead-letter"})
    assert (schema["valueError"].dataType, schema["valueBytes"].dataType) == (StringType(), BinaryType())
    rows = rows_of(source, schema)
    assert ids([row for row in rows if row["value"]]) == [1]
    [bad] = [row for row in rows if row["valueError"] is not None]
    assert bad["valueError"].startswith("cannot be decoded (value): The magic byte is 112")
    assert (bad["value"], bad["valueBytes"], bad["partition"]) == (None, b"plain", 1)
    assert [row["valueBytes"] for row in rows if row is not bad] == [None, None]
    only = read(given | {"undecodable": "dead-letter", "columns": "valueBytes,headers", "includeHeaders": "true"})
    assert sorted(row["valueBytes"] or b"" for row in only) == [b"", b"", b"plain"]


def test_an_id_that_the_registry_does_not_know_is_a_value_that_cannot_be_decoded(given: dict[str, str]) -> None:
    write(given, [{"id": 1}], ORDER)
    send(given, b"\0\0\x0f\0\0\2")
    with pytest.raises(ottla.DeserializationError, match="cannot be decoded"):
        read(given)
    assert len(read(given | {"undecodable": "null"})) == 2


def test_a_registry_that_is_down_ends_a_task_in_every_mode(given: dict[str, str], kafka_cluster: ottla.Cluster) -> None:
    with ottla.Registry(kafka_cluster.bootstrap_servers, topic="_schemas_down") as registry:
        options = given | {"registry": registry.url, "registry.max.retries": "0", "undecodable": "null"}
        write(options, [{"id": 1}], ORDER)
        source, schema = planned(options)
        write(options, [{"id": 2, "note": "a"}], LATER)
    with pytest.raises(ottla.RegistryError):
        rows_of(source, schema)


def test_json_with_a_schema_is_a_struct_and_what_it_is_not_goes_to_the_dead_letters(given: dict[str, str]) -> None:
    options = given | {"value.format": "json", "undecodable": "dead-letter"}
    schema = '{"type": "object", "properties": {"id": {"type": "integer"}, "more": {}}}'
    write(options, [{"id": 1, "more": 1.5}], schema, value_format="json")
    with ottla.RegistryClient(given["registry"]) as client:
        head = b"\0" + client.version(f"{given['subscribe']}-value").id.to_bytes(4, "big")
    send(given, head + b'{"id":"1"}', b"{}")
    source, read_as = planned(options)
    assert read_as["value"].dataType == StructType([StructField("id", LongType()), StructField("more", StringType())])
    found = {row["valueBytes"]: (row["value"], row["valueError"]) for row in rows_of(source, read_as)}
    assert found[None] == ({"id": 1, "more": "1.5"}, None)
    assert found[head + b'{"id":"1"}'][1] == 'cannot be decoded: field \'id\': "1" is not of type "integer" (value).'
    assert "The magic byte is 123" in (found[b"{}"][1] or "")
    with pytest.raises(ottla.DeserializationError, match="undecodable=null or dead-letter lets a query go on"):
        read(options | {"undecodable": "fail"})


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"registry": None}, "value.format=avro needs the option registry"),
        ({"value.format": "xml"}, "it must be avro or protobuf or json"),
        ({"value.format": None}, "The option registry is for values with a schema: add the option value.format"),
        ({"subscribe": "a,b"}, "All values of 2 topics are read as one schema.*subject, or value.schema"),
        ({"subscribe": None, "subscribePattern": "a.*"}, "All values of the topics of a pattern"),
        ({"value.message": "Order"}, "value.message is for value.format=protobuf"),
        ({"value.schema": "{"}, "not JSON|is no|schema"),
        ({"undecodable": "skip"}, "it must be fail, null or dead-letter"),
        ({"columns": "valueError"}, "The option columns names 'valueError'"),
        ({"registry": "http://u:secret@"}, "is not http://HOST:PORT"),
        ({"registry.basic.auth.user.info": "secret"}, "registry.*basic.auth.user.info must be NAME:PASSWORD"),
        ({"registry.user": "secret"}, "registry.*'?user'?"),
        ({"value.shema": "x"}, "did you mean value.schema"),
        ({"schema.id.in": "header"}, "schema.id.in"),
    ],
)
def test_what_cannot_be_asked_for_is_refused(given: dict[str, str], options: dict[str, Any], told: str) -> None:
    asked = {name: value for name, value in (given | options).items() if value is not None}
    with pytest.raises(ottla.UserMistake, match=told) as caught:
        OttlaDataSource(asked).schema()
    assert "secret" not in str(caught.value)


def test_what_the_registry_lacks_is_told_by_the_driver(given: dict[str, str]) -> None:
    with pytest.raises(ottla.RegistryError, match="40401"):
        OttlaDataSource(given).schema()
    down = given | {"registry": "http://127.0.0.1:1", "registry.max.retries": "0"}
    with pytest.raises(ottla.RegistryError, match=r"127\.0\.0\.1:1"):
        OttlaDataSource(down).schema()


def test_no_password_is_shown(given: dict[str, str]) -> None:
    write(given, [{"id": 1}], ORDER)
    host = given["registry"].removeprefix("http://")
    source, schema = planned(given | {"registry": f"http://me:secret@{host}", "registry.request.timeout.ms": "5000"})
    reader = source.reader(schema)
    assert "secret" not in repr(reader._options)
    assert ids(rows_of(source, schema)) == [1]
