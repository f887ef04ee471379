"""Objects of Python as payloads of Avro and back, as fastavro has them; what does not fit is told with its path."""

from __future__ import annotations

import datetime
import enum
import json
from decimal import Decimal
from typing import Any
from uuid import UUID

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.schemas.avro_drawn import Names, decoded, encoded, evolved, records, types, values
from tests.schemas.test_avro_decode import LOGICAL, of, record, with_defaults

from ottla.errors import RecordError
from ottla.schemas.avro.decode_rows import AvroRowDecoder
from ottla.schemas.avro.encode_rows import AvroRowEncoder
from ottla.schemas.avro.schema import SchemaError

UTC = datetime.UTC


def encode(schema: Any, value: Any, prefix: bytes = b"") -> bytes:
    return AvroRowEncoder(json.dumps(schema)).encode_one(value, prefix)


def decode(payload: bytes, writer: Any, reader: Any = None, skip: int = 0) -> Any:
    return AvroRowDecoder(json.dumps(writer), None if reader is None else json.dumps(reader)).decode_one(payload, skip)


@settings(deadline=None, max_examples=300)
@given(st.data())
def test_objects_are_written_and_read_as_fastavro_does(data):
    schema = data.draw(types(Names()))
    value = data.draw(values(schema))
    payload = encoded(schema, value)
    assert encode(schema, value) == payload
    assert decode(payload, schema) == decoded(payload, schema)


@settings(deadline=None, max_examples=300)
@given(st.data())
def test_what_one_schema_wrote_is_read_as_another_as_fastavro_does(data):
    names = Names()
    writer = data.draw(records(names))
    reader = data.draw(evolved(writer, names))
    payload = encoded(writer, data.draw(values(writer)))
    assert single(reader, decode(payload, writer, reader)) == single(
        reader, with_defaults(reader, decoded(payload, writer, reader))
    )


def single(type_: Any, value: Any) -> Any:
    """fastavro promotes to a double what its schema calls a float: both rounded, so that they compare."""
    if isinstance(type_, list):
        return value if value is None else single(next(each for each in type_ if each != "null"), value)
    kind = type_ if isinstance(type_, str) else type_["type"]
    if kind == "float":
        return float(f"{value:.6e}")
    if kind == "record":
        return {each["name"]: single(each["type"], value[each["name"]]) for each in type_["fields"]}
    if kind == "array":
        return [single(type_["items"], each) for each in value]
    if kind == "map":
        return {key: single(type_["values"], each) for key, each in value.items()}
    return value


@pytest.mark.parametrize(("type_", "value", "arrow"), LOGICAL)
def test_logical_types_are_pythons_own_objects(type_, value, arrow):
    payload = encode(type_, value)
    assert payload == encoded(type_, value)
    assert decode(payload, type_) == value


def test_uuids_are_written_as_text_or_bytes():
    value = UUID("89791762-2336-4186-9674-299b90a802e2")
    assert decode(encode(of("string", "uuid"), value), "string") == str(value)
    fixed = of("fixed", "uuid", name="U", size=16)
    assert encode(fixed, value) == value.bytes


@pytest.mark.parametrize(
    ("schema", "end"), [(of("int", "time-millis"), 86_400_000), (of("long", "time-micros"), 86_400 * 10**6)]
)
def test_a_number_that_is_no_time_of_day_is_refused(schema, end):
    assert decode(encode(schema, end - 1), schema) == datetime.time(23, 59, 59, 999_000 if end < 10**9 else 999_999)
    for number in (-1, end):
        for value in (number, np.int64(number)):
            with pytest.raises(RecordError, match=f"The value is {number}, and a time of day is from 0 to {end - 1}"):
                encode(schema, value)
        with_default = record(schema)
        with_default["fields"][0]["default"] = number
        with pytest.raises(SchemaError, match=f"The default of 'f0' is {number}, which is not of its type"):
            encode(with_default, {})
        with pytest.raises(RecordError, match="a time of day is not between 0 and 24 hours"):
            decode(encode(schema["type"], number), schema)


class Color(enum.StrEnum):
    RED = "red"


