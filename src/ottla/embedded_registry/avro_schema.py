"""Avro schemas as the registry needs them: read, checked, written in one form, and a tree to compare.

Follows the specification (1.12): names and namespaces, aliases, defaults, references to schemas by full name. What is
hostile is bounded: the depth, and the number of types.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

PRIMITIVES = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_DEPTH_MAX = 64
_TYPES_MAX = 20_000
_RANGES = {"int": 1 << 31, "long": 1 << 63}


class InvalidSchema(Exception):
    """A text that is no schema: the message says where and why, in one sentence."""


class Field:
    """A record's field."""

    __slots__ = ("aliases", "default", "has_default", "name", "type")

    def __init__(self, name: str, type: Node, aliases: tuple[str, ...], has_default: bool, default: Any) -> None:
        self.name = name
        self.type = type
        self.aliases = aliases
        self.has_default = has_default
        self.default = default


class Node:
    """One type; `name` and `aliases` are full names."""

    __slots__ = ("aliases", "decimal", "default", "fields", "inner", "kind", "name", "size", "symbols")

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.name = ""
        self.aliases: tuple[str, ...] = ()
        self.fields: list[Field] = []
        # A union's branches, or the one type of an array's items or a map's values.
        self.inner: list[Node] = []
        self.symbols: tuple[str, ...] = ()
        self.default: str | None = None
        self.size = 0
        # Precision and scale, where that is what the bytes stand for.
        self.decimal: tuple[int, int] | None = None

    @property
    def shown(self) -> str:
        """For a message."""
        return f"{self.kind} {self.name}" if self.name else self.kind


def parse_avro(text: str, references: Mapping[str, str], *, strict: bool = True) -> tuple[Node, Any]:
    """The tree of a schema and its JSON; `references` are texts by full name. Raises InvalidSchema.

    What is registered already is read without being `strict`: others have let in names and defaults that are none.
    """
    reader = _Reader()
    for name, referred in references.items():
        if name not in reader.named:
            reader.read(_load(referred, f"the reference {name}"), "", name, 0)
    loaded = _load(text, "the schema")
    reader.strict = strict
    return reader.read(loaded, "", "schema", 0), loaded


def written(loaded: Any) -> str:
    """A schema's JSON as the registry keeps it: without spaces, in its own order."""
    return json.dumps(loaded, separators=(",", ":"), ensure_ascii=False)


def normalized(loaded: Any) -> Any:
    """The same schema in the one form that all ways to write it have."""
    return _Normalizer().write(loaded, "")


def _load(text: str, what: str) -> Any:
    try:
        loaded = json.loads(text, parse_constant=_no_constant)
        text.encode()
        json.dumps(loaded, ensure_ascii=False).encode()
    except RecursionError:
        raise InvalidSchema(f"{what} is nested too deep.") from None
    except ValueError as error:
        # A bare name is what many write by mistake for a schema of one primitive type.
        hint = f'; write "{text}" with quotation marks' if text in PRIMITIVES else ""
        where = (
            f": {error.msg} at line {error.lineno} column {error.colno}"
            if isinstance(error, json.JSONDecodeError)
            else ""
        )
        raise InvalidSchema(f"{what} is not JSON{where}{hint}.") from None
    return loaded


def _no_constant(name: str) -> Any:
    raise ValueError(name)


