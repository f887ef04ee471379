"""What a search looks for: paths, comparisons, and columns that give the same rows as looking at each by itself."""

from __future__ import annotations

import json
from typing import Any

import hypothesis
import hypothesis.strategies as st
import pyarrow as pa
import pytest

from ottla.console.conditions import Conditions
from ottla.console.json_path import JsonPath, read_path
from ottla.errors import UserMistake


@pytest.mark.parametrize(
    ("path", "steps"),
    [
        ("$.a.b[0]", ["a", "b", 0]),
        ("customer.id", ["customer", "id"]),
        ('$["unit price"][-1]', ["unit price", -1]),
        ("[2].x", [2, "x"]),
    ],
)
def test_a_path_is_names_and_indexes(path: str, steps: list[str | int]) -> None:
    assert read_path(path) == steps


@pytest.mark.parametrize("path", ["$", "$.", "$.a[", "$.a[x]", "$..a", "$.a[*]", "", r'$["\q"]', '$["a\nb"]'])
def test_what_is_no_path_is_said_in_a_sentence(path: str) -> None:
    with pytest.raises(UserMistake, match="JSON path"):
        read_path(path)


@pytest.mark.parametrize(
    ("operator", "operand", "holds"),
    [
        ("=", "42", [42, 42.0, "42"]),
        ("!=", "42", [41, "x", True, None, [1], -3]),
        (">", "41.5", [42, 42.0, "42", "x"]),
        ("<=", "0", [-3]),
        ("=", "true", [True]),
        ("=", "null", [None]),
        ("contains", "4", [42, 42.0, "42", 41]),
        ("exists", "", [42, 42.0, "42", 41, "x", True, None, [1], -3]),
    ],
)
def test_numbers_are_compared_with_numbers_and_text_with_text(operator: str, operand: str, holds: list[Any]) -> None:
    path = JsonPath("$.n", operator, operand)
    values = [42, 42.0, "42", 41, "x", True, None, [1], -3]
    found = [each for each in values if path.holds({"n": each})]
    assert [(type(each), each) for each in found] == [(type(each), each) for each in values if _among(each, holds)]
    assert not path.holds({})
    assert not path.holds([1])


def _among(value: Any, others: list[Any]) -> bool:
    return any(type(value) is type(each) and value == each for each in others)


def batch_of(values: list[bytes | None], headers: list[Any] | None = None) -> pa.RecordBatch:
    kind = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    columns = [
        pa.array([None if each is None else each[:3] for each in values], pa.binary()),
        pa.array(values, pa.binary()),
        pa.array(headers or [[]] * len(values), kind),
    ]
    return pa.RecordBatch.from_arrays(columns, ["key", "value", "headers"])


LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-50, 50),
    st.sampled_from([0.5, 4.2, 42.0, 1e3]),
    st.sampled_from(["42", "a", "a/b", 'say "a"', "ä", "", "true"]),
)
DOCUMENTS = st.fixed_dictionaries({}, optional={"a": LEAVES, "b": st.fixed_dictionaries({}, optional={"a": LEAVES})})
SPELLED = st.builds(
    lambda document, is_ascii, gap: json.dumps(document, ensure_ascii=is_ascii, separators=(",", gap)).encode(),
    DOCUMENTS,
    st.booleans(),
    st.sampled_from([":", ": ", " :\t"]),
)


@hypothesis.given(
    st.lists(
        st.one_of(SPELLED, st.none(), st.sampled_from([b"no json", b'{"a": 4.2e1}', b'{"\\u0061": 42}'])), max_size=20
    ),
    st.sampled_from(["$.a", "$.b.a", "$.b"]),
    st.sampled_from(["=", "!=", "<", ">=", "contains", "exists"]),
    st.sampled_from(["42", "a", "ä", "true", "null", "0.5", "a/b", "-1", "", "1000"]),
)
@hypothesis.settings(max_examples=40)
def test_a_search_by_columns_finds_what_a_look_at_each_value_finds(
    values: list[bytes | None], path: str, operator: str, operand: str
) -> None:
    wanted = JsonPath(path, operator, operand)

    def is_meant(value: bytes | None) -> bool:
        try:
            return value is not None and wanted.holds(json.loads(value))
        except ValueError:
            return False

    conditions = Conditions({"path": path, "operator": operator, "operand": operand})
    assert conditions.rows(batch_of(values)) == [row for row, value in enumerate(values) if is_meant(value)]


@pytest.mark.parametrize("operator", ["<", "<=", ">", ">=", "="])
@pytest.mark.parametrize("sign", ["", "-"])
def test_a_number_beyond_every_float_is_compared_all_the_same(operator: str, sign: str) -> None:
    operand = sign + "9" * 400
    values: list[bytes | None] = [f'{{"a": {each}}}'.encode() for each in ("5", operand, sign + "8" * 400, "-5")]
    wanted = JsonPath("$.a", operator, operand)
    conditions = Conditions({"path": "$.a", "operator": operator, "operand": operand})
    holds = [wanted.holds(json.loads(value or b"")) for value in values]
    assert conditions.rows(batch_of(values)) == [row for row, each in enumerate(holds) if each]


@pytest.mark.parametrize("operator", ["contains", "=", "exists"])
def test_json_that_is_nested_too_deeply_is_counted_and_the_others_are_searched(operator: str) -> None:
    deep: list[bytes | None] = [b'{"a": ' + b"[" * depth + b"]" * depth + b"}" for depth in range(700, 1200, 20)]
    values: list[bytes | None] = [*deep, b'{"a": "[[x"}', *deep]
    conditions = Conditions({"path": "$.a", "operator": operator, "operand": "[[x"})
    rows = conditions.rows(batch_of(values))
    assert len(deep) in rows or operator == "="
    assert 0 < conditions.too_deep < 2 * len(deep)
    assert operator == "exists" or len(rows) <= 1


@pytest.mark.parametrize("operator", ["=", "<", "contains"])
def test_an_operand_that_is_nested_too_deeply_is_text(operator: str) -> None:
    operand = "[" * 3000
    values: list[bytes | None] = [json.dumps({"a": operand}).encode(), b'{"a": 1}']
    conditions = Conditions({"path": "$.a", "operator": operator, "operand": operand})
    assert conditions.rows(batch_of(values)) == ([] if operator == "<" else [0])


def test_all_conditions_must_hold() -> None:
    values = [b'{"n": 1}', b'{"n": 2}', None, b"\xff\x00{"]
    headers = [[{"key": "h", "value": b"one"}], [{"key": "h", "value": b"two"}], [], [{"key": "g", "value": None}]]
    batch = batch_of(values, headers)
    assert Conditions({}).rows(batch) == [0, 1, 2, 3]
    assert Conditions({"value": "n"}).rows(batch) == [0, 1]
    assert Conditions({"header": "h"}).rows(batch) == [0, 1]
    assert Conditions({"header": "h=two"}).rows(batch) == [1]
    assert Conditions({"header": "g=x"}).rows(batch) == []
    assert Conditions({"value": r"n.: [2-9]", "value_regex": "true", "header": "h"}).rows(batch) == [1]
    assert Conditions({"key": '{"n', "path": "n", "operator": "<", "operand": "2"}).rows(batch) == [0]


def test_a_pattern_that_is_none_is_said_in_a_sentence() -> None:
    with pytest.raises(UserMistake, match="the regular expression for the key is not understood"):
        Conditions({"key": "(", "key_regex": "true"})
    with pytest.raises(UserMistake, match="is no comparison"):
        Conditions({"path": "$.a", "operator": "like"})
