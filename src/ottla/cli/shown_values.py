"""A column of decoded values -> what `ottla read` shows of them in JSON, so that `ottla produce` takes it back.

JSON has neither bytes nor times nor decimals. Times are texts in ISO 8601, with all digits they have; durations are
seconds ("1.500s"), decimals texts, because a number would lose digits; numbers that JSON does not have are "NaN",
"Infinity" and "-Infinity". Which text stands for bytes depends on the format of the values: it is that of Avro's, or of
Protobuf's own JSON.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any, Final

BytesText = Callable[[bytes], str]


def _avro_text(data: bytes) -> str:
    return data.decode("latin-1")


def _protobuf_text(data: bytes) -> str:
    return base64.b64encode(data).decode()


BYTES_TEXTS: Final[Mapping[str, BytesText]] = {
    "avro": _avro_text,
    "protobuf": _protobuf_text,
    # A column by a JSON Schema has no bytes.
    "json": _avro_text,
}
"""The text for bytes, by the format of the values."""

_EPOCH: Final = datetime(1970, 1, 1)
_PER_SECOND: Final = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}


def shown_values(array: Any, bytes_text: BytesText) -> list[Any]:
    """A value of JSON for each row."""
    pa, is_ = _arrow()
    kind = array.type
    if is_.is_struct(kind):
        parts = [shown_values(part, bytes_text) for part in array.flatten()]
        names = [field.name for field in kind]
        rows = [dict(zip(names, row, strict=True)) for row in zip(*parts, strict=True)] if parts else [{}] * len(array)
        return [row if is_there else None for row, is_there in zip(rows, array.is_valid().to_pylist(), strict=True)]
    if is_.is_map(kind):
        # Keys and items of a slice are those of the whole array.
        whole = array.take(pa.array(range(len(array)), pa.int64())) if array.offset else array
        keys = [key if isinstance(key, str) else json.dumps(key) for key in shown_values(whole.keys, bytes_text)]
        entries = [*zip(keys, shown_values(whole.items, bytes_text), strict=True)]
        return [None if items is None else dict(items) for items in _cut(whole, entries)]
    if is_.is_list(kind) or is_.is_large_list(kind):
        whole = array.take(pa.array(range(len(array)), pa.int64())) if array.offset else array
        return _cut(whole, shown_values(whole.values, bytes_text))
    if is_.is_timestamp(kind) or is_.is_date(kind) or is_.is_duration(kind):
        return _shown_times(array)
    shown = _shown_by(kind, bytes_text)
    values = array.to_pylist()
    return values if shown is None else [None if value is None else shown(value) for value in values]


def _cut(array: Any, items: list[Any]) -> list[Any]:
    """The items of each row of an array of lists or maps."""
    ends = array.offsets.to_pylist()
    pieces = [items[begin:end] for begin, end in pairwise(ends)]
    return [piece if is_there else None for piece, is_there in zip(pieces, array.is_valid().to_pylist(), strict=True)]


def _shown_by(kind: Any, bytes_text: BytesText) -> Callable[[Any], Any] | None:
    _, is_ = _arrow()
    if is_.is_boolean(kind) or is_.is_integer(kind) or is_.is_string(kind) or is_.is_null(kind):
        return None
    if is_.is_floating(kind):
        return _shown_float if is_.is_float64(kind) else _shown_narrow_float
    if is_.is_binary(kind) or is_.is_large_binary(kind) or is_.is_fixed_size_binary(kind):
        return bytes_text
    return _shown_time_of_day if is_.is_time(kind) else str


def _shown_float(value: float) -> Any:
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _shown_narrow_float(value: float) -> Any:
    """The shortest number that is this float of 32 bits: 0.1 and not 0.10000000149011612."""
    import numpy as np

    return float(str(np.float32(value))) if math.isfinite(value) else _shown_float(value)


def _shown_time_of_day(value: Any) -> str:
    return str(value.isoformat())


def _shown_times(array: Any) -> list[str | None]:
    pa, is_ = _arrow()
    kind = array.type
    if is_.is_date(kind):
        days = array.cast(pa.date32()).cast(pa.int32()).to_pylist()
        return [None if day is None else _instant(86_400 * day)[:-9] for day in days]
    per_second = _PER_SECOND[kind.unit]
    zone = "+00:00" if is_.is_timestamp(kind) and kind.tz else ""
    shown: list[str | None] = []
    for number in array.cast(pa.int64()).to_pylist():
        if number is None:
            shown.append(None)
        elif is_.is_duration(kind):
            seconds, part = divmod(abs(number), per_second)
            shown.append(f"{'-' if number < 0 else ''}{seconds}{_fraction(part, per_second)}s")
        else:
            seconds, part = divmod(number, per_second)
            shown.append(_instant(seconds) + _fraction(part, per_second) + zone)
    return shown


def _instant(seconds: int) -> str:
    try:
        return (_EPOCH + timedelta(seconds=seconds)).isoformat()
    except OverflowError:
        import numpy as np

        # Years of more than four digits have a sign (ISO 8601).
        text = str(np.datetime64(seconds, "s"))
        return text if text.startswith("-") else f"+{text}"


def _fraction(part: int, per_second: int) -> str:
    """The part of a second with 0, 3, 6 or 9 digits."""
    digits = f"{part * (1_000_000_000 // per_second):09d}"
    while digits.endswith("000"):
        digits = digits[:-3]
    return f".{digits}" if digits else ""


def _arrow() -> tuple[Any, Any]:
    """pyarrow and its questions about types, as Any: its type hints do not allow columns of unknown type."""
    import pyarrow as pa
    import pyarrow.types as is_

    return pa, is_


def milliseconds_shown(timestamp_ms: int) -> str:
    """The time of a record."""
    seconds, part = divmod(timestamp_ms, 1_000)
    return f"{_instant(seconds)}.{part:03d}+00:00"
