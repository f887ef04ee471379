"""JSON Schemas as the registry needs them: read, checked as far as it goes, and written in one form.

What is checked is what makes a text a JSON Schema at all (draft 4 to 2020-12): an object or a boolean, with parts of
the right kinds. References (`$ref`) are found within the text, or among the schema's references by name or `$id`.
Nothing is ever fetched from an address.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import unquote, urldefrag

from ottla.embedded_registry.avro_schema import InvalidSchema

TYPES = ("null", "boolean", "object", "array", "number", "integer", "string")
_DEPTH_MAX = 64
_PARTS_MAX = 50_000

# Keywords whose value is a schema, a list of them, or an object of them.
ONE = ("additionalItems", "additionalProperties", "contains", "else", "if", "not", "propertyNames", "then",
       "unevaluatedItems", "unevaluatedProperties")  # fmt: skip
MANY = ("allOf", "anyOf", "oneOf", "prefixItems")
NAMED = ("$defs", "definitions", "dependentSchemas", "patternProperties", "properties")
_NUMBERS = ("maximum", "minimum", "multipleOf")
_COUNTS = ("maxItems", "maxLength", "maxProperties", "minItems", "minLength", "minProperties")


class JsonSchema:
    """A schema's JSON, and where its references lead. `documents` are those it refers to, by name and `$id`."""

    def __init__(self, loaded: Any, referred: Mapping[str, Any]) -> None:
        self.loaded = loaded
        self.documents: dict[str, Any] = {}
        for name, document in referred.items():
            self.documents[name] = document
            if isinstance(document, dict) and isinstance(document.get("$id"), str):
                self.documents[document["$id"].rstrip("#")] = document
        self._ids = dict(_ids(loaded))

    def resolve(self, reference: str, document: Any) -> tuple[Any, Any] | None:
        """The schema that a $ref of this document leads to, and the document it is in; None where there is none."""
        address, fragment = urldefrag(reference)
        target = document
        if address:
            found = self._find(address)
            if found is None:
                return None
            target = found
        elif fragment and not fragment.startswith("/"):
            found = self._ids.get(f"#{fragment}")
            return None if found is None else (found, document)
        for part in unquote(fragment).split("/")[1:]:
            part = part.replace("~1", "/").replace("~0", "~")
            if isinstance(target, dict) and part in target:
                step = target[part]
            elif isinstance(target, list) and part.isdecimal() and len(part) < 9 and int(part) < len(target):
                step = target[int(part)]
            else:
                return None
            document, target = (document if not address else found), step
        return target, (found if address else document)

    def _find(self, address: str) -> Any:
        if address in self.documents:
            return self.documents[address]
        if address in self._ids:
            return self._ids[address]
        # A relative address against an $id: the last part is what is told by people.
        last = address.rpartition("/")[2]
        return self.documents.get(last, self._ids.get(last))


def parse_json_schema(text: str, references: Mapping[str, str], *, strict: bool = True) -> JsonSchema:
    """Raises InvalidSchema. What is registered already is not checked again."""
    loaded = _load(text, "the schema")
    referred = {name: _load(referred, f"the reference {name}") for name, referred in references.items()}
    schema = JsonSchema(loaded, referred)
    if strict:
        _Check(schema).check(loaded, "", 0)
    return schema


def _load(text: str, what: str) -> Any:
    try:
        loaded = json.loads(text)
        json.dumps(loaded, ensure_ascii=False).encode()
    except RecursionError:
        raise InvalidSchema(f"{what} is nested too deep.") from None
    except ValueError as error:
        where = (
            f": {error.msg} at line {error.lineno} column {error.colno}"
            if isinstance(error, json.JSONDecodeError)
            else ""
        )
        raise InvalidSchema(f"{what} is not JSON{where}.") from None
    return loaded


def _ids(loaded: Any) -> Iterator[tuple[str, Any]]:
    left, count = [loaded], 0
    while left and count < _PARTS_MAX:
        count += 1
        part = left.pop()
        if isinstance(part, dict):
            for name in ("$id", "id"):
                if isinstance(part.get(name), str):
                    yield part[name].rstrip("#"), part
            for name in ("$anchor", "$dynamicAnchor"):
                if isinstance(part.get(name), str):
                    yield f"#{part[name]}", part
            left += part.values()
        elif isinstance(part, list):
            left += part


