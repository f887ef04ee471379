"""A place in a JSON value, `$.customer.orders[0]["unit price"]`, and what may stand there.

A path names one place: names and indexes, no wildcards. It is compared with what was typed: a number with numbers, text
with text, `true`, `false` and `null` with themselves. "contains" looks into text, and into the JSON of anything else.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from ottla.errors import UserMistake

MISSING = object()
OPERATORS = ("=", "!=", "<", "<=", ">", ">=", "contains", "exists")

_STEP = re.compile(r"""\.(?P<name>[^.\[\]"']+)|\[(?P<index>-?\d{1,9})\]|\["(?P<quoted>(?:[^"\\]|\\.)*)"\]""")
_ALLOWED = 'such as $.customer.id, $.items[0].price or $["unit price"]'


class JsonPath:
    """A path and a comparison; UserMistake for what is none. `steps` are its names and indexes."""

    def __init__(self, path: str, operator: str = "exists", operand: str = "") -> None:
        if operator not in OPERATORS:
            raise UserMistake(f"{operator:.20} is no comparison of a JSON path; allowed are {', '.join(OPERATORS)}")
        self.steps = read_path(path)
        self.operator = operator
        self.operand = operand
        self.number = _number(operand)
        self._test = self._tests()[operator]

    def holds(self, document: Any) -> bool:
        """Whether there is something at the path, and it compares so."""
        found = self.find(document)
        return found is not MISSING and self._test(found)

    def find(self, document: Any) -> Any:
        """What stands at the path; MISSING where nothing does."""
        for step in self.steps:
            if isinstance(step, str):
                if not isinstance(document, dict) or step not in document:
                    return MISSING
            elif not isinstance(document, list) or not -len(document) <= step < len(document):
                return MISSING
            document = document[step]
        return document

    def _tests(self) -> dict[str, Callable[[Any], bool]]:
        return {
            "exists": lambda found: True,
            "=": self._is_equal,
            "!=": lambda found: not self._is_equal(found),
            "<": lambda found: self._order(found) < 0,
            "<=": lambda found: self._order(found) <= 0 and self._is_ordered(found),
            ">": lambda found: self._order(found) > 0,
            ">=": lambda found: self._order(found) >= 0 and self._is_ordered(found),
            "contains": lambda found: self.operand in (found if isinstance(found, str) else _json(found)),
        }

    def _is_equal(self, found: Any) -> bool:
        if isinstance(found, str):
            return found == self.operand
        if isinstance(found, bool) or found is None:
            return _json(found) == self.operand
        if isinstance(found, int | float):
            return self.number is not None and found == self.number
        return _json(found) == self.operand

    def _is_ordered(self, found: Any) -> bool:
        is_number = isinstance(found, int | float) and not isinstance(found, bool)
        return (is_number and self.number is not None) or isinstance(found, str)

    def _order(self, found: Any) -> int:
        """-1, 0 or 1; 0 where the two have no order."""
        if not self._is_ordered(found):
            return 0
        wanted: Any = self.operand if isinstance(found, str) else self.number
        return int(found > wanted) - int(found < wanted)


def read_path(path: str) -> list[str | int]:
    """The names and indexes of a path; UserMistake."""
    text = path.strip()
    if not text.startswith("$"):
        # What is meant by `customer.id` is plain.
        text = "$" + text if text.startswith("[") else "$." + text.lstrip(".")
    steps: list[str | int] = []
    at = 1
    while at < len(text):
        match = _STEP.match(text, at)
        step = None if match is None else _step(match)
        if match is None or step is None:
            raise UserMistake(f"the JSON path {path:.80} is not understood from its character {at + 1} on; {_ALLOWED}")
        steps.append(step)
        at = match.end()
    if not steps:
        raise UserMistake(f"the JSON path {path:.80} names nothing; {_ALLOWED}")
    return steps


def _step(match: re.Match[str]) -> str | int | None:
    """A name or an index; None where what is quoted is no text of JSON's."""
    if match["index"] is not None:
        return int(match["index"])
    if match["name"] is not None:
        return match["name"]
    try:
        return str(json.loads(f'"{match["quoted"]}"'))
    except ValueError:
        return None


def _number(text: str) -> int | float | None:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, int | float) and not isinstance(found, bool) else None


def _json(found: Any) -> str:
    return json.dumps(found, ensure_ascii=False, default=str)
