"""Columns of JSON by a JSON Schema, held against values read one by one."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ottla.errors import RecordError
from ottla.schemas.json_schema import JsonSchema, JsonSchemaError, JsonSchemaMismatch
from ottla.schemas.json_schema_columns import JsonSchemaEncoder
from ottla.schemas.json_schema_decode import JsonSchemaDecoder

TEXT, WHOLE, NUMBER, FLAG = ({"type": kind} for kind in ("string", "integer", "number", "boolean"))
CITY: dict[str, Any] = {"type": "object", "properties": {"city": TEXT}, "required": ["city"]}


def of(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


def column(*texts: str | bytes | None) -> Any:
    return pa.array([text.encode() if isinstance(text, str) else text for text in texts], pa.binary())


def read(schema: Any, *texts: str | bytes | None, mode: str = "fail", **more: Any) -> list[Any]:
    found: list[Any] = JsonSchemaDecoder(json.dumps(schema), **more).decode(column(*texts), mode=mode).to_pylist()
    return found


# ---------------------------------------------------------------------- types


@pytest.mark.parametrize(
    ("schema", "kind"),
    [
        (TEXT, pa.string()),
        (WHOLE, pa.int64()),
        (NUMBER, pa.float64()),
        (FLAG, pa.bool_()),
        ({"type": "null"}, pa.null()),
        ({"type": ["null", "integer"]}, pa.int64()),
        ({"type": ["integer", "number"]}, pa.float64()),
        ({"oneOf": [{"type": "null"}, CITY]}, pa.struct([("city", pa.string())])),
        ({"anyOf": [WHOLE, {"type": "null"}]}, pa.int64()),
        ({"type": "string", "format": "date-time"}, pa.string()),
        ({"enum": ["a", "b", None]}, pa.string()),
        ({"const": "a"}, pa.string()),
        ({"type": "array", "items": WHOLE}, pa.list_(pa.int64())),
        ({"type": "object", "additionalProperties": WHOLE}, pa.map_(pa.string(), pa.int64())),
        (of(b=WHOLE, a=of(x=FLAG)), pa.struct([("b", pa.int64()), ("a", pa.struct([("x", pa.bool_())]))])),
        ({"$ref": "#/definitions/c", "definitions": {"c": CITY}}, pa.struct([("city", pa.string())])),
        # What has no one type is JSON text.
        (True, pa.string()),
        ({}, pa.string()),
        ({"enum": [1, "a"]}, pa.string()),
        ({"oneOf": [TEXT, WHOLE]}, pa.string()),
        ({"type": ["string", "integer"]}, pa.string()),
        ({"type": "array"}, pa.string()),
        ({"type": "array", "items": [TEXT, WHOLE]}, pa.string()),
        ({"type": "object"}, pa.string()),
    ],
)
def test_a_schema_has_one_arrow_type(schema: Any, kind: pa.DataType) -> None:
    assert JsonSchemaDecoder(json.dumps(schema)).type == kind


def test_a_type_that_contains_itself_is_json_text_inside() -> None:
    tree = of(name=TEXT, children={"type": "array", "items": {"$ref": "#"}})
    assert read(tree, '{"name":"a","children":[{"name":"b"}]}') == [{"name": "a", "children": ['{"name":"b"}']}]


def test_a_reference_is_another_schema() -> None:
    schema = of(to={"$ref": "city.json"})
    assert read(schema, '{"to":{"city":"Ljubljana"}}', references={"city.json": json.dumps(CITY)}) == [
        {"to": {"city": "Ljubljana"}}
    ]


@pytest.mark.parametrize(
    ("schema", "told"),
    [
        (of(**{f"p{n}": WHOLE for n in range(10_001)}), "more than 10000 columns"),
        (
            {"$ref": "#/definitions/d0"}
            | {"definitions": {f"d{n}": of(a={"$ref": f"#/definitions/d{n + 1}"}) for n in range(70)} | {"d70": WHOLE}},
            "deeper than 64 types",
        ),
    ],
)
def test_a_schema_that_columns_cannot_have_is_refused(schema: Any, told: str) -> None:
    with pytest.raises(JsonSchemaError, match=told):
        JsonSchemaDecoder(json.dumps(schema))


# ---------------------------------------------------------------------- values


def test_what_is_missing_is_null_and_what_is_not_named_is_left_out() -> None:
    assert read(of(a=WHOLE, b=TEXT), '{"a":1,"more":[1]}', None, '{"b":"x"}') == [
        {"a": 1, "b": None},
        None,
        {"a": None, "b": "x"},
    ]


def test_what_has_no_type_is_kept_as_json() -> None:
    schema = of(any=True, either={"oneOf": [TEXT, WHOLE]}, tags={"type": "object", "additionalProperties": FLAG})
    assert read(schema, '{"any": {"a": [1.50, "ž"]}, "either": "x", "tags": {"t": true}}', '{"any":null}') == [
        {"any": '{"a":[1.5,"ž"]}', "either": '"x"', "tags": [("t", True)]},
        {"any": None, "either": None, "tags": None},
    ]


@pytest.mark.parametrize(
    ("schema", "text", "told"),
    [
        (of(a=WHOLE), '{"a":9223372036854775808}', "field 'a': 9223372036854775808 is beyond int64"),
        (of(a=NUMBER), '{"a":1e400}', "it is no JSON: 1e400 is beyond a double"),
        (of(a=NUMBER), '{"a":1' + "0" * 400 + "}", "field 'a': the number is beyond a double"),
        (of(a=NUMBER), '{"a":NaN}', "it is no JSON: NaN is no number of JSON"),
        (of(a=WHOLE), '{"a":1.5}', "field 'a': 1.5 is not of type"),
        (of(a=TEXT), '{"a":1}', "field 'a': 1 is not of type"),
        (of(a=TEXT), '{"a":null}', "field 'a': null is not of type"),
        (of(a=TEXT), r'{"a":"\ud800"}', r"field 'a': '\\ud800' has half of a surrogate pair"),
        (of(a={"type": "array", "items": WHOLE}), '{"a":[1,null]}', r"field 'a\[1\]': null is not of type"),
        (CITY, "{}", '"city" is a required property'),
        (of(a=WHOLE) | {"additionalProperties": False}, '{"b":1}', "Additional properties|additional properties"),
        (of(a=WHOLE | {"minimum": 5}), '{"a":1}', "field 'a': 1 is less than the minimum of 5"),
        (of(a=WHOLE), '{"a":1}{"a":2}', "it is no JSON"),
        (of(a=WHOLE), "", "it is no JSON"),
        (of(a=WHOLE), b'{"a":\xff}', "it is no JSON"),
        (of(a=WHOLE), "[]", "is not of type"),
    ],
)
def test_a_value_that_cannot_be_read_is_named_or_null(schema: Any, text: str | bytes, told: str) -> None:
    good = '{"a":7,"city":"L"}' if schema in (CITY,) or schema["properties"]["a"] != TEXT else '{"a":"x"}'
    if schema["properties"].get("a", {}).get("type") == "array":
        good = "{}"
    if schema.get("additionalProperties") is False:
        good = '{"a":7}'
    with pytest.raises(RecordError, match=rf"^Row 1 cannot be decoded: (.*)({told})"):
        read(schema, good, text, good)
    found = read(schema, good, text, good, mode="null")
    assert [row is None for row in found] == [False, True, False]


def test_texts_that_together_look_like_as_many_others_are_told_apart() -> None:
    schema = of(a=WHOLE)
    assert read(schema, '{"a":1}{"a":2}', "", mode="null") == [None, None]
    assert read(schema, '{"a":1}{"a":2}', '{"a":3', mode="null") == [None, None]
    assert read(schema, ' {"a":\n1} ', '{"a":2.0}') == [{"a": 1}, {"a": 2}]


def test_values_of_an_older_schema_are_read_as_the_columns_of_a_newer_one() -> None:
    older, newer = of(a=WHOLE, b=TEXT), of(a=NUMBER, c=TEXT, b=FLAG) | {"required": ["c"]}
    decoder = JsonSchemaDecoder(json.dumps(older), json.dumps(newer))
    assert decoder.decode(column('{"a":1,"c":"new"}', "{}")).to_pylist() == [
        {"a": 1.0, "c": "new", "b": None},
        {"a": None, "c": None, "b": None},
    ]
    with pytest.raises(RecordError, match="Row 0 cannot be decoded: field 'b': it is \"x\", and the column holds true"):
        decoder.decode(column('{"a":1,"b":"x"}'))


def test_what_the_encoder_writes_is_read_again() -> None:
    table = pa.table({"id": [1, 2], "name": ["ž", None], "to": [{"city": "L"}, None], "tags": [["a"], []]})
    schema = of(
        id=WHOLE,
        name={"type": ["string", "null"]},
        to={"oneOf": [{"type": "null"}, CITY]},
        tags={"type": "array", "items": TEXT},
    )
    text = json.dumps(schema)
    payloads = pa.array(JsonSchemaEncoder(text).encode(table, prefix=b"\0\0\0\0\7"))
    assert JsonSchemaDecoder(text).decode(payloads, skip=5).to_pylist() == table.to_pylist()


# ---------------------------------------------------------------------- held against one by one

NAMES = st.sampled_from(["a", "b", "null", "ž"])
SCALARS = st.sampled_from([TEXT, WHOLE, NUMBER, FLAG])


def _objects(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    def made(properties: dict[str, Any], required: bool, is_closed: bool) -> dict[str, Any]:
        schema = of(**properties) | ({"required": sorted(properties)[:1]} if required else {})
        return schema | ({"additionalProperties": False} if is_closed else {})

    return st.builds(made, st.dictionaries(NAMES, inner, min_size=1, max_size=3), st.booleans(), st.booleans())


INNER = st.recursive(
    st.one_of(SCALARS, SCALARS.map(lambda kind: {"type": [kind["type"], "null"]})),
    lambda inner: st.one_of(
        inner.map(lambda item: {"type": "array", "items": item}),
        inner.map(lambda one: {"oneOf": [one, {"type": "null"}]}),
        _objects(inner),
    ),
    max_leaves=4,
)
SCHEMAS = _objects(INNER)
NUMBERS = st.one_of(st.integers(-3, 3), st.integers(-(2**64), 2**64), st.floats(allow_nan=False, allow_infinity=False))
ODD = st.sampled_from(
    ["NaN", "1e400", "-0", "1.0", '"\\ud800"', "01", "nul", '{"a":1,"a":"x"}', "17976931348623159e292"]
)


def _text_of(draw: st.DrawFn, schema: Any) -> str:
    """JSON that mostly matches."""
    odds = draw(st.integers(0, 29))
    if odds == 0:
        return draw(ODD)
    if odds == 1:
        return json.dumps(draw(st.one_of(st.none(), st.text(max_size=2), NUMBERS, st.booleans())))
    if "oneOf" in schema:
        return "null" if draw(st.booleans()) else _text_of(draw, schema["oneOf"][0])
    kind = schema["type"]
    if isinstance(kind, list):
        kind = draw(st.sampled_from(kind))
    if kind == "object":
        names = [name for name in schema["properties"] if name in schema.get("required", ()) or draw(st.booleans())]
        parts = [f"{json.dumps(name)}:{_text_of(draw, schema['properties'][name])}" for name in names]
        if "additionalProperties" not in schema and draw(st.booleans()):
            parts.append('"more" : [null]')
        return "{" + draw(st.sampled_from([",", " ,\n"])).join(parts) + "}"
    if kind == "array":
        return "[" + ",".join(_text_of(draw, schema["items"]) for _ in range(draw(st.integers(0, 2)))) + "]"
    values = {"string": st.text(max_size=3), "integer": st.integers(-5, 5), "number": NUMBERS, "boolean": st.booleans()}
    return json.dumps(None if kind == "null" else draw(values[kind]), ensure_ascii=draw(st.booleans()))


@st.composite
def drawn(draw: st.DrawFn) -> tuple[Any, list[str]]:
    schema = draw(SCHEMAS)
    return schema, [_text_of(draw, schema) for _ in range(draw(st.integers(1, 4)))]


class _Beyond(Exception):
    pass


def _expected(schema: Any, value: Any) -> Any:
    """What a column holds of a value that matches."""
    while "oneOf" in schema:
        schema = schema["oneOf"][0]
    kinds = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    if value is None:
        return None
    if "object" in kinds:
        return {name: _expected(each, value.get(name)) for name, each in schema["properties"].items()}
    if "array" in kinds:
        return [_expected(schema["items"], each) for each in value]
    if "number" in kinds:
        if abs(value) >= 2**1024:
            raise _Beyond
        return float(value)
    if "integer" in kinds:
        if not -(2**63) <= value < 2**63:
            raise _Beyond
        return int(value)
    if "string" in kinds:
        try:
            value.encode()
        except UnicodeEncodeError:
            raise _Beyond from None
    return value


def _signed(text: str) -> float:
    """A column of doubles keeps the sign of -0, which the integer has not."""
    return -0.0 if text == "-0" else int(text)


@settings(max_examples=150)
@given(drawn())
@example(({"type": "object", "properties": {"a": {"type": "number"}}}, ['{"a":-0}']))
def test_columns_are_what_values_are_one_by_one(case: tuple[Any, list[str]]) -> None:
    schema, texts = case
    one_by_one = JsonSchema(json.dumps(schema))
    expected = []
    for text in texts:
        try:
            one_by_one.decode_one(text.encode("utf-8", "surrogatepass"))
            value = _expected(schema, json.loads(text, parse_int=_signed))
        except (JsonSchemaMismatch, _Beyond, OverflowError):
            value = None
        expected.append(value)
    given = [text.encode("utf-8", "surrogatepass") for text in texts]
    found = read(schema, *given, mode="null")
    assert repr(found) == repr(expected)
    # Those that can be read are read in the same way alone, with no other one beside them.
    good = [text for text, value in zip(given, expected, strict=True) if value is not None]
    if good:
        assert repr(read(schema, *good)) == repr([value for value in expected if value is not None])


@pytest.mark.parametrize(
    "text",
    [
        '{"a": -0, "b": -0}',
        '{"a": -0.0}',
        '{"a": 1, "x": 1e999}',
        '{"a": 1, "x": [1E+0400]}',
        '{"a": 1, "x": 9%s.0e150}' % ("9" * 220),
        '{"a": 1, "x": 9%s}' % ("9" * 400),
        '{"a": 1, "x": 1e-999}',
        '{"b": 1.0, "x": "1e999"}',
    ],
)  # fmt: skip
def test_both_ways_of_reading_agree(text: str) -> None:
    plain = of(a=NUMBER, b=WHOLE)
    # Says more than the types, so values are read one by one.
    checked = {**plain, "maxProperties": 9}
    results = []
    for schema in (plain, checked):
        try:
            results.append(str(read(schema, text)))
        except RecordError as error:
            results.append(str(error))
    assert results[0] == results[1]
