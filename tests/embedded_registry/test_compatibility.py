"""Compatibility held against who reads for real: fastavro and jsonschema; and the rules one by one."""

from __future__ import annotations

import io
import json
import re
from typing import Any

import fastavro
import jsonschema
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from ottla.embedded_registry.refusals import Refusal
from ottla.embedded_registry.schema_kinds import Parsed, parse

from .conftest import record

# ---- Avro -------------------------------------------------------------------------------------------------------

PRIMITIVES = st.sampled_from(["null", "boolean", "int", "long", "float", "double", "bytes", "string"])
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "null": st.none(),
    "boolean": st.booleans(),
    "int": st.integers(-(2**31), 2**31 - 1),
    "long": st.integers(-(2**63), 2**63 - 1),
    "float": st.floats(width=32, allow_nan=False),
    "double": st.floats(allow_nan=False),
    # Bytes that are text, which may be read as such.
    "bytes": st.text("abc", max_size=4).map(str.encode),
    "string": st.text("abc", max_size=4),
}
DEFAULTS = {
    "null": None,
    "boolean": True,
    "int": 1,
    "long": 2,
    "float": 0.5,
    "double": 1.5,
    "bytes": "a",
    "string": "b",
}


@st.composite
def types(draw: st.DrawFn, names: tuple[str, ...] = ("A", "B", "C"), depth: int = 0) -> Any:
    kind = draw(st.sampled_from(["primitive"] * 4 + ["array", "map", "union", "enum", "fixed", "record"]))
    if depth > 2 or kind == "primitive" or (kind in ("enum", "fixed", "record") and not names):
        return draw(PRIMITIVES)
    if kind in ("array", "map"):
        return {"type": kind, "items" if kind == "array" else "values": draw(types(names, depth + 1))}
    if kind == "union":
        return draw(st.lists(PRIMITIVES, min_size=1, max_size=3, unique=True))
    name, rest = names[0], names[1:]
    if kind == "enum":
        symbols = draw(st.lists(st.sampled_from("xyz"), min_size=1, max_size=3, unique=True))
        default = {"default": symbols[0]} if draw(st.booleans()) else {}
        return {"type": "enum", "name": name, "symbols": symbols, **default}
    if kind == "fixed":
        return {"type": "fixed", "name": name, "size": draw(st.integers(1, 2))}
    fields = []
    for number in range(draw(st.integers(0, 3))):
        # No name is used by two fields, of which the second would only refer to the first one's type.
        field: dict[str, Any] = {"name": f"f{number}", "type": draw(types(rest if number == 0 else (), depth + 1))}
        if isinstance(field["type"], str) and draw(st.booleans()):
            field["default"] = DEFAULTS[field["type"]]
        if draw(st.integers(0, 4)) == 0:
            field["name"], field["aliases"] = f"g{number}", [f"f{number}"]
        fields.append(field)
    return {"type": "record", "name": name, "fields": fields}


def values(schema: Any) -> st.SearchStrategy[Any]:
    if isinstance(schema, str):
        return VALUES[schema]
    if isinstance(schema, list):
        return st.one_of(*(VALUES[branch] for branch in schema))
    kind = schema["type"]
    if kind == "array":
        return st.lists(values(schema["items"]), max_size=2)
    if kind == "map":
        return st.dictionaries(st.sampled_from("kl"), values(schema["values"]), max_size=2)
    if kind == "enum":
        return st.sampled_from(schema["symbols"])
    if kind == "fixed":
        return st.binary(min_size=schema["size"], max_size=schema["size"])
    return st.fixed_dictionaries({field["name"]: values(field["type"]) for field in schema["fields"]})


def avro(schema: Any) -> Parsed:
    return parse("AVRO", json.dumps(schema), {})


