"""Tables as Avro and Protobuf with a registry: sent, read back, read by other clients, and what is refused."""

from __future__ import annotations

import asyncio
import decimal
import io
import json
from collections.abc import Iterator
from datetime import UTC, date, datetime, time
from typing import Any
from uuid import UUID

import fastavro
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from tests.read_back import stored

import ottla

FLIGHTS = pa.table(
    {
        "tail": ["N1", "N2", None],
        "delay": pa.array([1, None, -3], pa.int32()),
        "at": pa.array([datetime(2013, 1, 1, tzinfo=UTC)] * 3, pa.timestamp("us", "UTC")),
        "fare": pa.array([decimal.Decimal("1.50"), None, decimal.Decimal("-2.25")], pa.decimal128(6, 2)),
        "day": [date(2013, 1, 1)] * 3,
        "stops": [["A", "B"], [], None],
        "crew": [{"name": "x", "age": 1}, None, {"name": None, "age": 3}],
    }
)
PROTO = """syntax = "proto3";
message Other { string a = 1; }
message Flight { optional string tail = 1; optional int32 delay = 2; }"""


@pytest.fixture(scope="module")
def url(kafka_cluster: ottla.Cluster) -> Iterator[str]:
    with ottla.Registry(kafka_cluster.bootstrap_servers) as registry:
        yield registry.url


def read(cluster: ottla.Cluster, topic: Any, url: str, **more: Any) -> list[Any]:
    table = ottla.read_table(cluster.bootstrap_servers, topic, **{"value_format": "avro", "registry": url, **more})
    return table.sort_by("timestamp").column("value").to_pylist()


def test_a_table_comes_back_as_it_was(kafka_cluster: ottla.Cluster, kafka_topic: str, url: str) -> None:
    servers = kafka_cluster.bootstrap_servers
    ottla.write_table(servers, kafka_topic, FLIGHTS, key="tail", value_format="avro", registry=url)
    table = ottla.read_table(servers, kafka_topic, value_format="avro", registry=url)
    found = sorted(table.column("value").to_pylist(), key=str)
    assert found == sorted(FLIGHTS.to_pylist(), key=str)
    value = table.schema.field("value").type
    assert [value.field(i).type for i in range(value.num_fields)] == FLIGHTS.schema.types
    with ottla.RegistryClient(url) as client:
        assert client.version(f"{kafka_topic}-value").version == 1


def test_others_read_what_was_sent(kafka_cluster: ottla.Cluster, kafka_topic: str, url: str) -> None:
    ottla.write_table(
        kafka_cluster.bootstrap_servers,
        kafka_topic,
        FLIGHTS,
        value=["delay", "tail"],
        value_format="avro",
        registry=url,
    )
    with ottla.RegistryClient(url) as client:
        schema = client.version(f"{kafka_topic}-value")
    [_, _, value] = sorted(stored(kafka_cluster, kafka_topic))
    assert value[:5] == b"\0" + schema.id.to_bytes(4, "big")
    parsed = fastavro.parse_schema(json.loads(schema.text))
    every = [fastavro.schemaless_reader(io.BytesIO(each[5:]), parsed) for each in stored(kafka_cluster, kafka_topic)]
    assert sorted(every, key=str) == sorted(FLIGHTS.select(["delay", "tail"]).to_pylist(), key=str)


def test_a_schema_that_is_given_is_registered(kafka_cluster: ottla.Cluster, kafka_topic: str, url: str) -> None:
    narrow = '{"type":"record","name":"F","fields":[{"name":"delay","type":["null","long"]}]}'
    servers, rows = kafka_cluster.bootstrap_servers, FLIGHTS.select(["delay"])
    ottla.write_table(servers, kafka_topic, rows, value_format="avro", registry=url, value_schema=narrow)
    with ottla.RegistryClient(url) as client:
        registered = client.version(f"{kafka_topic}-value")
        assert json.loads(registered.text) == json.loads(narrow)
        ottla.write_table(servers, kafka_topic, rows, value_format="avro", registry=client, value_schema=registered)
        assert client.versions(f"{kafka_topic}-value") == [1]
    expected = [{"delay": None}, {"delay": 1}, {"delay": -3}] * 2
    assert sorted(read(kafka_cluster, kafka_topic, url), key=str) == sorted(expected, key=str)


