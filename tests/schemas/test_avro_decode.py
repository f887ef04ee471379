"""Payloads of Avro as columns: the values that fastavro reads, as written and as another schema; the rest refused."""

from __future__ import annotations

import datetime
import json
import struct
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.schemas.avro_drawn import Names, as_columns, decoded, defaults, encoded, evolved, records, types, values

from ottla.errors import RecordError
from ottla.schemas.avro.decode import AvroDecoder, FramedAvroDecoder
from ottla.schemas.avro.decode_rows import AvroRowDecoder
from ottla.schemas.avro.schema import SchemaError
from ottla.schemas.framing import id_prefix


def decode(payloads: list[bytes | None], writer: Any, reader: Any = None, **how: Any) -> pa.Array:
    decoder = AvroDecoder(json.dumps(writer), None if reader is None else json.dumps(reader))
    array = pa.array(decoder.decode(pa.array(payloads, pa.binary()), **how))
    array.validate(full=True)
    return array


def rows(payloads: list[bytes | None], writer: Any, reader: Any = None, **how: Any) -> list[Any]:
    return decode(payloads, writer, reader, **how).to_pylist()


def record(*fields: Any, name: str = "R") -> dict[str, Any]:
    return {
        "type": "record",
        "name": name,
        "fields": [{"name": f"f{i}", "type": each} for i, each in enumerate(fields)],
    }


@settings(deadline=None, max_examples=300)
@given(st.data())
def test_what_fastavro_wrote_is_read_back(data):
    schema = data.draw(types(Names()))
    written = data.draw(st.lists(values(schema), max_size=6))
    payloads = [encoded(schema, each) for each in written]
    assert rows(payloads, schema) == [as_columns(schema, each) for each in written]


@settings(deadline=None, max_examples=300)
@given(st.data())
def test_what_one_schema_wrote_is_read_as_another_as_fastavro_does(data):
    names = Names()
    writer = data.draw(records(names))
    reader = data.draw(evolved(writer, names))
    payloads = [encoded(writer, each) for each in data.draw(st.lists(values(writer), max_size=4))]
    expected = [as_columns(reader, with_defaults(reader, decoded(each, writer, reader))) for each in payloads]
    assert rows(payloads, writer, reader) == expected


def with_defaults(type_: Any, value: Any) -> Any:
    """fastavro gives a default as JSON has it: bytes are made of what is text there."""
    if isinstance(type_, list):
        return value if value is None else with_defaults(next(each for each in type_ if each != "null"), value)
    kind = type_ if isinstance(type_, str) else type_["type"]
    if kind in ("bytes", "fixed") and isinstance(value, str):
        return value.encode("latin-1")
    if kind == "record":
        return {
            each["name"]: with_defaults(each["type"], value.get(each["name"], each.get("default")))
            for each in type_["fields"]
        }
    if kind == "array":
        return [with_defaults(type_["items"], each) for each in value]
    if kind == "map":
        return {key: with_defaults(type_["values"], each) for key, each in value.items()}
    return value


UTC = datetime.UTC


def of(kind: str, logical: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, "logicalType": logical, **more}


LOGICAL = [
    (of("int", "date"), datetime.date(1969, 12, 31), pa.date32()),
    (of("int", "time-millis"), datetime.time(23, 59, 59, 999000), pa.time32("ms")),
    (of("long", "time-micros"), datetime.time(23, 59, 59, 999999), pa.time64("us")),
    (of("long", "timestamp-millis"), datetime.datetime(1960, 1, 2, tzinfo=UTC), pa.timestamp("ms", "UTC")),
    (of("long", "timestamp-micros"), datetime.datetime(2300, 1, 2, tzinfo=UTC), pa.timestamp("us", "UTC")),
    (of("long", "local-timestamp-millis"), datetime.datetime(2020, 1, 2), pa.timestamp("ms")),
    (of("long", "local-timestamp-micros"), datetime.datetime(2020, 1, 2), pa.timestamp("us")),
    (of("bytes", "decimal", precision=38, scale=3), Decimal("-" + "9" * 35 + ".999"), pa.decimal128(38, 3)),
    (of("bytes", "decimal", precision=76), Decimal("9" * 76), pa.decimal256(76, 0)),
    (of("fixed", "decimal", name="D", size=20, precision=20, scale=2), Decimal("-1.00"), pa.decimal128(20, 2)),
]


