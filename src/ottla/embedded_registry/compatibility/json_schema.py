"""Whether every JSON value that one schema allows is allowed by another one.

That question has no answer in general, so what is said here is safe rather than complete: where it is not clear, it
counts as a difference. What is understood: `type`, `enum`, `const`, `properties`, `required`, `additionalProperties`,
`patternProperties`, `items`, `prefixItems`, `additionalItems`, bounds of numbers, lengths and counts, `multipleOf`,
`uniqueItems`, `allOf`, `anyOf`, `oneOf`, and `$ref` with recursion. Of `pattern`, `not`, `if`, `dependentRequired` and
everything else: that the reader has none of it, or exactly the writer's. Words that only describe do not count.
"""

from __future__ import annotations

import json
import math
from typing import Any

from ottla.embedded_registry.compatibility.difference import Budget, Difference
from ottla.embedded_registry.compatibility.json_drafts import as_read, draft_difference
from ottla.embedded_registry.json_schema import TYPES, JsonSchema

_DESCRIBE = {"$anchor", "$comment", "$defs", "$dynamicAnchor", "$id", "$schema", "contentEncoding", "contentMediaType",
             "contentSchema", "default", "definitions", "deprecated", "description", "examples", "format", "id",
             "readOnly", "title", "writeOnly"}  # fmt: skip
_LOWER = {"minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties"}
_UPPER = {"maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties"}
_UNDERSTOOD = _LOWER | _UPPER | {"$ref", "additionalItems", "additionalProperties", "allOf", "anyOf", "const", "enum",
    "items", "multipleOf", "oneOf", "patternProperties", "prefixItems", "properties", "required", "type",
    "uniqueItems"}  # fmt: skip
# Words whose meaning depends on each other: those of two schemas are not mixed.
_TOGETHER = ({"additionalItems", "items", "prefixItems"}, {"if", "then", "else"},
             {"contains", "minContains", "maxContains"})  # fmt: skip
# What these say depends on the words beside them, or on where a reference comes from.
_OF_ALL = ("$dynamicRef", "$recursiveRef", "unevaluatedItems", "unevaluatedProperties")
_DEPTH_MAX = 100
_NONE = 1 << 30
# Each takes tens of microseconds.
_STEPS_MAX = 10_000

# A schema, and the document that its references are looked up in.
Part = tuple[Any, Any]


def json_differences(reader: JsonSchema, writer: JsonSchema) -> list[Difference]:
    """What the writer's schema allows and the reader's does not; nothing where the reader takes all."""
    drafts = draft_difference(reader, writer)
    if drafts is not None:
        return [drafts]
    reader, writer = as_read(reader), as_read(writer)
    return _Comparison(reader, writer).compare((reader.loaded, reader.loaded), (writer.loaded, writer.loaded), "", 0)