@st.composite
def evolved(draw: st.DrawFn, schema: Any) -> Any:
    """Another version of a schema, which may read it and may not."""
    choice = draw(st.integers(0, 9))
    if choice == 0:
        return draw(PRIMITIVES)
    if isinstance(schema, str):
        wider = {"int": "long", "long": "double", "float": "double", "string": "bytes", "bytes": "string"}
        return (
            [schema, "null"]
            if choice == 1 and schema != "null"
            else wider.get(schema, schema)
            if choice < 5
            else schema
        )
    if isinstance(schema, list):
        return draw(st.permutations(schema)) if choice < 5 else [*dict.fromkeys([*schema, "string"])]
    changed = dict(schema)
    for part in ("items", "values"):
        if part in changed:
            changed[part] = draw(evolved(changed[part]))
    if changed["type"] == "enum" and choice < 3:
        changed["symbols"] = [*changed["symbols"], "w"]
    if changed["type"] == "record":
        fields = [
            {**field, "type": draw(evolved(field["type"]))} for field in changed["fields"] if draw(st.integers(0, 5))
        ]
        fields = [{name: part for name, part in field.items() if name != "default"} for field in fields]
        if choice < 4:
            fields.append({"name": "new", "type": "int", **({"default": 3} if choice else {})})
        if choice > 7 and fields:
            fields[0] = {**fields[0], "name": "other", "aliases": [fields[0]["name"]]}
        changed["fields"] = fields
    return changed


@given(types(), st.data())
def test_what_is_called_readable_is_read_by_fastavro(writer: Any, data: st.DataObject) -> None:
    reader = data.draw(evolved(writer))
    assume(not avro(reader).differences(avro(writer)))
    value = data.draw(values(writer))
    written = io.BytesIO()
    fastavro.schemaless_writer(written, fastavro.parse_schema(writer), value)
    written.seek(0)
    fastavro.schemaless_reader(written, fastavro.parse_schema(writer), fastavro.parse_schema(reader))


@given(types())
def test_every_schema_reads_itself_and_has_one_normalized_form(schema: Any) -> None:
    assert not avro(schema).differences(avro(schema))
    normalized = parse("AVRO", json.dumps(schema), {}, normalize=True)
    assert not avro(schema).differences(normalized)
    assert parse("AVRO", normalized.text, {}, normalize=True).text == normalized.text


ENUM = {"type": "enum", "name": "E", "symbols": ["a", "b"]}
DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}
NODE = record(("next", ["null", "N"], None), name="N")