@pytest.mark.parametrize("text", [Color.RED, np.str_("red")])
def test_a_text_of_a_class_of_its_own_is_a_text(text):
    assert decode(encode("string", text), "string") == "red"
    assert decode(encode({"type": "map", "values": "string"}, {text: text}), {"type": "map", "values": "string"}) == {
        "red": "red"
    }


def test_few_bytes_do_not_become_endless_fields():
    schema = {"type": "array", "items": record("boolean", *["null"] * 5000, name="Many")}
    assert len(decode(encode({"type": "array", "items": "boolean"}, [True] * 20), schema)) == 20
    payload = encode({"type": "array", "items": "boolean"}, [True] * 20_000)
    with pytest.raises(RecordError, match="too many items or fields that take no bytes"):
        decode(payload, schema)


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        (of("int", "date"), 1 << 30),
        (of("long", "timestamp-micros"), 1 << 62),
        (of("long", "timestamp-nanos"), 123),
    ],
)
def test_what_python_has_no_object_for_stays_a_number(schema, value):
    assert decode(encode(schema, value), schema) == value


NODE = {
    "type": "record",
    "name": "Node",
    "fields": [{"name": "value", "type": "int"}, {"name": "next", "type": ["null", "Node"]}],
}


def test_types_that_contain_themselves_are_written_and_read():
    chain: Any = None
    for number in range(50):
        chain = {"value": number, "next": chain}
    assert decode(encode(NODE, chain), NODE) == chain
    reader = {
        **NODE,
        "fields": [{"name": "next", "type": ["null", "Node"]}, {"name": "more", "type": "int", "default": 7}],
    }
    assert decode(encode(NODE, {"value": 1, "next": None}), NODE, reader) == {"next": None, "more": 7}


def test_values_nested_without_end_are_refused():
    with pytest.raises(RecordError, match="values are nested too deep"):
        decode(b"\2\2" * 5000 + b"\2\0", NODE)
    chain: Any = {"value": 1, "next": None}
    chain["next"] = chain
    with pytest.raises(RecordError, match="is nested deeper than 200 records"):
        encode(NODE, chain)


def test_a_field_that_is_missing_is_its_default_or_null():
    schema = record("int", ["null", "string"])
    schema["fields"].append({"name": "list", "type": {"type": "array", "items": "int"}, "default": [1]})
    payload = encode(schema, {"f0": 7})
    first, second = decode(payload, schema), decode(payload, schema)
    assert first == {"f0": 7, "f1": None, "list": [1]}
    first["list"].append(2)
    assert second["list"] == [1]
    empty = {"type": "record", "name": "R", "fields": []}
    lists = [AvroRowDecoder(json.dumps(empty), json.dumps({**schema, "fields": schema["fields"][2:]}))] * 2
    made = [each.decode_one(b"") for each in lists]
    assert made[0] == {"list": [1]}
    assert made[0]["list"] is not made[1]["list"]


def test_a_default_does_not_multiply_a_payload_without_end() -> None:
    """100,000 bytes would be ten gigabytes of objects."""
    item = {"type": "record", "name": "I", "fields": [{"name": "x", "type": "boolean"}]}
    wider = {**item, "fields": [*item["fields"], {"name": "d", "type": "string", "default": "y" * 100_000}]}
    payload = encode({"type": "array", "items": item}, [{"x": True}] * 100_000)
    with pytest.raises(RecordError, match="too many items or fields that take no bytes"):
        decode(payload, {"type": "array", "items": item}, {"type": "array", "items": wider})
    few = encode({"type": "array", "items": item}, [{"x": True}] * 100)
    assert len(decode(few, {"type": "array", "items": item}, {"type": "array", "items": wider})) == 100


def test_a_branch_may_be_named():
    a = {"type": "record", "name": "A", "fields": [{"name": "x", "type": "int"}]}
    b = {**a, "name": "B"}
    assert encode([a, b], {"x": 1}) == b"\0\2"
    assert encode([a, b], ("B", {"x": 1})) == b"\2\2"
    assert encode(["int", "string"], ("string", "a")) == b"\2\2a"


