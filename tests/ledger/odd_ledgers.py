"""Ledgers of four records that programs write in their own ways: types, names and columns of many kinds, and mistakes.

Both engines of `ottla audit` have to read the same of each, or to say the same of it.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from .bad_ledgers import row

_ROWS = [row(number, key=f"k{number}", value=f"v{number}") for number in range(4)]
_LINES = [json.dumps(each) for each in _ROWS]
_CRCS = {
    "key_crc": [zlib.crc32(f"k{number}".encode()) for number in range(4)],
    "value_crc": [zlib.crc32(f"v{number}".encode()) for number in range(4)],
}
_LAST = {"sequence": 3, "outcome": "acked", "partition": 0, "offset": 3, "key": "k3", "value": "v3"}


class OddLedger(NamedTuple):
    """`words`: what is said of it, where it cannot be used."""

    name: str
    write: Callable[[Path], object]
    words: str = ""


def _table(*drop: str, **given: Any) -> pa.Table:
    columns: dict[str, Any] = {name: [each[name] for each in _ROWS] for name in _ROWS[0] if name not in drop}
    return pa.table(columns | given)


def _parquet(*drop: str, name: str = "a.parquet", **given: Any) -> Callable[[Path], object]:
    return lambda folder: pq.write_table(_table(*drop, **given), folder / name)


def _halves(first: pa.Table, second: pa.Table) -> Callable[[Path], object]:
    def write(folder: Path) -> None:
        pq.write_table(first.slice(0, 2), folder / "a.parquet")
        pq.write_table(second.slice(2, 2), folder / "b.parquet")

    return write


def _text(text: str | bytes, name: str = "a.jsonl") -> Callable[[Path], object]:
    return lambda folder: (folder / name).write_bytes(text if isinstance(text, bytes) else text.encode())


def _last(**changes: Any) -> Callable[[Path], object]:
    return _text("\n".join((*_LINES[:3], json.dumps(_LAST | changes))) + "\n")


def _groups_of_rows(folder: Path) -> None:
    pq.write_table(_table(outcome=["acked", "acked", "acked", "bad"]), folder / "a.parquet", row_group_size=1)


def _a_column_twice(folder: Path) -> None:
    table = _table()
    arrays = [table.column("sequence"), *table.columns]
    pq.write_table(pa.Table.from_arrays(arrays, ["sequence", *table.column_names]), folder / "a.parquet")


def _no_text(folder: Path) -> None:
    _parquet()(folder)
    (folder / "a.parquet").rename(folder / "\udcff.parquet")


def _damaged(folder: Path) -> None:
    path = folder / "a.parquet"
    pq.write_table(_table(), path, compression="NONE", use_dictionary=False)
    path.write_bytes(path.read_bytes()[:8] + b"\xff" * 32 + path.read_bytes()[40:])


def _at(kind: pa.DataType) -> pa.Array[Any]:
    return pa.array([1, 2, 3, 4], kind)


ODD_LEDGERS = [
    OddLedger("whole floats", _parquet(sequence=[0.0, 1.0, 2.0, 3.0], offset=pa.array([0.0, None, 2.0, 3.0]))),
    OddLedger("half a number", _parquet(sequence=[0.0, 1.5, 2.0, 3.0]), "column sequence of {folder}/a.parquet is of"),
    OddLedger(
        "half an offset", _parquet(offset=[0.0, 1.5, 2.0, 3.0]), "column offset of {folder}/a.parquet is of type"
    ),
    OddLedger(
        "NaN in Parquet", _parquet(offset=[0.0, float("nan"), 2.0, 3.0]), "column offset of {folder}/a.parquet is"
    ),
    OddLedger("numbers as text", _parquet(sequence=["0", "1", "2", "3"])),
    OddLedger(
        "words as numbers", _parquet(sequence=["0", "one", "2", "3"]), "column sequence of {folder}/a.parquet is"
    ),
    OddLedger(
        "a large partition", _parquet(partition=[0, 1 << 40, 0, 0]), "column partition of {folder}/a.parquet is of"
    ),
    OddLedger("half a decimal", _parquet(sequence=[Decimal("0.5"), *map(Decimal, (1, 2, 3))]), "has to be int64"),
    OddLedger("text of columns", _parquet(outcome=pa.array(["acked"] * 4, pa.large_string()))),
    OddLedger("dictionaries", _parquet(key=pa.array(["k0", "k1", "k2", "k3"]).dictionary_encode())),
    OddLedger("null columns", _parquet(key=pa.nulls(4), offset=pa.nulls(4), key_crc=pa.nulls(4), topic=pa.nulls(4))),
    OddLedger("keys that are numbers", _parquet(key=[0, 1, 2, 3]), "column key: A column of type int64 has no stored"),
    OddLedger("a time in nanoseconds", _parquet(at=_at(pa.timestamp("ns")))),
    OddLedger("a time of day", _parquet(at=_at(pa.time64("ns")))),
    OddLedger("a small float", _parquet(at=_at(pa.float16()))),
    OddLedger("names in capitals", _parquet(Sequence=[9] * 4, KEY=["x"] * 4)),
    OddLedger("names that Spark uses", _parquet(_metadata=["x"] * 4, _corrupt_record=["x"] * 4, file=["x"] * 4)),
    OddLedger("a column twice", _a_column_twice, "{folder}/a.parquet has 2 columns sequence"),
    OddLedger("groups of rows", _groups_of_rows, "outcome in row 4 of {folder}/a.parquet is 'bad'"),
    OddLedger("damaged", _damaged, "{folder}/a.parquet cannot be read to its end"),
    OddLedger("files of other columns", _halves(_table("key", "value", **_CRCS), _table())),
    OddLedger("files of other types", _halves(_table(sequence=pa.array([0, 1, 2, 3], pa.int32())), _table())),
    OddLedger("a file of null columns", _halves(_table(key_crc=pa.nulls(4)), _table("key", key_crc=_CRCS["key_crc"]))),
    OddLedger("a file that is none", _halves(_table(), _table("outcome")), "{folder}/b.parquet is not a ledger"),
    OddLedger("a colon in Parquet's name", _parquet(name="2026-11-25T12:30:00.parquet")),
    OddLedger("a colon in a name", _text("\n".join(_LINES), name="2026-11-25T12:30:00.jsonl")),
    OddLedger("signs in a name", _text("\n".join(_LINES), name="a#b?c%20{d}[e]*.jsonl")),
    OddLedger("a name that is no text", _text("\n".join(_LINES), name="\udcff.jsonl")),
    OddLedger("a Parquet file whose name is no text", _no_text, "is not UTF-8, so the file cannot be opened"),
    OddLedger("blank lines alone", lambda folder: (_text("\n\n", "a.jsonl")(folder), _parquet()(folder))),
    OddLedger("lines of Windows", _text("\r\n".join(_LINES) + "\r\n")),
    OddLedger("two rows in a line", _text("\n".join(_LINES[:2]) + "\n" + "".join(_LINES[2:]) + "\n")),
    OddLedger("no UTF-8", _text("\n".join(_LINES).encode().replace(b"k3", b"\xff"))),
    OddLedger("a number as key", _last(key=5), "key in line 4 of {folder}/a.jsonl is 5, and has to be text"),
    OddLedger(
        "an object as key", _last(key={"a": 1}), "key in line 4 of {folder}/a.jsonl is {{'a': 1}}, and has to be"
    ),
    OddLedger("a large offset", _last(offset=10**20), "offset in line 4 of {folder}/a.jsonl is 100000000000000000000,"),
    OddLedger(
        "half an offset in JSON", _last(offset=3.5), "offset in line 4 of {folder}/a.jsonl is 3.5, and has to be"
    ),
    OddLedger("NaN", _last(offset=float("nan")), "offset in line 4 of {folder}/a.jsonl is nan, and has to be a whole"),
    OddLedger(
        "single quotes", _text("\n".join(_LINES).replace('"', "'")), "line 1 of {folder}/a.jsonl is no JSON object"
    ),
    OddLedger("rows in a list", _text("[" + ",".join(_LINES) + "]\n"), "line 1 of {folder}/a.jsonl is no JSON object"),
    OddLedger("words behind a row", _text("\n".join(_LINES) + " x\n"), "line 4 of {folder}/a.jsonl is no JSON object"),
    OddLedger(
        "null in place of a row", _text("\n".join(_LINES) + "\nnull\n"), "in line 5 of {folder}/a.jsonl is missing"
    ),
    OddLedger("a name twice in a row", _text('{"sequence": 0, "sequence": 0}\n'), "was specified twice"),
    OddLedger(
        "the largest number", _text(json.dumps(row((1 << 63) - 1)) + "\n"), "lacks 9,223,372,036,854,775,807 of the"
    ),
]
