"""Parses an Avro schema to a tree of `AvroType`; a recursive type contains itself as the same object.

It follows the specification (https://avro.apache.org/docs/1.12.0/specification/). A schema may come from a registry
that anybody can write to. So its text, its depth and its number of types are limited, and an error is one sentence that
names the place. A logical type that does not fit its type is ignored, as the specification says.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeGuard

from ottla.errors import UserMistake

TEXT_CHARACTERS_MAX: Final = 4 << 20
DEPTH_MAX: Final = 64
TIMES_OF_DAY: Final = {"time-millis": 86_400_000, "time-micros": 86_400_000_000}
"""How many there are in a day: the first number that is none."""
TYPES_MAX: Final = 50_000
DECIMAL_DIGITS_MAX: Final = 76  # Arrow's decimal256

PRIMITIVES: Final = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})
_NAMED: Final = frozenset({"record", "error", "enum", "fixed"})
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
# The types that each logical type can annotate.
_LOGICAL: Final[Mapping[str, tuple[str, ...]]] = {
    "date": ("int",),
    "time-millis": ("int",),
    "time-micros": ("long",),
    "timestamp-millis": ("long",),
    "timestamp-micros": ("long",),
    "timestamp-nanos": ("long",),
    "local-timestamp-millis": ("long",),
    "local-timestamp-micros": ("long",),
    "local-timestamp-nanos": ("long",),
    "uuid": ("string", "fixed"),
    "decimal": ("bytes", "fixed"),
}
# Means "no default": None would be the default null.
MISSING: Final[Any] = object()


class SchemaError(UserMistake, ValueError):
    """A schema that cannot be used; the message says where in it and why."""

    def __init__(self, told: str) -> None:
        # Names in a schema may be of any length.
        super().__init__(told if len(told) <= 800 else f"{told[:795]} ... .")


@dataclass(slots=True, eq=False, repr=False)
class AvroType:
    """A type. `kind` is Avro's name of it ("record" for errors, too); which other fields are set depends on it."""

    kind: str
    name: str = ""  # the full name of a record, an enum, a fixed
    aliases: tuple[str, ...] = ()
    # Its name without the namespace, and its aliases with and without: a writer's type of such a name matches.
    called: frozenset[str] = frozenset()
    logical: str = ""
    precision: int = 0
    scale: int = 0
    size: int = 0
    fields: tuple[AvroField, ...] = ()
    symbols: tuple[str, ...] = ()
    default_symbol: str | None = None
    items: AvroType | None = None  # of an array; of a map, its values
    branches: tuple[AvroType, ...] = ()

    @property
    def shown(self) -> str:
        """The type, for a message."""
        if self.name:
            return f"{self.kind} {self.name}"
        if self.kind == "union":
            return "union of " + ", ".join(branch.shown for branch in self.branches[:5])
        return f"{self.kind} ({self.logical})" if self.logical else self.kind


@dataclass(slots=True, eq=False, repr=False)
class AvroField:
    """A field of a record; `default` is a JSON value, or MISSING."""

    name: str
    type: AvroType
    aliases: tuple[str, ...] = ()
    default: Any = MISSING


def parse_schema(text: str, references: Mapping[str, str] | None = None) -> AvroType:
    """Parse a schema; names that it does not define itself are taken from `references` (name: text)."""
    parser = _Parser(dict(references or {}))
    return parser.parse_text(text, "", 0)


def parse_pair(
    writer_text: str,
    reader_text: str | None,
    references: Mapping[str, str] | None,
    reader_references: Mapping[str, str] | None,
) -> tuple[AvroType, AvroType]:
    """The writer's and the reader's schema; the reader's is the writer's, and has its references, unless given."""
    writer = parse_schema(writer_text, references)
    if reader_text is None:
        return writer, writer
    return writer, parse_schema(reader_text, references if reader_references is None else reader_references)