@pytest.mark.parametrize(("type_", "value", "arrow"), LOGICAL)
def test_logical_types_have_arrows_own_types(type_, value, arrow):
    array = decode([encoded(["null", type_], each) for each in (value, None)], ["null", type_])
    assert array.type == arrow
    assert array.to_pylist() == [value, None]


@pytest.mark.parametrize(
    "type_",
    [
        {"type": "string", "logicalType": "decimal", "precision": 3},
        {"type": "int", "logicalType": "timestamp-millis"},
        {"type": "int", "logicalType": "of-nobody"},
        {"type": "int", "logicalType": 7},
        {"type": "bytes", "logicalType": "decimal"},
        {"type": "bytes", "logicalType": "decimal", "precision": 2, "scale": 3},
        {"type": "fixed", "name": "F", "size": 1, "logicalType": "decimal", "precision": 3},
        {"type": "fixed", "name": "F", "size": 15, "logicalType": "uuid"},
    ],
)
def test_logical_types_that_do_not_fit_are_ignored(type_):
    decoder = AvroDecoder(json.dumps(type_))
    plain = AvroDecoder(json.dumps({**type_, "logicalType": "none"}))
    assert pa.DataType._import_from_c_capsule(decoder.__arrow_c_schema__()) == pa.DataType._import_from_c_capsule(
        plain.__arrow_c_schema__()
    )


def test_a_row_without_a_payload_is_null():
    assert rows([None, b"\2"], "int") == [None, 1]
    assert rows([None, b"\2"], record("int")) == [None, {"f0": 1}]


def test_bytes_in_front_are_skipped():
    assert rows([b"\0\0\0\0\7\2"], "int", skip=5) == [1]
    with pytest.raises(RecordError, match="Row 0 cannot be decoded: there are fewer bytes than the prefix has"):
        rows([b"\0\0\0\0"], "int", skip=5)


def test_columns_of_any_layout_and_several_chunks_are_read():
    decoder = AvroDecoder('"int"')
    for kind in (pa.binary(), pa.large_binary(), pa.binary_view(), pa.dictionary(pa.int8(), pa.binary())):
        column = pa.chunked_array([pa.array([b"\2", None], kind), pa.array([b"\4"], kind)])
        assert pa.array(decoder.decode(column)).to_pylist() == [1, None, 2]
    assert pa.array(decoder.decode(pa.array([b"\2", b"\4", None, b"\6"])[1:])).to_pylist() == [2, None, 3]


def test_what_is_no_column_of_payloads_is_told():
    with pytest.raises(RecordError, match="The payloads are of type int64; they have to be of type binary"):
        AvroDecoder('"int"').decode(pa.array([1]))
    with pytest.raises(SchemaError, match="The mode is 'fail' or 'null', not 'x'"):
        AvroDecoder('"int"').decode(pa.array([b""]), mode="x")


def test_blocks_with_their_size_are_read_and_skipped():
    sized = b"\3\4\2\4" + b"\2\6" + b"\0"  # two items in two bytes, then one, then none
    assert rows([sized], {"type": "array", "items": "int"}) == [[1, 2, 3]]
    writer = record({"type": "array", "items": "int"}, "int")
    reader = {**writer, "fields": writer["fields"][1:]}
    assert rows([sized + b"\x08"], writer, reader) == [{"f1": 4}]


LONG = b"\xff" * 10
COUNT = b"\x80" * 8 + b"\x20"  # 2^60


