"""Reads the ledger of any program: Parquet or JSON lines, a file or a folder of them (docs/audit.md).

Beside the columns of `schema`, of which `sequence` and `outcome` are needed, there may be `key` and `value`, whose
checksums are taken here where `key_crc` and `value_crc` are not given. Every mistake is told with its place: the file,
and the row (Parquet) or the line (JSON), counted from 1.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj
import pyarrow.parquet as pq

from ottla.errors import UserMistake
from ottla.ledger import schema
from ottla.ledger.checksum import crc_column

KEY, VALUE = "key", "value"
JSON_SUFFIXES = (".jsonl", ".ndjson", ".json")
_BLOCK_BYTES = 64 << 20
_JSON_ROW_BYTES = 150
_ROWS_AT_A_TIME = 200_000
_SHOWN_MAX = 60
_GZIP = b"\x1f\x8b"

GIVEN_SCHEMA = pa.schema(
    [pa.field(name, getattr(pa, kind)()) for name, kind in schema.COLUMNS]
    + [pa.field(KEY, pa.string()), pa.field(VALUE, pa.string())]
)
"""What a ledger may hold, as it is read of JSON; in Parquet `key` and `value` may be bytes, too."""
NEEDED = (schema.SEQUENCE, schema.OUTCOME)


class _Stretch(NamedTuple):
    """Rows of one file: from which row of the table on they stand, and which they are (None: all from `first` on)."""

    begin: int
    path: Path
    first: int
    chosen: Any


@dataclass(slots=True, frozen=True)
class LedgerRows:
    """The rows of one topic: `table` has the columns partition, sequence, outcome, key_crc, value_crc and offset.

    `guarantees`: what the ledger says that its producer claims, all that it says.
    """

    table: pa.Table
    guarantees: tuple[str, ...]
    _stretches: tuple[_Stretch, ...]

    def place(self, row: int) -> str:
        """Where a row of `table` stands: "line 17 of orders.jsonl"."""
        found = self._stretches[bisect_right(self._stretches, row, key=lambda each: each.begin) - 1]
        within = row - found.begin
        number = found.first + (within if found.chosen is None else int(found.chosen[within]))
        return _place(found.path, _line_of(found.path, number) if is_json(found.path) else number + 1)


def is_json(path: Path | str) -> bool:
    """Whether a file is one of JSON lines, by its name; all others are Parquet."""
    return str(path).endswith(JSON_SUFFIXES)


def ledger_files(path: Path) -> tuple[Path, ...]:
    """The file, or all files of the folder, by name; UserMistake where there is none."""
    if path.is_file():
        return (path,)
    if not path.is_dir():
        raise UserMistake(f"There is no ledger at {path}: give the file or the folder that the program has written.")
    inside = sorted(each for each in path.iterdir() if each.is_file())
    files = tuple(each for each in inside if not each.name.startswith((".", "_")))
    if files:
        return files
    partial = next((each.name for each in inside if each.name.endswith(".partial")), None)
    if partial is not None:
        raise UserMistake(
            f"{path} holds no ledger but {partial}, which was never finished: its writer was killed. Nothing can be "
            "said of that run."
        )
    folders = ", ".join(sorted(each.name for each in path.iterdir() if each.is_dir()))
    more = f" Folders in it ({folders}) are not read: give one of them." if folders else ""
    raise UserMistake(f"The folder {path} holds no ledger: give the one that the program has written to.{more}")


def count_rows(files: tuple[Path, ...]) -> int:
    """How many rows there are, of all topics; of JSON lines about how many."""
    return sum(
        path.stat().st_size // _JSON_ROW_BYTES if is_json(path) else _opened(path).metadata.num_rows for path in files
    )


def read_rows(files: tuple[Path, ...], topic: str) -> LedgerRows:
    """The rows about one topic; rows that name no topic are about it. UserMistake, with the place, for a wrong one."""
    tables: list[pa.Table] = []
    stretches: list[_Stretch] = []
    guarantees: dict[str, None] = {}
    topics: dict[str, None] = {}
    count = 0
    for path in files:
        first = 0
        for given in [_read_json(path)] if is_json(path) else _read_parquet(path):
            names: Any = given.column(schema.TOPIC)
            topics.update(dict.fromkeys(each for each in pc.unique(names).to_pylist() if each is not None))
            is_wanted: Any = pc.fill_null(pc.equal(names, pa.scalar(topic)), True)
            chosen = None if pc.all(is_wanted).as_py() else np.flatnonzero(is_wanted.to_numpy())
            wanted = given if chosen is None else given.filter(is_wanted)
            words = pc.unique(wanted.column(schema.GUARANTEE)).to_pylist()
            guarantees.update(dict.fromkeys(word for word in words if word is not None))
            if wanted.num_rows:
                tables.append(_columns(wanted, path))
                stretches.append(_Stretch(count, path, first, chosen))
            count += wanted.num_rows
            first += given.num_rows
    if not count:
        told = f"it is about {', '.join(topics)}" if topics else "it is empty"
        raise UserMistake(f"The ledger holds no row about the topic {topic}; {told}.")
    rows = LedgerRows(pa.concat_tables(tables).combine_chunks(), tuple(sorted(guarantees)), tuple(stretches))
    del tables
    _check_words(rows)
    _check_numbers(rows)
    return rows


def check_partitions(rows: LedgerRows, topic: str, partitions: int) -> None:
    """UserMistake, with the place, for a row whose partition cannot be in a topic of so many partitions."""
    partition: Any = rows.table.column(schema.PARTITION)
    is_acked: Any = pc.equal(rows.table.column(schema.OUTCOME), pa.scalar(schema.ACKED))
    is_missing = pc.equal(partition, pa.scalar(schema.NO_PARTITION, pa.int32()))
    is_there = pc.and_(pc.greater_equal(partition, pa.scalar(0)), pc.less(partition, pa.scalar(partitions)))
    right: Any = pc.or_(is_there, pc.and_(is_missing, pc.invert(is_acked)))
    if not pc.all(right).as_py():
        row = int(pc.index(right, pa.scalar(False)).as_py())
        raise partition_mistake(rows.place(row), partition[row].as_py(), topic, partitions)


def partition_mistake(where: str, partition: int, topic: str, partitions: int) -> UserMistake:
    """For a row of a partition that the topic does not have, or for an acknowledged record without a partition."""
    if partition == schema.NO_PARTITION:
        return UserMistake(
            f"{schema.PARTITION} in {where} is missing, and the record was acknowledged: an acknowledgement says in "
            "which partition a record is stored."
        )
    there = "only partition 0" if partitions == 1 else f"the partitions 0 to {partitions - 1}"
    return UserMistake(f"{schema.PARTITION} in {where} is {partition}, and the topic {topic} has {there}.")


def number_mistake(missing: int, highest: int, first: int, where: str) -> UserMistake:
    """For a ledger that lacks record numbers."""
    return UserMistake(
        f"The ledger lacks {missing:,} of the record numbers from 0 to {highest:,}. The first is {first:,}{where}. "
        "A ledger has a row for each record sent to the topic, numbered from 0 (also where a process was killed)."
    )


def repeated_mistake(number: int, where: str) -> UserMistake:
    """For a ledger that has a record number twice."""
    return UserMistake(
        f"The ledger holds record number {number:,} more than once: {where}. "
        "A ledger has one row for each record sent to the topic."
    )


def find_lines(path: Path, number: int) -> Iterator[str]:
    """Where this record number stands in a file of JSON lines."""
    for line, text in _lines(path):
        row = _parsed(text)
        if isinstance(row, dict) and row.get(schema.SEQUENCE) == number:
            yield _place(path, line)


def broken_line(path: Path) -> UserMistake | None:
    """The first line of a file of JSON lines that is no row of a ledger, told."""
    for line, text in _lines(path):
        row = _parsed(text)
        if not isinstance(row, dict):
            if not text.endswith(b"\n"):
                return UserMistake(
                    f"{_place(path, line)}, the last one, ends in the middle of a row ({_shown(text)}), as where its "
                    "writer was killed: nothing is known of that record. Remove the line, or complete it by hand."
                )
            return UserMistake(f"{_place(path, line)} is no JSON object ({_shown(text)}): mend or remove that line.")
        for field in GIVEN_SCHEMA:
            value = row.get(field.name)
            wanted, words = (int, "a whole number") if pa.types.is_integer(field.type) else (str, "text")
            if value is not None and (not isinstance(value, wanted) or isinstance(value, bool)):
                return UserMistake(f"{field.name} in {_place(path, line)} is {value!r}, and has to be {words}.")
            if isinstance(value, int) and value.bit_length() >= field.type.bit_width:
                told = f"has to be a whole number of {field.type.bit_width} bits"
                return UserMistake(f"{field.name} in {_place(path, line)} is {value}, and {told}.")
    return None


def _check_words(rows: LedgerRows) -> None:
    sequence: Any = rows.table.column(schema.SEQUENCE)
    outcome: Any = rows.table.column(schema.OUTCOME)
    words = ", ".join(schema.OUTCOMES)
    for name, is_right, allowed in (
        (schema.SEQUENCE, pc.greater_equal(sequence, pa.scalar(0)), "a number from 0 on"),
        (schema.OUTCOME, pc.is_in(outcome, pa.array(schema.OUTCOMES)), f"one of {words}"),
    ):
        right: Any = pc.fill_null(is_right, False)
        if not pc.all(right).as_py():
            row = int(pc.index(right, pa.scalar(False)).as_py())
            value = rows.table.column(name)[row].as_py()
            told = "missing" if value is None else repr(value)
            raise UserMistake(f"{name} in {rows.place(row)} is {told}, and has to be {allowed}.")


def _check_numbers(rows: LedgerRows) -> None:
    sequence = rows.table.column(schema.SEQUENCE).to_numpy()
    if sequence[-1] == len(sequence) - 1 and (np.diff(sequence) == 1).all():
        return
    order = np.argsort(sequence, kind="stable")
    numbers = sequence[order]
    again = np.flatnonzero(numbers[1:] == numbers[:-1])
    if len(again):
        places = [rows.place(int(order[again[0] + n])) for n in (0, 1)]
        raise repeated_mistake(int(numbers[again[0]]), f"in {places[0]} and in {places[1]}")
    missing = int(numbers[-1]) + 1 - len(numbers)
    if not missing:
        return
    gaps = np.flatnonzero(numbers != np.arange(len(numbers)))
    first = int(gaps[0])
    where = f"; number {first - 1:,} stands in {rows.place(int(order[first - 1]))}" if first else ""
    raise number_mistake(missing, int(numbers[-1]), first, where)


def _columns(given: pa.Table, path: Path) -> pa.Table:
    """What the judge reads of rows as they were given."""
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


def _read_json(path: Path) -> pa.Table:
    if not path.stat().st_size:
        return GIVEN_SCHEMA.empty_table()
    read = pj.ReadOptions(block_size=_BLOCK_BYTES)
    parse = pj.ParseOptions(explicit_schema=GIVEN_SCHEMA, unexpected_field_behavior="ignore")
    try:
        return pj.read_json(path, read_options=read, parse_options=parse).select(GIVEN_SCHEMA.names)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise broken_line(path) or UserMistake(f"{path} cannot be read as JSON lines: {error}.") from None
    except OSError as error:
        raise UserMistake(f"{path} cannot be read ({error.strerror or error}).") from None


def _read_parquet(path: Path) -> Iterator[pa.Table]:
    """The rows in pieces, so that only what the judge reads of them is ever there of all."""
    file = _opened(path)
    inside = file.schema_arrow
    missing = [name for name in NEEDED if name not in inside.names]
    if missing:
        raise UserMistake(f"{path} is not a ledger: it lacks the column {' and the column '.join(missing)}.")
    names = [name for name in GIVEN_SCHEMA.names if name in inside.names and name != schema.ERROR]
    try:
        for batch in file.iter_batches(_ROWS_AT_A_TIME, columns=names):
            yield _given(pa.Table.from_batches([batch]), path)
    except (OSError, pa.ArrowException) as error:
        raise UserMistake(f"{path} cannot be read to its end: {error}.") from None


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


def _opened(path: Path) -> pq.ParquetFile:
    try:
        return pq.ParquetFile(path)
    except (OSError, pa.ArrowInvalid) as error:
        with path.open("rb") as file:
            begins = file.read(4)
        if begins.startswith(_GZIP):
            raise UserMistake(
                f"{path} is compressed with gzip: unpack it (gunzip), and give the file that comes of it."
            ) from None
        if begins == b"PAR1":
            raise UserMistake(
                f"{path} is cut off at byte {path.stat().st_size:,}: the end of a Parquet file says what is in it, and "
                "is missing, as where its writer was killed. Nothing can be read of it."
            ) from None
        raise UserMistake(
            f"{path} is no Parquet file ({error}). Files of JSON lines have names that end with .jsonl, .ndjson or "
            ".json."
        ) from None


def _lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """The lines that are not blank, with their numbers from 1."""
    with path.open("rb") as file:
        for number, text in enumerate(file, start=1):
            if text.strip():
                yield number, text


def _line_of(path: Path, row: int) -> int:
    return next((line for index, (line, _) in enumerate(_lines(path)) if index == row), row + 1)


def _parsed(text: bytes) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None


def _place(path: Path, number: int) -> str:
    return f"{'line' if is_json(path) else 'row'} {number:,} of {path}"


def _shown(text: bytes) -> str:
    words = text.decode("utf-8", "backslashreplace").strip()
    return words if len(words) <= _SHOWN_MAX else f"...{words[-_SHOWN_MAX:]}"
