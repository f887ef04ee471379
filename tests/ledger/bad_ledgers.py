"""Ledgers that cannot be used, and what is to be said of each, by both engines of `ottla audit`."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq


def row(sequence: int, **changes: Any) -> dict[str, Any]:
    """A row of a ledger; record 0 is at offset 0, and so on."""
    return {"sequence": sequence, "outcome": "acked", "partition": 0, "offset": sequence, **changes}


class BadLedger(NamedTuple):
    """`words` stand in what is said, with the folder in place of `{folder}`."""

    name: str
    write: Callable[[Path], object]
    words: str


def lines(*rows: dict[str, Any], last: str = "", name: str = "a.jsonl") -> Callable[[Path], object]:
    text = "".join(json.dumps(each) + "\n" for each in rows) + last
    return lambda folder: (folder / name).write_text(text)


def columns(**given: list[Any]) -> Callable[[Path], object]:
    return lambda folder: pq.write_table(pa.table(given), folder / "a.parquet")


def both(*writers: Callable[[Path], object]) -> Callable[[Path], object]:
    return lambda folder: [write(folder) for write in writers]


def cut_off(folder: Path) -> None:
    pq.write_table(pa.table({"sequence": [0], "outcome": ["acked"]}), folder / "a.parquet")
    (folder / "a.parquet").write_bytes((folder / "a.parquet").read_bytes()[:40])


BAD_LEDGERS = [
    BadLedger(
        "half a line",
        lines(row(0), row(1), last='{"sequence": 2, "outc'),
        'line 3 of {folder}/a.jsonl, the last one, ends in the middle of a row ({{"sequence": 2, "outc)',
    ),
    BadLedger(
        "no JSON", lines(row(0), last="sequence 1\n"), "line 2 of {folder}/a.jsonl is no JSON object (sequence 1)"
    ),
    BadLedger(
        "another type",
        lines(row(0), row(1, offset="7")),
        "offset in line 2 of {folder}/a.jsonl is '7', and has to be a whole number",
    ),
    BadLedger(
        "a gap",
        lines(row(0), row(4), row(1)),
        "lacks 2 of the record numbers from 0 to 4. The first is 2; number 1 stands in line 3 of {folder}/a.jsonl.",
    ),
    BadLedger(
        "no beginning",
        columns(sequence=[1, 2], outcome=["acked"] * 2),
        "lacks 1 of the record numbers from 0 to 2. The first is 0.",
    ),
    BadLedger(
        "a gap between rows",
        columns(sequence=[0, 2], outcome=["acked"] * 2),
        "The first is 1; number 0 stands in row 1 of {folder}/a.parquet",
    ),
    BadLedger(
        "twice in two files",
        both(lines(row(0), row(1)), lines(row(1), name="b.jsonl")),
        "record number 1 more than once: in line 2 of {folder}/a.jsonl and in line 1 of {folder}/b.jsonl",
    ),
    BadLedger(
        "twice, and a gap",
        columns(sequence=[0, 0, 3, 3], outcome=["acked"] * 4),
        "record number 0 more than once: in row 1 of {folder}/a.parquet and in row 2 of {folder}/a.parquet",
    ),
    BadLedger(
        "another word",
        lines(row(0), row(1, outcome="lost")),
        "outcome in line 2 of {folder}/a.jsonl is 'lost', and has to be one of acked, failed, unknown",
    ),
    BadLedger(
        "no word",
        columns(sequence=[0, 1], outcome=["acked", None]),
        "outcome in row 2 of {folder}/a.parquet is missing",
    ),
    BadLedger(
        "no number",
        columns(sequence=[0, -5], outcome=["acked"] * 2),
        "sequence in row 2 of {folder}/a.parquet is -5, and has to be a number from 0 on",
    ),
    BadLedger(
        "too large a number",
        lines(row(0), row(1, partition=1 << 40)),
        "partition in line 2 of {folder}/a.jsonl is 1099511627776, and has to be a whole number of 32 bits",
    ),
    BadLedger(
        "the highest number",
        lines(row(0), row((1 << 63) - 1)),
        f"lacks {(1 << 63) - 2:,} of the record numbers from 0 to {(1 << 63) - 1:,}. The first is 1;",
    ),
    BadLedger(
        "compressed",
        lambda folder: (folder / "a.jsonl.gz").write_bytes(gzip.compress(json.dumps(row(0)).encode())),
        "{folder}/a.jsonl.gz is compressed with gzip: unpack it (gunzip), and give the unpacked file",
    ),
    BadLedger("no column", columns(sequence=[0]), "{folder}/a.parquet is not a ledger: it lacks the column outcome"),
    BadLedger("cut off", cut_off, "{folder}/a.parquet is cut off at byte 40"),
    BadLedger("nobody's", lines(row(0, topic="others")), "holds no row about the topic orders"),
]
BAD_PARTITIONS = [
    BadLedger(
        "acked without a partition",
        lines(row(0), row(1, partition=None)),
        "partition in line 2 of {folder}/a.jsonl is missing, and the record was acknowledged",
    ),
    BadLedger(
        "a partition that is not there",
        lines(row(0), row(1, partition=2, outcome="failed")),
        "partition in line 2 of {folder}/a.jsonl is 2, and the topic orders has the partitions 0 to 1.",
    ),
    BadLedger(
        "a partition below 0",
        columns(sequence=[0, 1], outcome=["unknown"] * 2, partition=[-1, -5]),
        "partition in row 2 of {folder}/a.parquet is -5, and the topic orders has the partitions 0 to 1.",
    ),
]
"""Rows that no topic `orders` with two partitions can have."""