class _Reader:
    def __init__(self) -> None:
        self.named: dict[str, Node] = {}
        self.strict = False
        self._types = 0

    def read(self, given: Any, namespace: str, path: str, depth: int) -> Node:
        self._types += 1
        if depth > _DEPTH_MAX:
            raise InvalidSchema(f"{path[:200]}: types are nested more than {_DEPTH_MAX} deep.")
        if self._types > _TYPES_MAX:
            raise InvalidSchema(f"the schema has more than {_TYPES_MAX} types.")
        if isinstance(given, str):
            return self._by_name(given, namespace, path)
        if isinstance(given, list):
            return self._union(given, namespace, path, depth)
        if not isinstance(given, dict):
            raise InvalidSchema(f"{path}: a type is a name, a list or an object, not {_shown(given)}.")
        kind = given.get("type")
        if isinstance(kind, (dict, list)):
            return self.read(kind, namespace, path, depth + 1)
        if kind in ("record", "error"):
            return self._record(given, namespace, path, depth)
        if kind in ("enum", "fixed"):
            return self._enum(given, namespace, path) if kind == "enum" else self._fixed(given, namespace, path)
        if kind in ("array", "map"):
            node = Node(kind)
            part = "items" if kind == "array" else "values"
            if part not in given:
                raise InvalidSchema(f"{path}: the {kind} has no {part!r}.")
            node.inner = [self.read(given[part], namespace, f"{path}/{part}", depth + 1)]
            return node
        if not isinstance(kind, str):
            raise InvalidSchema(f"{path}: the object has no 'type'.")
        node = self._by_name(kind, namespace, path)
        if kind == "bytes":
            node.decimal = _decimal(given, path, None)
        return node

    def _by_name(self, name: str, namespace: str, path: str) -> Node:
        if name in PRIMITIVES:
            return Node(name)
        full = name if "." in name or not namespace else f"{namespace}.{name}"
        found = self.named.get(full) or self.named.get(name)
        if found is None:
            raise InvalidSchema(
                f"{path}: the type {name!r:.200} is not known; define it before it is used, or register its schema and "
                "name it in references."
            )
        return found

    def _union(self, given: list[Any], namespace: str, path: str, depth: int) -> Node:
        node = Node("union")
        seen: dict[str, None] = {}
        for number, branch in enumerate(given):
            found = self.read(branch, namespace, f"{path}/{number}", depth + 1)
            if found.kind == "union":
                raise InvalidSchema(f"{path}/{number}: a union may not hold a union directly.")
            label = found.name or found.kind
            if label in seen:
                raise InvalidSchema(f"{path}/{number}: the union has {label} twice.")
            seen[label] = None
            node.inner.append(found)
        return node

    def _define(self, given: dict[str, Any], kind: str, namespace: str, path: str) -> tuple[Node, str]:
        name = given.get("name")
        if not isinstance(name, str) or not name:
            raise InvalidSchema(f"{path}: the {kind} has no 'name'.")
        own = given.get("namespace")
        if own is not None and not isinstance(own, str):
            raise InvalidSchema(f"{path}: the namespace of {name} is no text.")
        space = name.rpartition(".")[0] if "." in name else namespace if own is None else own
        full = _full(name, space)
        for part in full.split("."):
            if self.strict and not _NAME.match(part):
                raise InvalidSchema(
                    f"{path}: {full!r:.200} is no name: letters, digits and _, not beginning with a digit."
                )
        if full in self.named or full in PRIMITIVES:
            raise InvalidSchema(f"{path}: {full} is defined twice.")
        node = Node(kind)
        node.name = full
        node.aliases = tuple(_full(alias, space) for alias in _texts(given.get("aliases"), f"{path}: aliases"))
        self.named[full] = node
        return node, space

    def _record(self, given: dict[str, Any], namespace: str, path: str, depth: int) -> Node:
        node, space = self._define(given, "record", namespace, path)
        fields = given.get("fields")
        if not isinstance(fields, list):
            raise InvalidSchema(f"{path}: the record {node.name} has no list of 'fields'.")
        seen: dict[str, None] = {}
        # Defaults are looked at when the record is whole: one of its own type may be among its fields.
        for number, each in enumerate(fields):
            name = each.get("name") if isinstance(each, dict) else None
            if not isinstance(name, str) or (self.strict and not _NAME.match(name)):
                raise InvalidSchema(f"{path}: field {number} of {node.name} has no name of letters, digits and _.")
            if name in seen:
                raise InvalidSchema(f"{path}: the record {node.name} has the field {name} twice.")
            seen[name] = None
            if "type" not in each:
                raise InvalidSchema(f"{path}: the field {name} of {node.name} has no 'type'.")
            order = each.get("order", "ascending")
            if order not in ("ascending", "descending", "ignore"):
                raise InvalidSchema(
                    f"{path}/{name}: the order {_shown(order)} must be ascending, descending or ignore."
                )
            found = self.read(each["type"], space, f"{path}/{name}", depth + 1)
            aliases = _texts(each.get("aliases"), f"{path}/{name}: aliases")
            node.fields.append(Field(name, found, aliases, "default" in each, each.get("default")))
        for field in node.fields:
            if self.strict and field.has_default and not _fits(field.default, field.type, 0):
                raise InvalidSchema(
                    f"{path}/{field.name}: the default {_shown(field.default)} is no {field.type.shown}."
                )
        return node

    def _enum(self, given: dict[str, Any], namespace: str, path: str) -> Node:
        node, _ = self._define(given, "enum", namespace, path)
        symbols = _texts(given.get("symbols"), f"{path}: symbols")
        if "symbols" not in given or len({*symbols}) < len(symbols) or not all(map(_NAME.match, symbols)):
            raise InvalidSchema(f"{path}: the enum {node.name} needs 'symbols', names of which none is there twice.")
        node.symbols = symbols
        node.default = given.get("default")
        if node.default is not None and node.default not in symbols:
            raise InvalidSchema(f"{path}: the default {_shown(node.default)} of {node.name} is none of its symbols.")
        return node

    def _fixed(self, given: dict[str, Any], namespace: str, path: str) -> Node:
        node, _ = self._define(given, "fixed", namespace, path)
        size = given.get("size")
        if type(size) is not int or not 0 <= size <= 0x7FFFFFFF:
            raise InvalidSchema(f"{path}: the fixed {node.name} needs a 'size', a number of bytes up to 2147483647.")
        node.size = size
        node.decimal = _decimal(given, path, size)
        return node


