"""Drawn JSON Schemas, most of them nonsense, and altered payloads: a sentence, or what another library says."""

from __future__ import annotations

import json
import random
from typing import Any

import jsonschema
import pyarrow as pa
import pytest
from tests.drawn import commit_seeds, fixed_seeds

from ottla.errors import RecordError
from ottla.schemas.json_schema import JsonSchema, JsonSchemaError, JsonSchemaMismatch
from ottla.schemas.json_schema_columns import JsonSchemaEncoder
from ottla.schemas.json_schema_decode import JsonSchemaDecoder

SCHEMAS = 1_000
PAYLOADS = 10_000
NAMES = """
type properties items required additionalProperties $ref $id enum const minimum maximum multipleOf pattern format oneOf
anyOf allOf not if then else definitions $defs minLength maxLength minItems uniqueItems contains patternProperties
propertyNames dependencies $schema $anchor $dynamicRef $recursiveRef prefixItems unevaluatedProperties unevaluatedItems
contentEncoding
"""
KEYWORDS = NAMES.split()
WORDS = [
    *(
        0,
        -1,
        1,
        1e308,
        -0.0,
        10**40,
        0.1,
        "",
        "integer",
        "string",
        "object",
        "array",
        "#",
        "#/definitions/a",
        "#/x",
        None,
    ),
    *(
        "http://a.invalid/b",
        "a b%",
        "^(a+)+$",
        "(",
        "date-time",
        True,
        False,
        [],
        {},
        ["integer", "null"],
        ["a"],
        [1, 1],
    ),
    *(
        "https://json-schema.org/draft/2020-12/schema",
        "http://json-schema.org/draft-04/schema#",
        "\x00",
        "é",
        {"a": {}},
    ),
]
VALUES: list[Any] = [1, 1.5, "a", "a" * 30 + "!", None, [1, 1, "a"], {"a": 1, "b": {"a": [{}]}}, True, 10**30, [[[[]]]]]
ORDER = {
    "type": "object",
    "properties": {"id": {"type": "integer", "minimum": 0}, "tags": {"type": "array", "items": {"type": "string"}}},
    "required": ["id"],
}


def drawn(draw: random.Random, depth: int = 0) -> Any:
    """A schema, or something like one."""
    if depth > 4 or draw.random() < 0.2:
        return draw.choice(WORDS)
    made: dict[str, Any] = {}
    for _ in range(draw.randrange(1, 4)):
        form = draw.random()
        if form < 0.45:
            inner = draw.choice(WORDS)
        elif form < 0.8:
            inner = drawn(draw, depth + 1)
        elif form < 0.9:
            inner = [drawn(draw, depth + 1) for _ in range(draw.randrange(3))]
        else:
            inner = {draw.choice("abc"): drawn(draw, depth + 1) for _ in range(2)}
        made[draw.choice(KEYWORDS)] = inner
    return made


def check_schemas(seed: int) -> None:
    draw = random.Random(seed)
    table = pa.table({"a": [1, None], "b": ["x", "y"]})
    made = longest = 0
    for _ in range(SCHEMAS):
        text = json.dumps(drawn(draw))
        try:
            schema = JsonSchema(text)
        except JsonSchemaError as error:
            longest = max(longest, len(str(error)))
            continue
        made += 1
        for value in VALUES:
            try:
                schema.check(value)
            except JsonSchemaMismatch as error:
                longest = max(longest, len(str(error)))
        try:
            JsonSchemaEncoder(text).encode(table)
        except JsonSchemaMismatch as error:
            longest = max(longest, len(str(error)))
    assert SCHEMAS // 50 < made < SCHEMAS
    assert longest < 1000


@pytest.mark.parametrize("seed", fixed_seeds(1))
def test_drawn_schemas_are_taken_or_refused_with_a_sentence(seed: int) -> None:
    check_schemas(seed)


@pytest.mark.prove
@pytest.mark.parametrize("seed", commit_seeds(10, soak=100))
def test_ten_thousand_drawn_schemas_are_taken_or_refused_with_a_sentence(seed: int) -> None:
    check_schemas(seed)


@pytest.mark.parametrize("seed", fixed_seeds(1, soak=100))
def test_altered_payloads_are_read_as_another_library_says(seed: int) -> None:
    draw = random.Random(seed)
    schema = JsonSchema(json.dumps(ORDER))
    other = jsonschema.Draft7Validator(ORDER)
    read = 0
    for _ in range(PAYLOADS):
        payload = bytearray(b'{"id":12,"tags":["a","\xc5\xbe"],"more":[1.5e3,null,true,{}]}')
        for _ in range(draw.randrange(1, 3)):
            at = draw.randrange(len(payload))
            payload[at : at + draw.randrange(3)] = draw.choice(
                [b"", b"0", b"-", b'"', b"}", b"]", b",", b"\xff", b"NaN"]
            )
        try:
            value = schema.decode_one(bytes(payload))
        except JsonSchemaMismatch:
            try:
                plain = json.loads(payload.decode())
            except ValueError:
                continue
            assert not other.is_valid(plain) or "NaN" in payload.decode()
            continue
        read += 1
        assert value == json.loads(payload)
        assert other.is_valid(value)
    assert PAYLOADS // 20 < read < PAYLOADS


