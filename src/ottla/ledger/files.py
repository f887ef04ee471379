"""Reads the ledger of any program: Parquet or JSON lines, a file or a folder of them (docs/audit.md).

Beside the columns of `schema`, of which `sequence` and `outcome` are needed, there may be `key` and `value`, whose
checksums are computed here where `key_crc` and `value_crc` are not given. Every error names the file, and the row
(Parquet) or the line (JSON), counted from 1.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ottla.errors import UserMistake
from ottla.ledger import schema
from ottla.ledger.pieces import is_about, is_json, judged_columns, line_of, opened, pieces_of, read_piece, where_in

_JSON_ROW_BYTES = 150


class _Stretch(NamedTuple):
    """Rows of one file that are together in the table, from its row `begin` on.

    They are the file's rows from `first` on (counted from 0): those with the numbers `chosen`, or all (None).
    """

    begin: int
    path: Path
    first: int
    chosen: Any


@dataclass(slots=True, frozen=True)
class LedgerRows:
    """The rows of one topic: `table` has the columns partition, sequence, outcome, key_crc, value_crc and offset.

    `guarantees`: every guarantee that the rows name, sorted.
    """

    table: pa.Table
    guarantees: tuple[str, ...]
    _stretches: tuple[_Stretch, ...]

    def where(self, row: int) -> str:
        """The file and line (or row) that a row of `table` is from: "line 17 of orders.jsonl"."""
        found = self._stretches[bisect_right(self._stretches, row, key=lambda each: each.begin) - 1]
        within = row - found.begin
        number = found.first + (within if found.chosen is None else int(found.chosen[within]))
        return where_in(found.path, line_of(found.path, number) if is_json(found.path) else number + 1)


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
    """How many rows the files have, for all topics together; for JSON lines it is an estimate."""
    return sum(
        path.stat().st_size // _JSON_ROW_BYTES if is_json(path) else opened(path).metadata.num_rows for path in files
    )


def read_rows(files: tuple[Path, ...], topic: str) -> LedgerRows:
    """The rows about one topic, with those that name no topic. UserMistake names the file and the row that is wrong."""
    tables: list[pa.Table] = []
    stretches: list[_Stretch] = []
    guarantees: dict[str, None] = {}
    topics: dict[str, None] = {}
    count = 0
    for path in files:
        first = 0
        for given in (table for piece in pieces_of(path) for table in read_piece(piece)):
            names: Any = given.column(schema.TOPIC)
            topics.update(dict.fromkeys(each for each in pc.unique(names).to_pylist() if each is not None))
            is_wanted = is_about(given, topic)
            chosen = None if pc.all(is_wanted).as_py() else np.flatnonzero(is_wanted.to_numpy())
            wanted = given if chosen is None else given.filter(is_wanted)
            words = pc.unique(wanted.column(schema.GUARANTEE)).to_pylist()
            guarantees.update(dict.fromkeys(word for word in words if word is not None))
            if wanted.num_rows:
                tables.append(judged_columns(wanted, path))
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
    """UserMistake, which says where, for a row whose partition cannot be in a topic of so many partitions."""
    partition: Any = rows.table.column(schema.PARTITION)
    is_acked: Any = pc.equal(rows.table.column(schema.OUTCOME), pa.scalar(schema.ACKED))
    is_missing = pc.equal(partition, pa.scalar(schema.NO_PARTITION, pa.int32()))
    is_there = pc.and_(pc.greater_equal(partition, pa.scalar(0)), pc.less(partition, pa.scalar(partitions)))
    right: Any = pc.or_(is_there, pc.and_(is_missing, pc.invert(is_acked)))
    if not pc.all(right).as_py():
        row = int(pc.index(right, pa.scalar(False)).as_py())
        raise partition_mistake(rows.where(row), partition[row].as_py(), topic, partitions)


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
            raise UserMistake(f"{name} in {rows.where(row)} is {told}, and has to be {allowed}.")


def _check_numbers(rows: LedgerRows) -> None:
    sequence = rows.table.column(schema.SEQUENCE).to_numpy()
    if len(sequence) == int(sequence[-1]) + 1 and (np.diff(sequence) == 1).all():
        return
    order = np.argsort(sequence, kind="stable")
    numbers = sequence[order]
    again = np.flatnonzero(numbers[1:] == numbers[:-1])
    if len(again):
        places = [rows.where(int(order[again[0] + n])) for n in (0, 1)]
        raise repeated_mistake(int(numbers[again[0]]), f"in {places[0]} and in {places[1]}")
    missing = int(numbers[-1]) + 1 - len(numbers)
    if not missing:
        return
    gaps = np.flatnonzero(numbers != np.arange(len(numbers)))
    first = int(gaps[0])
    where = f"; number {first - 1:,} stands in {rows.where(int(order[first - 1]))}" if first else ""
    raise number_mistake(missing, int(numbers[-1]), first, where)
