"""Wherever a file is cut into pieces, together they hold each of its rows once, in their order."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ottla.ledger import pieces
from ottla.ledger.pieces import pieces_of, read_piece

from .bad_ledgers import row


@pytest.mark.parametrize("end", ["", "\n", "\r\n", "\n\n\n"])
def test_lines_are_cut_between_rows(tmp_path: Path, end: str) -> None:
    path = tmp_path / "a.jsonl"
    lines = [json.dumps(row(number, key="ü" * number)) for number in range(4)]
    path.write_text("\n\n".join(lines) + end)
    for size in range(1, path.stat().st_size + 2):
        tables = [table for piece in pieces_of(path, size) for table in read_piece(piece)]
        read = pa.concat_tables(tables)
        assert read.column("sequence").to_pylist() == [0, 1, 2, 3], size
        assert read.column("key").to_pylist() == ["ü" * number for number in range(4)], size


def test_groups_of_rows_know_how_many_stand_before_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pieces, "_PIECE_ROWS", 4)
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"sequence": range(13), "outcome": ["acked"] * 13}), path, row_group_size=3)
    read = [
        (piece.first, [table.column("sequence").to_pylist() for table in read_piece(piece)])
        for piece in pieces_of(path)
    ]
    assert [first for first, _ in read] == [0, 6, 12]
    assert [number for _, tables in read for table in tables for number in table] == list(range(13))
    assert all(tables[0][0] == first for first, tables in read)
