"""Columns by the schemas of a registry: versions side by side, ids in values and headers, what cannot be decoded."""

from __future__ import annotations

import json
import pickle
import re
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from typing import Any

import fastavro
import pyarrow as pa
import pytest

import ottla
from ottla.registry.client import RegistryClient
from ottla.registry.columns import FORMATS, ColumnDecoder, ColumnEncoder, reader_schema
from ottla.registry.registered import JSON, PROTOBUF, RegisteredSchema, SchemaReference
from ottla.schemas.avro.derived import derive_schema
from ottla.schemas.avro.schema import parse_schema

from .conftest import ScriptedRegistry, answer

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
ROWS = pa.table({"a": [1, 2, None], "b": ["x", None, "z"]})
PROTO = """syntax = "proto3"; package p;
message Other { string a = 1; }
message Row { optional int64 a = 1; optional string b = 2; }"""
# The same message is another one of its file here, and one field has another name.
PROTO_LATER = """syntax = "proto3"; package p;
message Row { optional int64 number = 1; optional string b = 2; optional string new = 3; }
message Other { string a = 1; }"""


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with ottla.Cluster(brokers=1) as cluster, ottla.Registry(cluster.bootstrap_servers) as registry:
        yield registry.url


@pytest.fixture
def client(url: str) -> Iterator[RegistryClient]:
    with RegistryClient(url) as client:
        yield client


def registered(client: RegistryClient, subject: str, *more: dict[str, Any]) -> RegisteredSchema:
    """The schema of ROWS with more fields."""
    schema = json.loads(derive_schema(ROWS.schema, "row"))
    schema["fields"] += more
    return client.register(subject, json.dumps(schema))


def encoded(client: RegistryClient, schema: RegisteredSchema, rows: pa.Table = ROWS, **message: str) -> Any:
    return pa.array(ColumnEncoder(client, schema, **message).encode(rows))


def latest(client: RegistryClient, subject: str, value_format: str = "avro", **more: Any) -> ColumnDecoder:
    return ColumnDecoder(client, value_format, reader_schema(client, value_format, subject, None), **more)


def test_what_was_written_by_two_versions_is_read_as_the_latest(client: RegistryClient, kafka_name: str) -> None:
    first = encoded(client, registered(client, kafka_name))
    later = registered(client, kafka_name, {"name": "new", "type": "string", "default": "-"})
    second = encoded(client, later, ROWS.append_column("new", pa.array(["p", "q", "r"])))
    mixed = pa.concat_arrays([first, second, pa.nulls(1, pa.binary())]).take(pa.array([0, 3, 6, 1, 5, 4, 2]))
    assert latest(client, kafka_name).decode(mixed).to_pylist() == [
        {"a": 1, "b": "x", "new": "-"},
        {"a": 1, "b": "x", "new": "p"},
        None,
        {"a": 2, "b": None, "new": "-"},
        {"a": None, "b": "z", "new": "r"},
        {"a": 2, "b": None, "new": "q"},
        {"a": None, "b": "z", "new": "-"},
    ]


def test_values_of_one_version_are_read_by_a_reader_of_another(client: RegistryClient, kafka_name: str) -> None:
    column = encoded(client, registered(client, kafka_name))
    narrow = '{"type":"record","name":"row","fields":[{"name":"b","type":["null","string"]}]}'
    decoder = ColumnDecoder(client, "avro", reader_schema(client, "avro", kafka_name, narrow))
    assert decoder.type == pa.struct([("b", pa.string())])
    assert decoder.decode(pa.chunked_array([column, column])).to_pylist() == [{"b": "x"}, {"b": None}, {"b": "z"}] * 2
    assert len(decoder.decode(pa.array([], pa.binary()))) == 0
    assert decoder.decode(pa.nulls(2, pa.binary())).to_pylist() == [None, None]