class _Comparison:
    def __init__(self, reader: JsonSchema, writer: JsonSchema) -> None:
        self._reader, self._writer = reader, writer
        # Pairs by their identities, with how many are around them.
        self._under_way: dict[tuple[int, int], int] = {}
        # What was found of a pair, and its schemas, which keeps their identities their own.
        self._compared: dict[tuple[int, int], tuple[list[Difference], Part, Part]] = {}
        # The outermost pair that was taken to fit because it is under way.
        self._assumed = _NONE
        self._budget = Budget(_STEPS_MAX)
        # Whether two documents are the same, by their identities: one comparison meets few documents, and often.
        self._same_documents: dict[tuple[int, int], bool] = {}

    def compare(self, reader: Part, writer: Part, path: str, depth: int) -> list[Difference]:
        self._budget.spend()
        if depth > _DEPTH_MAX:
            return [Difference("TOO_DEEP", path[:200], f"the schemas are nested more than {_DEPTH_MAX} deep")]
        reader, writer = _followed(self._reader, reader, narrow=True), _followed(self._writer, writer)
        pair = id(reader[0]), id(writer[0])
        # A recursive schema: this pair is being compared already, and is assumed to match until that has ended.
        if pair in self._under_way:
            self._assumed = min(self._assumed, self._under_way[pair])
            return []
        if pair in self._compared:
            # A pair that occurs in many places is told with one difference in each further place.
            return [Difference(each.kind, path, each.told) for each in self._compared[pair][0][:1]]
        around, self._assumed = self._assumed, _NONE
        place = self._under_way[pair] = len(self._under_way)
        try:
            found = self._compare(reader, writer, path, depth)
            # If the schema has not changed, it matches, also where its keywords are not understood.
            found = [] if found and self._is_the_same(reader, writer) else found
        finally:
            del self._under_way[pair]
        # A match that rests on an outer pair, which is still being compared, is not kept: that pair may differ.
        if found or self._assumed >= place:
            self._compared[pair] = found, reader, writer
            self._assumed = _NONE
        self._assumed = min(self._assumed, around)
        return found

    def _compare(self, reader: Part, writer: Part, path: str, depth: int) -> list[Difference]:
        allowed, written = _as_boolean(reader[0]), _as_boolean(writer[0])
        reader = allowed, reader[1]
        if allowed is True or allowed == {} or written is False:
            return []
        if allowed is False:
            return [Difference("NOT_ALLOWED", path, "nothing is allowed here any more")]
        if written is True:
            written = {}
        writer = written, writer[1]
        # What the writer joins by "or" must be allowed branch by branch.
        for word in ("anyOf", "oneOf"):
            if word in written:
                rest = {name: value for name, value in written.items() if name not in ("anyOf", "oneOf")}
                return self._each_branch(reader, written[word], rest, writer[1], f"{path}/{word}", path, depth)
        if "allOf" in written:
            writer = _joined(self._writer, writer, self._budget, depth)
            written = writer[0]
            if written is False:
                return []
        found = []
        for part in allowed.get("allOf", ()):
            found += self.compare((part, reader[1]), writer, path, depth + 1)
        for word in ("anyOf", "oneOf"):
            if word in allowed and not self._some_branch(reader, writer, word, path, depth):
                found.append(
                    Difference(
                        "SUM_TYPE_NARROWED", f"{path}/{word}", f"no schema of {word} allows all that was allowed"
                    )
                )
        return found + self._own_words(reader, writer, path, depth)

    def _each_branch(
        self, reader: Part, branches: Any, rest: dict[str, Any], document: Any, place: str, path: str, depth: int
    ) -> list[Difference]:
        found = []
        for number, branch in enumerate(branches):
            joined = branch if not rest or branch is False else {"allOf": [rest, branch]}
            differences = self.compare(reader, (joined, document), path, depth + 1)
            found += [
                Difference(each.kind, f"{place}/{number}{each.path[len(path) :]}", each.told) for each in differences
            ]
        return found

    def _some_branch(self, reader: Part, writer: Part, word: str, path: str, depth: int) -> bool:
        branches = reader[0][word]
        fitting = [
            number
            for number, branch in enumerate(branches)
            if not self.compare((branch, reader[1]), writer, path, depth + 1)
        ]
        if word == "anyOf" or not fitting:
            return bool(fitting)
        # One of several must fit and no other: that is certain where the others have other types.
        kinds = self._values_of(branches[fitting[0]], reader)
        others = (branch for number, branch in enumerate(branches) if number != fitting[0])
        return all(not kinds & self._values_of(other, reader) for other in others)

    def _values_of(self, branch: Any, reader: Part) -> set[str]:
        """The kinds of values that a branch may allow: an integer is a number, too."""
        kinds = _kinds(_followed(self._reader, (branch, reader[1]))[0])
        return kinds | {"integer"} if "number" in kinds else kinds

    def _own_words(self, reader: Part, writer: Part, path: str, depth: int) -> list[Difference]:
        allowed, written = reader[0], writer[0]
        found = _compare_kinds(allowed, written, path) + _compare_values(allowed, written, path)
        if any(each.kind == "TYPE_NARROWED" for each in found):
            return found
        kinds = _kinds(written)
        for word in sorted(allowed):
            if word in _LOWER | _UPPER:
                found += _compare_bounds(word, allowed, written, path, kinds)
            elif word not in _UNDERSTOOD | _DESCRIBE and not self._is_unchanged(word, reader, writer):
                found.append(
                    Difference("KEYWORD_CHANGED", f"{path}/{word}", f"{word} is new or another one than before")
                )
        step = allowed.get("multipleOf")
        if step is not None and kinds & {"number", "integer"} and not _is_multiple(written.get("multipleOf"), step):
            found.append(
                Difference("MULTIPLE_OF_CHANGED", f"{path}/multipleOf", "not every number allowed so far is a multiple")
            )
        if "object" in kinds:
            found += self._objects(reader, writer, path, depth)
        if "array" in kinds:
            found += self._arrays(reader, writer, path, depth)
        return found

    def _objects(self, reader: Part, writer: Part, path: str, depth: int) -> list[Difference]:
        allowed, written = reader[0], writer[0]
        found = []
        missing = [name for name in _required(allowed) if name not in _required(written)]
        found += [
            Difference("REQUIRED_ATTRIBUTE_ADDED", f"{path}/required", f"the property {name} was not required")
            for name in missing
        ]
        given = written.get("patternProperties")
        patterns = [*given.values()] if isinstance(given, dict) else []
        has_same = "patternProperties" in allowed and self._is_unchanged("patternProperties", reader, writer)
        if allowed.get("patternProperties") and not has_same:
            # Told once; what the patterns stand for is not looked into.
            found.append(
                Difference("PATTERN_PROPERTY_CHANGED", f"{path}/patternProperties", "it is not the same as before")
            )
        properties, before = allowed.get("properties", {}), written.get("properties", {})
        more, more_before = allowed.get("additionalProperties", True), written.get("additionalProperties", True)
        for name, schema in properties.items():
            source = before.get(name, more_before)
            place = f"{path}/properties/{name:.100}"
            differences = self.compare((schema, reader[1]), (source, writer[1]), place, depth + 1)
            if name not in before:
                for pattern in patterns:
                    differences += self.compare((schema, reader[1]), (pattern, writer[1]), place, depth + 1)
            if differences and name not in before:
                told = f"the property {name} may have been there with any value, since others were allowed"
                differences = [Difference("PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL", place, told)]
            found += differences
        for name, schema in before.items():
            if name not in properties:
                place = f"{path}/properties/{name:.100}"
                differences = self.compare((more, reader[1]), (schema, writer[1]), place, depth + 1)
                if differences:
                    told = f"the property {name} was allowed, and is not any more"
                    found.append(Difference("PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL", place, told))
        for pattern in () if has_same else patterns:
            if self.compare((more, reader[1]), (pattern, writer[1]), f"{path}/patternProperties", depth + 1):
                told = "properties of a pattern were allowed, and are not any more"
                found.append(Difference("PATTERN_PROPERTY_CHANGED", f"{path}/patternProperties", told))
        return found + self.compare(
            (more, reader[1]), (more_before, writer[1]), f"{path}/additionalProperties", depth + 1
        )

    def _arrays(self, reader: Part, writer: Part, path: str, depth: int) -> list[Difference]:
        first, rest = _items(reader[0])
        first_before, rest_before = _items(writer[0])
        found = []
        most = _most_items(writer[0])
        if reader[0].get("uniqueItems") is True and writer[0].get("uniqueItems") is not True:
            found.append(Difference("UNIQUE_ITEMS_ADDED", f"{path}/uniqueItems", "items may have been there twice"))
        told = max(len(first), len(first_before))
        for number in range(int(min(most, told))):
            schema = first[number] if number < len(first) else rest
            source = first_before[number] if number < len(first_before) else rest_before
            found += self.compare((schema, reader[1]), (source, writer[1]), f"{path}/items/{number}", depth + 1)
        if most <= told:
            # There is none behind those.
            return found
        return found + self.compare((rest, reader[1]), (rest_before, writer[1]), f"{path}/items", depth + 1)

    def _is_unchanged(self, word: str, reader: Part, writer: Part) -> bool:
        """Whether the reader's word says what the writer's does."""
        allowed, written = reader[0], writer[0]
        if not _same(allowed[word], written.get(word)):
            return False
        if word in _OF_ALL:
            return self._has_same_document(reader, writer)
        return "$ref" not in _text(allowed[word]) or self._has_same_document(reader, writer)

    def _is_the_same(self, reader: Part, writer: Part) -> bool:
        text = _text(reader[0])
        refers = "$ref" in text or any(word in text for word in _OF_ALL[:2])
        return text == _text(writer[0]) and (not refers or self._has_same_document(reader, writer))

    def _has_same_document(self, reader: Part, writer: Part) -> bool:
        pair = id(reader[1]), id(writer[1])
        if pair not in self._same_documents:
            self._same_documents[pair] = _same(reader[1], writer[1])
        return self._same_documents[pair]


