"""One thing that can be asked for: a method, a path, the fields it takes, and the function that does it.

Fields stand in the query of a GET and in the JSON object of a POST. What is asked for is checked here in the same way
for all routes, so that a function gets fields that hold what they may, each under its name and only if it was given.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

from ottla.faults.fields import Field, May
from ottla.faults.verbs import Verbs
from ottla.nearest import nearest_name

WAIT_MAX_S = 600
DEFAULT_WAIT_S = 10.0


class Held(Protocol):
    """A cluster or a proxy, as far as all routes need it."""

    @property
    def faults(self) -> Verbs:
        """Its faults."""
        ...

    @property
    def is_running(self) -> bool:
        """Whether it can still be asked."""
        ...


# A route's function. Its first argument is a Cluster for routes about brokers, a Proxy for those about a proxy.
Does = Callable[[Any, "Asked"], dict[str, Any]]


class Refusal(Exception):
    """What is asked for is not done: an HTTP status, one sentence, and headers besides."""

    def __init__(self, status: int, sentence: str, **headers: str) -> None:
        super().__init__(sentence)
        self.status = status
        self.headers = headers


class Asked(NamedTuple):
    """`path`: what stands in the place of each {name} of a route's path. `given`: the fields that were given."""

    path: Mapping[str, str]
    given: Mapping[str, Any]

    def number(self, name: str, what: str = "a number") -> int:
        """A part of the path that is a number, or `what` it may be; Refusal."""
        text = self.path[name]
        if not (text.isascii() and text.isdecimal() and len(text) <= 18):
            raise Refusal(404, f"there is no {name} {text!r:.60}: give {what}.")
        return int(text)


class Route(NamedTuple):
    """`says` is for people; with `takes_anything` the function checks the fields by itself."""

    method: str
    path: str
    does: Does
    says: str
    wanted: tuple[Field, ...] = ()
    optional: tuple[Field, ...] = ()
    takes_anything: bool = False
    status: int = 200

    def fields(self) -> dict[str, Field]:
        """All its fields by name, those first that it wants."""
        return {field.name: field for field in (*self.wanted, *self.optional)}

    def match(self, parts: list[str]) -> dict[str, str] | None:
        """What stands in the place of each {name}; None for another path."""
        own = self.path.strip("/").split("/")
        if len(own) != len(parts):
            return None
        found: dict[str, str] = {}
        for wanted, part in zip(own, parts, strict=True):
            if wanted.startswith("{"):
                found[wanted.strip("{}")] = part
            elif wanted != part:
                return None
        return found

    def check(self, given: Mapping[str, Any]) -> None:
        """Refusal where a field is missing, unknown or not what it may be."""
        if self.takes_anything:
            return
        fields = self.fields()
        for name, value in given.items():
            field = fields.get(name)
            if field is None:
                near = nearest_name(name, fields)
                hint = f" did you mean {near!r}?" if near is not None else ""
                known = ", ".join(fields) or "none"
                raise Refusal(400, f"{self.path} has no field {name!r:.60};{hint} its fields: {known}.")
            if not field.may.holds(value):
                raise Refusal(400, f"{name}={value!r:.60} must be {field.may.words}.")
        for field in self.wanted:
            if field.name not in given:
                raise Refusal(400, f"{self.path} needs {field.name}: {field.says}.")

    def described(self) -> dict[str, Any]:
        """What the list of all routes says of it."""
        return {"method": self.method, "path": self.path, "what": self.says, "fields": self._described_fields()}

    def _described_fields(self) -> list[dict[str, Any]]:
        return [described_field(field, field in self.wanted) for field in self.fields().values()]


def described_field(field: Field, is_wanted: bool) -> dict[str, Any]:
    """A field for those who cannot look into the source."""
    return {"name": field.name, "what": field.says, "must_be": field.may.words, "wanted": is_wanted}


def _is_wait(value: Any) -> bool:
    return type(value) in (int, float) and math.isfinite(value) and 0 <= value <= WAIT_MAX_S


TIMEOUT = Field(
    "timeout",
    May(f"a number of seconds from 0 to {WAIT_MAX_S}", _is_wait),
    f"how long to wait at most, in seconds; {DEFAULT_WAIT_S:g} unless given",
)
