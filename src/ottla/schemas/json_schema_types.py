"""JSON Schema -> the Arrow type of a column of its values, and the conversion of one value for that column.

A schema that allows one type besides null has that type. A schema that allows several types or any type, or contains
itself, becomes a column of JSON texts. Properties that are not in `properties` are left out.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple

from ottla.schemas.json_schema import JsonSchema, JsonSchemaError
from ottla.schemas.json_schema_columns import CHECKED

_DEPTH_MAX: Final = 64
_COLUMNS_MAX: Final = 10_000
_INT64: Final = range(-(2**63), 2**63)


class Unfit(Exception):
    """A value that its column cannot hold; `path` leads to it."""

    def __init__(self, words: str) -> None:
        super().__init__(words)
        self.path: list[str | int] = []


class JsonType(NamedTuple):
    """`type` is the column's Arrow type; `take` converts a value to what pyarrow takes, or raises Unfit.

    `is_plain`: the schema says only the type of the value, so a column of that type matches. `fields` are the
    properties of an object, `item` is the type of an array's items.
    """

    type: Any
    take: Callable[[Any], Any]
    is_plain: bool = False
    allows_null: bool = False
    fields: Mapping[str, JsonType] = {}
    required: frozenset[str] = frozenset()
    is_open: bool = True
    item: JsonType | None = None


def json_type(schema: JsonSchema) -> JsonType:
    """The column of a schema's values; JsonSchemaError beyond 64 levels or 10,000 columns."""
    return _Plan(schema).of(schema.root, schema.base, (), 0)


class _Plan:
    def __init__(self, schema: JsonSchema) -> None:
        self._schema = schema
        self._columns = 0

    def of(self, node: Any, base: str, within: tuple[int, ...], depth: int) -> JsonType:
        """The type of one schema; `within` are the ids of the schemas that contain it."""
        self._columns += 1
        if depth > _DEPTH_MAX:
            raise JsonSchemaError(f"The schema is nested deeper than {_DEPTH_MAX} types, which columns are not.")
        if self._columns > _COLUMNS_MAX:
            raise JsonSchemaError(f"The schema has more than {_COLUMNS_MAX} columns.")
        if not isinstance(node, dict) or id(node) in within:
            return _json()
        within = (*within, id(node))
        if isinstance(node.get("$ref"), str):
            meant, where = self._schema.meant(node["$ref"], base)
            found = self.of(meant, where, within, depth + 1)
            return found if _says_no_more(node, "$ref") else found._replace(is_plain=False)
        kinds = _kinds(node)
        others = [kind for kind in kinds if kind != "null"]
        allows_null = len(others) < len(kinds)
        if set(others) == {"integer", "number"}:
            others = ["number"]
        if not kinds and (inner := _besides_null(node)) is not None:
            found = self.of(inner, base, within, depth + 1)
            is_plain = found.is_plain and not found.allows_null and _says_no_more(node, "oneOf", "anyOf")
            return found._replace(is_plain=is_plain, allows_null=True)
        if len(others) > 1 or not kinds:
            return _json()
        if not others:
            return JsonType(_arrow().null(), _taker(type(None), _as_it_is, "null"), allows_null=True)
        is_plain = _says_no_more(node)
        made = self._of_kind(others[0], node, base, within, depth)
        return made._replace(is_plain=made.is_plain and is_plain, allows_null=allows_null)

    def _of_kind(self, kind: str, node: dict[str, Any], base: str, within: tuple[int, ...], depth: int) -> JsonType:
        pa = _arrow()
        if kind == "object":
            return self._object(node, base, within, depth)
        if kind == "array":
            items = node.get("items")
            if not isinstance(items, dict) or "prefixItems" in node:
                return _json()
            item = self.of(items, base, within, depth + 1)
            return JsonType(pa.list_(item.type), _taker_of_list(item.take), item.is_plain, item=item)
        scalars = {
            "string": (pa.string(), _taker(str, _text, "text")),
            "integer": (pa.int64(), _taker((int, float), _whole, "a whole number")),
            "number": (pa.float64(), _taker((int, float), _number, "a number")),
            "boolean": (pa.bool_(), _taker(bool, _as_it_is, "true or false")),
        }
        return JsonType(*scalars[kind], is_plain=True) if kind in scalars else _json()

    def _object(self, node: dict[str, Any], base: str, within: tuple[int, ...], depth: int) -> JsonType:
        pa = _arrow()
        properties, others = node.get("properties"), node.get("additionalProperties", True)
        if not properties:
            if not isinstance(others, dict) or "patternProperties" in node:
                return _json()
            item = self.of(others, base, within, depth + 1)
            return JsonType(pa.map_(pa.string(), item.type), _taker_of_map(item.take))
        fields = {name: self.of(each, base, within, depth + 1) for name, each in properties.items()}
        # Properties that are not named may be anything, or are forbidden.
        is_plain = all(each.is_plain for each in fields.values()) and (others is True or others is False)
        return JsonType(
            pa.struct([(name, each.type) for name, each in fields.items()]),
            _taker_of_struct({name: each.take for name, each in fields.items()}),
            is_plain,
            fields=fields,
            required=frozenset(node.get("required", ())),
            is_open=others is not False,
        )