@pytest.mark.parametrize(
    ("reader", "writer", "found"),
    [
        ("long", "int", []),
        ("int", "long", ["TYPE_MISMATCH at /: int cannot read"]),
        ("bytes", "string", []),
        ("double", "long", []),
        ("boolean", "int", ["TYPE_MISMATCH"]),
        (["null", "int"], "int", []),
        ("int", ["null", "int"], ["TYPE_MISMATCH at /: int cannot read what was written as null"]),
        (["null", "long"], ["null", "int"], []),
        (["null", "int"], ["null", "string"], ["MISSING_UNION_BRANCH at /: no branch"]),
        (record(("b", "int")), record(("a", "int")), ["READER_FIELD_MISSING_DEFAULT_VALUE at /b"]),
        (record(("b", "int", 0)), record(("a", "int")), []),
        (record(name="S"), record(), ["NAME_MISMATCH at /: the record is called S"]),
        ({**record(name="S"), "aliases": ["R"]}, record(), []),
        (record(name="a.R"), record(name="b.R"), []),
        (ENUM, {**ENUM, "symbols": ["a"]}, []),
        ({**ENUM, "symbols": ["a"]}, ENUM, ["MISSING_ENUM_SYMBOLS at /: E lacks symbols .*: b$"]),
        ({**ENUM, "symbols": ["a"], "default": "a"}, ENUM, []),
        ({"type": "fixed", "name": "F", "size": 1}, {"type": "fixed", "name": "F", "size": 2}, ["FIXED_SIZE_MISMATCH"]),
        (DECIMAL, {**DECIMAL, "scale": 1}, ["TYPE_MISMATCH at /: a decimal of precision 4 and scale 2"]),
        (DECIMAL, DECIMAL, []),
        (NODE, NODE, []),
        (
            record(("next", ["null", "N"], None), ("a", "int"), name="N"),
            NODE,
            ["READER_FIELD_MISSING_DEFAULT_VALUE at /a"],
        ),
        (
            record(("a", {"type": "array", "items": record(("x", "int"), name="I")})),
            record(("a", {"type": "array", "items": record(("x", "string"), name="I")})),
            ["TYPE_MISMATCH at /a/items/x: int cannot read"],
        ),
    ],
)
def test_avro_follows_the_rules_of_resolution(reader: Any, writer: Any, found: list[str]) -> None:
    told = [str(each) for each in avro(reader).differences(avro(writer))]
    assert len(told) == len(found)
    for each, expected in zip(told, found, strict=True):
        assert re.match(expected, each), each


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("int", 'write "int" with quotation marks'),
        ("{", "line 1 column 2"),
        ('{"type":"record","name":"1","fields":[]}', "is no name"),
        ('{"type":"record","name":"R"}', "has no list of 'fields'"),
        (
            '{"type":"record","name":"R","fields":[{"name":"a","type":"int","default":"x"}]}',
            'the default "x" is no int',
        ),
        ('{"type":"record","name":"R","fields":[{"name":"a","type":"int"},{"name":"a","type":"int"}]}', "twice"),
        ('["int","int"]', "the union has int twice"),
        ('["int",["long"]]', "may not hold a union"),
        ('{"type":"fixed","name":"F","size":-1}', "needs a 'size'"),
        ('{"type":"fixed","name":"F","size":2,"logicalType":"decimal","precision":9}', "do not hold decimals"),
        ('{"type":"enum","name":"E","symbols":["a","a"]}', "none is there twice"),
        ('{"type":"array"}', "has no 'items'"),
        ("[" * 1000 + "]" * 1000, "nested"),
        ('{"type":' * 100 + '"int"' + "}" * 100, "nested more than 64 deep"),
        ('{"type":"Missing"}', "'Missing' is not known"),
        ("NaN", "is not JSON"),
        ("9" * 10_000, "is not JSON"),
        (
            json.dumps([{"type": "fixed", "name": f"F{number}", "size": 1} for number in range(30_000)]),
            "more than 20000",
        ),
    ],
)
def test_what_is_no_avro_schema_is_told_where_it_is_not(text: str, told: str) -> None:
    with pytest.raises(Refusal) as refused:
        parse("AVRO", text, {})
    assert told in str(refused.value)
    assert refused.value.code == 42201


def test_schemas_made_to_take_for_ever_are_given_up() -> None:
    # Unions of unions of records: each pair of branches is tried.
    def hostile(depth: int) -> Any:
        schema: Any = "int"
        for level in range(depth):
            schema = [record(("a", schema), name=f"R{level}x{number}") for number in range(1)] + ["null"]
        return schema

    def many(letter: str) -> Any:
        return [record(*((f"{letter}{field}", "int") for field in range(300)), name=f"n{each}.R") for each in range(60)]

    with pytest.raises(Refusal, match="too large to compare"):
        avro(many("a")).differences(avro(many("b")))
    itself = {"$defs": {"d": {"allOf": [{"$ref": "#/$defs/d"}] * 9}}, "anyOf": [{"$ref": "#/$defs/d"}]}
    with pytest.raises(Refusal, match="too large to compare"):
        of_json(itself).differences(of_json(itself))
    assert not avro(hostile(30)).differences(avro(hostile(30)))


# ---- JSON Schema ------------------------------------------------------------------------------------------------

LEAVES = st.sampled_from(
    [
        True,
        {},
        {"type": "integer"},
        {"type": "number"},
        {"type": "string"},
        {"type": ["string", "null"]},
        {"type": "integer", "minimum": 1},
        {"type": "integer", "maximum": 3, "multipleOf": 2},
        {"type": "string", "maxLength": 1},
        {"type": "string", "minLength": 1},
        {"enum": [1, "a", None]},
        {"enum": [1]},
        {"const": "a"},
        {"$ref": "#/$defs/d"},
        {"type": "boolean"},
        {"not": {"type": "string"}},
        False,
        {"not": True},
        {"not": {"not": {}}},
    ]
)