# ---------------------------------------------------------------------- columns

WHOLE, NUMBER, TEXT = {"type": "integer"}, {"type": "number"}, {"type": "string"}
# pyarrow reads the columns of the first one; with the second one, rows are looked at one by one.
PLAIN: dict[str, Any] = {
    "type": "object",
    "properties": {
        "id": WHOLE,
        "s": {"type": ["string", "null"]},
        "d": NUMBER,
        "b": {"type": "boolean"},
        "l": {"type": "array", "items": WHOLE},
        "o": {"type": "object", "properties": {"z": TEXT}, "required": ["z"]},
    },
    "required": ["id"],
}
CHECKED = {
    **PLAIN,
    "properties": {
        **PLAIN["properties"],
        "id": {"type": "integer", "minimum": -5},
        "m": {"type": "object", "additionalProperties": NUMBER},
        "any": {},
    },
}
ROWS = [
    b'{"id":12,"s":"a\xc5\xbe","d":1.5e3,"b":true,"l":[1,2,3],"o":{"z":"q"},"m":{"k":1.5},"any":[1,{"x":null}]}',
    b'{"id":-1,"s":null,"l":[],"d":0}',
    b'{"id":9007199254740993,"d":1e300,"more":{"id":1}}',
    b'{"id":1.0,"d":-0,"s":"\\ud83d\\ude00"}',
]
PIECES = [
    *(b"", b"0", b"-", b'"', b"}", b"]", b",", b":", b"{", b"[", b".0", b"true", b"null", b"\n", b" ", b"\0", b"\xff"),
    *(b"NaN", b"Infinity", b"1e999", b"\\u0000", b"\\ud800", b"9" * 30, b'"id":1', b'"s":"a"'),
]


def altered(draw: random.Random) -> bytes:
    payload = bytearray(draw.choice(ROWS))
    for _ in range(draw.randrange(3)):
        at = draw.randrange(len(payload) + 1)
        payload[at : at + draw.randrange(4)] = draw.choice(PIECES)
    return bytes(payload)


def told_by_columns(row: dict[str, Any]) -> dict[str, Any]:
    """What a row of columns says, as the object that JSON has: what is null there is missing, or null."""
    found = {name: value for name, value in row.items() if value is not None}
    if "m" in found:
        found["m"] = dict(found["m"])
    if "any" in found:
        found["any"] = json.loads(found["any"])
    return found


def as_columns_tell(schema: dict[str, Any], value: dict[str, Any]) -> dict[str, Any]:
    """The same of an object: what the schema does not name is left out, and numbers are doubles."""
    found = {name: part for name, part in value.items() if name in schema["properties"] and part is not None}
    if "o" in found:
        found["o"] = {"z": found["o"]["z"]}
    if "d" in found:
        found["d"] = float(found["d"])
    if "m" in found:
        found["m"] = {name: float(part) for name, part in found["m"].items()}
    return found


def is_too_much(value: Any) -> bool:
    """Whether columns cannot hold it: whole numbers have 64 bits, text has no half of a surrogate pair."""
    if isinstance(value, dict):
        return any(map(is_too_much, (*value, *value.values())))
    if isinstance(value, list):
        return any(map(is_too_much, value))
    if isinstance(value, str):
        return any("\ud800" <= each <= "\udfff" for each in value)
    return isinstance(value, int | float) and abs(value) >= 1 << 63


def check_columns(seed: int, count: int) -> None:
    draw = random.Random(seed)
    for schema in (PLAIN, CHECKED):
        single, decoder = JsonSchema(json.dumps(schema)), JsonSchemaDecoder(json.dumps(schema))
        taken = refused = 0
        for _ in range(count // 5):
            # Few at a time: where one payload is broken, pyarrow reads none of them.
            payloads = [altered(draw) for _ in range(draw.randrange(1, 10))]
            column = decoder.decode(pa.array(payloads, pa.binary()), mode="null")
            column.validate(full=True)
            for payload, row in zip(payloads, column.to_pylist(), strict=True):
                try:
                    value = single.decode_one(payload)
                except JsonSchemaMismatch:
                    value = None
                if row is not None:
                    taken += 1
                    assert value is not None, payload
                    assert told_by_columns(row) == as_columns_tell(schema, value), payload
                    continue
                refused += 1
                with pytest.raises(RecordError, match=r"^Row 0 cannot be decoded: "):
                    decoder.decode(pa.array([payload], pa.binary()))
                # Nothing else speaks against a value that matches.
                assert value is None or is_too_much(value), payload
        assert taken > count // 10
        assert refused > count // 10


@pytest.mark.parametrize("seed", fixed_seeds(1))
def test_columns_of_altered_payloads_are_what_single_values_are(seed: int) -> None:
    check_columns(seed, 200)


@pytest.mark.prove
@pytest.mark.parametrize("seed", commit_seeds(5, soak=200))
def test_many_columns_of_altered_payloads(seed: int) -> None:
    check_columns(seed, 2000)
