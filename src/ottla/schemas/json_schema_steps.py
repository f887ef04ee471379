"""Counts the steps that a JSON Schema takes for one value, because references can multiply them.

Forty definitions, each of which refers twice to the next one, are a few hundred bytes and 2^40 steps. Only schemas that
are applied to the same value are counted (`allOf`, `$ref`, `if`, ...); a reference back to itself counts once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final
from urllib.parse import unquote, urljoin

STEPS_MAX: Final = 100_000

_LISTS: Final = ("allOf", "anyOf", "oneOf")
_ONES: Final = ("not", "if", "then", "else")
_BY_NAME: Final = ("dependentSchemas", "dependencies")
_REFERENCES: Final = ("$ref", "$dynamicRef", "$recursiveRef")


class Steps:
    """Counts steps; `known` are all schemas by their URIs, the root included."""

    def __init__(self, known: Mapping[str, Any]) -> None:
        self._known = dict(known)
        self._counted: dict[int, int] = {}
        for base, document in known.items():
            for node in _objects(document):
                own = node.get("$id")
                if isinstance(own, str):
                    self._known.setdefault(_joined(base, own).rstrip("#"), node)
                for name in ("$anchor", "$dynamicAnchor"):
                    if isinstance(node.get(name), str):
                        self._known.setdefault(f"{base}#{node[name]}", node)

    def are_too_many(self) -> bool:
        """Whether some value takes more than STEPS_MAX steps."""
        return any(
            self._count(node, base) > STEPS_MAX
            for base, document in [*self._known.items()]
            for node in _objects(document)
        )

    def _count(self, node: Any, base: str) -> int:
        if not isinstance(node, dict):
            return 0
        counted = self._counted.get(id(node))
        if counted is None:
            # A reference back to this schema while it is counted adds nothing.
            self._counted[id(node)] = 0
            parts = [(part, base) for part in _parts(node)]
            parts += [self.meant(node[name], base) for name in _REFERENCES if isinstance(node.get(name), str)]
            counted = self._counted[id(node)] = 1 + sum(self._count(part, where) for part, where in parts)
        return counted

    def meant(self, reference: str, base: str) -> tuple[Any, str]:
        """The schema to which a reference refers (None if there is none), and that schema's document."""
        whole = _joined(base, reference)
        if whole in self._known:
            return self._known[whole], whole.partition("#")[0]
        uri, _, fragment = whole.partition("#")
        found = self._known.get(uri)
        for step in unquote(fragment).split("/")[1:]:
            step = step.replace("~1", "/").replace("~0", "~")
            if isinstance(found, dict):
                found = found.get(step)
            elif isinstance(found, list):
                place = int(step) if step.isascii() and step.isdecimal() and len(step) < 10 else len(found)
                found = found[place] if place < len(found) else None
        return found, uri


def _joined(base: str, uri: str) -> str:
    try:
        return urljoin(base, uri)
    except ValueError:
        return ""


def _parts(node: Mapping[str, Any]) -> Iterator[Any]:
    """The schemas that are applied to the same value."""
    for name in _LISTS:
        if isinstance(node.get(name), list):
            yield from node[name]
    yield from (node[name] for name in _ONES if name in node)
    for name in _BY_NAME:
        if isinstance(node.get(name), dict):
            yield from node[name].values()


def _objects(document: Any) -> Iterator[dict[str, Any]]:
    """Every object in a document."""
    left = [document]
    while left:
        node = left.pop()
        if isinstance(node, dict):
            yield node
            left += node.values()
        elif isinstance(node, list):
            left += node
