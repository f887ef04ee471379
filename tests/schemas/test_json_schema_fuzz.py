"""Drawn JSON Schemas, most of them nonsense, and altered payloads: a sentence, or what another library says."""

from __future__ import annotations

import json
import random
from typing import Any

import jsonschema
import pyarrow as pa
import pytest
from tests.drawn import commit_seeds, fixed_seeds

from ottla.schemas.json_schema import JsonSchema, JsonSchemaError, JsonSchemaMismatch
from ottla.schemas.json_schema_columns import JsonSchemaEncoder

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