def _followed(schema: JsonSchema, part: Part, *, narrow: bool = False) -> Part:
    """What a $ref leads to. Words beside it hold since draft 2019-09: `narrow` counts them."""
    for _ in range(_DEPTH_MAX):
        given, document = part
        if not isinstance(given, dict) or "$ref" not in given:
            return part
        found = schema.resolve(given["$ref"], document)
        if found is None:
            return part
        rest = {name: value for name, value in given.items() if name != "$ref" and name not in _DESCRIBE}
        if rest and narrow:
            return {"allOf": [{"$ref": given["$ref"]}, rest]}, document
        part = found
    return part


def _joined(schema: JsonSchema, part: Part, budget: Budget, depth: int) -> Part:
    """What a writer's allOf allows, as one schema: words that meet are told by the narrower one where that is clear."""
    given, document = part
    whole = {name: value for name, value in given.items() if name != "allOf"}
    for each in given["allOf"]:
        budget.spend()
        found, its_document = _followed(schema, (each, document))
        if its_document is not document and found not in (True, {}):
            # References of another document cannot be mixed with ours: what is left out only widens what was written.
            continue
        if isinstance(found, dict) and "allOf" in found:
            # A schema that contains itself by allOf adds nothing, so the depth may be limited.
            found = _joined(schema, (found, document), budget, depth + 1)[0] if depth < _DEPTH_MAX else {}
        if found is False:
            return False, document
        taken = {word for group in _TOGETHER if not group.isdisjoint(whole) for word in group}
        for word, value in found.items() if isinstance(found, dict) else ():
            if word in taken:
                continue
            if word == "properties":
                whole[word] = {**value, **whole.get(word, {})}
            elif word == "required":
                whole[word] = sorted({*_required(whole), *_required(found)})
            elif word in _LOWER and _is_number(value) and _is_number(whole.get(word)):
                whole[word] = max(value, whole[word])
            elif word in _UPPER and _is_number(value) and _is_number(whole.get(word)):
                whole[word] = min(value, whole[word])
            else:
                whole.setdefault(word, value)
    return whole, document


