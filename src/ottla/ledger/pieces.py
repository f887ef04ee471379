"""Reads files of a ledger piece by piece, in the same way in one process and in Spark's workers.

A piece of a Parquet file is a range of its row groups, one of JSON lines the lines that begin within a range of its
bytes. Every error names the file, and the row (Parquet) or the line (JSON), counted from 1.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj
import pyarrow.parquet as pq

from ottla.errors import UserMistake
from ottla.ledger import schema
from ottla.ledger.checksum import crc_column

KEY, VALUE = "key", "value"
JSON_SUFFIXES = (".jsonl", ".ndjson", ".json")
_PIECE_BYTES = 32 << 20
_BLOCK_BYTES = 64 << 20
_PIECE_ROWS = 1_000_000
_ROWS_AT_A_TIME = 200_000
_SHOWN_MAX = 60
_GZIP = b"\x1f\x8b"

GIVEN_SCHEMA = pa.schema(
    [pa.field(name, getattr(pa, kind)()) for name, kind in schema.COLUMNS]
    + [pa.field(KEY, pa.string()), pa.field(VALUE, pa.string())]
)
"""The columns that a ledger may have, with their types in JSON lines; in Parquet `key` and `value` may be bytes."""
NEEDED = (schema.SEQUENCE, schema.OUTCOME)


class Piece(NamedTuple):
    """A part of a file, from `begin` up to, not including, `end`: bytes of JSON lines, or row groups of Parquet.

    `first`: with Parquet, the number of rows of the file before the piece; with JSON lines it is not known, and 0.
    """

    path: Path
    begin: int
    end: int
    first: int = 0


def is_json(path: Path | str) -> bool:
    """Whether a file is one of JSON lines, by its name; all others are Parquet."""
    return str(path).endswith(JSON_SUFFIXES)


def pieces_of(path: Path, size: int = _PIECE_BYTES) -> Iterator[Piece]:
    """The file in pieces, in their order; UserMistake where it is cut off, or no Parquet."""
    if is_json(path):
        length = path.stat().st_size
        for begin in range(0, length, size):
            yield Piece(path, begin, min(begin + size, length))
        return
    metadata = opened(path).metadata
    begin = first = rows = 0
    for group in range(metadata.num_row_groups):
        rows += metadata.row_group(group).num_rows
        if rows >= _PIECE_ROWS or group == metadata.num_row_groups - 1:
            yield Piece(path, begin, group + 1, first)
            begin, first, rows = group + 1, first + rows, 0


def read_piece(piece: Piece) -> Iterator[pa.Table]:
    """The rows of a piece, as tables with GIVEN_SCHEMA; other columns are not read into memory."""
    if is_json(piece.path):
        table = _read_json(piece)
        if table.num_rows:
            yield table
    else:
        yield from _read_parquet(piece)


def is_about(given: pa.Table, topic: str) -> Any:
    """For each row whether it is about the topic; one that names no topic is."""
    names: Any = given.column(schema.TOPIC)
    return pc.fill_null(pc.equal(names, pa.scalar(topic)), True)


def judged_columns(given: pa.Table, path: Path) -> pa.Table:
    """The columns that the judge reads; checksums that are missing are computed from keys and values."""
    columns: dict[str, Any] = {}
    for name in (schema.PARTITION, schema.OFFSET):
        column: Any = given.column(name)
        columns[name] = pc.fill_null(column, -1)
    for name in (schema.SEQUENCE, schema.OUTCOME):
        columns[name] = given.column(name)
    for name, source in ((schema.KEY_CRC, KEY), (schema.VALUE_CRC, VALUE)):
        column = given.column(name)
        if column.null_count:
            try:
                crcs: Any = crc_column(given.column(source))
                column = pc.coalesce(column, crcs)
            except UserMistake as error:
                raise UserMistake(f"{path}, column {source}: {error}") from None
        columns[name] = column
    return pa.table(columns)


def opened(path: Path) -> pq.ParquetFile:
    """A Parquet file; UserMistake where it is none, cut off, or without the columns that are needed."""
    try:
        str(path).encode()
    except UnicodeEncodeError:
        raise UserMistake(f"The name of {path} is not UTF-8, so the file cannot be opened: give it another.") from None
    try:
        file = pq.ParquetFile(path)
    except (OSError, pa.ArrowInvalid) as error:
        with path.open("rb") as opened_file:
            begins = opened_file.read(4)
        if begins.startswith(_GZIP):
            raise UserMistake(
                f"{path} is compressed with gzip: unpack it (gunzip), and give the unpacked file."
            ) from None
        if begins == b"PAR1":
            raise UserMistake(
                f"{path} is cut off at byte {path.stat().st_size:,}: the end of a Parquet file says what is in it, and "
                "is missing, as where its writer was killed. Nothing can be read from it."
            ) from None
        raise UserMistake(
            f"{path} is no Parquet file ({error}). Files of JSON lines have names that end with .jsonl, .ndjson or "
            ".json."
        ) from None
    names = file.schema_arrow.names
    missing = [name for name in NEEDED if name not in names]
    if missing:
        raise UserMistake(f"{path} is not a ledger: it lacks the column {' and the column '.join(missing)}.")
    for name in GIVEN_SCHEMA.names:
        if names.count(name) > 1:
            raise UserMistake(f"{path} has {names.count(name)} columns {name}, and a ledger has one of each.")
    return file


def where_in(path: Path, number: int) -> str:
    """ "line 17 of orders.jsonl"."""
    return f"{'line' if is_json(path) else 'row'} {number:,} of {path}"


def line_of(path: Path, row: int) -> int:
    """The number of the line in which a row of a file of JSON lines stands; rows are counted from 0."""
    return next((line for index, (line, _) in enumerate(_lines(path)) if index == row), row + 1)


def find_lines(path: Path, number: int | None) -> Iterator[str]:
    """Where this record number stands in a file of JSON lines; None: where there is none."""
    for line, text in _lines(path):
        row = _parsed(text)
        # `null` is a row without anything.
        if (row.get(schema.SEQUENCE) if isinstance(row, dict) else None) == number:
            yield where_in(path, line)


def broken_line(path: Path) -> UserMistake | None:
    """The error for the first line of a file of JSON lines that is no row of a ledger."""
    for line, text in _lines(path):
        row = _parsed(text)
        if not isinstance(row, dict):
            if not text.endswith(b"\n"):
                return UserMistake(
                    f"{where_in(path, line)}, the last one, ends in the middle of a row ({_shown(text)}), as where its "
                    "writer was killed: nothing is known of that record. Remove the line, or complete it by hand."
                )
            return UserMistake(f"{where_in(path, line)} is no JSON object ({_shown(text)}): mend or remove that line.")
        for field in GIVEN_SCHEMA:
            value = row.get(field.name)
            wanted, words = (int, "a whole number") if pa.types.is_integer(field.type) else (str, "text")
            if value is not None and (not isinstance(value, wanted) or isinstance(value, bool)):
                return UserMistake(f"{field.name} in {where_in(path, line)} is {value!r}, and has to be {words}.")
            if isinstance(value, int) and value.bit_length() >= field.type.bit_width:
                told = f"has to be a whole number of {field.type.bit_width} bits"
                return UserMistake(f"{field.name} in {where_in(path, line)} is {value}, and {told}.")
    return None


def _read_json(piece: Piece) -> pa.Table:
    path = piece.path
    read = pj.ReadOptions(block_size=_BLOCK_BYTES)
    parse = pj.ParseOptions(explicit_schema=GIVEN_SCHEMA, unexpected_field_behavior="ignore")
    try:
        text = _text_of(piece)
        if not text.strip():
            return GIVEN_SCHEMA.empty_table()
        return pj.read_json(BytesIO(text), read_options=read, parse_options=parse).select(GIVEN_SCHEMA.names)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise broken_line(path) or UserMistake(f"{path} cannot be read as JSON lines: {error}.") from None
    except OSError as error:
        raise UserMistake(f"{path} cannot be read ({error.strerror or error}).") from None


def _text_of(piece: Piece) -> bytes:
    """The complete lines that begin within a piece."""
    with piece.path.open("rb") as file:
        if piece.begin:
            # Skip the rest of a line that began in the piece before, if there is one.
            file.seek(piece.begin - 1)
            file.readline()
        text = file.read(max(0, piece.end - file.tell()))
        return text if text.endswith(b"\n") or not text else text + file.readline()


def _read_parquet(piece: Piece) -> Iterator[pa.Table]:
    path = piece.path
    file = opened(path)
    inside = file.schema_arrow.names
    names = [name for name in GIVEN_SCHEMA.names if name in inside and name != schema.ERROR]
    groups = list(range(piece.begin, piece.end))
    try:
        for batch in file.iter_batches(_ROWS_AT_A_TIME, row_groups=groups, columns=names):
            yield _given(pa.Table.from_batches([batch]), path)
    except (OSError, pa.ArrowException) as error:
        raise UserMistake(f"{path} cannot be read to its end: {str(error).strip().rstrip('.')}.") from None


def _given(table: pa.Table, path: Path) -> pa.Table:
    """The columns of GIVEN_SCHEMA, those that are not there null."""
    columns: dict[str, Any] = {}
    for field in GIVEN_SCHEMA:
        if field.name not in table.column_names:
            columns[field.name] = pa.nulls(table.num_rows, field.type)
            continue
        column = table.column(field.name)
        if field.name not in (KEY, VALUE):
            try:
                column = column.cast(field.type)
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
                raise UserMistake(
                    f"column {field.name} of {path} is of type {column.type}, and has to be {field.type}."
                ) from None
        columns[field.name] = column
    return pa.table(columns)


def _lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """The lines that are not blank, with their numbers from 1."""
    with path.open("rb") as file:
        for number, text in enumerate(file, start=1):
            if text.strip():
                yield number, text


def _parsed(text: bytes) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None


def _shown(text: bytes) -> str:
    words = text.decode("utf-8", "backslashreplace").strip()
    return words if len(words) <= _SHOWN_MAX else f"...{words[-_SHOWN_MAX:]}"