def test_messages_of_a_file_that_is_given(kafka_cluster: ottla.Cluster, kafka_topic: str, url: str) -> None:
    rows = FLIGHTS.select(["tail", "delay"])
    protobuf = {"value_format": "protobuf", "registry": url, "value_message": "Flight"}
    ottla.write_table(kafka_cluster.bootstrap_servers, kafka_topic, rows, value_schema=PROTO, **protobuf)
    # The file is known by now.
    ottla.write_table(kafka_cluster.bootstrap_servers, kafka_topic, rows, **protobuf)
    found = read(kafka_cluster, kafka_topic, url, value_format="protobuf", value_message="Flight")
    assert sorted(found, key=str) == sorted(rows.to_pylist() * 2, key=str)


def test_json_of_a_schema_is_checked_against_it(kafka_cluster: ottla.Cluster, kafka_topic: str, url: str) -> None:
    servers, rows = kafka_cluster.bootstrap_servers, pa.table({"id": [1, 2]})
    given = '{"type": "object", "properties": {"id": {"type": "integer", "maximum": %d}}}'
    ottla.write_table(servers, kafka_topic, rows, value_format="json", registry=url, value_schema=given % 2)
    with ottla.RegistryClient(url) as client:
        schema = client.version(f"{kafka_topic}-value")
    head = b"\0" + schema.id.to_bytes(4, "big")
    assert (schema.kind, sorted(stored(kafka_cluster, kafka_topic))) == (
        "JSON",
        [head + b'{"id":1}', head + b'{"id":2}'],
    )
    with pytest.raises(ottla.RecordError, match="Row 1, field 'id': 3 is greater than the maximum of 2") as refused:
        ottla.write_table(servers, kafka_topic, pa.table({"id": [1, 3]}), value_format="json", registry=url)
    assert refused.value.row == 1


@pytest.mark.parametrize(
    ("value_format", "schema", "told"),
    [
        (
            "avro",
            '{"type": "record", "name": "R", "fields": [{"name": "n", "type": "int"}]}',
            "Row 4 cannot be encoded: the value of 'n' is a number beyond what the type int holds.",
        ),
        (
            "protobuf",
            'syntax = "proto3"; message R { int32 n = 1; }',
            "Row 4: column 'n' holds a number that the field's type has no room for.",
        ),
        (
            "json",
            '{"properties": {"n": {"maximum": 9}}}',
            "Row 4, field 'n': 1099511627776 is greater than the maximum of 9.",
        ),
    ],
)
def test_an_error_has_the_row_of_the_whole_table(
    value_format: str, schema: str, told: str, kafka_cluster: ottla.Cluster, kafka_topic: str, url: str
) -> None:
    batches = pa.table({"n": [1, 2, 3, 4, 1 << 40]}).to_batches(max_chunksize=2)
    with (
        pytest.raises(ottla.RecordError) as refused,
        ottla.Producer(kafka_cluster.bootstrap_servers) as producer,
    ):
        producer.send_table(kafka_topic, iter(batches), value_format=value_format, registry=url, value_schema=schema)
    assert (str(refused.value), refused.value.row) == (told, 4)