def test_a_schema_is_also_named_by_a_header(client: RegistryClient, kafka_name: str) -> None:
    schema = registered(client, kafka_name)
    column = encoded(client, schema)
    guid = b"\1" + uuid.UUID(schema.guid).bytes
    bare = pa.array([column[0].as_py()[5:], column[1].as_py(), guid + column[2].as_py()[5:], None, b"bad"], pa.binary())
    named = [("other", b"1"), ("__value_schema_id", b"\1lost" * 4), ("__value_schema_id", guid)]
    headers = pa.array([[{"key": key, "value": value} for key, value in named], None, [], [], []], HEADERS)
    decoder = latest(client, kafka_name, mode="null")
    assert decoder.decode(bare, headers).to_pylist() == [*ROWS.to_pylist(), None, None]
    assert latest(client, kafka_name, mode="null", part="key").decode(bare, headers).to_pylist()[0] is None


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (
            b"",
            r"Row 103 cannot be decoded \(value\): The bytes that would name the schema are missing: there are 0 bytes",
        ),
        (b"\7abcde", r"Row 103 cannot be decoded \(value\): The magic byte is 7; it is 0 before a schema's id"),
        (b"\0\0\0\0", r"Row 103 cannot be decoded \(value\): There are 4 bytes; the schema's id or GUID alone needs 5"),
        (b"\0\0\xff\xff\xff", r"Row 103 cannot be decoded \(value\): .* \(40403: Schema 16777215 not found\)"),
        ("truncated", r"Row 103 cannot be decoded: field 'a': the payload ends too early .* \(value\)"),
    ],
)
def test_a_value_that_cannot_be_decoded_is_named_or_null(
    value: Any, told: str, client: RegistryClient, kafka_name: str
) -> None:
    schema = registered(client, kafka_name)
    if value == "truncated":
        value = b"\0" + schema.id.to_bytes(4, "big") + b"\2"
    column = pa.concat_arrays([encoded(client, schema), pa.array([value], pa.binary())])
    with pytest.raises(ottla.DeserializationError, match=told):
        latest(client, kafka_name).decode(column, first_row=100)
    assert latest(client, kafka_name, mode="null").decode(column).to_pylist() == [*ROWS.to_pylist(), None]


def test_a_registry_that_does_not_answer_is_no_bad_value(kafka_name: str) -> None:
    with ottla.Cluster(brokers=1) as cluster:
        with ottla.Registry(cluster.bootstrap_servers) as registry:
            client = RegistryClient(registry.url, max_retries=0)
            schema = registered(client, kafka_name)
            column = encoded(client, schema)
            decoder = ColumnDecoder(RegistryClient(registry.url, max_retries=0), "avro", schema, mode="null")
        with pytest.raises(ottla.RegistryError):
            decoder.decode(column)


@pytest.mark.parametrize("body", [b"404 page not found", b'{"message":"no Route matched"}', b'{"error_code":404}'])
def test_a_proxy_that_finds_no_registry_is_no_bad_value(
    body: bytes, client: RegistryClient, kafka_name: str, registry_of: Callable[..., ScriptedRegistry]
) -> None:
    schema = registered(client, kafka_name)
    column = encoded(client, schema)
    elsewhere = RegistryClient(registry_of(answer(body, "404 Not Found")).url, max_retries=0)
    decoder = ColumnDecoder(elsewhere, "avro", schema, mode="null")
    with pytest.raises(ottla.RegistryError, match="404"):
        decoder.decode(column)
    with pytest.raises(ottla.RegistryError, match="404"):
        decoder.reasons(column, None, [0])