@pytest.mark.parametrize(
    ("schema", "payload", "said"),
    [
        ("int", b"", "the payload ends too early"),
        ("int", b"\x80", "the payload ends too early"),
        ("int", LONG, "longer than ten bytes"),
        ("int", b"\x80\x80\x80\x80\x20", "does not fit 32 bits"),
        ("long", b"\xff" * 9 + b"\x02", "longer than ten bytes"),
        ("int", b"\2\2", "bytes are left"),
        ("boolean", b"\2", "neither 0 nor 1"),
        ("double", bytes(7), "ends too early"),
        ("string", b"\1", "a length is negative"),
        ("string", b"\x06ab", "ends too early"),
        ("string", LONG[:9] + b"\1", "ends too early|length is negative"),
        ("string", b"\4\xc3\x28", "not UTF-8"),
        ("string", b"\6\xed\xa0\x80", "not UTF-8"),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, b"\2", "no symbol of that number"),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, b"\1", "no symbol of that number"),
        (["null", "int"], b"\4", "no branch of that number"),
        (["null", "int"], b"\1", "no branch of that number"),
        ({"type": "array", "items": "int"}, COUNT, "there cannot be as many items"),
        ({"type": "array", "items": "int"}, b"\xff" * 9 + b"\1", "there cannot be as many items"),
        ({"type": "array", "items": "int"}, b"\3\2\2\4\0", "a block is not as long as it says"),
        ({"type": "array", "items": "int"}, b"\3\x10\2\4\0", "a block is not as long as it says"),
        ({"type": "array", "items": "null"}, COUNT, "too many items or fields that take no bytes"),
        ({"type": "array", "items": record(name="Empty")}, COUNT, "too many items or fields that take no bytes"),
        ({"type": "map", "values": "null"}, COUNT, "there cannot be as many items"),
        ({"type": "map", "values": "int"}, b"\2\2\xff\2\0", "not UTF-8"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 3}, b"\4\x03\xe8", "more digits than its type"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 3}, b"\4\xfc\x18", "more digits than its type"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 38}, b"\x24" + b"\1" + bytes(17), "more digits"),
        (of("int", "time-millis"), b"\x80\xf0\xb2\x52", "not between 0 and 24 hours"),  # 86,400,000
        (of("int", "time-millis"), b"\1", "not between 0 and 24 hours"),
        (of("long", "time-micros"), b"\x80\x80\xbb\xdd\x83\x05", "not between 0 and 24 hours"),
    ],
)
def test_a_payload_that_is_not_of_the_schema_is_told_with_row_and_field(schema, payload, said):
    in_record = record("int", record(schema, name="Inner"))
    for mode in ("fail", "null"):
        if mode == "fail":
            with pytest.raises(RecordError, match=f"^Row 1 cannot be decoded: .*({said})"):
                rows([b"\2" + encoded(schema, sample(schema)), b"\2" + payload], in_record)
            continue
        good = b"\2" + encoded(schema, sample(schema))
        array = decode([good, b"\2" + payload, good], in_record, mode=mode)
        assert array.is_valid().to_pylist() == [True, False, True]
        assert array[0] == array[2]


def sample(schema: Any) -> Any:
    if isinstance(schema, dict) and schema.get("logicalType") == "decimal":
        return Decimal(7)
    if isinstance(schema, dict) and schema.get("logicalType", "").startswith("time-"):
        return datetime.time(7)
    return defaults(schema) if not isinstance(schema, dict) or schema["type"] != "map" else {}


@settings(deadline=None, max_examples=1000)
@given(st.text(max_size=20), st.integers(0, 40), st.binary(max_size=2), st.integers(0, 2))
def test_a_text_is_utf8_as_python_has_it(text, at, other, instead):
    data = text.encode("utf-8", "surrogatepass")
    data = data[:at] + other + data[at + instead :]
    try:
        expected = data.decode()
    except UnicodeDecodeError:
        expected = None
    assert rows([encoded("bytes", data)], "string", mode="null") == [expected]