def _full(name: str, namespace: str) -> str:
    return name if "." in name or not namespace else f"{namespace}.{name}"


def _texts(given: Any, what: str) -> tuple[str, ...]:
    if given is None:
        return ()
    if not isinstance(given, list) or not all(isinstance(each, str) for each in given):
        raise InvalidSchema(f"{what} must be a list of texts.")
    return tuple(given)


def _shown(value: Any) -> str:
    return f"{json.dumps(value):.60}"


def _decimal(given: dict[str, Any], path: str, size: int | None) -> tuple[int, int] | None:
    if given.get("logicalType") != "decimal":
        return None
    precision, scale = given.get("precision"), given.get("scale", 0)
    if type(precision) is not int or type(scale) is not int or not 0 <= scale <= precision or not precision:
        raise InvalidSchema(f"{path}: a decimal needs a 'precision' of at least 1, and a 'scale' from 0 to that.")
    if size is not None and precision > _digits(size):
        raise InvalidSchema(f"{path}: {size} bytes do not hold decimals of {precision} digits.")
    return precision, scale


def _digits(size: int) -> int:
    """How many decimal digits a signed number of so many bytes always holds."""
    return int((8 * size - 1) * 0.30102999566398) if size else 0


def _fits(value: Any, node: Node, depth: int) -> bool:
    """Whether a JSON value is a default of this type."""
    kind = node.kind
    if depth > _DEPTH_MAX:
        return False
    if kind == "null":
        return value is None
    if kind == "boolean":
        return isinstance(value, bool)
    if kind in _RANGES:
        return type(value) is int and -_RANGES[kind] <= value < _RANGES[kind]
    if kind in ("float", "double"):
        # Java writes what JSON has no number for as text.
        return (isinstance(value, (int, float)) and not isinstance(value, bool)) or value in (
            "NaN",
            "Infinity",
            "-Infinity",
        )
    if kind in ("string", "bytes", "fixed"):
        if not isinstance(value, str):
            return False
        is_bytes = kind == "string" or all(ord(each) < 256 for each in value)
        return is_bytes and (kind != "fixed" or len(value) == node.size)
    if kind == "enum":
        return value in node.symbols
    if kind == "array":
        return isinstance(value, list) and all(_fits(each, node.inner[0], depth + 1) for each in value)
    if kind == "map":
        return isinstance(value, dict) and all(_fits(each, node.inner[0], depth + 1) for each in value.values())
    if kind == "union":
        return any(_fits(value, branch, depth + 1) for branch in node.inner)
    return isinstance(value, dict) and all(
        _fits(value[field.name], field.type, depth + 1) if field.name in value else field.has_default
        for field in node.fields
    )


class _Normalizer:
    """Writes full names once, primitives without objects around them, and each object's parts in one order."""

    _FIRST = ("name", "type", "namespace", "doc", "aliases", "fields", "symbols", "items", "values", "size", "default")

    def write(self, given: Any, namespace: str) -> Any:
        if isinstance(given, str):
            return given if given in PRIMITIVES else _full(given, namespace)
        if isinstance(given, list):
            return [self.write(branch, namespace) for branch in given]
        kind = given["type"]
        if isinstance(kind, (dict, list)):
            return self.write(kind, namespace)
        parts = dict(given)
        if kind in PRIMITIVES or kind in ("array", "map"):
            # These types have no names; a name that is given has no meaning.
            parts.pop("name", None)
            if kind in PRIMITIVES and len(parts) == 1:
                return kind
        if "name" in parts:
            name = given["name"]
            namespace = name.rpartition(".")[0] if "." in name else given.get("namespace", namespace)
            parts["name"] = _full(name, namespace)
            parts.pop("namespace", None)
        if "fields" in parts:
            parts["fields"] = [dict(self._ordered(self._field(each, namespace))) for each in parts["fields"]]
        for part in ("items", "values"):
            if part in parts:
                parts[part] = self.write(parts[part], namespace)
        if "aliases" in parts:
            parts["aliases"] = [_full(alias, namespace) for alias in parts["aliases"]]
        if kind not in PRIMITIVES and kind not in ("record", "error", "enum", "fixed", "array", "map"):
            parts["type"] = _full(kind, namespace)
        return dict(self._ordered(parts))

    def _field(self, given: dict[str, Any], namespace: str) -> dict[str, Any]:
        field = {**given, "type": self.write(given["type"], namespace)}
        if field.get("order") == "ascending":
            del field["order"]
        return field

    def _ordered(self, parts: dict[str, Any]) -> Iterator[tuple[str, Any]]:
        for name in self._FIRST:
            if name in parts:
                yield name, parts[name]
        for name in sorted(parts):
            if name not in self._FIRST:
                yield name, parts[name]