def json_schemas() -> st.SearchStrategy[Any]:
    def wider(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
        names = st.dictionaries(st.sampled_from("ab"), inner, max_size=2)
        return st.one_of(
            st.fixed_dictionaries(
                {"type": st.just("object"), "properties": names},
                optional={
                    "required": st.lists(st.sampled_from("ab"), max_size=2, unique=True),
                    "additionalProperties": st.one_of(st.booleans(), inner),
                    "maxProperties": st.integers(0, 2),
                },
            ),
            st.fixed_dictionaries(
                {"type": st.just("array"), "items": inner},
                optional={
                    "prefixItems": st.lists(inner, max_size=2),
                    "minItems": st.integers(0, 2),
                    "maxItems": st.integers(0, 2),
                    "uniqueItems": st.booleans(),
                },
            ),
            st.fixed_dictionaries({"anyOf": st.lists(inner, min_size=1, max_size=2)}),
            st.fixed_dictionaries({"oneOf": st.lists(inner, min_size=1, max_size=2)}),
            st.fixed_dictionaries({"allOf": st.lists(inner, min_size=1, max_size=2)}),
        )

    bodies = st.recursive(LEAVES, wider, max_leaves=5)
    # Not of one that is part of itself, which means nothing.
    referred = LEAVES.filter(lambda each: isinstance(each, bool) or "$ref" not in each)
    return st.builds(lambda body, d: {"$defs": {"d": d}, "allOf": [body]}, bodies, referred)


def of_json(schema: Any) -> Parsed:
    return parse("JSON", json.dumps(schema), {})


@st.composite
def varied(draw: st.DrawFn, schema: Any) -> Any:
    """The same with some part left out or replaced."""
    if not isinstance(schema, dict) or not schema or draw(st.integers(0, 5)) == 0:
        return draw(LEAVES)
    changed = {}
    for name, value in schema.items():
        if name not in ("$defs", "type", "$ref") and draw(st.integers(0, 4)) == 0:
            continue
        if name in ("properties",):
            value = {part: draw(varied(each)) if draw(st.booleans()) else each for part, each in value.items()}
        elif name in ("allOf", "anyOf", "oneOf", "prefixItems"):
            value = [draw(varied(each)) if draw(st.booleans()) else each for each in value]
        elif name in ("items", "additionalProperties") and draw(st.booleans()):
            value = draw(varied(value))
        changed[name] = value
    return changed


JSON_VALUES = st.recursive(
    st.sampled_from([None, True, False, 0, 1, 2, 4, 1.5, "", "a", "ab"]),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.sampled_from("abc"), inner, max_size=3)),
    max_leaves=5,
)


def accepts(schema: Any, value: Any) -> bool:
    found: bool = jsonschema.Draft202012Validator(schema).is_valid(value)
    return found


@given(json_schemas(), st.lists(JSON_VALUES, min_size=1, max_size=10), st.data())
def test_what_is_called_readable_is_accepted_by_jsonschema(
    writer: Any, candidates: list[Any], data: st.DataObject
) -> None:
    # Without a draft it would be draft 7, which ignores prefixItems.
    draft = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
    writer = {**draft, **writer}
    reader = {**draft, "$defs": writer["$defs"], "allOf": [data.draw(varied(writer["allOf"][0]))]}
    assume(not of_json(reader).differences(of_json(writer)))
    for value in candidates:
        assert not accepts(writer, value) or accepts(reader, value), value


@given(json_schemas())
def test_every_json_schema_allows_what_it_allows(schema: Any) -> None:
    assert not of_json(schema).differences(of_json(schema))


OPEN = {"type": "object", "properties": {"a": {"type": "integer"}}}
CLOSED = {**OPEN, "additionalProperties": False}


def with_b(schema: dict[str, Any]) -> dict[str, Any]:
    return {**schema, "properties": {**schema["properties"], "b": {"type": "string"}}}