@dataclass(slots=True)
class _Parser:
    references: dict[str, str]
    named: dict[str, AvroType] = field(default_factory=dict)
    count: int = 0

    def parse_text(self, text: Any, where: str, depth: int) -> AvroType:
        if not isinstance(text, str):
            raise SchemaError(f"An Avro schema is given as text (str), not as {type(text).__name__}.")
        if len(text) > TEXT_CHARACTERS_MAX:
            raise SchemaError(f"An Avro schema has at most {TEXT_CHARACTERS_MAX} characters; this one has {len(text)}.")
        try:
            given = json.loads(text)
        except RecursionError:
            raise _wrong(where, "it is nested too deep") from None
        except ValueError as error:
            raise _wrong(where, f"it is not JSON ({error})") from None
        return self._parse(given, "", where, depth)

    def _parse(self, given: Any, namespace: str, where: str, depth: int) -> AvroType:
        self.count += 1
        if depth > DEPTH_MAX:
            raise _wrong(where, f"it is nested deeper than {DEPTH_MAX} types")
        if self.count > TYPES_MAX:
            raise _wrong(where, f"it has more than {TYPES_MAX} types")
        if isinstance(given, str):
            return self._by_name(given, namespace, where, depth)
        if isinstance(given, list):
            return self._union(given, namespace, where, depth)
        if not isinstance(given, dict):
            raise _wrong(where, f"a type is a name, an object or a list of types, not {_short(given)}")
        kind = given.get("type", MISSING)
        if kind is MISSING:
            raise _wrong(where, 'an object has no "type"')
        if isinstance(kind, (dict, list)):
            return self._parse(kind, namespace, where, depth + 1)
        if kind in ("array", "map"):
            part = "items" if kind == "array" else "values"
            if part not in given:
                raise _wrong(where, f'a type "{kind}" has no "{part}"')
            made = AvroType(kind)
            made.items = self._parse(given[part], namespace, where + ("[]" if kind == "array" else "{}"), depth + 1)
            return made
        if kind in _NAMED:
            return self._define(given, kind, namespace, where, depth)
        if not isinstance(kind, str):
            raise _wrong(where, f'"type" is a name, not {_short(kind)}')
        if kind not in PRIMITIVES:
            return self._by_name(kind, namespace, where, depth)
        made = AvroType(kind)
        _read_logical(made, given)
        return made

    def _by_name(self, name: str, namespace: str, where: str, depth: int) -> AvroType:
        if name in PRIMITIVES:
            return AvroType(name)
        full = name if "." in name or not namespace else f"{namespace}.{name}"
        # The second look-up, without the namespace, is not in the specification, but Java's and Python's Avro do it.
        for known in (full, name):
            if known in self.named:
                return self.named[known]
            if known in self.references:
                # Removed first: it may refer to itself.
                self.parse_text(self.references.pop(known), known, depth + 1)
                if known in self.named:
                    return self.named[known]
        while self.references:
            other = next(iter(self.references))
            self.parse_text(self.references.pop(other), other, depth + 1)
            if full in self.named:
                return self.named[full]
        raise _wrong(where, f"there is no type {_short(full)}; it is not of Avro, and nothing before it defines it")

    def _union(self, given: list[Any], namespace: str, where: str, depth: int) -> AvroType:
        if not given:
            raise _wrong(where, "a union holds no type")
        made = AvroType("union")
        branches: list[AvroType] = []
        taken: set[str] = set()
        for each in given:
            branch = self._parse(each, namespace, where, depth + 1)
            if branch.kind == "union":
                raise _wrong(where, "a union holds a union")
            key = branch.name or branch.kind
            if key in taken:
                raise _wrong(where, f"a union holds {_short(key)} twice")
            taken.add(key)
            branches.append(branch)
        made.branches = tuple(branches)
        return made

    def _define(self, given: dict[str, Any], kind: str, namespace: str, where: str, depth: int) -> AvroType:
        name = given.get("name")
        if not isinstance(name, str):
            raise _wrong(where, f'a type "{kind}" has no "name"')
        own = given.get("namespace")
        if "." in name:
            namespace = name.rpartition(".")[0]
        elif isinstance(own, str):
            namespace = own
        full = name if "." in name or not namespace else f"{namespace}.{name}"
        full = full.removeprefix(".")
        if not all(_NAME.fullmatch(part) for part in full.split(".")):
            raise _wrong(
                where, f"{_short(full)} is not a name: letters, digits and _, of which none begins with a digit"
            )
        if full in self.named or full in PRIMITIVES:
            raise _wrong(where, f"the name {_short(full)} is defined twice")
        made = AvroType("record" if kind == "error" else kind, full)
        made.aliases = tuple(
            alias if "." in alias or not namespace else f"{namespace}.{alias}"
            for alias in _texts(given, "aliases", where)
        )
        called = {name.rpartition(".")[2] for name in (full, *made.aliases)}
        made.called = frozenset({*called, *made.aliases})
        # Before its parts: they may refer to it.
        self.named[full] = made
        if kind == "fixed":
            made.size = _whole(given.get("size", MISSING), where, '"size"', 0, (1 << 31) - 1)
            _read_logical(made, given)
        elif kind == "enum":
            self._read_symbols(made, given, where)
        else:
            self._read_fields(made, given, namespace, where, depth)
        return made

    def _read_symbols(self, made: AvroType, given: dict[str, Any], where: str) -> None:
        if "symbols" not in given:
            raise _wrong(where, f'the enum {made.name} has no "symbols"')
        made.symbols = _texts(given, "symbols", where)
        if len(made.symbols) > TYPES_MAX:
            raise _wrong(where, f"the enum {made.name} has more than {TYPES_MAX} symbols")
        if len(set(made.symbols)) != len(made.symbols):
            raise _wrong(where, f"the enum {made.name} has a symbol twice")
        for symbol in made.symbols:
            if not _NAME.fullmatch(symbol):
                raise _wrong(where, f"{_short(symbol)}, a symbol of the enum {made.name}, is not a name")
        default = given.get("default")
        if default is not None and default not in made.symbols:
            raise _wrong(where, f"{_short(default)}, the default of the enum {made.name}, is none of its symbols")
        made.default_symbol = default

    def _read_fields(self, made: AvroType, given: dict[str, Any], namespace: str, where: str, depth: int) -> None:
        parts = given.get("fields")
        if not isinstance(parts, list):
            raise _wrong(where, f'the record {made.name} has no list "fields"')
        fields: list[AvroField] = []
        taken: set[str] = set()
        for part in parts:
            name = part.get("name") if isinstance(part, dict) else None
            if not isinstance(name, str) or not _NAME.fullmatch(name):
                raise _wrong(where, f"the record {made.name} has a field whose name is {_short(name)}")
            at = f"{where}.{name}" if where else name
            if name in taken:
                raise _wrong(at, f"the record {made.name} has this field twice")
            taken.add(name)
            if "type" not in part:
                raise _wrong(at, 'the field has no "type"')
            type_ = self._parse(part["type"], namespace, at, depth + 1)
            # A logicalType in the field itself has no meaning; Java's Avro ignores it, too.
            fields.append(AvroField(name, type_, _texts(part, "aliases", at), part.get("default", MISSING)))
        made.fields = tuple(fields)