def test_json_of_several_versions_is_read_as_the_latest(
    kafka_cluster: ottla.Cluster, kafka_topic: str, url: str
) -> None:
    servers = kafka_cluster.bootstrap_servers
    first = '{"type": "object", "properties": {"id": {"type": "integer"}}}'
    later = '{"type": "object", "properties": {"id": {"type": "integer"}, "note": {"type": "string", "minLength": 1}}}'
    with ottla.RegistryClient(url) as client:
        client.set_compatibility("NONE", f"{kafka_topic}-value")
    ottla.write_table(
        servers, kafka_topic, pa.table({"id": [1]}), value_format="json", registry=url, value_schema=first
    )
    rows = pa.table({"id": [2], "note": ["new"]})
    ottla.write_table(servers, kafka_topic, rows, value_format="json", registry=url, value_schema=later)
    assert sorted(read(kafka_cluster, kafka_topic, url, value_format="json"), key=lambda row: row["id"]) == [
        {"id": 1, "note": None},
        {"id": 2, "note": "new"},
    ]
    with ottla.RegistryClient(url) as client:
        bad = b"\0" + client.version(f"{kafka_topic}-value").id.to_bytes(4, "big") + b'{"id":9223372036854775808}'
    with ottla.Producer(servers) as producer:
        place = producer.send(kafka_topic, bad, partition=0).result(30)
    told = f"The record at offset {place.offset} of {kafka_topic}-0 cannot be decoded: field 'id': 9223372036854775808"
    with pytest.raises(ottla.DeserializationError, match=told):
        read(kafka_cluster, kafka_topic, url, value_format="json")
    found = ottla.read_table(servers, kafka_topic, value_format="json", registry=url, undecodable="null")
    assert found.column("value").null_count == 1


@pytest.mark.parametrize(("value_format", "schema"), [("avro", None), ("protobuf", PROTO)])
def test_a_schema_is_named_by_its_guid_in_a_header(
    value_format: str, schema: str | None, kafka_cluster: ottla.Cluster, kafka_topic: str, url: str
) -> None:
    kind = pa.list_(pa.struct([("key", pa.string()), ("value", pa.string())]))
    theirs = [[("a", "1"), ("b", None)], None, []]
    given = pa.array([row if row is None else [{"key": k, "value": v} for k, v in row] for row in theirs], kind)
    rows = pa.table({"tail": ["N1", "N2", "N3"], "delay": [1, 2, 3], "more": given})
    how: dict[str, Any] = {"value_format": value_format, "registry": url}
    if value_format == "protobuf":
        how["value_message"] = "Flight"
    servers = kafka_cluster.bootstrap_servers
    made = {**how, "value": ["tail", "delay"], "value_schema": schema, "schema_id_in": "header"}
    ottla.write_table(servers, kafka_topic, rows.slice(1), **made)
    ottla.write_table(servers, kafka_topic, rows, headers="more", **made)
    found = ottla.read_table(servers, kafka_topic, **how).to_pylist()
    assert sorted(row["value"]["tail"] for row in found) == ["N1", "N2", "N2", "N3", "N3"]
    with ottla.RegistryClient(url) as client:
        guid = b"\1" + UUID(client.version(f"{kafka_topic}-value").guid).bytes
    headers = [[(each["key"], each["value"]) for each in row["headers"]] for row in found]
    assert all(row[-1][0] == "__value_schema_id" and row[-1][1].startswith(guid) for row in headers)
    assert [("a", b"1"), ("b", None)] in [row[:-1] for row in headers]
    # Rows that are copied keep one name that counts: the last one.
    copied = pa.table({"tail": ["N4"], "delay": [4], "headers": [found[0]["headers"]]})
    ottla.write_table(servers, kafka_topic, copied, headers="headers", **made)
    assert len(ottla.read_table(servers, kafka_topic, **how)) == 6


@pytest.mark.parametrize(
    ("column", "told"),
    [
        (pa.array([1]), "column 'h' has type int64; with schema_id_in='header' it has to be a list of struct"),
        (pa.array([[{"key": None, "value": b"1"}]]), "Column 'h' has a null header, or one without a name"),
    ],
)
def test_headers_that_cannot_be_added_to_are_told(
    column: Any, told: str, kafka_cluster: ottla.Cluster, kafka_topic: str, url: str
) -> None:
    with pytest.raises(ottla.RecordError, match=told):
        ottla.write_table(
            kafka_cluster.bootstrap_servers,
            kafka_topic,
            pa.table({"a": [1], "h": column}),
            value=["a"],
            headers="h",
            value_format="avro",
            registry=url,
            schema_id_in="header",
        )