def test_the_field_is_named_by_its_path():
    schema = record({"type": "array", "items": {"type": "map", "values": record("int", name="Inner")}})
    with pytest.raises(RecordError, match=r"field 'f0\[\]\{\}\.f0': the payload ends too early \(at byte 4 of 4\)"):
        rows([b"\2\2\2a"], schema)


def test_rows_that_fail_are_kept_with_their_reason():
    decoder = AvroDecoder('"int"')
    decoded = decoder.decode(pa.array([b"\2", b"", b"\4\4"]), mode="null")
    assert [row for row, _ in decoded.failed_rows] == [1, 2]
    assert decoded.failed_count == 2
    assert "ends too early" in decoded.failed_rows[0][1]


def test_memory_is_limited_whatever_the_schema_makes_of_a_few_bytes():
    schema = ["null", {"type": "fixed", "name": "F", "size": 1 << 30}]
    with pytest.raises(RecordError, match="more memory than 'memory_bytes_max' allows"):
        rows([b"\0"] * 3, schema)
    with pytest.raises(RecordError, match="memory_bytes_max"):
        rows([b"\2" + struct.pack("<d", 1)] * 100, ["null", "double"], memory_bytes_max=500)


# ---------------------------------------------------------------------- resolution


def test_fields_are_found_by_name_and_alias_in_any_order_and_defaults_fill_the_rest():
    writer = record("int", "string", "long")
    reader = {
        "type": "record",
        "name": "R",
        "fields": [
            {"name": "g", "type": "double", "aliases": ["f2"]},
            {"name": "new", "type": {"type": "array", "items": ["null", "string"]}, "default": [None, "x"]},
            {"name": "f0", "type": ["null", "long"]},
        ],
    }
    assert rows([b"\2\2a\6"], writer, reader) == [{"g": 3.0, "new": [None, "x"], "f0": 1}]


def test_a_value_goes_to_the_first_branch_that_matches():
    assert rows([b"\2"], "int", ["string", "double", "long"]) == [{"member0": None, "member1": 1.0, "member2": None}]


def test_a_branch_without_a_place_fails_when_a_payload_has_it():
    assert rows([b"\0\2"], ["int", "string"], "long") == [1]
    with pytest.raises(
        RecordError, match="Row 0 cannot be decoded: the writer's string cannot be read as the reader's long"
    ):
        rows([b"\2\2a"], ["int", "string"], "long")


def test_decimals_may_become_wider():
    writer, reader = (of("bytes", "decimal", precision=digits, scale=2) for digits in (4, 40))
    array = decode([encoded(writer, Decimal("-12.34"))], writer, reader)
    assert (array.type, array.to_pylist()) == (pa.decimal256(40, 2), [Decimal("-12.34")])
    with pytest.raises(SchemaError, match="cannot be read as"):
        decode([], reader, writer)


def test_a_symbol_without_a_place_is_the_default_or_fails():
    writer = {"type": "enum", "name": "E", "symbols": ["A", "B"]}
    assert rows([b"\2"], writer, {**writer, "symbols": ["C", "A"], "default": "C"}) == ["C"]
    with pytest.raises(RecordError, match="the symbol 'B' is not in the reader's enum"):
        rows([b"\2"], writer, {**writer, "symbols": ["A"]})


def test_a_type_that_contains_itself_is_passed_over_and_else_refused():
    node = {"type": "record", "name": "Node", "fields": [{"name": "next", "type": ["null", "Node"]}]}
    writer = record(node, "int")
    reader = {**writer, "fields": writer["fields"][1:]}
    assert rows([b"\2\2\0\x08"], writer, reader) == [{"f1": 4}]
    with pytest.raises(RecordError, match="nested too deep"):
        rows([b"\2" * 5000 + b"\0\x08"], writer, reader)
    with pytest.raises(SchemaError, match=r"The record Node contains itself at 'f0\.next'"):
        AvroDecoder(json.dumps(writer))


