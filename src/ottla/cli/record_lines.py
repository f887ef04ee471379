"""Records as lines: what `ottla read` prints, and what it writes into files of text."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import TYPE_CHECKING, Any

from ottla.printable import printable

if TYPE_CHECKING:
    import pyarrow as pa

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def rows_of(batches: Iterable[pa.RecordBatch]) -> Iterator[dict[str, Any]]:
    """Each record as a dict of its columns, with its timestamp in milliseconds: a datetime ends with the year 9999."""
    import pyarrow as pa

    for batch in batches:
        times = batch.column("timestamp").cast(pa.int64())
        columns = {name: times if name == "timestamp" else batch.column(name) for name in batch.schema.names}
        yield from pa.record_batch(columns).to_pylist(maps_as_pydicts="lossy")


def print_lines(batches: Iterable[pa.RecordBatch], line_of: Callable[[dict[str, Any]], bytes]) -> None:
    """A line for each record, shown as soon as its batch was read."""
    out = sys.stdout.buffer
    # A record may hold what would clear the screen or worse; into a pipe or a file it goes as it is.
    is_obeyed = sys.stdout.isatty()
    for batch in batches:
        for record in rows_of([batch]):
            line = line_of(record)
            out.write(_spelled_out(line) if is_obeyed else line)
        out.flush()


def print_table(batches: Iterable[pa.RecordBatch], rows_max: int) -> bool:
    """The first `rows_max` records as a table, and whether there are more."""
    from ottla.cli.output import new_table, tell

    records = rows_of(batches)
    shown = [_cells(record) for record in islice(records, rows_max)]
    has_headers = any(headers for *_, headers in shown)
    names = "partition", "offset", "timestamp", "key", "value", *(("headers",) if has_headers else ())
    table = new_table(*names, right=("partition", "offset"))
    for cells in shown:
        table.add_row(*cells[: len(names)])
    if shown:
        tell(table)
    else:
        tell("no records")
    return next(records, None) is not None


def _cells(record: dict[str, Any]) -> tuple[str, ...]:
    told = as_object(record)
    headers = ", ".join(f"{name}={'' if value is None else value}" for name, value in told["headers"])
    cells = (f"{record['partition']}", f"{record['offset']}", _time(record) or "", told["key"] or "")
    return *cells, printable(_value(record).decode("utf-8", "backslashreplace")), printable(headers)


def _spelled_out(line: bytes) -> bytes:
    return printable(line.decode("utf-8", "backslashreplace"), besides="\t\n").encode()


def as_text(record: dict[str, Any]) -> bytes:
    """Partition and offset, key and value, with tabs between them."""
    place = f"{record['partition']}:{record['offset']}".encode()
    return b"\t".join((place, record["key"] or b"", _value(record))) + b"\n"


def as_value(record: dict[str, Any]) -> bytes:
    """The value alone."""
    return _value(record) + b"\n"


def as_json(record: dict[str, Any]) -> bytes:
    """An object with all there is."""
    return json.dumps(as_object(record), ensure_ascii=False).encode() + b"\n"


def as_object(record: dict[str, Any]) -> dict[str, Any]:
    """What JSON can hold of it; bytes that are no UTF-8 are escaped."""
    return {
        "partition": record["partition"],
        "offset": record["offset"],
        "timestamp": _time(record),
        "key": as_words(record["key"]),
        "value": _plain(record["value"]),
        "headers": [[as_words(h["key"]), as_words(h["value"])] for h in record["headers"] or ()],
    }


def as_fields(record: dict[str, Any]) -> list[Any]:
    """The fields of a CSV file (`CSV_NAMES`); what is null is empty there."""
    told = as_object(record)
    value = "" if record["value"] is None else _value(record).decode("utf-8", "backslashreplace")
    headers = json.dumps(told["headers"], ensure_ascii=False) if told["headers"] else ""
    return [told["partition"], told["offset"], told["timestamp"], told["key"], value, headers]


CSV_NAMES = "partition", "offset", "timestamp", "key", "value", "headers"
LINES: dict[str, Callable[[dict[str, Any]], bytes]] = {"text": as_text, "value": as_value, "json": as_json}
"""By the name that --format has for them."""


def _time(record: dict[str, Any]) -> str | None:
    timestamp_ms = record["timestamp"]
    if timestamp_ms is None:
        return None
    try:
        return (_EPOCH + timedelta(milliseconds=timestamp_ms)).isoformat(timespec="milliseconds")
    except OverflowError:
        import numpy as np

        # Years of more than four digits have a sign (ISO 8601).
        time = f"{np.datetime64(timestamp_ms, 'ms')}"
        return f"{'' if time.startswith('-') else '+'}{time}+00:00"


def _value(record: dict[str, Any]) -> bytes:
    value = record["value"]
    if value is None or isinstance(value, bytes):
        return value or b""
    return json.dumps(_plain(value), ensure_ascii=False).encode()


def _plain(value: Any) -> Any:
    """A decoded value as JSON has it: bytes and times as text, decimals too, which would lose digits as numbers."""
    if isinstance(value, dict):
        return {str(name): _plain(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    if isinstance(value, bytes):
        return as_words(value)
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


def as_words(data: bytes | str | None) -> str | None:
    """Text as it is; bytes that are no UTF-8 with their odd ones escaped."""
    return data.decode("utf-8", "backslashreplace") if isinstance(data, bytes) else data
