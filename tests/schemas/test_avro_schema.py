"""Schemas of Avro: names, namespaces, references as the specification has them; faults are told with their place."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

from ottla.errors import RecordError
from ottla.schemas.avro.decode import AvroDecoder
from ottla.schemas.avro.decode_rows import AvroRowDecoder
from ottla.schemas.avro.encode import AvroEncoder
from ottla.schemas.avro.encode_rows import AvroRowEncoder
from ottla.schemas.avro.schema import TEXT_CHARACTERS_MAX, SchemaError, parse_schema


def parse(schema: Any, **references: Any) -> Any:
    return parse_schema(json.dumps(schema), {name: json.dumps(each) for name, each in references.items()})


def record(name: str, *fields: Any, **more: Any) -> dict[str, Any]:
    parts = [{"name": f"f{i}", "type": each} for i, each in enumerate(fields)]
    return {"type": "record", "name": name, "fields": parts, **more}


def test_names_take_the_namespace_around_them():
    inner = record("Inner", "int")
    parsed = parse(record("Outer", inner, "Inner", "a.Inner", record("b.Other", record("Deep")), namespace="a"))
    assert parsed.name == "a.Outer"
    assert [each.type.name for each in parsed.fields] == ["a.Inner", "a.Inner", "a.Inner", "b.Other"]
    assert parsed.fields[3].type.fields[0].type.name == "b.Deep"


def test_a_type_may_name_itself():
    parsed = parse(record("Node", ["null", "Node"]))
    assert parsed.fields[0].type.branches[1] is parsed


def test_aliases_take_the_namespace_too():
    assert parse(record("R", aliases=["S", "x.T"], namespace="n")).aliases == ("n.S", "x.T")


def test_references_are_found_by_name_whatever_their_order():
    a = record("shop.Address", "string")
    customer = record("shop.Customer", "shop.Address")
    order = record("shop.Order", "Customer", "Address")
    for names in (["shop.Customer", "shop.Address"], ["shop.Address", "shop.Customer"], ["other", "names"]):
        texts = {names[0]: json.dumps(customer if "Cust" in names[0] or names[0] == "other" else a)}
        texts[names[1]] = json.dumps(a if texts[names[0]] == json.dumps(customer) else customer)
        parsed = parse_schema(json.dumps(order), texts)
        assert parsed.fields[0].type.fields[0].type is parsed.fields[1].type


def test_references_may_name_each_other():
    parsed = parse(record("R", "A"), A=record("A", "B"), B=record("B", ["null", "A"]))
    a = parsed.fields[0].type
    assert a.fields[0].type.fields[0].type.branches[1] is a


def test_a_reference_that_defines_another_name_is_no_help():
    with pytest.raises(SchemaError, match="there is no type 'A'"):
        parse(record("R", "A"), A=record("B"))


def test_a_type_may_be_an_object_within_the_word_type():
    assert parse({"type": {"type": "array", "items": {"type": "int"}}}).items.kind == "int"


def test_an_error_is_a_record():
    assert parse({"type": "error", "name": "E", "fields": []}).kind == "record"


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        (7, "a type is a name, an object or a list of types, not 7"),
        ({}, 'an object has no "type"'),
        ("strin", "there is no type 'strin'"),
        ({"type": None}, '"type" is a name, not None'),
        ({"type": "array"}, 'a type "array" has no "items"'),
        ({"type": "map"}, 'a type "map" has no "values"'),
        ({"type": "record", "fields": []}, 'a type "record" has no "name"'),
        ({"type": "record", "name": "a b", "fields": []}, "'a b' is not a name"),
        ({"type": "record", "name": "R"}, 'the record R has no list "fields"'),
        ({"type": "record", "name": "R", "fields": [7]}, "the record R has a field whose name is None"),
        ({"type": "record", "name": "R", "fields": [{"name": "f"}]}, "at 'f': the field has no \"type\""),
        ({"type": "fixed", "name": "F"}, '"size" is a number from 0 to 2147483647, not missing'),
        ({"type": "fixed", "name": "F", "size": -1}, "not -1"),
        ({"type": "fixed", "name": "F", "size": True}, "not True"),
        ({"type": "enum", "name": "E"}, 'the enum E has no "symbols"'),
        ({"type": "enum", "name": "E", "symbols": ["A", "A"]}, "has a symbol twice"),
        ({"type": "enum", "name": "E", "symbols": ["a-b"]}, "'a-b', a symbol of the enum E, is not a name"),
        ({"type": "enum", "name": "E", "symbols": ["A"], "default": "B"}, "'B', the default of the enum E"),
        ({"type": "enum", "name": "E", "symbols": "A"}, '"symbols" is a list of names'),
        ([], "a union holds no type"),
        (["int", ["null"]], "a union holds a union"),
        (["int", {"type": "int", "logicalType": "date"}], "a union holds 'int' twice"),
        (record("R", record("R")), "at 'f0': the name 'R' is defined twice"),
        (record("int"), "the name 'int' is defined twice"),
        (record("R", {"type": "array", "items": record("S", "x")}), r"at 'f0\[\].f0': there is no type 'x'"),
        ({**record("R"), "fields": [{"name": "f", "type": "int"}] * 2}, "at 'f': the record R has this field twice"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_told_with_its_place(schema, said):
    with pytest.raises(SchemaError, match=said) as refused:
        parse(schema)
    assert str(refused.value).startswith("The Avro schema cannot be used")


@pytest.mark.parametrize("text", ["", "{", "int", '"\\ud800', "[1,]", "9" * 5000])
def test_what_is_not_json_is_told(text):
    with pytest.raises(SchemaError, match="it is not JSON"):
        parse_schema(text)


@pytest.mark.parametrize("use", [AvroDecoder, AvroRowDecoder, AvroEncoder, AvroRowEncoder])
def test_a_schema_is_given_as_text(use):
    with pytest.raises(SchemaError, match=r"given as text \(str\), not as bytes"):
        use(b'"int"')


def nested(depth: int) -> Any:
    schema: Any = "int"
    for _ in range(depth):
        schema = {"type": "array", "items": schema}
    return schema


def doubling(levels: int) -> Any:
    """A schema of a few lines with 2^levels columns."""
    fields: Any = "int"
    for level in range(levels):
        fields = record(f"R{level}", fields, f"R{level - 1}" if level else "int")
    return fields


def test_a_column_that_may_be_null_is_one_column():
    schema = record("R", *[["null", "int"]] * 9_000)
    assert len(pa.array(AvroDecoder(json.dumps(schema)).decode(pa.array([b"\0" * 9_000]))).type) == 9_000


def test_schemas_are_limited():
    with pytest.raises(SchemaError, match="nested deeper than 64 types"):
        parse(nested(65))
    with pytest.raises(SchemaError, match="nested too deep"):
        parse_schema('{"type":"array","items":' * 100_000)
    with pytest.raises(SchemaError, match="at most 4194304 characters"):
        parse_schema(" " * (TEXT_CHARACTERS_MAX + 1))
    with pytest.raises(SchemaError, match="more than 50000 types"):
        parse({"type": "record", "name": "R", "fields": [{"name": f"f{i}", "type": "int"} for i in range(50_001)]})
    with pytest.raises(SchemaError, match="nested deeper than 64 types"):
        parse(record("R", "R0"), **{f"R{i}": record(f"R{i}", f"R{i + 1}") for i in range(1000)})
    with pytest.raises(SchemaError, match="more than 10000 columns"):
        AvroDecoder(json.dumps(doubling(40)))


# ---------------------------------------------------------------------- schemas that are large by what they refer to


def holding(levels: int, first: Any, default: Any = None) -> dict[str, Any]:
    """A record that holds another one twice, and so on: a few lines, and 2^levels times the first."""
    inner = first
    for level in range(levels):
        fields = [{"name": "a", "type": inner}, {"name": "b", "type": inner["name"]}]
        for each in fields if default is not None else ():
            each["default"] = default
        inner = {"type": "record", "name": f"R{level}", "fields": fields}
    return inner


EMPTY = {"type": "record", "name": "Empty", "fields": []}


def test_records_that_hold_each_other_without_end_are_passed_over_at_once():
    writer = record("Outer", holding(40, EMPTY), "int")
    reader = {**writer, "fields": writer["fields"][1:]}
    rows = AvroDecoder(json.dumps(writer), json.dumps(reader)).decode(pa.array([b"\2"]))
    assert pa.array(rows).to_pylist() == [{"f1": 1}]
    assert AvroRowDecoder(json.dumps(writer), json.dumps(reader)).decode_one(b"\2") == {"f1": 1}


def test_records_that_hold_each_other_without_end_are_no_object():
    decoder = AvroRowDecoder(json.dumps(holding(40, EMPTY)))
    with pytest.raises(RecordError, match="too many items or fields that take no bytes"):
        decoder.decode_one(b"")
    with pytest.raises(RecordError, match="too many items or fields that take no bytes"):
        AvroRowDecoder(json.dumps({"type": "array", "items": holding(40, EMPTY)})).decode_one(b"\2\0")


def test_defaults_that_hold_each_other_without_end_are_refused():
    reader = {"type": "record", "name": "Reader", "fields": []}
    writer = json.dumps(reader)
    reader["fields"] = [{"name": "x", "type": holding(40, EMPTY, {}), "default": {}}]
    for use in (lambda: AvroRowDecoder(writer, json.dumps(reader)), lambda: AvroRowEncoder(json.dumps(reader))):
        with pytest.raises(SchemaError, match="too large, or the defaults of all fields together are"):
            use()


def test_a_long_default_that_is_used_often_is_refused():
    text = {"type": "record", "name": "Text", "fields": [{"name": "t", "type": "string", "default": "x" * (1 << 20)}]}
    fields = [{"name": f"f{i}", "type": "Text", "default": {}} for i in range(100)]
    fields[0]["type"] = text
    reader = {"type": "record", "name": "R", "fields": fields}
    with pytest.raises(SchemaError, match="too large, or the defaults of all fields together are"):
        AvroDecoder(json.dumps({**reader, "fields": []}), json.dumps(reader))


def test_large_unions_and_many_aliases_are_compared_in_a_bounded_time():
    def union(prefix: str) -> list[Any]:
        return [{"type": "fixed", "name": f"{prefix}{i}", "size": 1} for i in range(2000)]

    with pytest.raises(SchemaError, match="takes more than 200000 steps"):
        AvroDecoder(json.dumps(union("A")), json.dumps(["null", *union("B")]))
    more = AvroDecoder(json.dumps(union("A")), json.dumps(["null", *union("A")]))
    last = pa.array(more.decode(pa.array([b"\x9e\x1fx"])))[0]
    assert last["member1999"].as_py() == b"x"
    aliases = [f"n.a{i}" for i in range(100_000)]
    reader = [{"type": "fixed", "name": f"B{i}", "size": 1, "aliases": aliases if i == 0 else []} for i in range(50)]
    decoder = AvroDecoder(json.dumps({"type": "fixed", "name": "a99999", "size": 1}), json.dumps(reader))
    assert pa.array(decoder.decode(pa.array([b"x"])))[0]["member0"].as_py() == b"x"
