"""JSON values -> objects that an Avro schema takes: JSON has neither times nor decimals nor bytes.

It takes what `ottla read` shows: dates and times are texts in ISO 8601, decimals are numbers or texts, bytes are texts
with a character for each byte (as in Avro's JSON encoding), NaN and infinities are texts, and a union of several types
is an object with the fields `member0`, `member1` and so on. A union may also be what Avro's JSON encoding has for it,
`{"string": "tea"}`. A value that cannot be converted stays as it is: the encoder then raises its error.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal, InvalidOperation
from typing import Any

from ottla.schemas.avro.columns import members
from ottla.schemas.avro.schema import AvroType

# The whole seconds, the digits behind them, and the zone.
_NANOSECONDS = re.compile(r"(.*)\.(\d{7,9})(\D.*)?")
_MICROSECOND = timedelta(microseconds=1)


def from_json(given: Any, type_: AvroType) -> Any:
    """The object for a value that `json.loads(..., parse_float=Decimal)` made."""
    if type_.kind == "union":
        return _of_union(given, type_)
    if isinstance(given, dict):
        if type_.kind == "map" and type_.items is not None:
            return {name: from_json(value, type_.items) for name, value in given.items()}
        types = {field.name: field.type for field in type_.fields}
        return {name: from_json(value, types[name]) if name in types else value for name, value in given.items()}
    if isinstance(given, list) and type_.items is not None:
        return [from_json(value, type_.items) for value in given]
    if type_.logical == "decimal":
        return _decimal(given)
    if isinstance(given, Decimal):
        return float(given)
    return _of_text(given, type_) if isinstance(given, str) else given


def _of_union(given: Any, type_: AvroType) -> Any:
    held = members(type_)
    if isinstance(given, dict):
        branch, value = _branch(given, held)
        if branch is not None:
            made = from_json(value, branch)
            return made if len(held) == 1 else (branch.name or branch.kind, made)
        if given and all(value is None for value in given.values()) and _are_members(given, held):
            return None
    if given is not None and len(held) == 1:
        return from_json(given, held[0])
    return float(given) if isinstance(given, Decimal) else given


def _branch(given: dict[str, Any], held: list[AvroType]) -> tuple[AvroType | None, Any]:
    """The branch that an object names, and the value for it; no branch if the object may be a value itself."""
    if _are_members(given, held):
        is_set = [number for number, value in enumerate(given.values()) if value is not None]
        return (held[is_set[0]], given[f"member{is_set[0]}"]) if len(is_set) == 1 else (None, None)
    if len(given) != 1 or any(branch.kind == "map" or _has_a_field_of(branch, given) for branch in held):
        return None, None
    [(name, value)] = given.items()
    named = [branch for branch in held if name == (branch.name or branch.kind)]
    return (named[0], value) if len(named) == 1 else (None, None)


def _has_a_field_of(type_: AvroType, given: dict[str, Any]) -> bool:
    return any(field.name in given for field in type_.fields)


def _are_members(given: dict[str, Any], held: list[AvroType]) -> bool:
    return len(held) > 1 and list(given) == [f"member{number}" for number in range(len(held))]


def _decimal(given: Any) -> Any:
    try:
        return Decimal(given) if isinstance(given, str) else given
    except InvalidOperation:
        return given


def _of_text(given: str, type_: AvroType) -> Any:
    try:
        if type_.kind in ("bytes", "fixed"):
            return given.encode("latin-1")
        if type_.kind in ("float", "double"):
            return float(given) if given in ("NaN", "Infinity", "-Infinity") else given
        if type_.logical == "date":
            return date.fromisoformat(given)
        if "time" in type_.logical and (fine := _NANOSECONDS.fullmatch(given)):
            return _nanoseconds(fine, type_) if type_.logical.endswith("nanos") else given
        if type_.logical.startswith("time-"):
            return time.fromisoformat(given)
        if "timestamp" in type_.logical:
            return datetime.fromisoformat(given)
    except ValueError:
        return given
    return given


def _nanoseconds(given: re.Match[str], type_: AvroType) -> Any:
    """The number that a time with more than six digits is, since Python's times have six."""
    whole, digits, zone = given.groups("")
    at = datetime.fromisoformat(whole + zone)
    if (at.tzinfo is None) != type_.logical.startswith("local"):
        return given[0]
    epoch = datetime(1970, 1, 1, tzinfo=None if at.tzinfo is None else UTC)
    return (at - epoch) // _MICROSECOND * 1000 + int(digits.ljust(9, "0"))
