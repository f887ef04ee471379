"""JSON that is checked against a JSON Schema: value by value, and by columns."""

from __future__ import annotations

import json
import logging
import math
from typing import Any

import jsonschema
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.errors import RecordError
from ottla.schemas.json_schema import JsonSchema, JsonSchemaError, JsonSchemaMismatch
from ottla.schemas.json_schema_columns import JsonSchemaEncoder

ORDER = {
    "type": "object",
    "properties": {
        "id": {"type": "integer"},
        "name": {"type": ["string", "null"]},
        "price": {"oneOf": [{"type": "null"}, {"type": "number"}]},
        "tags": {"type": "array", "items": {"type": "string"}},
        "to": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
        "labels": {"type": "object", "additionalProperties": {"type": "integer"}},
    },
    "required": ["id"],
    "additionalProperties": False,
}


def schema(**changes: Any) -> str:
    return json.dumps(ORDER | {"properties": {**ORDER["properties"], **changes}})  # type: ignore[dict-item]


# ---------------------------------------------------------------------- one by one


def test_a_value_that_matches_comes_back() -> None:
    made = JsonSchema(schema())
    value = {"id": 1, "name": "žaba", "price": 1.5, "tags": ["a"], "to": {"city": "L"}, "labels": {"x": 2}}
    assert made.encode_one(value) == json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()
    assert made.decode_one(made.encode_one(value)) == value


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ({"id": "1"}, 'Field \'id\': "1" is not of type "integer"'),
        ({"id": 1, "to": {"city": 5}}, "Field 'to.city': 5 is not of type"),
        ({"id": 1, "tags": ["a", 7]}, r"Field 'tags\[1\]': 7 is not of type"),
        ({"name": "x"}, 'The value: "id" is a required property'),
        ({"id": 1, "more": 1}, "The value: Additional properties are not allowed"),
        ({"id": 1, "name": b"x"}, r"Field 'name': b'x' \(bytes\) cannot be written as JSON\.$"),
        ({"id": 1, "tags": ["a", math.nan]}, r"Field 'tags\[1\]': nan \(float\) cannot .* Give None where there is no"),
        ({"id": 1, 5: 1}, "The value: its key 5 is no text"),
    ],
)
def test_a_value_that_does_not_match_is_refused_with_its_place(value: Any, words: str) -> None:
    with pytest.raises(JsonSchemaMismatch, match=words):
        JsonSchema(schema()).encode_one(value)


@pytest.mark.parametrize("payload", [b"{", b"\xff", b'{"id": NaN}', b"[" * 100_000, b"", b"{'id': 1}"])
def test_bytes_that_are_no_json_are_refused(payload: bytes) -> None:
    with pytest.raises(JsonSchemaMismatch, match="Row 7: it is no JSON"):
        JsonSchema("true").decode_one(payload, 7)


def test_a_value_that_json_does_not_have_is_refused() -> None:
    with pytest.raises(JsonSchemaMismatch, match=r"The value: nan \(float\) cannot be written as JSON"):
        JsonSchema("true").encode_one(float("nan"))


def test_references_are_found_by_their_names() -> None:
    user = json.dumps({"type": "object", "properties": {"to": {"$ref": "address.json#/definitions/city"}}})
    address = json.dumps({"definitions": {"city": {"$ref": "http://example.org/text.json"}}})
    references = {"address.json": address, "http://example.org/text.json": '{"type": "string"}'}
    made = JsonSchema(user, references=references)
    made.check({"to": "x"})
    with pytest.raises(JsonSchemaMismatch, match="'to'"):
        made.check({"to": 1})
    with pytest.raises(JsonSchemaError, match="it is not among the references"):
        JsonSchema(user, references={"address.json": address})


def test_a_reference_is_found_by_its_id_too() -> None:
    made = JsonSchema(
        '{"$ref": "http://example.org/a"}', references={"a": '{"$id": "http://example.org/a", "type": "null"}'}
    )
    made.check(None)
    with pytest.raises(JsonSchemaMismatch):
        made.check(1)


