"""Which Arrow columns an Avro type takes, and by what their numbers are multiplied or divided."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ottla.schemas.avro.schema import AvroType

_WHOLE: Final = ("c", "C", "s", "S", "i", "I", "l", "L")
_PER_SECOND: Final = {"s": 1, "m": 1_000, "u": 1_000_000, "n": 1_000_000_000}
_UNITS: Final = {"millis": 1_000, "micros": 1_000_000, "nanos": 1_000_000_000}

ALLOWED: Final[Mapping[str, str]] = {
    "null": "a column of type null",
    "boolean": "bool",
    "int": "whole numbers",
    "long": "whole numbers",
    "float": "float",
    "double": "float or double",
    "bytes": "binary (also large, view, fixed-size)",
    "string": "string (also large, view, dictionary-encoded)",
    "enum": "string (also large, view, dictionary-encoded)",
    "fixed": "binary (also large, view, fixed-size)",
    "array": "a list",
    "map": "a map",
    "record": "a struct, or a table",
    "union": "a column of one of its types, or a struct with the fields member0, member1 and so on",
    "decimal": "decimals of its scale",
    "date": "date32, date64 or whole numbers",
    "time-millis": "time32, time64 or whole numbers",
    "time-micros": "time32, time64 or whole numbers",
    "timestamp-millis": "timestamps with a time zone (cast it to timestamp('ms', 'UTC')), or whole numbers",
    "timestamp-micros": "timestamps with a time zone (cast it to timestamp('us', 'UTC')), or whole numbers",
    "timestamp-nanos": "timestamps with a time zone (cast it to timestamp('ns', 'UTC')), or whole numbers",
    "local-timestamp-millis": "timestamps without a time zone, or whole numbers",
    "local-timestamp-micros": "timestamps without a time zone, or whole numbers",
    "local-timestamp-nanos": "timestamps without a time zone, or whole numbers",
}


def whole_numbers(type_: AvroType, kind: str) -> tuple[str, int, int] | None:
    """How a column of this format becomes an int or a long: (format letter, multiply by, divide by).

    None if it cannot.
    """
    logical = type_.logical
    if kind in _WHOLE:
        return kind, 1, 1
    if kind in ("tdD", "tdm"):
        if logical != "date":
            return None
        return ("i", 1, 1) if kind == "tdD" else ("l", 1, 86_400_000)
    if kind[:2] == "tt" and logical.startswith("time-"):
        letter = "i" if kind in ("tts", "ttm") else "l"
    elif kind[:2] == "ts" and logical.startswith("local-timestamp-" if kind[4:] == "" else "timestamp-"):
        letter = "l"
    else:
        return None
    given, wanted = _PER_SECOND[kind[2]], _UNITS[logical.rpartition("-")[2]]
    return letter, max(wanted // given, 1), max(given // wanted, 1)
