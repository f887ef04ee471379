"""JSON Schemas as their drafts read them: a draft ignores the keywords of later ones, and so do validators."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from ottla.embedded_registry.compatibility.difference import Difference
from ottla.embedded_registry.json_schema import MANY, NAMED, ONE, JsonSchema

_DRAFTS: Final = {"draft-04": 4, "draft-06": 6, "draft-07": 7, "2019-09": 2019, "2020-12": 2020}
_WITHOUT_ONE: Final = 7
_SINCE: Final = {
    "const": 6, "contains": 6, "propertyNames": 6, "if": 7, "then": 7, "else": 7, "dependentRequired": 2019,
    "dependentSchemas": 2019, "maxContains": 2019, "minContains": 2019, "unevaluatedItems": 2019,
    "unevaluatedProperties": 2019, "prefixItems": 2020,
}  # fmt: skip
# What a draft does not have any more.
_UNTIL: Final = {"additionalItems": 2019}
_NAMED: Final = (*NAMED, "dependencies")
# What is nested deeper is not compared.
_DEPTH_MAX: Final = 200


def as_read(schema: JsonSchema) -> JsonSchema:
    """The schema, and those that it refers to, without the keywords that are ignored."""
    own = _draft(schema.loaded, _WITHOUT_ONE)
    documents = {name: _known(each, _draft(each, own), 0) for name, each in schema.documents.items()}
    return JsonSchema(_known(schema.loaded, own, 0), documents)


def draft_difference(reader: JsonSchema, writer: JsonSchema) -> Difference | None:
    """What changed by the drafts alone, while the words stayed as they were."""
    new, old = (_draft(each.loaded, _WITHOUT_ONE) for each in (reader, writer))
    if new == old:
        return None
    words = [{word for each in (schema.loaded, *schema.documents.values()) for word in _words(each)}
             for schema in (reader, writer)]  # fmt: skip
    if new == _DRAFTS["draft-04"] and "integer" in words[0] & words[1]:
        return Difference("DRAFT_CHANGED", "/$schema", "1.0 was an integer, and is none in draft 4")
    if "dependencies" in words[0] | words[1]:
        return Difference("DRAFT_CHANGED", "/$schema", "dependencies may mean something else in another draft")
    return None


def _draft(loaded: Any, otherwise: int) -> int:
    named = loaded.get("$schema") if isinstance(loaded, dict) else None
    found = [draft for name, draft in _DRAFTS.items() if isinstance(named, str) and name in named]
    return found[0] if found else otherwise


def _known(schema: Any, draft: int, depth: int) -> Any:
    """A copy with the keywords that the draft knows."""
    if isinstance(schema, list):
        return [_known(each, draft, depth + 1) for each in schema]
    if not isinstance(schema, dict) or depth > _DEPTH_MAX:
        return schema
    made = {}
    for word, value in schema.items():
        if draft < _SINCE.get(word, 0) or draft > _UNTIL.get(word, draft):
            continue
        if word in ONE or word in MANY or word == "items":
            value = _known(value, draft, depth + 1)
        elif word in _NAMED and isinstance(value, dict):
            value = {name: _known(part, draft, depth + 1) for name, part in value.items()}
        made[word] = value
    return made


def _words(loaded: Any) -> Iterator[str]:
    """The keywords of a schema and of its parts, and "integer" where that is a type."""
    left = [loaded]
    while left:
        schema = left.pop()
        if isinstance(schema, list):
            left += schema
        if not isinstance(schema, dict):
            continue
        yield from schema
        kinds = schema.get("type")
        if kinds == "integer" or (isinstance(kinds, list) and "integer" in kinds):
            yield "integer"
        left += [schema[word] for word in (*ONE, *MANY, "items") if word in schema]
        for word in _NAMED:
            if isinstance(schema.get(word), dict):
                left += schema[word].values()