class _Check:
    def __init__(self, schema: JsonSchema) -> None:
        self._schema = schema
        self._parts = 0

    def check(self, given: Any, path: str, depth: int) -> None:
        self._parts += 1
        if depth > _DEPTH_MAX or self._parts > _PARTS_MAX:
            raise InvalidSchema(f"{path[:200]}: the schema is nested more than {_DEPTH_MAX} deep, or too large.")
        if isinstance(given, bool):
            return
        if not isinstance(given, dict):
            raise InvalidSchema(f"{path or '/'}: a JSON Schema is an object or a boolean, not {json.dumps(given):.60}.")
        self._check_words(given, path)
        for name, value in given.items():
            place = f"{path}/{name:.60}"
            if name in ONE:
                self.check(value, place, depth + 1)
            elif name in MANY or (name == "items" and isinstance(value, list)):
                if not isinstance(value, list):
                    raise InvalidSchema(f"{place}: it must be a list of schemas.")
                for number, each in enumerate(value):
                    self.check(each, f"{place}/{number}", depth + 1)
            elif name == "items":
                self.check(value, place, depth + 1)
            elif name in NAMED:
                if not isinstance(value, dict):
                    raise InvalidSchema(f"{place}: it must be an object of schemas.")
                for part, each in value.items():
                    self.check(each, f"{place}/{part:.60}", depth + 1)

    def _check_words(self, given: dict[str, Any], path: str) -> None:
        kinds = given.get("type", [])
        kinds = [kinds] if isinstance(kinds, str) else kinds
        if not isinstance(kinds, list) or any(kind not in TYPES for kind in kinds):
            raise InvalidSchema(f"{path}/type: {json.dumps(given['type']):.60} must be of {', '.join(TYPES)}.")
        required = given.get("required", [])
        # In draft 3 it stands with a property, true or false.
        if not isinstance(required, bool) and not (
            isinstance(required, list) and all(isinstance(each, str) for each in required)
        ):
            raise InvalidSchema(f"{path}/required: it must be a list of the names of properties.")
        for name in _NUMBERS:
            if name in given and (isinstance(given[name], bool) or not isinstance(given[name], (int, float))):
                raise InvalidSchema(f"{path}/{name}: it must be a number.")
        for name in _COUNTS:
            if name in given and (type(given[name]) not in (int, float) or given[name] < 0 or given[name] % 1):
                raise InvalidSchema(f"{path}/{name}: it must be a number of at least 0.")
        if "enum" in given and not isinstance(given["enum"], list):
            raise InvalidSchema(f"{path}/enum: it must be a list of values.")
        pattern = given.get("pattern")
        if pattern is not None:
            if not isinstance(pattern, str):
                raise InvalidSchema(f"{path}/pattern: it must be a text.")
            _check_pattern(pattern, path)
        reference = given.get("$ref")
        if reference is None:
            return
        if not isinstance(reference, str) or self._schema.resolve(reference, self._schema.loaded) is None:
            raise InvalidSchema(
                f"{path}/$ref: {json.dumps(reference):.120} leads nowhere; register what it means and name it in "
                "references (nothing is fetched from an address)."
            )


def _check_pattern(pattern: str, path: str) -> None:
    """Only what no dialect takes is refused: that of JSON Schema is not Python's."""
    if len(pattern) > 10_000:
        raise InvalidSchema(f"{path}/pattern: it has more than 10000 characters.")
    if "\\" in pattern or "[" in pattern or pattern.count("(") == pattern.count(")"):
        # Not compiled: that of some sets takes seconds, in which nobody is answered.
        return
    try:
        re.compile(pattern)
    except (re.error, OverflowError, RecursionError):
        raise InvalidSchema(f"{path}/pattern: {pattern[:60]!r} is no pattern: a parenthesis has no partner.") from None


def written(loaded: Any, *, normalize: bool = False) -> str:
    """A schema's JSON as the registry keeps it: without spaces; normalized, the parts of each object by name."""
    return json.dumps(loaded, separators=(",", ":"), ensure_ascii=False, sort_keys=normalize)
