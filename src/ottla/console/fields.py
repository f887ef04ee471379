"""The fields of a request, read; UserMistake says which one is wrong and what it may be."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ottla.errors import UserMistake

_MOST = (1 << 63) - 1
_CURSOR = re.compile(r"\d{1,9}:\d{1,18}(,\d{1,9}:\d{1,18})*")


def text(given: Mapping[str, Any], name: str) -> str | None:
    """A text, None where it is missing or empty."""
    value = given.get(name)
    if value is not None and not isinstance(value, str):
        raise UserMistake(f"{name} must be text, not {value!r:.40}")
    return value or None


def number(
    given: Mapping[str, Any], name: str, default: int | None = None, *, least: int = 0, most: int = _MOST
) -> int:
    """A whole number, as a number or as its digits."""
    value = given.get(name)
    if value is None or value == "":
        if default is None:
            raise UserMistake(f"{name} is missing: a whole number")
        return default
    if isinstance(value, str) and re.fullmatch(r"\d{1,19}", value):
        value = int(value)
    if type(value) is not int or not least <= value <= most:
        allowed = f"from {least} on" if most == _MOST else f"from {least} to {most}"
        raise UserMistake(f"{name} must be a whole number {allowed}, not {value!r:.40}")
    return value


def flag(given: Mapping[str, Any], name: str, default: bool = False) -> bool:
    """true or false."""
    value = given.get(name, default)
    if isinstance(value, bool):
        return value
    if value not in ("true", "false"):
        raise UserMistake(f"{name} must be true or false, not {value!r:.40}")
    return bool(value == "true")


def cursor_of(given: Mapping[str, Any]) -> dict[int, int] | None:
    """{partition: offset} of "0:12,1:7"; None where it is missing."""
    value = text(given, "cursor")
    if value is None:
        return None
    if not _CURSOR.fullmatch(value):
        raise UserMistake("cursor must be PARTITION:OFFSET, several with commas")
    return {int(partition): int(offset) for partition, _, offset in (each.partition(":") for each in value.split(","))}
