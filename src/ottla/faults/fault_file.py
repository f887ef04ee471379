"""Faults from a TOML file: tables `[[fault]]`, each with a kind and that fault's fields, as in a file of `ottla trial`.

    [[fault]]
    kind = "lose_ack"
    topic = "orders"
    nth = 3

Every error names the file and the line.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Mapping
from typing import Any

from ottla.errors import ConfigError
from ottla.faults.fault import Fault, fault_from
from ottla.nearest import nearest_name

_TABLE = re.compile(r"\s*\[\[\s*fault\s*\]\]")


def read_faults(text: str, where: str, check: Callable[[Fault], None] = lambda _: None) -> list[Fault]:
    """The faults of a TOML text, in their order; ConfigError says the place. `check` may raise one, too."""
    try:
        given = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{where} is not TOML: {error}") from None
    lines = text.splitlines()
    for name in given:
        if name != "fault":
            near = nearest_name(name, ["fault"])
            hint = " did you mean [[fault]]?" if near else ""
            told = f"{name!r} is not for a file of faults;{hint} it takes [[fault]] alone"
            raise ConfigError(f"{where}{_line_of(lines, 0, name)}: {told}")
    tables = given.get("fault", [])
    if not isinstance(tables, list) or not all(isinstance(each, dict) for each in tables):
        raise ConfigError(f"{where}{_line_of(lines, 0, 'fault')}: each fault stands under a line [[fault]]")
    if not tables:
        raise ConfigError(f"{where} holds no fault: write one under a line [[fault]]")
    begins = [number for number, line in enumerate(lines) if _TABLE.match(line)]
    # Where faults are written in another way, as in `fault = [{...}]`, nobody knows their lines.
    known = begins if len(begins) == len(tables) else [None] * len(tables)
    return [_read_one(each, lines, begin, where, check) for each, begin in zip(tables, known, strict=True)]


def _read_one(
    given: Mapping[str, Any], lines: list[str], begin: int | None, where: str, check: Callable[[Fault], None]
) -> Fault:
    try:
        fault = fault_from(given)
        check(fault)
    except ConfigError as error:
        told = str(error)
        place = "" if begin is None else _line_of(lines, begin, field_in(told, given))
        raise ConfigError(f"{where}{place}: {told}") from None
    return fault


def field_in(told: str, given: Mapping[str, Any]) -> str:
    """The field that a sentence is about, as far as it names one; the kind otherwise."""
    names = (name for name in given if name != "kind")
    return next((name for name in names if f"{name}=" in told or f"no field {name};" in told), "kind")


def _line_of(lines: list[str], begin: int, name: str) -> str:
    """ ", line 7": where a name is set from `begin` on, or else where its table begins."""
    found = re.compile(rf"\s*(\[+\s*)?{re.escape(name)}\b")
    for number in range(begin, len(lines)):
        if number > begin and _TABLE.match(lines[number]) and name != "fault":
            break
        if found.match(lines[number]):
            return f", line {number + 1}"
    return f", line {begin + 1}"