def test_numbers_of_numpy_are_numbers():
    assert encode("int", np.int64(7)) == encode("int", 7)
    assert encode("double", np.float32(0.5)) == encode("double", 0.5)
    assert encode(["null", "long", "double"], np.int8(-1)) == encode(["null", "long", "double"], -1)
    assert encode(["null", "long", "double"], np.float64(1.5)) == encode(["null", "long", "double"], 1.5)
    with pytest.raises(RecordError, match="not of its type, int"):
        encode("int", np.int64(1 << 40))
    with pytest.raises(RecordError, match="not of its type, double"):
        encode("double", Decimal(1))


def test_a_prefix_is_put_in_front_and_passed_over():
    assert encode("int", 1, b"\0\0\0\0\7") == b"\0\0\0\0\7\2"
    assert decode(b"\0\0\0\0\7\2", "int", skip=5) == 1
    with pytest.raises(RecordError, match="has 2 bytes, fewer than the 5"):
        decode(b"\0\0", "int", skip=5)


@pytest.mark.parametrize(
    ("schema", "value", "said"),
    [
        ("int", 1 << 31, r"f0' is 2147483648 \(int\), which is not of its type, int"),
        ("long", 1 << 63, "not of its type, long"),
        ("int", True, "True"),
        ("int", 1.0, r"1\.0 \(float\)"),
        ("int", None, r"None \(NoneType\)"),
        ("boolean", 1, "not of its type, boolean"),
        ("double", "1", "'1'"),
        ("double", 1 << 2000, "not of its type, double"),
        ("float", 1e300, "not of its type, float"),
        ("string", b"a", "not of its type, string"),
        ("string", "\ud800", "not of its type, string"),
        ("bytes", "a", "not of its type, bytes"),
        ("null", 0, "not of its type, null"),
        ({"type": "fixed", "name": "F", "size": 2}, b"abc", r"fixed F \(2 bytes\)"),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, "B", "'B'"),
        ({"type": "array", "items": "int"}, {"a": 1}, "not of its type, array"),
        ({"type": "array", "items": "int"}, [1, "a"], r"f0\[\]' is 'a'"),
        ({"type": "map", "values": "int"}, {1: 1}, "not of its type, map"),
        ({"type": "map", "values": "int"}, {"a": "b"}, "f0{}' is 'b'"),
        (["null", "int", "string"], 1.5, "union of null, int, string"),
        (record("int", name="Inner"), {}, "has no field 'f0.f0', and the schema no default"),
        (record("int", name="Inner"), {"f0": 1, "f1": 2}, "no field for 'f0.f1': leave it out"),
        (record("int", name="Inner"), [1], "not of its type, record Inner"),
        (of("long", "timestamp-millis"), datetime.datetime(2020, 1, 1), "has no time zone"),
        (of("long", "local-timestamp-millis"), datetime.datetime(2020, 1, 1, tzinfo=UTC), "has a time zone"),
        (
            of("long", "timestamp-millis"),
            datetime.datetime(2020, 1, 1, 0, 0, 0, 1, UTC),
            "more exact than milliseconds",
        ),
        (of("bytes", "decimal", precision=4, scale=1), Decimal("1.25"), "more than 1 digits behind the point"),
        (of("bytes", "decimal", precision=4, scale=1), Decimal("12345"), "more than 4 digits"),
        (of("bytes", "decimal", precision=4, scale=1), Decimal("NaN"), "not a finite number"),
    ],
)
def test_a_value_that_does_not_fit_is_told_with_its_path(schema, value, said):
    with pytest.raises(RecordError, match=said) as refused:
        encode(record(schema), {"f0": value})
    assert str(refused.value).endswith(".")