async def _send(servers: str, topic: str, url: str) -> None:
    async with ottla.AsyncProducer(servers) as producer:
        await (await producer.send_table(topic, FLIGHTS, value_format="avro", registry=url))


def test_an_event_loop_sends_tables_with_a_schema(kafka_cluster: ottla.Cluster, kafka_topic: str, url: str) -> None:
    asyncio.run(_send(kafka_cluster.bootstrap_servers, kafka_topic, url))
    assert sorted(read(kafka_cluster, kafka_topic, url), key=str) == sorted(FLIGHTS.to_pylist(), key=str)


def test_a_stream_of_batches_is_one_table(kafka_cluster: ottla.Cluster, kafka_topic: str, url: str) -> None:
    batches = iter(FLIGHTS.to_batches(max_chunksize=1))
    ottla.write_table(kafka_cluster.bootstrap_servers, kafka_topic, batches, value_format="avro", registry=url)
    assert len(read(kafka_cluster, kafka_topic, url)) == 3
    ottla.write_table(kafka_cluster.bootstrap_servers, kafka_topic, iter(()), value_format="avro", registry=url)
    assert len(read(kafka_cluster, kafka_topic, url)) == 3


def test_a_record_that_cannot_be_decoded_is_named(kafka_cluster: ottla.Cluster, kafka_topic: str, url: str) -> None:
    servers = kafka_cluster.bootstrap_servers
    ottla.write_table(servers, kafka_topic, FLIGHTS, value_format="avro", registry=url)
    with ottla.Producer(servers) as producer:
        place = producer.send(kafka_topic, b"plain").result()
    told = rf"The record at offset {place.offset} of {kafka_topic}-{place.partition} cannot be decoded \(value\)"
    with pytest.raises(ottla.DeserializationError, match=told):
        read(kafka_cluster, kafka_topic, url)
    found = read(kafka_cluster, kafka_topic, url, undecodable="null")
    assert len(found) == 4
    assert None in found


@pytest.mark.parametrize(
    ("value_format", "schema", "kind", "broken", "told"),
    [
        ("avro", '"string"', "AVRO", b"\x06ab", ".*ends too early"),
        ("protobuf", PROTO, "PROTOBUF", b"\0\x0a\x05ab", ", field 'a': the bytes end in the middle"),
        (
            "json",
            '{"type": "object", "properties": {"a": {"type": "string"}}}',
            "JSON",
            b'{"a": 1}',
            ".*'a': 1 is not of",
        ),
        ("json", '{"type": "object"}', "JSON", b"{", ".*it is no JSON"),
    ],
)
def test_a_broken_payload_is_named_by_its_record(
    value_format: str,
    schema: str,
    kind: str,
    broken: bytes,
    told: str,
    kafka_cluster: ottla.Cluster,
    kafka_topic: str,
    url: str,
) -> None:
    with ottla.RegistryClient(url) as client:
        number = client.register(f"{kafka_topic}-value", schema, kind).id
    with ottla.Producer(kafka_cluster.bootstrap_servers) as producer:
        place = producer.send(kafka_topic, b"\0" + number.to_bytes(4, "big") + broken).result()
    with pytest.raises(
        ottla.DeserializationError, match=f"offset {place.offset} of {kafka_topic}-{place.partition}{told}"
    ) as refused:
        read(kafka_cluster, kafka_topic, url, value_format=value_format)
    assert (refused.value.topic, refused.value.partition) == (kafka_topic, place.partition)
    assert refused.value.row == 0