def test_messages_are_read_by_their_numbers(client: RegistryClient, kafka_name: str) -> None:
    client.set_compatibility("NONE", kafka_name)
    first = client.register(kafka_name, PROTO, PROTOBUF)
    column = encoded(client, first, message="Row")
    assert column[0].as_py() == b"\0" + first.id.to_bytes(4, "big") + b"\2\2" + b"\x08\x01\x12\x01x"
    later = client.register(kafka_name, PROTO_LATER, PROTOBUF)
    second = encoded(client, later, pa.table({"number": [7], "new": ["n"]}))
    other = encoded(client, later, pa.table({"a": ["o"]}), message="Other")
    found = latest(client, kafka_name, "protobuf").decode(pa.concat_arrays([second, column]))
    assert found.to_pylist() == [
        {"number": 7, "b": None, "new": "n"},
        *({"number": row["a"], "b": row["b"], "new": None} for row in ROWS.to_pylist()),
    ]
    mixed = pa.concat_arrays([column, other])
    with pytest.raises(
        ottla.DeserializationError, match=r"Row 3 cannot be decoded \(value\): it is another message than p.Row"
    ):
        latest(client, kafka_name, "protobuf").decode(mixed)
    lenient = latest(client, kafka_name, "protobuf", mode="null", message="p.Other")
    assert lenient.decode(mixed).to_pylist() == [None, None, None, {"a": "o"}]


@pytest.mark.parametrize("indexes", [b"\2\0", b"\x80\0", b"\x82\0\x80\x80\0"])
def test_a_message_is_found_however_its_indexes_are_written(
    indexes: bytes, client: RegistryClient, kafka_name: str
) -> None:
    schema = client.register(kafka_name, PROTO, PROTOBUF)
    prefix = b"\0" + schema.id.to_bytes(4, "big")
    others = [prefix + b"\2\2\x08\1", prefix + b"\x04", prefix]
    values = [prefix + indexes + b"\x0a\1a", None, prefix + b"\0\x0a\1b", *others]
    for layout in (pa.binary(), pa.large_binary()):
        found = latest(client, kafka_name, "protobuf").decode(pa.array(values[:3], layout))
        assert found.to_pylist() == [{"a": "a"}, None, {"a": "b"}]
    of_one_size = pa.array([values[0]] * 2, pa.binary(len(values[0] or b"")))
    assert latest(client, kafka_name, "protobuf").decode(of_one_size).to_pylist() == [{"a": "a"}] * 2
    for layout in (pa.binary(), pa.large_binary()):
        lenient = latest(client, kafka_name, "protobuf", mode="null").decode(pa.array(values, layout))
        assert lenient.to_pylist() == [{"a": "a"}, None, {"a": "b"}, None, None, None]
    for other, told in zip(others, ("another message than p.Other", "cannot be 2 message", "end"), strict=True):
        column = pa.array([values[0], other], pa.binary())
        with pytest.raises(ottla.DeserializationError, match=rf"Row 1 cannot be decoded \(value\): .*{told}"):
            latest(client, kafka_name, "protobuf").decode(column)


def test_a_row_that_the_schema_does_not_hold_is_named(client: RegistryClient, kafka_name: str) -> None:
    strict = client.register(kafka_name, '{"type":"record","name":"row","fields":[{"name":"a","type":"long"}]}')
    encoder = ColumnEncoder(client, strict)
    with pytest.raises(ottla.RecordError, match="Row 12"):
        encoder.encode(ROWS.select(["a"]), first_row=10)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"value_format": "jason"}, "format 'jason' has no schemas; allowed are avro, protobuf"),
        ({"mode": "drop"}, "mode='drop' is not known; allowed are fail, null"),
        ({"value_format": "protobuf"}, "is of type AVRO, and 'protobuf' is asked for: ask for 'avro', or give"),
    ],
)
def test_what_cannot_be_asked_for_is_refused(
    given: dict[str, str], told: str, client: RegistryClient, kafka_name: str
) -> None:
    schema = registered(client, kafka_name)
    with pytest.raises(ottla.ConfigError, match=told):
        ColumnDecoder(client, given.pop("value_format", "avro"), schema, **given)