@pytest.mark.parametrize(
    ("writer", "reader", "said"),
    [
        ("string", "int", "writer's string cannot be read as the reader's int"),
        ("long", "int", "writer's long cannot be read"),
        (record("int"), record("string"), "writer's int at 'f0' cannot be read"),
        (record("int"), record("int", name="Other"), "record R cannot be read as the reader's record Other"),
        (
            "string",
            of("bytes", "decimal", precision=4, scale=1),
            r"string cannot be read as the reader's bytes \(decimal",
        ),
        (record(), record("int"), "no field 'f0', and the reader's has no default"),
        (["int", "string"], "boolean", "cannot be read"),
        ({"type": "fixed", "name": "F", "size": 2}, {"type": "fixed", "name": "F", "size": 3}, "cannot be read"),
        ({"type": "array", "items": "int"}, {"type": "array", "items": "string"}, "cannot be read"),
        (
            {"type": "long", "logicalType": "timestamp-millis"},
            {"type": "long", "logicalType": "timestamp-micros"},
            r"long \(timestamp-millis\) cannot be read as the reader's long \(timestamp-micros\)",
        ),
        (
            {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 1},
            {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2},
            "cannot be read",
        ),
    ],
)
def test_schemas_that_do_not_resolve_are_refused_in_a_sentence(writer, reader, said):
    with pytest.raises(SchemaError, match=said):
        AvroDecoder(json.dumps(writer), json.dumps(reader))


_DAY = {"type": "int", "logicalType": "date"}
_INSTANT = {"type": "long", "logicalType": "timestamp-millis"}


@pytest.mark.parametrize(
    ("union", "number", "value"),
    [
        (["double", "long"], 1, (1 << 60) + 1),
        (["float", "int"], 1, 16_777_217),
        (["bytes", "string"], 1, "x"),
        (["string", "bytes"], 1, b"\xff"),
        (["null", _INSTANT, _DAY], 2, datetime.date(2024, 5, 6)),
        (["null", of("bytes", "decimal", precision=20, scale=2), "string"], 2, "hello"),
        ([record("int", name="a.Event"), record("int", "int", name="b.Event")], 1, {"f0": 1, "f1": 2}),
    ],
)
@pytest.mark.parametrize("rest", [None, ["int"]], ids=["the-same", "a-field-more"])
def test_a_union_is_read_branch_by_branch_as_one_with_the_same_branches(union, number, value, rest):
    written = union[number]
    payload = struct.pack("b", 2 * number) + encoded(written, value)
    reader = None if rest is None else json.loads(json.dumps(record(union)))
    if reader is not None:
        reader["fields"].append({"name": "more", "type": "int", "default": 7})
    found = rows([payload], record(union), reader)[0]["f0"]
    held = [each for each in union if each != "null"]
    assert found == {f"member{i}": value if each is written else None for i, each in enumerate(held)}
    decoder = AvroRowDecoder(json.dumps(record(union)), None if reader is None else json.dumps(reader))
    assert decoder.decode_one(payload)["f0"] == value


def test_of_a_union_the_branch_that_is_most_like_the_writers_type_is_taken():
    long = encoded("long", (1 << 60) + 1)
    assert rows([long], "long", ["null", "double", "long"]) == [{"member0": None, "member1": (1 << 60) + 1}]
    assert rows([encoded("int", 9)], _DAY, [_INSTANT, _DAY])[0]["member1"] == datetime.date(1970, 1, 10)


def test_a_record_that_does_not_resolve_in_a_branch_does_not_resolve_elsewhere_either():
    writer, reader = record("int", name="In"), record("int", "string", name="In")
    outer = {
        "type": "record",
        "name": "Out",
        "fields": [{"name": "a", "type": ["null", writer]}, {"name": "b", "type": "In"}],
    }
    wanted = json.loads(json.dumps(outer))
    wanted["fields"][0]["type"][1] = reader
    for decoder in (AvroDecoder, AvroRowDecoder):
        with pytest.raises(SchemaError, match=r"has no field 'b\.f1', and the reader's has no default"):
            decoder(json.dumps(outer), json.dumps(wanted))