def test_a_schema_without_a_draft_is_of_draft_7() -> None:
    text = '{"definitions": {"a": {"type": "string"}}, "$ref": "#/definitions/a", "type": "integer"}'
    # Beside $ref nothing counts there.
    JsonSchema(text).check("x")
    newer = text.replace("{", '{"$schema": "https://json-schema.org/draft/2020-12/schema", ', 1)
    with pytest.raises(JsonSchemaMismatch):
        JsonSchema(newer).check("x")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "The schema is no JSON"),
        ("5", "is an object or true or false"),
        ('{"type": "strin"}', "no JSON Schema at 'type'"),
        ('{"properties": {"a": {"minimum": "x"}}}', "at 'properties.a.minimum'"),
        ('{"$ref": "http://127.0.0.1:1/a.json"}', "not among the references"),
        ('{"$ref": "gone.json"}', "gone.json"),
        ('{"items":' * 5_000 + "{}" + "}" * 5_000, "no JSON"),
        ('{"items":' * 500 + "{}" + "}" * 500, "Recursion limit"),
        ('{"pattern": "("}', "no JSON Schema"),
        ("x" * 4_000_001, "at most 4000000 are read"),
    ],
)
def test_what_is_no_schema_is_refused_with_a_sentence(text: str, words: str) -> None:
    with pytest.raises(JsonSchemaError, match=words):
        JsonSchema(text)


def test_an_expression_cannot_run_away() -> None:
    made = JsonSchema('{"pattern": "^(?=(a+)+$)(a|a)*b$"}')
    with pytest.raises(JsonSchemaMismatch):
        made.check("a" * 5000)


# ---------------------------------------------------------------------- by columns

TABLE = {
    "id": pa.array([1, 2], pa.int16()),
    "name": pa.array(["a", None]).dictionary_encode(),
    "price": pa.array([1.5, None]),
    "tags": pa.array([["x"], []]),
    "to": pa.array([{"city": "L"}, {"city": "M"}]),
    "labels": pa.array([[("k", 1)], []], pa.map_(pa.string(), pa.int32())),
}


def rows(text: str, **columns: Any) -> list[bytes]:
    return list(pa.array(JsonSchemaEncoder(text).encode(pa.table(columns), prefix=b"\0id")).to_pylist())


def told(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What `ottla.schemas` logged, without the messages of other tests' clients that still run."""
    return [record.getMessage() for record in caplog.records if record.name == "ottla.schemas"]


def test_columns_whose_types_fit_are_not_checked_row_by_row(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        got = rows(schema(), **TABLE)
    assert not told(caplog)
    assert [payload[:3] for payload in got] == [b"\0id"] * 2
    assert json.loads(got[1][3:]) == {
        "id": 2,
        "name": None,
        "price": None,
        "tags": [],
        "to": {"city": "M"},
        "labels": {},
    }


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"id": {"type": "integer", "maximum": 1}}, "Row 1, field 'id': 2 is greater than the maximum"),
        ({"name": {"type": "string"}}, "Row 1, field 'name': null is not of type"),
        ({"price": {"type": "integer"}}, "Row 0, field 'price'"),
        ({"tags": {"type": "array", "items": {"type": "integer"}}}, r"Row 0, field 'tags\[0\]'"),
        ({"to": {"type": "object", "required": ["street"]}}, "Row 0, field 'to': \"street\" is a required"),
        ({"to": {"type": "object", "additionalProperties": False}}, "Row 0, field 'to': False schema"),
        ({"labels": {"additionalProperties": {"type": "string"}}}, "Row 0, field 'labels.k'"),
        ({"labels": False}, "Row 0, field 'labels'"),
    ],
)
def test_other_rows_are_checked_one_by_one_which_is_said_once(
    changes: dict[str, Any], words: str, caplog: pytest.LogCaptureFixture
) -> None:
    encoder = JsonSchemaEncoder(schema(**changes))
    for _ in range(2):
        with pytest.raises(JsonSchemaMismatch, match=words):
            encoder.encode(pa.table(TABLE), prefix=b"\0id")
    assert [words.partition(":")[0] for words in told(caplog)] == [
        "The columns' types do not tell whether rows match the JSON Schema"
    ]


def test_rows_are_counted_over_all_chunks_and_columns_are_chosen() -> None:
    table = pa.table({"id": pa.chunked_array([[1], [2, 9]]), "other": ["a", "b", "c"]})
    encoder = JsonSchemaEncoder(schema(id={"type": "integer", "maximum": 2}))
    with pytest.raises(JsonSchemaMismatch, match="Row 12, field 'id'"):
        encoder.encode(table, columns=["id"], first_row=10)
    assert pa.array(encoder.encode(table.slice(0, 2), columns=["id"])).to_pylist() == [b'{"id":1}', b'{"id":2}']
    with pytest.raises(RecordError, match="'gone'"):
        encoder.encode(table, columns=["gone"])


