"""`value.format`: the sink's rows as values by the schemas of a registry, without Spark itself."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DayTimeIntervalType,
    DecimalType,
    IntegerType,
    LongType,
    NullType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

import ottla
from ottla.sink.batch import Totals
from ottla.spark.sink import AtLeastOnceStreamWriter, batch_writer, stream_writer
from ottla.spark.sink_options import read_sink_options
from ottla.spark.sink_rows import SinkRows, count_rows, plan_rows, send_rows
from ottla.spark.value_decoding import _keeping

ORDER = StructType([StructField("id", LongType(), False), StructField("note", StringType())])
ROWS = [{"id": 1, "note": "a"}, {"id": 2, "note": None}, None]
NARROW_PROTO = 'syntax = "proto3"; message Order { int32 id = 1; optional string note = 2; }'
PROTO = 'syntax = "proto3"; message Order { int64 id = 1; optional string note = 2; }'
JSON = '{"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]}'
CHECKED = '{"type": "object", "properties": {"id": {"type": "integer", "minimum": 1}}}'


@pytest.fixture(scope="module")
def url(kafka_cluster: ottla.Cluster) -> Iterator[str]:
    with ottla.Registry(kafka_cluster.bootstrap_servers) as registry:
        yield registry.url


@pytest.fixture
def given(kafka_cluster: ottla.Cluster, kafka_topic: str, url: str) -> dict[str, str]:
    servers = kafka_cluster.bootstrap_servers
    return {"kafka.bootstrap.servers": servers, "topic": kafka_topic, "value.format": "avro", "registry": url}


def planned(given: dict[str, str], schema: StructType) -> SinkRows:
    options = read_sink_options(given, streaming=False)
    return plan_rows(schema, options.topic, values=options.values)


def batch(schema: StructType, rows: list[dict[str, Any]]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(rows, schema=to_arrow_schema(schema, timezone="UTC"))


def write(given: dict[str, str], schema: StructType, rows: list[Any], size: int = 2) -> Totals:
    """As a task would do it, which was handed what the driver has planned."""
    shape = pickle.loads(pickle.dumps(planned(given, schema).registered(once=True)))
    batches = [batch(schema, rows[at : at + size]) for at in range(0, len(rows), size)]
    with ottla.Producer(given["kafka.bootstrap.servers"]) as producer:
        totals = send_rows(batches, shape, lambda: producer, digest=True)
    # Rows that come again, cut in another way, are the same.
    assert count_rows([batch(schema, rows)], shape) == totals
    return totals


def stored(given: dict[str, str], value_format: str = "raw", **more: Any) -> list[dict[str, Any]]:
    more |= {} if value_format == "raw" else {"registry": given["registry"]}
    table = ottla.read_table(given["kafka.bootstrap.servers"], given["topic"], value_format=value_format, **more)
    return sorted(table.to_pylist(), key=lambda row: row["key"] or b"")


VALUE = StructType([StructField("key", StringType()), StructField("value", ORDER)])


def keyed(rows: list[Any]) -> list[dict[str, Any]]:
    return [{"key": f"k{number}", "value": row} for number, row in enumerate(rows)]


def test_a_struct_is_encoded_and_null_is_a_tombstone(given: dict[str, str]) -> None:
    assert write(given, VALUE, keyed(ROWS)).rows == 3
    assert [(row["key"], row["value"]) for row in stored(given, "avro")] == list(
        zip([b"k0", b"k1", b"k2"], ROWS, strict=True)
    )
    with ottla.RegistryClient(given["registry"]) as client:
        text = json.loads(client.version(f"{given['topic']}-value").text)
    assert [field["type"] for field in text["fields"]] == ["long", ["null", "string"]]


HEADER = StructType([StructField("key", StringType(), False), StructField("value", BinaryType())])


@pytest.mark.parametrize(
    ("value_format", "more"), [("avro", {}), ("protobuf", {"value.schema": PROTO}), ("json", {"value.schema": JSON})]
)
def test_a_header_of_each_record_names_the_schema(
    given: dict[str, str], value_format: str, more: dict[str, str]
) -> None:
    given |= {"value.format": value_format, "schema.id.in": "header", **more}
    own = StructType([*VALUE.fields, StructField("headers", ArrayType(HEADER))])
    theirs = [[{"key": "a", "value": b"1"}, {"key": "b", "value": None}], None, []]
    rows: list[Any] = [{**row, "headers": headers} for row, headers in zip(keyed([ROWS[0]] * 3), theirs, strict=True)]
    write(given, own, rows)
    # And where rows have no headers of their own.
    write(given, StructType([StructField("id", LongType(), False)]), [{"id": 1}, {"id": 1}])
    with ottla.RegistryClient(given["registry"]) as client:
        guid = bytes.fromhex(client.version(f"{given['topic']}-value").guid.replace("-", ""))
    found = stored(given)
    assert all(row["headers"][-1]["key"] == "__value_schema_id" for row in found)
    of_schema = [row["headers"].pop()["value"] for row in found]
    assert [row["headers"] for row in found] == [[], [], theirs[0], [], []]
    # Of Avro, the columns of the second write have a schema of their own.
    assert all(each[:1] == b"\1" and len(each) >= 17 for each in of_schema)
    assert guid in {each[1:17] for each in of_schema}
    assert [row["value"]["id"] for row in stored(given, value_format)] == [1] * 5


def test_without_a_column_value_the_others_are_the_value(given: dict[str, str]) -> None:
    schema = StructType(
        [
            StructField("key", BinaryType()),
            StructField("at", TimestampType()),
            StructField("partition", IntegerType()),
            StructField("price", DecimalType(10, 2)),
            StructField("tags", ArrayType(StringType())),
        ]
    )
    at = datetime(2026, 1, 1, tzinfo=UTC)
    rows = [
        {"key": b"a", "at": at, "partition": 2, "price": Decimal("1.25"), "tags": ["x", None]},
        {"key": None, "at": None, "partition": 0, "price": None, "tags": None},
    ]
    write(given, schema, rows)
    empty, full = stored(given, "avro")
    assert full["value"] == {"at": at, "price": Decimal("1.25"), "tags": ["x", None]}
    assert (full["key"], full["partition"]) == (b"a", 2)
    assert empty["value"] == {"at": None, "price": None, "tags": None}


def test_the_same_rows_are_the_same_bytes_whatever_is_registered_meanwhile(given: dict[str, str]) -> None:
    first = write(given, VALUE, keyed(ROWS))
    wider = StructType([*ORDER.fields, StructField("more", StringType())])
    other = write(
        given,
        StructType([VALUE["key"], StructField("value", wider)]),
        keyed([{"id": 1, "note": None, "more": None}]),
    )
    # As after a restart, when nothing is remembered.
    _keeping.clear()
    assert write(given, VALUE, keyed(ROWS)) == first != other
    values = [row["value"] for row in stored(given)]
    assert values[0] in values[1:3]


@pytest.mark.parametrize(("word", "schema"), [("protobuf", PROTO), ("avro", None), ("json", JSON), ("json", CHECKED)])
def test_each_format_is_written(given: dict[str, str], word: str, schema: str | None) -> None:
    options = given | {"value.format": word} | ({} if schema is None else {"value.schema": schema})
    write(options, VALUE, keyed(ROWS))
    if word == "json":
        found = [None if row["value"] is None else json.loads(row["value"][5:]) for row in stored(given)]
    else:
        found = [row["value"] for row in stored(given, word)]
    assert found == ROWS


def test_a_registered_schema_is_named_by_its_id(given: dict[str, str]) -> None:
    with ottla.RegistryClient(given["registry"]) as client:
        schema = client.register("orders-of-all", PROTO, "PROTOBUF")
    options = given | {"value.format": "protobuf", "value.schema": str(schema.id)}
    write(options, VALUE, keyed(ROWS))
    assert [row["value"] for row in stored(given, "protobuf", value_schema=schema)] == ROWS
    with pytest.raises(ottla.ConfigError, match=r"is of type PROTOBUF, and value\.format=avro is"):
        planned(given | {"value.schema": str(schema.id)}, VALUE).registered(once=True)


def test_what_does_not_fit_is_named_by_field_and_row(given: dict[str, str]) -> None:
    narrow = (
        '{"type":"record","name":"o","fields":[{"name":"id","type":"int"},{"name":"note","type":["null","string"]}]}'
    )
    rows = [{"id": number, "note": None} for number in range(5)] + [{"id": 1 << 40, "note": None}]
    for schema, given_rows in ((VALUE, keyed(rows)), (StructType(ORDER.fields), rows)):
        with pytest.raises(ottla.RecordError, match=r"^Row 5 cannot be encoded: the value of 'id' is") as refused:
            write(given | {"value.schema": narrow}, schema, given_rows)
        assert refused.value.row == 5
    protobuf = {"value.format": "protobuf", "value.schema": NARROW_PROTO, "subject": f"{given['topic']}-protobuf"}
    with pytest.raises(ottla.RecordError, match=r"^Row 5: column 'id' holds a number") as refused:
        write(given | protobuf, VALUE, keyed(rows))
    assert refused.value.row == 5


def test_rows_are_counted_with_those_that_are_null(given: dict[str, str]) -> None:
    options = given | {"value.format": "json", "value.schema": CHECKED}
    with pytest.raises(ottla.RecordError, match=r"Row 3, field 'id'") as refused:
        write(options, VALUE, keyed([None, {"id": 1, "note": None}, None, {"id": 0, "note": None}]), size=4)
    assert refused.value.row == 3


def test_columns_of_another_type_are_refused_when_the_write_is_planned(given: dict[str, str]) -> None:
    text = '{"type":"record","name":"o","fields":[{"name":"id","type":"string"},{"name":"note","type":"string"}]}'
    with pytest.raises(ottla.UserMistake, match="'id'"):
        planned(given | {"value.schema": text}, VALUE).registered(once=True)


@pytest.mark.parametrize(
    ("options", "schema", "told"),
    [
        ({}, StructType([StructField("value", StringType())]), r"'value' is of type string; .*has to be a struct"),
        ({}, StructType([StructField("key", StringType())]), "nothing to make values of"),
        ({"topic": None}, StructType([StructField("topic", StringType()), *ORDER.fields]), "add the option subject"),
        ({"value.format": "protobuf"}, VALUE, "value.format=protobuf needs the option value.schema"),
        ({"value.format": "json"}, VALUE, "value.format=json needs the option value.schema"),
        ({}, StructType([ORDER["id"], ORDER["id"]]), "'id' is there 2 times"),
        ({"value.format": "xml"}, VALUE, "avro or protobuf or json"),
        ({"registry": None}, VALUE, "needs the option registry"),
        ({"undecodable": "null"}, VALUE, "'undecodable' is an option of the ottla source, not of the sink"),
        ({"value.format": None}, VALUE, "add the option value.format"),
        ({}, StructType([StructField("a b", LongType())]), "'a b' cannot be a field of Avro"),
    ],
)
def test_what_cannot_be_written_is_refused(
    given: dict[str, str], options: dict[str, Any], schema: StructType, told: str
) -> None:
    asked = {name: value for name, value in (given | options).items() if value is not None}
    with pytest.raises(ottla.UserMistake, match=told):
        planned(asked, schema).registered(once=True)


def test_a_type_that_avro_lacks_names_the_option(given: dict[str, str]) -> None:
    deep = StructType([StructField("m", ArrayType(NullType())), StructField("i", StringType())])
    planned(given, deep).registered(once=True)
    interval = StructType([StructField("d", DayTimeIntervalType())])
    with pytest.raises(ottla.RecordError, match=r"option value\.schema"):
        planned(given, interval).registered(once=True)


def test_rows_of_several_topics_have_the_schema_of_one_subject(given: dict[str, str]) -> None:
    schema = StructType([StructField("topic", StringType()), *ORDER.fields])
    options = {name: value for name, value in given.items() if name != "topic"} | {"subject": "all-of-them"}
    write(options, schema, [{"topic": given["topic"], "id": 1, "note": None}])
    assert [row["value"] for row in stored(given, "avro", value_schema=text_of(given, "all-of-them"))] == [
        {"id": 1, "note": None}
    ]


def text_of(given: dict[str, str], subject: str) -> str:
    with ottla.RegistryClient(given["registry"]) as client:
        return client.version(subject).text


def test_a_schema_is_registered_when_a_writer_is_planned_and_not_when_it_commits(given: dict[str, str]) -> None:
    down = given | {"registry": "http://127.0.0.1:1", "registry.max.retries": "0", "delivery": "at-least-once"}
    with pytest.raises(ottla.RegistryError):
        batch_writer(down, VALUE, False)
    committing = stream_writer(down, VALUE)
    assert isinstance(committing, AtLeastOnceStreamWriter)
    committing.commit([], 0)
    with pytest.raises(pickle.PickleError, match=r"127\.0\.0\.1:1"):
        pickle.dumps(committing)


def test_a_place_of_the_schemas_id_that_there_is_not_is_refused(given: dict[str, str]) -> None:
    with pytest.raises(ottla.ConfigError, match=r"schema\.id\.in is 'footer': it must be prefix or header"):
        planned(given | {"schema.id.in": "footer"}, VALUE)


def test_an_incompatible_schema_is_refused_by_the_driver(given: dict[str, str]) -> None:
    write(given, VALUE, keyed(ROWS))
    other = StructType([StructField("id", StringType(), False), StructField("note", StringType())])
    with pytest.raises(ottla.RegistryError, match=r"409|compatible"):
        planned(given, other).registered(once=True)


def test_each_batch_write_asks_the_registry_for_the_schema(kafka_cluster: ottla.Cluster, given: dict[str, str]) -> None:
    """It may have been replaced meanwhile, or the subject deleted: an old id would be another schema's."""
    schema = StructType([StructField("id", LongType(), False)])
    subject = f"{given['topic']}-value"
    batch_writer(given, schema, overwrite=False)
    with ottla.RegistryClient(given["registry"]) as client:
        first = client.version(subject).id
        client.delete_subject(subject)
        client.delete_subject(subject, permanent=True)
        batch_writer(given, schema, overwrite=False)
        assert client.version(subject).id > first
