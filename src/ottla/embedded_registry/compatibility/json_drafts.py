"""Whether two JSON Schemas can be compared word by word: a draft ignores the words of later ones, as validators do."""

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
_UNTIL: Final = {"additionalItems": 2019, "dependencies": 7}


def draft_difference(reader: JsonSchema, writer: JsonSchema) -> Difference | None:
    """Why the words of two schemas may mean what they do not say: it is not known then what the schemas allow."""
    drafts = [_draft(each.loaded) for each in (reader, writer)]
    if drafts[0] == drafts[1] and reader.loaded == writer.loaded:
        return None
    for schema, draft, whose in ((reader, drafts[0], "the new schema's"), (writer, drafts[1], "the old schema's")):
        for word in _words(schema.loaded):
            if draft < _SINCE.get(word, 0) or draft > _UNTIL.get(word, draft):
                return Difference("DRAFT_CHANGED", f"/{word}", f"{whose} draft does not know {word}, and ignores it")
    if drafts[0] == 4 != drafts[1] and "integer" in _words(writer.loaded):
        return Difference("DRAFT_CHANGED", "/type", "1.0 may have been an integer, and is none in draft 4")
    return None


def _draft(loaded: Any) -> int:
    named = loaded.get("$schema") if isinstance(loaded, dict) else None
    found = [draft for name, draft in _DRAFTS.items() if isinstance(named, str) and name in named]
    return found[0] if found else _WITHOUT_ONE


def _words(loaded: Any) -> Iterator[str]:
    """The keywords of a schema and of its parts, and "integer" where that is a type."""
    left = [loaded]
    while left:
        schema = left.pop()
        if not isinstance(schema, dict):
            continue
        yield from schema
        if "integer" in (schema.get("type"), *_listed(schema.get("type"))):
            yield "integer"
        left += [schema[word] for word in ONE if word in schema]
        left += [part for word in MANY for part in _listed(schema.get(word))]
        left += [schema.get("items"), *_listed(schema.get("items"))]
        for word in NAMED:
            if isinstance(schema.get(word), dict):
                left += schema[word].values()


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