@pytest.mark.parametrize(
    ("schema", "payload", "said"),
    [
        ("int", b"", "ends too early"),
        ("string", b"\4\xc3\x28", "not UTF-8"),
        ("boolean", b"\2", "neither 0 nor 1"),
        (["null", "int"], b"\4", "no branch"),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, b"\2", "no symbol"),
        ({"type": "array", "items": "int"}, b"\x80" * 8 + b"\x20", "there cannot be as many items"),
        ({"type": "array", "items": "null"}, b"\x80" * 8 + b"\x20", "too many items or fields that take no bytes"),
        ({"type": "array", "items": "int"}, b"\3\2\2\4\0", "a block is not as long as it says"),
        (of("bytes", "decimal", precision=3), b"\4\x03\xe8", "more digits"),
        ("double", bytes(7), "ends too early"),
        ("int", b"\2\2", "bytes are left"),
    ],
)
def test_a_payload_that_is_not_of_the_schema_is_told(schema, payload, said):
    with pytest.raises(RecordError, match=said):
        decode(payload, record(schema))


def test_schemas_that_do_not_resolve_are_refused():
    with pytest.raises(SchemaError, match="cannot be read as"):
        AvroRowDecoder('"string"', '"int"')


@settings(deadline=None, max_examples=200)
@given(st.datetimes(timezones=st.sampled_from([None, UTC, datetime.timezone(datetime.timedelta(hours=5, minutes=30))])))
def test_times_of_every_year_and_zone_are_the_numbers_that_datetime_computes(at):
    number = (at.replace(tzinfo=at.tzinfo or UTC) - datetime.datetime(1970, 1, 1, tzinfo=UTC)) // datetime.timedelta(
        microseconds=1
    )
    for name, units in (("micros", 1), ("millis", 1000)):
        logical = f"{'local-' if at.tzinfo is None else ''}timestamp-{name}"
        if number % units:
            with pytest.raises(RecordError, match="more exact than milliseconds"):
                encode(of("long", logical), at)
        else:
            assert encode(of("long", logical), at) == encode("long", number // units)
    assert encode(of("int", "date"), at.date()) == encode("int", at.toordinal() - 719_163)


def test_an_encoder_writes_short_values_after_long_ones_and_after_errors():
    encoder = AvroRowEncoder(json.dumps({"type": "array", "items": "string"}))
    for texts in (["a" * 100_000], ["b"], ["c" * 30_000], []):
        assert encoder.encode_one(texts, b"\0") == b"\0" + encode({"type": "array", "items": "string"}, texts)
        with pytest.raises(RecordError):
            encoder.encode_one([*texts, 7])


@pytest.mark.parametrize(
    ("union", "value", "number"),
    [
        (["float", "double"], 0.1, 1), (["float", "double"], 1e300, 1), (["float", "double"], 0.5, 0),
        (["float", "double"], float("inf"), 0), (["double", "long"], (1 << 53) + 1, 1), (["null", "float"], 0.1, 1),
        (["double", "string"], 3, 0),
    ],
)  # fmt: skip
def test_of_a_union_the_first_branch_that_holds_all_of_a_value_is_taken(union, value, number):
    assert encode(union, value)[0] == 2 * number


def test_nanoseconds_of_pandas_are_written_or_refused():
    pandas = pytest.importorskip("pandas")
    for text in ("2024-01-01T00:00:05.678901234Z", "1960-01-01T00:00:05.678901934Z"):
        moment = pandas.Timestamp(text)
        assert decode(encode(of("long", "timestamp-nanos"), moment), of("long", "timestamp-nanos")) == moment.value
        for unit in ("micros", "millis"):
            with pytest.raises(RecordError, match=f"more exact than {unit[:5]}"):
                encode(of("long", f"timestamp-{unit}"), moment)
    assert encode(of("long", "timestamp-micros"), pandas.Timestamp("1970-01-01T00:00:00.000001Z")) == b"\2"


def test_a_time_with_a_zone_is_refused():
    with pytest.raises(RecordError, match="has a time zone, which the type has not"):
        encode(of("long", "time-micros"), datetime.time(1, 2, tzinfo=UTC))


@pytest.mark.parametrize("logical", ["timestamp-millis", "timestamp-nanos", "local-timestamp-micros"])
def test_no_time_is_not_a_time(logical):
    pandas = pytest.importorskip("pandas")
    with pytest.raises(RecordError, match="The value is NaT: give None where there is no value"):
        encode(of("long", logical), pandas.NaT)