def _items(schema: dict[str, Any]) -> tuple[list[Any], Any]:
    """The schemas of the first items, and that of all others."""
    items = schema.get("items", True)
    if isinstance(items, list):
        return items, schema.get("additionalItems", True)
    return schema.get("prefixItems", []), items


def _most_items(schema: dict[str, Any]) -> float:
    """How many items there may be."""
    first, rest = _items(schema)
    told: Any = schema.get("maxItems")
    most = float(told) if _is_number(told) else math.inf
    return min(most, len(first)) if _as_boolean(rest) is False else most


def _as_boolean(schema: Any) -> Any:
    """True or false for a schema that says no more than that in other words: `{}`, `{"not": {}}`, `{"not": true}`."""
    if not isinstance(schema, dict):
        return schema
    says = schema.keys() - _DESCRIBE
    if not says:
        return True
    if says == {"not"} and isinstance(inner := _as_boolean(schema["not"]), bool):
        return not inner
    return schema


def _required(schema: dict[str, Any]) -> list[str]:
    required = schema.get("required", [])
    return required if isinstance(required, list) else []


def _kinds(schema: Any) -> set[str]:
    """The types of values that a schema may allow."""
    if schema is False:
        return set()
    if schema is True or not isinstance(schema, dict):
        return {*TYPES}
    values = _allowed_values(schema)
    if "type" not in schema and isinstance(values, list):
        return {_kind_of(value) for value in values}
    given = schema.get("type", list(TYPES))
    return {given} if isinstance(given, str) else {*given}


