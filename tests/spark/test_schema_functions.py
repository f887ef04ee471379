"""Avro and Protobuf with a registry as functions of columns: there and back, versions, and what cannot be decoded."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
from pyspark.errors import PythonException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as f

import ottla
from ottla.spark import avro_schema, from_avro, from_protobuf, to_avro, to_protobuf

pytestmark = pytest.mark.spark
PROTO = """syntax = "proto3";
message Other { string a = 1; }
message Flight { optional int64 id = 1; optional string s = 2; }"""


@pytest.fixture(scope="module")
def url(kafka_cluster: ottla.Cluster) -> Iterator[str]:
    with ottla.Registry(kafka_cluster.bootstrap_servers) as registry:
        yield registry.url


@pytest.fixture
def rows(spark: SparkSession) -> DataFrame:
    return spark.range(6, numPartitions=2).select(
        "id",
        f.col("id").cast("string").alias("s"),
        f.when(f.col("id") > 2, f.lit(0.5)).alias("d"),
        f.lit(datetime(2026, 1, 1, tzinfo=UTC)).alias("at"),
        f.array(f.col("id"), f.lit(None)).alias("l"),
        f.lit(date(2026, 1, 1)).alias("day"),
        f.lit(Decimal("1.25")).alias("dec"),
        f.create_map(f.lit("a"), "id").alias("m"),
        f.when(f.col("id") > 3, f.struct("id")).alias("r"),
        f.lit(b"x").alias("b"),
    )


def everything(frame: DataFrame) -> list[Row]:
    return frame.sort("id").collect()


def test_rows_come_back_as_they_were(rows: DataFrame, url: str, kafka_name: str) -> None:
    subject = f"{kafka_name}-value"
    written = rows.select(
        to_avro(f.struct("*"), registry=url, subject=subject, schema=avro_schema(rows)).alias("value")
    )
    read = written.select(from_avro("value", registry=url, subject=subject).alias("v"))
    assert everything(read.select("v.*")) == everything(rows)
    # What is written now has the schema that the subject has.
    again = rows.select(to_avro(f.struct("*"), registry=url, subject=subject).alias("value"))
    assert sorted(again.collect()) == sorted(written.collect())


def test_what_two_versions_wrote_is_read_as_one(rows: DataFrame, url: str, kafka_name: str) -> None:
    subject, few = f"{kafka_name}-value", rows.select("id", "s")
    first = avro_schema(few, "row")
    later = json.loads(first)
    later["fields"].append({"name": "new", "type": "string", "default": "-"})
    written = few.select(to_avro(f.struct("*"), registry=url, subject=subject, schema=first).alias("value"))
    more = few.withColumn("new", f.lit("n"))
    written = written.union(
        more.select(to_avro(f.struct("*"), registry=url, subject=subject, schema=json.dumps(later)).alias("value"))
    )
    read = written.select(from_avro("value", registry=url, subject=subject).alias("v")).select("v.*")
    assert sorted(read.collect()) == sorted([*few.withColumn("new", f.lit("-")).collect(), *more.collect()])
    narrow = '{"type":"record","name":"row","fields":[{"name":"s","type":"string"}]}'
    found = written.select(from_avro("value", registry=url, schema=narrow).alias("v")).select("v.*")
    assert sorted(row.s for row in found.collect()) == sorted(str(n) for n in [*range(6)] * 2)


def test_what_cannot_be_decoded_fails_or_is_null_or_is_told(
    spark: SparkSession, rows: DataFrame, url: str, kafka_name: str
) -> None:
    subject, few = f"{kafka_name}-value", rows.select("id", "s")
    good = few.select(to_avro(f.struct("*"), registry=url, subject=subject, schema=avro_schema(few)).alias("value"))
    frame = good.union(spark.createDataFrame([(bytearray(b"plain"),), (None,)], "value binary"))

    def read(mode: str) -> DataFrame:
        return frame.select(from_avro("value", registry=url, subject=subject, mode=mode).alias("v"))

    with pytest.raises(PythonException, match=r"cannot be decoded .*The magic byte is 112"):
        read("fail").collect()
    found = [row.v for row in read("null").collect()]
    assert (len(found), found.count(None)) == (8, 2)
    told = read("dead-letter").select("v.value", "v.error").collect()
    assert [row.value is None for row in told].count(True) == 2
    [error] = [row.error for row in told if row.error is not None]
    assert error.startswith("cannot be decoded (value): The magic byte is 112")


def test_a_schema_in_a_header_is_found(spark: SparkSession, url: str, kafka_name: str) -> None:
    with ottla.RegistryClient(url) as client:
        schema = client.register(f"{kafka_name}-value", '"string"')
        record = client.register(
            f"{kafka_name}-record", '{"type":"record","name":"r","fields":[{"name":"s","type":"string"}]}'
        )
    assert schema.id != record.id
    guid = b"\1" + bytes.fromhex(record.guid.replace("-", ""))
    frame = spark.createDataFrame(
        [(bytearray(b"\2x"), [("__value_schema_id", bytearray(guid))])],
        "value binary, headers array<struct<key string, value binary>>",
    )
    read = frame.select(from_avro("value", registry=url, schema=record, headers="headers").alias("v"))
    assert [row.v.s for row in read.collect()] == ["x"]


def test_messages_of_protobuf(rows: DataFrame, url: str, kafka_name: str) -> None:
    subject, few = f"{kafka_name}-value", rows.select("id", "s")
    message: dict[str, Any] = {"registry": url, "subject": subject, "message": "Flight"}
    written = few.select(to_protobuf(f.struct("*"), schema=PROTO, **message).alias("value"))
    read = written.select(from_protobuf("value", **message).alias("v")).select("v.*")
    assert everything(read) == everything(few)


def test_messages_that_cannot_be_decoded_fail_or_are_null_or_are_told(
    spark: SparkSession, rows: DataFrame, url: str, kafka_name: str
) -> None:
    message: dict[str, Any] = {"registry": url, "subject": f"{kafka_name}-value", "message": "Flight"}
    few = rows.select("id", "s")
    good = few.select(to_protobuf(f.struct("*"), schema=PROTO, **message).alias("value"))
    # A message that is cut off in its second field, and bytes that name no schema.
    [cut] = [bytes(row.value)[:-1] for row in good.collect() if bytes(row.value)[-1:] == b"5"]
    bad = spark.createDataFrame([(bytearray(b"plain"),), (bytearray(cut),), (None,)], "value binary")

    def read(mode: str) -> DataFrame:
        return frame.select(from_protobuf("value", mode=mode, **message).alias("v"))

    for bytes_of_one, reason in ((b"plain", "The magic byte is 112"), (cut, "field 's': the bytes end")):
        frame = spark.createDataFrame([(bytearray(bytes_of_one),)], "value binary")
        with pytest.raises(PythonException, match=reason):
            read("fail").collect()
    frame = good.union(bad)
    found = [row.v for row in read("null").collect()]
    assert (len(found), found.count(None)) == (9, 3)
    assert sorted(row for row in found if row is not None) == sorted(few.collect())
    told = read("dead-letter").select("v.value", "v.error").collect()
    assert sum(row.value is None for row in told) == 3
    errors = sorted(row.error for row in told if row.error is not None)
    assert len(errors) == 2
    assert "The magic byte is 112" in errors[0]
    assert errors[1].startswith("field 's': the bytes end in the middle of a value")


def test_a_message_in_a_header_is_found(spark: SparkSession, url: str, kafka_name: str) -> None:
    with ottla.RegistryClient(url) as client:
        schema = client.register(f"{kafka_name}-value", PROTO, "PROTOBUF")
    guid = bytes.fromhex(schema.guid.replace("-", ""))
    # Indexes of the second message stand behind the GUID: one of them, 1 (zigzag).
    named = b"\1" + guid + b"\2\2"
    frame = spark.createDataFrame(
        [(bytearray(b"\x08\x07\x12\x01x"), [("__value_schema_id", bytearray(named))])],
        "value binary, headers array<struct<key string, value binary>>",
    )
    read = frame.select(
        from_protobuf("value", registry=url, schema=schema, message="Flight", headers="headers").alias("v")
    )
    assert [(row.v.id, row.v.s) for row in read.collect()] == [(7, "x")]


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        ("avro", "Row 3 cannot be encoded: the value of 'in.n' is a number beyond what the type int holds."),
        ("protobuf", "Row 3: column 'in.n' holds a number that the field's type has no room for."),
    ],
)
def test_a_column_that_does_not_fit_is_told_by_its_field_and_row(
    kind: str, told: str, rows: DataFrame, url: str, kafka_name: str
) -> None:
    narrow = rows.select(f.struct((f.col("id") + 2**31 - 3).alias("n")).alias("in")).coalesce(1)
    avro = (
        '{"type":"record","name":"T","fields":[{"name":"in","type":'
        '{"type":"record","name":"I","fields":[{"name":"n","type":"int"}]}}]}'
    )
    proto = 'syntax = "proto3"; message T { I in = 1; } message I { int32 n = 1; }'
    subject = f"{kafka_name}-value"
    if kind == "avro":
        column = to_avro(f.struct("*"), registry=url, subject=subject, schema=avro)
    else:
        column = to_protobuf(f.struct("*"), registry=url, subject=subject, schema=proto, message="T")
    with pytest.raises(PythonException) as refused:
        narrow.select(column).collect()
    # Three rows fit; rows are counted from 0.
    assert told in str(refused.value)


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (lambda url: from_avro("value", registry=url), "Neither a schema nor a subject is given"),
        (
            lambda url: from_avro("value", registry=url, subject="s", mode="skip"),
            "mode='skip' is not known",
        ),
        (lambda url: to_avro("value", registry=url), "No subject is given"),
        (lambda url: to_avro("value", registry=None, subject="s"), "registry is missing"),
    ],
)
@pytest.mark.usefixtures("spark")
def test_what_cannot_be_asked_for_is_refused_by_the_driver(call: Any, told: str, url: str) -> None:
    with pytest.raises(ottla.ConfigError, match=told):
        call(url)


@pytest.mark.usefixtures("spark")
def test_a_subject_that_is_not_there_is_told(url: str) -> None:
    with pytest.raises(ottla.RegistryError, match="40401"):
        from_avro("value", registry=url, subject="nobody-value")