TYPES = ["integer", "number", "string", "boolean", "null", "array", "object"]
SCHEMAS = st.recursive(
    st.one_of(
        st.booleans(),
        st.fixed_dictionaries({"type": st.one_of(st.sampled_from(TYPES), st.lists(st.sampled_from(TYPES), min_size=1,
                                                                                  max_size=3, unique=True))}),
        st.just({"minimum": 1}), st.just({"maxLength": 1}), st.just({}),
        st.just({"title": "x", "connect.type": "int8"}),
    ),
    lambda inner: st.one_of(
        st.fixed_dictionaries({"items": inner}),
        st.fixed_dictionaries({}, optional={"properties": st.dictionaries(st.sampled_from("ab"), inner),
                                            "additionalProperties": inner,
                                            "required": st.lists(st.sampled_from("ab"), unique=True)}),
        inner.map(lambda each: {"oneOf": [{"type": "null"}, each]}),
        st.tuples(inner, inner).map(lambda both: {"anyOf": list(both)}),
    ),
    max_leaves=5,
)  # fmt: skip
COLUMNS = st.sampled_from(
    [
        pa.array([1, 0]), pa.array([1, None]), pa.array([1.5, 2.0]), pa.array(["a", "bcd"]), pa.array([None, True]),
        pa.array([[1], [None, 2]]), pa.array([["a"], None]), pa.array([{"a": 1}, {"a": None}]), pa.nulls(2),
        pa.array([None, {"b": "x"}]),
        pa.array([[("a", 1)], [("b", None)]], pa.map_(pa.string(), pa.int64())),
        pa.array([{"a": {"b": [1]}}, {"a": None}]),
    ]
)  # fmt: skip


@settings(max_examples=400, deadline=None)
@given(SCHEMAS, COLUMNS, COLUMNS)
def test_what_columns_tell_is_what_another_library_says_of_each_row(inner: Any, one: Any, two: Any) -> None:
    whole = {"type": "object", "properties": {"one": inner}}
    table = pa.table({"one": one, "two": two})
    expected = jsonschema.Draft7Validator(whole)
    try:
        made = pa.array(JsonSchemaEncoder(json.dumps(whole)).encode(table)).to_pylist()
    except JsonSchemaMismatch:
        plain = pa.array(JsonSchemaEncoder("true").encode(table)).to_pylist()
        assert not all(expected.is_valid(json.loads(payload)) for payload in plain)
    else:
        assert all(expected.is_valid(json.loads(payload)) for payload in made)


@pytest.mark.parametrize("how", ["#/$defs/{}", "{}.json", "#{}"])
def test_references_that_multiply_are_refused(how: str) -> None:
    """Two to the power of forty steps; the checker cannot be interrupted."""

    def chain(length: int) -> tuple[dict[str, Any], dict[str, Any]]:
        made = {f"d{i}": {"$anchor": f"d{i}", "allOf": [{"$ref": how.format(f"d{i + 1}")}] * 2} for i in range(length)}
        made[f"d{length}"] = {"$anchor": f"d{length}", "type": "integer"}
        root = {"$schema": "https://json-schema.org/draft/2020-12/schema", "$ref": how.format("d0")}
        return (root, made) if how.endswith(".json") else ({**root, "$defs": made}, {})

    root, others = chain(40)
    references = {f"{name}.json": json.dumps(each) for name, each in others.items()}
    with pytest.raises(JsonSchemaError, match="takes more than 100000 steps at one value"):
        JsonSchema(json.dumps(root), references=references)
    root, others = chain(10)
    references = {f"{name}.json": json.dumps(each) for name, each in others.items()}
    assert JsonSchema(json.dumps(root), references=references).decode_one(b"1") == 1


def test_a_schema_that_refers_to_itself_is_counted_once() -> None:
    tree = {"type": "object", "properties": {"a": {"$ref": "#"}, "b": {"anyOf": [{"$ref": "#"}, {"type": "null"}]}}}
    assert JsonSchema(json.dumps(tree)).decode_one(b'{"a":{"b":null}}') == {"a": {"b": None}}


def test_a_name_that_is_no_uri_is_told() -> None:
    with pytest.raises(JsonSchemaError, match=r"'http://\[' is no URI"):
        JsonSchema('{"$id":"http://["}')