@pytest.mark.parametrize(
    ("reader", "writer", "found"),
    [
        (with_b(OPEN), OPEN, "PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL at /properties/b"),
        (with_b(CLOSED), CLOSED, None),
        (CLOSED, with_b(CLOSED), "PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL at /properties/b"),
        (OPEN, with_b(OPEN), None),
        (CLOSED, OPEN, "NOT_ALLOWED at /additionalProperties"),
        ({**OPEN, "required": ["a"]}, OPEN, "REQUIRED_ATTRIBUTE_ADDED at /required: the property a"),
        (OPEN, {**OPEN, "required": ["a"]}, None),
        ({"type": "string"}, {"type": ["string", "null"]}, "TYPE_NARROWED at /type: it may have been null"),
        ({"type": "number"}, {"type": "integer"}, None),
        ({"type": "string", "maxLength": 3}, {"type": "string", "maxLength": 4}, "BOUND_NARROWED at /maxLength"),
        ({"type": "string", "pattern": "a"}, {"type": "string"}, "KEYWORD_CHANGED at /pattern"),
        ({"enum": ["a"]}, {"enum": ["a", "b"]}, "ENUM_ARRAY_NARROWED at /enum"),
        ({"enum": ["a", "b"]}, {"enum": ["a"]}, None),
        ({"oneOf": [{"type": "string"}, {"type": "null"}]}, {"type": "string"}, None),
        ({"type": "string"}, {"oneOf": [{"type": "string"}, {"type": "null"}]}, "TYPE_NARROWED at /oneOf/1/type"),
        ({"not": True}, {"not": {}}, None),
        ({"not": {"title": "all"}}, False, None),
        ({"not": False}, True, None),
        ({"type": "string"}, {"type": "string", "not": {"type": "null"}}, None),
        ({"not": {}}, {"type": "string"}, "NOT_ALLOWED"),
        # What allows nothing deep inside allows nothing.
        ({"enum": [1]}, {"allOf": [{"allOf": [False]}]}, None),
        ({"not": {"type": "string"}}, {"anyOf": [{"allOf": [{"allOf": [False]}]}]}, None),
        # Of a tuple there are no more items than it allows.
        ({"items": [OPEN], "additionalItems": False}, {"type": "array", "items": [OPEN], "maxItems": 1}, None),
        ({"items": [OPEN], "maxItems": 1}, {"type": "array", "items": [OPEN], "additionalItems": False}, None),
        ({"items": {"type": "string"}}, {"type": "array", "items": [{"type": "string"}], "maxItems": 1}, None),
        ({"items": {"type": "string"}}, {"type": "array", "items": [{"type": "string"}]}, "TYPE_NARROWED at /items"),
        ({"items": [OPEN, OPEN]}, {"type": "array", "items": [OPEN], "additionalItems": False}, None),
        ({"$ref": "#/$defs/n", "$defs": {"n": {"properties": {"n": {"$ref": "#/$defs/n"}}}}},) * 2 + (None,),
    ],
)
def test_json_schemas_are_compared_by_what_they_allow(reader: Any, writer: Any, found: str | None) -> None:
    told = [
        str(each) for each in parse("JSON", json.dumps(reader), {}).differences(parse("JSON", json.dumps(writer), {}))
    ]
    assert told[0].startswith(found) if found else not told, told


@pytest.mark.parametrize("end", [{"type": "number"}, {"type": "string"}])
@pytest.mark.parametrize(
    "twice",
    [
        lambda next_one: {"type": "array", "items": [next_one, next_one]},
        lambda next_one: {"type": "array", "items": {"anyOf": [next_one, next_one]}},
        lambda next_one: {"type": "array", "items": [next_one], "additionalItems": next_one},
        lambda next_one: {"properties": {"a": next_one, "b": next_one}},
    ],
)
def test_references_that_multiply_are_compared_once(twice: Any, end: Any) -> None:
    def chain(last: Any) -> Any:
        found = {f"d{level}": twice({"$ref": f"#/$defs/d{level + 1}"}) for level in range(25)}
        return {"$ref": "#/$defs/d0", "$defs": {**found, "d25": last}}

    told = of_json(chain(end)).differences(of_json(chain({"type": "integer"})))
    assert bool(told) == (end == {"type": "string"})
    assert len(told) < 100


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[]", "is an object or a boolean"),
        ('{"type":"text"}', "must be of null, boolean"),
        ('{"properties":[]}', "must be an object of schemas"),
        ('{"required":"a"}', "a list of the names"),
        ('{"$ref":"http://example.com/a.json"}', "nothing is fetched"),
        ('{"$ref":"#/$defs/a"}', "leads nowhere"),
        ('{"minLength":-1}', "at least 0"),
        ('{"not":' * 100 + "{}" + "}" * 100, "nested more than 64"),
    ],
)
def test_what_is_no_json_schema_is_told_where_it_is_not(text: str, told: str) -> None:
    with pytest.raises(Refusal) as refused:
        parse("JSON", text, {})
    assert told in str(refused.value)


