"""JSON values -> objects that an Avro schema takes: JSON has neither times nor decimals.

Dates and times are texts in ISO 8601, decimals are numbers or texts, as `ottla read` shows them. A value that cannot be
converted stays as it is: the encoder then raises its error.
"""

from __future__ import annotations

import re
from datetime import date, datetime, time
from decimal import Decimal, InvalidOperation
from typing import Any

from ottla.schemas.avro.schema import AvroType

_NANOSECONDS = re.compile(r"\.\d{7}")


def from_json(given: Any, type_: AvroType) -> Any:
    """The object for a value that `json.loads(..., parse_float=Decimal)` made."""
    if type_.kind == "union":
        members = [branch for branch in type_.branches if branch.kind != "null"]
        if given is None or len(members) != 1:
            return float(given) if isinstance(given, Decimal) else given
        type_ = members[0]
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


def _decimal(given: Any) -> Any:
    try:
        return Decimal(given) if isinstance(given, str) else given
    except InvalidOperation:
        return given


def _of_text(given: str, type_: AvroType) -> Any:
    try:
        if type_.logical == "date":
            return date.fromisoformat(given)
        if "time" in type_.logical and _NANOSECONDS.search(given):
            return given
        if type_.logical.startswith("time-"):
            return time.fromisoformat(given)
        if "timestamp" in type_.logical:
            return datetime.fromisoformat(given)
    except ValueError:
        return given
    return given