def test_a_name_counts_before_an_alias():
    writer = {"type": "record", "name": "R", "fields": [{"name": "old", "type": "int"}, {"name": "new", "type": "int"}]}
    reader = {"type": "record", "name": "R", "fields": [{"name": "new", "type": "int", "aliases": ["old"]}]}
    assert rows([b"\2\4"], writer, reader) == [{"new": 2}]


@pytest.mark.parametrize("decoder", [AvroDecoder, AvroRowDecoder])
@pytest.mark.parametrize("skipped", [False, True])
def test_a_chain_of_records_that_names_hide_is_refused(decoder, skipped):
    records = [{"type": "record", "name": "R0", "fields": []}]
    records += [
        {"type": "record", "name": f"R{i}", "fields": [{"name": "f", "type": f"R{i - 1}"}]} for i in range(1, 1500)
    ]
    writer = {"type": "record", "name": "Top", "fields": [{"name": "f", "type": "R1499"}]}
    reader = {"type": "record", "name": "Top", "fields": []} if skipped else writer
    # Branches of a union, so that no text is deep.
    references = {"R1499": json.dumps(records)}
    with pytest.raises(SchemaError, match="nested deeper than 128 types"):
        decoder(json.dumps(writer), json.dumps(reader), references=references)


@pytest.mark.parametrize("decoder", [AvroDecoder, AvroRowDecoder])
@pytest.mark.parametrize("skipped", [False, True])
def test_a_chain_of_arrays_that_names_hide_is_refused(decoder, skipped):
    def around(type_):
        for _ in range(58):
            type_ = {"type": "array", "items": type_}
        return type_

    records = [record("int", name="R0"), *(record(around(f"R{i - 1}"), name=f"R{i}") for i in range(1, 11))]
    writer = record("R10", name="Top")
    reader = record(name="Top") if skipped else writer
    with pytest.raises(SchemaError, match="nested deeper than 128 types"):
        decoder(json.dumps(writer), json.dumps(reader), references={"R10": json.dumps(records)})


def test_the_deepest_value_is_bounded_for_small_stacks():
    inner: str | dict[str, Any] = "T"
    for _ in range(60):
        inner = {"type": "array", "items": inner}
    schemas = json.dumps(record(record(inner, name="T"), name="Top")), json.dumps(record(name="Top"))
    # Each array has one item, 199 times a T.
    payload = b"\2" * 60 * 199 + b"\0" * 60 * 200
    with pytest.raises(RecordError, match="nested too deep"):
        AvroDecoder(*schemas).decode(pa.array([payload]))
    with pytest.raises(RecordError, match="nested too deep"):
        AvroRowDecoder(*schemas).decode_one(payload)


def test_a_default_goes_to_the_first_branch_that_holds_all_of_it():
    reader = record([record("int", name="A"), {"type": "map", "values": "string"}])
    reader["fields"][0]["default"] = {"k": "v"}
    assert rows([b""], record(), reader) == [{"f0": {"member0": None, "member1": [("k", "v")]}}]
    reader["fields"][0]["default"] = {"k": 1}
    with pytest.raises(SchemaError, match=r"The default of 'f0' has no value for its field 'f0'"):
        rows([b""], record(), reader)


def test_each_schema_is_read_with_its_own_references():
    outer = '{"type": "record", "name": "O", "fields": [{"name": "m", "type": "M"}]}'
    first, second = (
        json.dumps({"type": "record", "name": "M", "fields": [{"name": name, "type": "int"} for name in names]})
        for names in ("ab", "ba")
    )
    references = {"references": {"M": first}, "reader_references": {"M": second}}
    found = pa.array(AvroDecoder(outer, outer, **references).decode(pa.array([b"\2\4"])))
    assert found.to_pylist() == [{"m": {"a": 1, "b": 2}}]
    assert AvroRowDecoder(outer, outer, **references).decode_one(b"\2\4") == {"m": {"a": 1, "b": 2}}