def test_an_incompatible_table_is_refused_and_nothing_is_sent(
    kafka_cluster: ottla.Cluster, kafka_topic: str, url: str
) -> None:
    servers = kafka_cluster.bootstrap_servers
    ottla.write_table(servers, kafka_topic, FLIGHTS.select(["delay"]), value_format="avro", registry=url)
    other = pa.table({"delay": ["late"]})
    with pytest.raises(ottla.RegistryError, match=r"(?s)delay") as raised:
        ottla.write_table(servers, kafka_topic, other, value_format="avro", registry=url)
    assert raised.value.status == 409
    assert len(stored(kafka_cluster, kafka_topic)) == 3


@pytest.mark.parametrize(
    ("given", "kind", "told"),
    [
        ({"value_format": "avro"}, ottla.ConfigError, "registry is missing: give the address of a schema registry"),
        (
            {"registry": "http://127.0.0.1:1"},
            ottla.RecordError,
            "are for value_format='avro', 'protobuf' and 'json', not 'raw'",
        ),
        ({"value_format": "xml"}, ottla.RecordError, "allowed are 'raw', 'json', 'avro' and 'protobuf'"),
        (
            {"value_format": "avro", "registry": "here", "value": ["nope"]},
            ottla.RecordError,
            "There is no column 'nope'",
        ),
        (
            {"value_format": "avro", "registry": "here", "value": None, "data": pa.table({"a-b": [1]})},
            ottla.RecordError,
            "Column 'a-b' cannot be a field of Avro",
        ),
        (
            {"value_format": "avro", "registry": "here", "value": None, "value_schema": {"type": "record"}},
            ottla.ConfigError,
            r"value_schema is of type dict: give its text, such as json\.dumps\(schema\), or a RegisteredSchema",
        ),
        (
            {"value_format": "json", "registry": "here", "value": None, "value_message": "Flight"},
            ottla.ConfigError,
            "The message 'Flight' is named, and JSON has none: leave value_message out",
        ),
        (
            {"value_format": "protobuf", "registry": "here", "value": ["delay"]},
            ottla.RegistryError,
            "40401",
        ),
    ],
)
def test_what_cannot_be_sent_is_refused(
    given: dict[str, Any], kind: type[Exception], told: str, kafka_cluster: ottla.Cluster, kafka_topic: str, url: str
) -> None:
    if given.get("registry") == "here":
        given = {**given, "registry": url}
    arguments = {"data": FLIGHTS, "value": "tail", **given}
    with pytest.raises(kind, match=told):
        ottla.write_table(kafka_cluster.bootstrap_servers, kafka_topic, **arguments)
    assert stored(kafka_cluster, kafka_topic) == []


def test_topics_are_read_together_as_one_schema(kafka_cluster: ottla.Cluster, kafka_topic: str, url: str) -> None:
    with pytest.raises(ottla.ConfigError, match="2 topics are read; give value_schema"):
        read(kafka_cluster, [kafka_topic, "other"], url)
    with pytest.raises(ottla.ConfigError, match="the schema to read as is of type dict: give its text"):
        read(kafka_cluster, kafka_topic, url, value_schema={"type": "record"})
    with pytest.raises(ottla.ConfigError, match="The message 'M' is named, and AVRO has none"):
        read(kafka_cluster, kafka_topic, url, value_schema='"int"', value_message="M")
    with pytest.raises(ottla.ConfigError, match="registry, value_schema, value_message and undecodable are for"):
        read(kafka_cluster, kafka_topic, url, value_format="raw")
    with pytest.raises(ottla.ConfigError, match="undecodable='nul' is not known; allowed are fail, null"):
        read(kafka_cluster, kafka_topic, url, undecodable="nul")