# ---- Protobuf ---------------------------------------------------------------------------------------------------


def proto(body: str, *, package: str = "p", syntax: str = "proto3") -> Parsed:
    return parse("PROTOBUF", f'syntax = "{syntax}"; package {package}; {body}', {})


@pytest.mark.parametrize(
    ("reader", "writer", "found"),
    [
        ("message M { int32 a = 1; int32 b = 2; }", "message M { int32 a = 1; }", None),
        ("message M { }", "message M { int32 a = 1; }", None),
        ("message M { int32 renamed = 1; }", "message M { int32 a = 1; }", None),
        ("message M { int64 a = 1; }", "message M { bool a = 1; }", None),
        ("message M { bytes a = 1; }", "message M { string a = 1; }", None),
        ("message M { string a = 1; }", "message M { int32 a = 1; }", "FIELD_SCALAR_KIND_CHANGED at /p.M/a"),
        ("message M { sint32 a = 1; }", "message M { int32 a = 1; }", "FIELD_SCALAR_KIND_CHANGED"),
        ("message M { N a = 1; } message N { }", "message M { int32 a = 1; }", "FIELD_KIND_CHANGED"),
        ("message N { }", "message M { } message N { }", "MESSAGE_REMOVED at /p.M"),
        (
            "message M { N a = 1; } message N { } message O { }",
            "message M { O a = 1; } message N { } message O { }",
            "FIELD_NAMED_TYPE_CHANGED at /p.M/a: it is p.N, and was p.O",
        ),
        ("message M { repeated int32 a = 1; }", "message M { int32 a = 1; }", "FIELD_NUMERIC_LABEL_CHANGED"),
        ("message M { repeated string a = 1; }", "message M { string a = 1; }", None),
        ("message M { map<string, int32> a = 1; }", "message M { map<string, string> a = 1; }", "FIELD_SCALAR_KIND"),
        ("message M { int32 b = 2; }", "message M { reserved 2; }", "RESERVED_NUMBER_USED at /p.M/b"),
        ("message M { int32 b = 3; }", 'message M { reserved "b"; }', "RESERVED_NAME_USED"),
        (
            "message M { oneof o { int32 a = 1; int32 b = 2; } }",
            "message M { int32 a = 1; int32 b = 2; }",
            "MULTIPLE_FIELDS_MOVED_TO_ONEOF at /p.M/o: a, b exclude",
        ),
        ("message M { oneof o { int32 a = 1; } }", "message M { int32 a = 1; }", None),
        (
            "message M { oneof o { int32 a = 1; } }",
            "message M { oneof o { int32 a = 1; int32 b = 2; } }",
            "ONEOF_FIELD",
        ),
        ("message M { optional int32 a = 1; }", "message M { int32 a = 1; }", None),
        ("message M { M m = 1; }", "message M { M m = 1; }", None),
    ],
)
def test_protobuf_follows_the_rules_of_the_wire(reader: str, writer: str, found: str | None) -> None:
    told = [str(each) for each in proto(reader).differences(proto(writer))]
    assert told[0].startswith(found) if found else not told, told


def test_protobuf_of_another_package_or_with_required_fields_is_told() -> None:
    body = "message M { }"
    assert proto(body, package="q").differences(proto(body))[0].kind == "PACKAGE_CHANGED"
    required = proto("message M { required int32 a = 1; }", syntax="proto2")
    none = proto(body, syntax="proto2")
    assert required.differences(none)[0].kind == "REQUIRED_FIELD_ADDED"
    assert none.differences(required)[0].kind == "REQUIRED_FIELD_REMOVED"