def _read_logical(made: AvroType, given: dict[str, Any]) -> None:
    logical = given.get("logicalType")
    if not isinstance(logical, str) or made.kind not in _LOGICAL.get(logical, ()):
        return
    if logical == "uuid" and made.kind == "fixed" and made.size != 16:
        return
    if logical == "decimal":
        precision, scale = given.get("precision"), given.get("scale", 0)
        if not _is_whole(precision) or not _is_whole(scale) or not 0 <= scale <= precision or precision < 1:
            return
        # The bytes must be able to hold so many digits.
        if made.kind == "fixed" and (
            made.size < 1 or precision > len(str((1 << (8 * min(made.size, 64) - 1)) - 1)) - 1
        ):
            return
        # Arrow has no decimals with more digits; such values stay bytes.
        if precision > DECIMAL_DIGITS_MAX:
            return
        made.precision, made.scale = precision, scale
    made.logical = logical


def _is_whole(given: Any) -> TypeGuard[int]:
    return isinstance(given, int) and not isinstance(given, bool)


def _whole(given: Any, where: str, what: str, low: int, high: int) -> int:
    if not _is_whole(given) or not low <= given <= high:
        shown = "missing" if given is MISSING else _short(given)
        raise _wrong(where, f"{what} is a number from {low} to {high}, not {shown}")
    return int(given)


def _texts(given: dict[str, Any], key: str, where: str) -> tuple[str, ...]:
    """A list of texts, empty where there is none."""
    found = given.get(key) or []
    if not isinstance(found, list) or not all(isinstance(each, str) for each in found):
        raise _wrong(where, f'"{key}" is a list of names, not {_short(found)}')
    return tuple(found)


def _short(given: Any) -> str:
    shown = repr(given)
    return shown if len(shown) <= 60 else f"{shown[:57]}..."


def _wrong(where: str, what: str) -> SchemaError:
    place = f" at '{where[:200]}'" if where else ""
    return SchemaError(f"The Avro schema cannot be used{place}: {what}.")