def test_filtered_rows_of_pandas_are_sent_without_their_numbers(
    kafka_cluster: ottla.Cluster, kafka_topic: str, url: str
) -> None:
    frame = FLIGHTS.select(["tail", "delay"]).to_pandas()
    late = frame[frame["delay"] > 0]
    servers = kafka_cluster.bootstrap_servers
    ottla.write_table(servers, kafka_topic, late, value_format="avro", registry=url)
    assert read(kafka_cluster, kafka_topic, url) == [{"tail": "N1", "delay": 1.0}]
    ottla.write_table(servers, kafka_topic, late, value_format="json")
    assert b'{"tail":"N1","delay":1.0}' in stored(kafka_cluster, kafka_topic)
    ottla.write_table(servers, kafka_topic, pd.DataFrame({"value": ["x", "y"]}).iloc[1:2].set_index(pd.Index(["n"])))
    assert b"y" in stored(kafka_cluster, kafka_topic)
    ottla.write_table(servers, kafka_topic, frame.set_index("tail").loc[["N1"], :], value_format="json")
    assert b'{"delay":1.0,"tail":"N1"}' in stored(kafka_cluster, kafka_topic)


DECIMALS = """{"type": "record", "name": "R", "fields": [{"name": "fare", "type":
    ["null", {"type": "bytes", "logicalType": "decimal", "precision": 5, "scale": 2}]}]}"""


def test_decimals_are_written_in_the_scale_of_the_schema(
    kafka_cluster: ottla.Cluster, kafka_topic: str, url: str
) -> None:
    # The scale of a column of pandas is that of the numbers that happen to be in it.
    for fare in ("1.5", "2", "3.250"):
        frame = pd.DataFrame({"fare": [decimal.Decimal(fare), None]})
        ottla.write_table(
            kafka_cluster.bootstrap_servers,
            kafka_topic,
            frame,
            value_format="avro",
            registry=url,
            value_schema=DECIMALS,
        )
    found = {row["fare"] for row in read(kafka_cluster, kafka_topic, url)}
    assert found == {None, *map(decimal.Decimal, ("1.50", "2.00", "3.25"))}


@pytest.mark.parametrize("fare", ["1.555", "1234.5"])
def test_decimals_that_the_schema_does_not_hold_are_refused(
    fare: str, kafka_cluster: ottla.Cluster, kafka_topic: str, url: str
) -> None:
    frame = pd.DataFrame({"fare": [decimal.Decimal(fare)]})
    told = r"column 'fare' .* a value that decimal\(5, 2\) of the Avro schema does not hold"
    with pytest.raises(ottla.RecordError, match=told):
        ottla.write_table(
            kafka_cluster.bootstrap_servers,
            kafka_topic,
            frame,
            value_format="avro",
            registry=url,
            value_schema=DECIMALS,
        )


def test_times_of_polars_are_sent(kafka_cluster: ottla.Cluster, kafka_topic: str, url: str) -> None:
    rows = pl.DataFrame({"at": [time(1, 2, 3, 4), None]})
    ottla.write_table(kafka_cluster.bootstrap_servers, kafka_topic, rows, value_format="avro", registry=url)
    assert {row["at"] for row in read(kafka_cluster, kafka_topic, url)} == {time(1, 2, 3, 4), None}


def test_a_column_in_another_case_is_told_the_field(kafka_cluster: ottla.Cluster, kafka_topic: str, url: str) -> None:
    rows = pa.table({"FARE": pa.array([1], pa.decimal128(5, 2))})
    with pytest.raises(ottla.RecordError, match="no field for the column 'FARE': rename it to 'fare', or leave it out"):
        ottla.write_table(
            kafka_cluster.bootstrap_servers,
            kafka_topic,
            rows,
            value_format="avro",
            registry=url,
            value_schema=DECIMALS,
        )


@pytest.mark.parametrize("value_format", ["protobuf", "json"])
def test_the_latest_schema_has_to_be_of_the_format(
    value_format: str, kafka_cluster: ottla.Cluster, kafka_topic: str, url: str
) -> None:
    servers, rows = kafka_cluster.bootstrap_servers, pa.table({"id": [1, 2]})
    ottla.write_table(servers, kafka_topic, rows, value_format="avro", registry=url)
    told = f"The latest schema of '{kafka_topic}-value' is of type AVRO, and value_format='{value_format}' is asked for"
    with pytest.raises(ottla.RecordError, match=told):
        ottla.write_table(servers, kafka_topic, rows, value_format=value_format, registry=url)