def _allowed_values(schema: dict[str, Any]) -> Any:
    """The values that `const` and `enum` leave; None where there is neither."""
    values = schema.get("enum")
    if "const" not in schema:
        return values
    if isinstance(values, list) and _text(schema["const"]) not in {_text(each) for each in values}:
        return []
    return [schema["const"]]


def _kind_of(value: Any) -> str:
    if value is None:
        return "null"
    for kind, name in ((bool, "boolean"), (str, "string"), (dict, "object"), (list, "array"), (int, "integer")):
        if isinstance(value, kind):
            return name
    return "integer" if float(value).is_integer() else "number"


def _compare_kinds(allowed: dict[str, Any], written: dict[str, Any], path: str) -> list[Difference]:
    if "type" not in allowed:
        return []
    kinds = _kinds(allowed) | ({"integer"} if "number" in _kinds(allowed) else set())
    missing = sorted(_kinds(written) - kinds)
    if not missing:
        return []
    told = f"it may have been {', '.join(missing)}, and must be {', '.join(sorted(_kinds(allowed)))} now"
    return [Difference("TYPE_NARROWED", f"{path}/type", told)]


def _compare_values(allowed: dict[str, Any], written: dict[str, Any], path: str) -> list[Difference]:
    listed, before = _allowed_values(allowed), _allowed_values(written)
    if listed is None:
        return []
    if before is None:
        return [Difference("ENUM_ADDED", path, "any value was allowed, and only some are now")]
    known = {_text(value) for value in listed}
    missing = [value for value in before if _text(value) not in known]
    if not missing:
        return []
    return [Difference("ENUM_ARRAY_NARROWED", f"{path}/enum", f"not allowed any more: {json.dumps(missing):.100}")]


def _compare_bounds(
    word: str, allowed: dict[str, Any], written: dict[str, Any], path: str, kinds: set[str]
) -> list[Difference]:
    concerned = {"string"} if "Length" in word else {"array"} if "Items" in word else {"object"}
    if "Properties" not in word and not concerned - {"object"}:
        concerned = {"number", "integer"}
    if not kinds & concerned:
        return []
    bound, before = allowed[word], written.get(word)
    if word == "maxItems" and _most_items(written) < math.inf:
        before = _most_items(written)
    told = (
        f"{word} is {json.dumps(bound):.30}, and was {'not there' if before is None else f'{json.dumps(before):.30}'}"
    )
    if not _is_number(bound) or (before is not None and not _is_number(before)):
        # In draft 4 exclusiveMinimum is true or false.
        is_well = _same(bound, before) or bound is False
    elif word in _LOWER:
        is_well = (
            bound <= 0
            if before is None and concerned <= {"string", "array", "object"}
            else before is not None and before >= bound
        )
    else:
        is_well = before is not None and before <= bound
    return [] if is_well else [Difference("BOUND_NARROWED", f"{path}/{word}", told)]


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _is_multiple(before: Any, step: Any) -> bool:
    return _is_number(before) and _is_number(step) and step > 0 and before % step == 0


def _same(one: Any, other: Any) -> bool:
    return _text(one) == _text(other)


def _text(value: Any) -> str:
    """1 and 1.0 are one number to JSON Schema, true and 1 are not."""
    return json.dumps(int(value) if isinstance(value, float) and value.is_integer() else value, sort_keys=True)