def test_a_column_of_many_versions_is_read_in_threads(client: RegistryClient, kafka_name: str) -> None:
    client.set_compatibility("NONE", kafka_name)
    pieces = [encoded(client, registered(client, kafka_name))]
    for number in range(20):
        later = registered(client, kafka_name, {"name": f"f{number}", "type": "int", "default": number})
        pieces.append(encoded(client, later, ROWS.append_column(f"f{number}", pa.array([0, 1, 2], pa.int32()))))
    column = pa.concat_arrays(pieces)
    decoder = ColumnDecoder(client, "avro", client.version(kafka_name, 1))
    with ThreadPoolExecutor(4) as threads:
        for found in threads.map(decoder.decode, [column.slice(3 * n) for n in range(15)] * 4):
            assert found.to_pylist() == ROWS.to_pylist() * (len(found) // 3)


def test_of_several_versions_a_row_of_an_unknown_one_is_named_or_null(client: RegistryClient, kafka_name: str) -> None:
    first = encoded(client, registered(client, kafka_name))
    later = registered(client, kafka_name, {"name": "new", "type": "int", "default": 1})
    second = encoded(client, later, ROWS.append_column("new", pa.array([0, 1, 2], pa.int32())))
    unknown, short = pa.array([b"\0\0\xff\xff\xff\0"], pa.binary()), pa.array([second[0].as_py()[:-1]], pa.binary())
    decoder = latest(client, kafka_name)
    with pytest.raises(ottla.DeserializationError, match=r"Row 16 cannot be decoded \(value\): .*40403"):
        decoder.decode(pa.concat_arrays([first, second, unknown]), first_row=10)
    with pytest.raises(ottla.DeserializationError, match=r"Row 16 cannot be decoded: .*ends too early.* \(value\)"):
        decoder.decode(pa.concat_arrays([first, second, short]), first_row=10)
    found = latest(client, kafka_name, mode="null").decode(pa.concat_arrays([first, unknown, second, short]))
    assert found.is_valid().to_pylist() == [True] * 3 + [False] + [True] * 3 + [False]


class Counting(RegistryClient):
    """Counts what it is asked."""

    asked = 0

    def by_id(self, schema_id: int) -> RegisteredSchema:
        self.asked += 1
        return super().by_id(schema_id)

    def by_guid(self, guid: str) -> RegisteredSchema:
        self.asked += 1
        return super().by_guid(guid)


def test_a_registry_is_asked_once_for_a_schema_that_it_lacks(url: str, client: RegistryClient, kafka_name: str) -> None:
    schema = registered(client, kafka_name)
    lacking = [b"\0\0\xff\xff" + bytes([number % 2]) + b"x" for number in range(10)]
    broken = b"\0" + schema.id.to_bytes(4, "big") + b"\2"
    counting = Counting(url)
    decoder = ColumnDecoder(counting, "avro", schema)
    told = decoder.reasons(pa.array([*lacking, broken, b"", None], pa.binary()), None, range(12))
    assert counting.asked == 3
    assert all("40403: Schema 1677696" in each for each in told[:10])
    assert told[10].startswith("cannot be decoded: field 'a': the payload ends too early")
    assert told[11].startswith("cannot be decoded (value): The bytes that would name the schema are missing")


def test_a_schema_that_the_registry_lacks_is_asked_for_again_after_a_minute(
    url: str, client: RegistryClient, kafka_name: str
) -> None:
    schema = registered(client, kafka_name)
    known = encoded(client, schema)
    lacking = [b"\0\0\xff\xff" + bytes([number]) + b"x" for number in range(3)]
    column = pa.concat_arrays([known, pa.array(lacking, pa.binary())])
    counting = Counting(url)
    now_s = [0.0]
    decoder = ColumnDecoder(counting, "avro", schema, mode="null", now_s=lambda: now_s[0])
    for now_s[0], asked in ((100.0, 4), (159.0, 4), (160.0, 7), (219.0, 7)):
        assert decoder.decode(column).to_pylist() == [*ROWS.to_pylist(), None, None, None]
        assert counting.asked == asked
    # The reasons are told without asking again, too; who wants an error has the registry asked.
    strict = ColumnDecoder(counting, "avro", schema, now_s=lambda: now_s[0])
    for asked in (10, 10):
        told = strict.reasons(column, None, range(3, 6))
        assert all("40403" in each for each in told)
        assert len({*told}) == 3
        assert counting.asked == asked
    for asked in (12, 13):
        with pytest.raises(ottla.DeserializationError, match=r"Row 3 .*40403"):
            strict.decode(column)
        assert counting.asked == asked


def test_what_is_lacking_is_remembered_for_every_format_and_for_headers(
    url: str, client: RegistryClient, kafka_name: str
) -> None:
    schema = client.register(kafka_name, PROTO, PROTOBUF)
    counting = Counting(url)
    decoder = ColumnDecoder(counting, "protobuf", schema, mode="null")
    lacking = pa.array([b"\0\0\xff\xff\0\0", b"\1" + bytes(16) + b"\0", b"x"], pa.binary())
    named = [{"key": "__value_schema_id", "value": b"\1" + b"\7" * 16 + b"\0"}]
    for _ in range(2):
        assert decoder.decode(lacking, pa.array([[], [], named], HEADERS)).null_count == 3
        assert counting.asked == 3


def test_columns_of_bytes_in_any_layout_are_decoded_and_others_are_told(
    client: RegistryClient, kafka_name: str
) -> None:
    column = encoded(client, registered(client, kafka_name))
    decoder = latest(client, kafka_name)
    for layout in (pa.binary(), pa.large_binary(), pa.binary_view(), pa.dictionary(pa.int32(), pa.binary())):
        given = column.cast(pa.binary()).dictionary_encode() if pa.types.is_dictionary(layout) else column.cast(layout)
        assert decoder.decode(given).to_pylist() == ROWS.to_pylist()
    assert decoder.decode(pa.nulls(2)).to_pylist() == [None, None]
    for wrong in (pa.array([1]), pa.array(["a"]), pa.array([[b"a"]])):
        with pytest.raises(
            ottla.RecordError, match=f"The column to decode has type {re.escape(str(wrong.type))};.*give a binary"
        ):
            decoder.decode(wrong)


def test_a_symbol_that_the_enum_does_not_have_is_named(client: RegistryClient, kafka_name: str) -> None:
    enum = {"type": "enum", "name": "Color", "symbols": ["RED"]}
    inner = {"type": "record", "name": "In", "fields": [{"name": "c", "type": ["null", enum]}]}
    fields = [{"name": "c", "type": {**enum, "name": "Outer"}}, {"name": "in", "type": inner}]
    text = json.dumps({"type": "record", "name": "R", "fields": fields})
    encoder = ColumnEncoder(client, client.register(kafka_name, text))

    def rows(outer: list[str], inner: list[str | None]) -> Any:
        return pa.table({"c": outer, "in": [{"c": each} for each in inner]})

    of_list = {"type": "record", "name": "L", "fields": [{"name": "cs", "type": {"type": "array", "items": enum}}]}
    lists = ColumnEncoder(client, client.register(f"{kafka_name}-lists", json.dumps(of_list)))
    with pytest.raises(ottla.RecordError, match=r"Row 11 .*: the value of 'cs\[\]' is 'BLUE', none of the symbols"):
        lists.encode(pa.table({"cs": [["RED"], ["RED", "BLUE"]]}), first_row=10)

    for table, told in (
        (rows(["RED", "GREY"], ["RED", None]), "Row 11 .*: the value of 'c' is 'GREY', none of the symbols"),
        (rows(["RED", "RED"], [None, "BLUE"]), "Row 11 .*: the value of 'in.c' is 'BLUE', none of the symbols"),
    ):
        for columns in (table.to_batches()[0], table.to_struct_array().combine_chunks()):
            with pytest.raises(ottla.RecordError, match=told):
                encoder.encode(columns, first_row=10)


def test_each_value_is_read_with_the_types_that_its_schema_referred_to(client: RegistryClient, kafka_name: str) -> None:
    order = '{"type": "record", "name": "O", "fields": [{"name": "m", "type": "M"}]}'
    values = []
    for version, names in enumerate((("cents", "kind"), ("kind", "cents")), start=1):
        money = {"type": "record", "name": "M", "fields": [{"name": name, "type": "int"} for name in names]}
        client.register(f"{kafka_name}-M", json.dumps(money))
        references = [SchemaReference("M", f"{kafka_name}-M", version)]
        schema = client.register(kafka_name, order, references=references)
        table = pa.table({"m": [{"cents": 100 * version, "kind": 7}]})
        values.append(encoded(client, schema, table))
    for some in (pa.concat_arrays(values), values[0]):
        found = latest(client, kafka_name).decode(some).to_pylist()
        assert found == [{"m": {"cents": 100 * version, "kind": 7}} for version in range(1, len(some) + 1)]


def test_names_that_are_joined_are_not_given_twice() -> None:
    inner = pa.struct([("x", pa.int32())])
    columns = pa.schema(
        [
            ("a", pa.struct([("b", inner), ("item", inner)])),
            ("a_b", inner),
            ("a_item", pa.list_(inner)),
            ("a_item_item", inner),
            ("m", pa.map_(pa.string(), inner)),
            ("m_value", pa.binary(3)),
        ]
    )
    text = derive_schema(columns, "string")
    assert json.loads(text)["name"] == "string_2"
    assert fastavro.parse_schema(json.loads(text))
    parse_schema(text)


def test_decimals_take_the_scale_of_the_schema_and_whole_ones_are_numbers(
    client: RegistryClient, kafka_name: str
) -> None:
    fare = {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 4}
    order = {"type": "record", "name": "Order", "fields": [{"name": "fare", "type": ["null", fare]}]}
    avro = client.register(f"{kafka_name}-d", json.dumps(order))
    rows = pa.array([{"fare": Decimal("1.25")}, None, {"fare": None}], pa.struct([("fare", pa.decimal128(3, 2))]))
    made = pa.array(ColumnEncoder(client, avro).encode(rows))
    assert made.is_null().to_pylist() == [False, True, False]
    decoded = ColumnDecoder(client, "avro", avro).decode(made).to_pylist()
    assert decoded == [{"fare": Decimal("1.2500")}, None, {"fare": None}]
    fields_of_m = "uint64 a = 1; repeated uint64 b = 2; map<string, uint64> c = 3; int64 d = 4;"
    schema = client.register(f"{kafka_name}-p", f'syntax = "proto3"; message M {{ {fields_of_m} }}', "PROTOBUF")
    whole = pa.decimal128(20, 0)
    fields = [("a", whole), ("b", pa.list_(whole)), ("c", pa.map_(pa.string(), whole)), ("d", whole)]
    value = {"a": 2**64 - 1, "b": [2**63], "c": [("x", 1)], "d": 7}
    row = {"a": Decimal(2**64 - 1), "b": [Decimal(2**63)], "c": [("x", Decimal(1))], "d": Decimal(7)}
    made = pa.array(ColumnEncoder(client, schema).encode(pa.array([row], pa.struct(fields))))
    assert ColumnDecoder(client, "protobuf", schema).decode(made).to_pylist() == [value]
    # What stands under a row that is null does not count.
    below = pa.StructArray.from_arrays([pa.array([Decimal(-7)], whole)], ["d"], mask=pa.array([True]))
    assert pa.array(ColumnEncoder(client, schema).encode(below)).to_pylist() == [None]
    negative = pa.array([{**row, "d": Decimal(-7)}], pa.struct(fields))
    made = pa.array(ColumnEncoder(client, schema).encode(negative))
    assert ColumnDecoder(client, "protobuf", schema).decode(made).to_pylist() == [{**value, "d": -7}]
    with pytest.raises(ottla.RecordError, match="'a'"):
        ColumnEncoder(client, schema).encode(pa.array([{**row, "a": Decimal(-1)}], pa.struct(fields)))
    for encoder in (ColumnEncoder(client, schema), ColumnEncoder(client, avro)):
        with pytest.raises(ottla.RecordError):
            encoder.encode(pa.array([1, 2]))


NARROW = {
    "avro": '{"type": "record", "name": "R", "fields": [{"name": "n", "type": "int"}]}',
    "protobuf": 'syntax = "proto3"; message R { int32 n = 1; }',
    "json": '{"properties": {"n": {"type": "integer", "maximum": 9}}}',
}


@pytest.mark.parametrize(
    ("value_format", "bad", "encoding", "decoding"),
    [
        (
            "avro",
            b"\xff",
            "Row 12 cannot be encoded: the value of 'n' is a number beyond what the type int holds.",
            "Row 13 cannot be decoded: field 'n': the payload ends too early (at byte 5 of 6) (value).",
        ),
        (
            "protobuf",
            b"\0\x08",
            "Row 12: column 'n' holds a number that the field's type has no room for.",
            "Row 13, field 'n': the bytes end in the middle of a value (value).",
        ),
        (
            "json",
            b'{"n":10}',
            "Row 12, field 'n': 1099511627776 is greater than the maximum of 9.",
            "Row 13 cannot be decoded: field 'n': 10 is greater than the maximum of 9 (value).",
        ),
    ],
)
def test_an_error_has_its_row_as_a_number(
    value_format: str, bad: bytes, encoding: str, decoding: str, client: RegistryClient, kafka_name: str
) -> None:
    schema = client.register(kafka_name, NARROW[value_format], FORMATS[value_format])
    encoder = ColumnEncoder(client, schema)
    rows = pa.array([None, {"n": 1}, {"n": 1 << 40}])
    with pytest.raises(ottla.RecordError) as refused:
        encoder.encode(rows, first_row=10)
    assert (str(refused.value), refused.value.row) == (encoding, 12)

    head = b"\0" + schema.id.to_bytes(4, "big")
    good = pa.array(encoder.encode(rows[:2])).cast(pa.binary())
    column = pa.concat_arrays([good, pa.array([None, head + bad], pa.binary())])
    with pytest.raises(ottla.DeserializationError) as broken:
        latest(client, kafka_name, value_format).decode(column, first_row=10)
    assert (str(broken.value), broken.value.row) == (decoding, 13)
    for error in (refused.value, broken.value):
        again = pickle.loads(pickle.dumps(error))
        assert (type(again), str(again), vars(again)) == (type(error), str(error), vars(error))

    with pytest.raises(ottla.DeserializationError, match=r"^Row 11 cannot be decoded \(value\): ") as unknown:
        latest(client, kafka_name, value_format).decode(pa.array([None, b"\0\0\xff\xff\xff"]), first_row=10)
    assert unknown.value.row == 11


def test_a_column_whose_name_looks_like_a_row_is_left_alone(client: RegistryClient, kafka_name: str) -> None:
    encoder = ColumnEncoder(client, client.register(kafka_name, "{}", JSON))
    with pytest.raises(ottla.RecordError) as refused:
        encoder.encode(pa.table({"row 3": [1.0, float("nan")]}), first_row=10)
    told = "Column 'row 3' holds nan in row 11, which JSON does not have: make it null or text first."
    assert (str(refused.value), refused.value.row) == (told, 11)


def test_a_reason_of_protobuf_begins_with_its_words(client: RegistryClient, kafka_name: str) -> None:
    schema = client.register(kafka_name, NARROW["protobuf"], PROTOBUF)
    broken = pa.array([b"\0" + schema.id.to_bytes(4, "big") + b"\0\xff"])
    assert latest(client, kafka_name, "protobuf").reasons(broken, None, [0]) == [
        "the bytes end in the middle of a value (value)."
    ]