def _kinds(node: Mapping[str, Any]) -> list[str]:
    """The types that a schema names, or those of its const or enum."""
    given = node.get("type")
    if given is not None:
        return [given] if isinstance(given, str) else list(given)
    values = [node["const"]] if "const" in node else node.get("enum")
    if not isinstance(values, list):
        return []
    return sorted({"null" if value is None else "string" if isinstance(value, str) else "other" for value in values})


def _besides_null(node: Mapping[str, Any]) -> Any:
    """The other schema of a oneOf or anyOf of null and one more."""
    either = node.get("oneOf", node.get("anyOf"))
    if not isinstance(either, list) or len(either) != 2 or {"type": "null"} not in either:
        return None
    return either[1] if either[0] == {"type": "null"} else either[0]


def _says_no_more(node: Iterable[str], *planned: str) -> bool:
    return not any(keyword in CHECKED and keyword not in planned for keyword in node)


# ---------------------------------------------------------------------- values


def _taker(kinds: Any, take: Callable[[Any], Any], told: str) -> Callable[[Any], Any]:
    """A function that takes null and values of these Python classes."""

    def check(value: Any) -> Any:
        if value is None:
            return None
        # A bool is an int in Python, and no number in JSON.
        if not isinstance(value, kinds) or (isinstance(value, bool) and kinds is not bool):
            raise Unfit(f"it is {_shown(value)}, and the column holds {told}")
        return take(value)

    return check


def _taker_of_list(take: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def take_all(values: list[Any]) -> list[Any]:
        return [_placed(take, value, place) for place, value in enumerate(values)]

    return _taker(list, take_all, "an array")


def _taker_of_map(take: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def take_all(values: dict[str, Any]) -> list[tuple[str, Any]]:
        return [(_text(name), _placed(take, value, name)) for name, value in values.items()]

    return _taker(dict, take_all, "an object")


def _taker_of_struct(fields: Mapping[str, Callable[[Any], Any]]) -> Callable[[Any], Any]:
    def take_all(values: dict[str, Any]) -> dict[str, Any]:
        return {name: _placed(take, values[name], name) for name, take in fields.items() if name in values}

    return _taker(dict, take_all, "an object")


def _placed(take: Callable[[Any], Any], value: Any, place: str | int) -> Any:
    try:
        return take(value)
    except Unfit as error:
        error.path.insert(0, place)
        raise


def _json() -> JsonType:
    return JsonType(_arrow().string(), _json_text)


def _json_text(value: Any) -> str | None:
    return None if value is None else _text(json.dumps(value, ensure_ascii=False, separators=(",", ":")))


def _text(value: str) -> str:
    if not _is_utf8(value):
        raise Unfit(f"{value[:60]!a} has half of a surrogate pair, which is no UTF-8")
    return value


def _is_utf8(value: str) -> bool:
    try:
        return value.isascii() or bool(value.encode())
    except UnicodeEncodeError:
        return False


def _whole(value: float) -> int:
    if not math.isfinite(value) or value != int(value):
        raise Unfit(f"it is {_shown(value)}, and the column holds a whole number")
    if int(value) not in _INT64:
        raise Unfit(f"{_shown(value)} is beyond int64")
    return int(value)


def _number(value: float) -> float:
    try:
        made = float(value)
    except OverflowError:
        made = math.inf
    if not math.isfinite(made):
        raise Unfit("the number is beyond a double")
    return made


def _as_it_is(value: Any) -> Any:
    return value


def _shown(value: Any) -> str:
    return f"{json.dumps(value):.60}"


def _arrow() -> Any:
    """pyarrow, as Any: its type hints do not allow columns of unknown type."""
    import pyarrow as pa

    return pa