def test_a_schema_of_another_kind_does_not_read() -> None:
    assert avro("string").differences(parse("JSON", "{}", {}))[0].kind == "SCHEMA_TYPE_CHANGED"


DRAFT_4 = "http://json-schema.org/draft-04/schema#"


def test_a_newer_draft_reads_what_both_drafts_know() -> None:
    old = {"$schema": DRAFT_4, "type": "object", "properties": {"const": {"type": "integer"}}, "required": ["const"]}
    new = {**old, "$schema": "https://json-schema.org/draft/2020-12/schema"}
    assert not parse("JSON", json.dumps(new), {}).differences(parse("JSON", json.dumps(old), {}))
    same = {"$schema": DRAFT_4, "const": 4, "title": "ignored by this draft"}
    assert not parse("JSON", json.dumps(same), {}).differences(parse("JSON", json.dumps(same), {}))
    assert not parse("JSON", '{"const": 1, "enum": [1, 2]}', {}).differences(parse("JSON", '{"const": 1}', {}))
    # A keyword that the draft ignores changes nothing, whatever it says.
    old = {"dependentRequired": {"a": ["b"]}, "title": "old"}
    for changed in ({**old, "title": "new"}, {"dependentRequired": {"a": ["b", "c"]}}, {}):
        assert not parse("JSON", json.dumps(changed), {}).differences(parse("JSON", json.dumps(old), {}))


def test_a_schema_that_is_referred_to_is_read_by_the_draft_of_the_one_that_refers() -> None:
    other = {"other.json": '{"const": 4}'}
    reader = parse("JSON", '{"$ref": "other.json"}', other)
    assert reader.differences(parse("JSON", json.dumps({"$schema": DRAFT_4, "$ref": "other.json"}), other))
    assert not reader.differences(reader)


@pytest.mark.parametrize(
    ("reader", "writer"),
    [
        ({"oneOf": [{"type": "integer"}, {"type": "number"}]}, {"type": "integer"}),
        ({"oneOf": [True, True]}, {"type": "integer"}),
        (
            {"type": "object", "additionalProperties": False},
            {"type": "object", "patternProperties": {"^x": {"type": "string"}}, "additionalProperties": False},
        ),
        (
            {"type": "object", "properties": {"x1": {"type": "integer"}}},
            {"type": "object", "patternProperties": {"^x": {"type": "string"}}, "additionalProperties": False},
        ),
        (
            {"if": {"type": "string"}, "then": {"minLength": 3}},
            {"allOf": [{"if": {"type": "string"}}, {"then": {"minLength": 3}}]},
        ),
        ({"const": "0", "enum": [1]}, {"const": "0", "enum": ["0", 1]}),
        # Draft 4 ignores `const`.
        ({"$schema": DRAFT_4, "type": "number"}, {"$schema": DRAFT_4, "const": 4}),
        ({"properties": {"k": {"const": "x"}}}, {"$schema": DRAFT_4, "properties": {"k": {"const": "x"}}}),
        ({"contains": {"const": "x"}}, {"$schema": DRAFT_4, "contains": {"const": "x"}}),
        # In draft 4, 1.0 is no integer.
        ({"$schema": DRAFT_4, "type": "integer"}, {"type": "integer"}),
        ({"dependencies": {"a": {"const": 1}}}, {"$schema": DRAFT_4, "dependencies": {"a": {"const": 1}}}),
    ],
)
def test_json_schemas_that_only_look_compatible_are_not(reader: Any, writer: Any) -> None:
    assert parse("JSON", json.dumps(reader), {}).differences(parse("JSON", json.dumps(writer), {}))


def test_a_word_of_another_draft_within_all_of_is_no_error() -> None:
    schema = parse("JSON", '{"allOf": [{"required": true}]}', {})
    assert parse("JSON", '{"type": "object", "required": ["a"]}', {}).differences(schema)