@pytest.mark.parametrize(
    ("type_", "default"),
    [
        ("int", "7"), ("int", 1 << 31), ("int", True), ("string", None), ("bytes", "ā"), (["int", "null"], "x"),
        ({"type": "fixed", "name": "F", "size": 2}, "a"), ({"type": "array", "items": "int"}, ["a"]),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, "B"), (record("int", name="Inner"), {}), ("float", 1e300),
    ],
)  # fmt: skip
def test_a_default_that_is_not_of_its_type_is_named(type_, default):
    reader = {"type": "record", "name": "R", "fields": [{"name": "x", "type": type_, "default": default}]}
    with pytest.raises(SchemaError, match="The default of 'x"):
        AvroDecoder(json.dumps(record()), json.dumps(reader))


# ---------------------------------------------------------------------- several writers


def framed(schema_id: int, payload: bytes) -> bytes:
    return id_prefix(schema_id) + payload


def test_payloads_of_several_schemas_become_the_columns_of_one():
    old, new = record("int"), record("long", ["null", "string"])
    new["fields"][1]["default"] = None
    decoder = FramedAvroDecoder(json.dumps(new))
    payloads = pa.array([framed(1, b"\2"), None, framed(70_000, b"\4\2\2a"), framed(1, b"\6"), b"bare"])
    assert decoder.missing(payloads) == [1, 70_000]
    decoder.add(1, json.dumps(old))
    assert decoder.missing(payloads) == [70_000]
    decoder.add(70_000, json.dumps(new))
    decoded = decoder.decode(payloads, mode="null")
    one, two, three = {"f0": 1, "f1": None}, {"f0": 2, "f1": "a"}, {"f0": 3, "f1": None}
    assert pa.array(decoded).to_pylist() == [one, None, two, three, None]
    assert decoded.failed_rows == [(4, "there are fewer bytes than the prefix has (at byte 0 of 4)")]


@pytest.mark.parametrize(
    ("payload", "said"),
    [
        (framed(7, b"\2"), "Row 1 cannot be decoded: its schema has the id 7, which was not given"),
        (b"\1" + bytes(16) + b"\2", "its first byte is not 0: it has no schema id"),
        (b"\0\xff\xff\xff\xff\2", "id -1, which was not given"),
        (b"", "fewer bytes than the prefix"),
        (framed(3, b""), "field 'f0': the payload ends too early"),
    ],
)
def test_a_payload_whose_schema_is_not_known_is_told(payload, said):
    decoder = FramedAvroDecoder(json.dumps(record("int")))
    with pytest.raises(RecordError, match="id 3, which was not given"):
        decoder.decode(pa.array([framed(3, b"\2")]))
    decoder.add(3, json.dumps(record("int")))
    with pytest.raises(RecordError, match=said):
        decoder.decode(pa.array([framed(3, b"\2"), payload]))


def test_a_writer_that_the_reader_cannot_read_is_refused_when_it_is_added():
    with pytest.raises(SchemaError, match="cannot be read as"):
        FramedAvroDecoder(json.dumps(record("int"))).add(1, json.dumps(record("string")))


def test_threads_may_share_a_decoder():
    decoder = AvroDecoder(json.dumps(record("long", "string")))
    payloads = [pa.array([encoded(record("long", "string"), {"f0": i, "f1": "x" * i})] * 2000) for i in range(8)]
    with ThreadPoolExecutor(8) as pool:
        decoded = list(pool.map(decoder.decode, payloads))
    assert [set(pa.array(each).field("f0").to_pylist()) for each in decoded] == [{i} for i in range(8)]
