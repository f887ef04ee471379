"""Records as lines: what `ottla read` prints, and what it writes into files of text."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any

from ottla.cli.read_values import ValuesRead
from ottla.cli.shown_values import milliseconds_shown
from ottla.printable import printable

if TYPE_CHECKING:
    import pyarrow as pa


def rows_of(found: ValuesRead) -> Iterator[dict[str, Any]]:
    """Each record as a dict of its columns, with its timestamp in milliseconds: a datetime ends with the year 9999.

    A value is bytes as they are stored, or a value of JSON where it was decoded.
    """
    for batch in found.batches:
        yield from _rows(batch, found)


def _rows(batch: pa.RecordBatch, found: ValuesRead) -> Iterator[dict[str, Any]]:
    import pyarrow as pa

    columns = {name: batch.column(name) for name in batch.schema.names}
    columns["timestamp"] = columns["timestamp"].cast(pa.int64())
    values = found.show(columns.pop("value"))
    for record, value in zip(pa.record_batch(columns).to_pylist(), values, strict=True):
        record["value"] = value
        yield record


def print_lines(found: ValuesRead, line_of: Callable[[dict[str, Any]], bytes]) -> None:
    """A line for each record, shown as soon as its batch was read."""
    out = sys.stdout.buffer
    # A record may hold what would clear the screen or worse; into a pipe or a file it goes as it is.
    is_obeyed = sys.stdout.isatty()
    for batch in found.batches:
        for record in _rows(batch, found):
            line = line_of(record)
            out.write(_spelled_out(line) if is_obeyed else line)
        out.flush()


def print_table(found: ValuesRead, rows_max: int) -> bool:
    """The first `rows_max` records as a table, and whether there are more."""
    from ottla.cli.output import new_table, tell

    records = rows_of(found)
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
    cells = (f"{record['partition']}", f"{record['offset']}", _time(record) or "")
    # A cell is one line, whatever it holds.
    texts = told["key"] or "", _value(record).decode("utf-8", "backslashreplace"), headers
    return *cells, *map(printable, texts)


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
        "value": as_words(value) if isinstance(value := record["value"], bytes) else value,
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
    return None if timestamp_ms is None else milliseconds_shown(timestamp_ms)


def _value(record: dict[str, Any]) -> bytes:
    value = record["value"]
    if value is None or isinstance(value, bytes):
        return value or b""
    return json.dumps(value, ensure_ascii=False).encode()


def as_words(data: bytes | str | None) -> str | None:
    """Text as it is; bytes that are no UTF-8 with their odd ones escaped."""
    return data.decode("utf-8", "backslashreplace") if isinstance(data, bytes) else data
