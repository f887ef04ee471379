"""Ledgers of other programs: what can be read, and that what cannot is told with its place."""

from __future__ import annotations

import json
import struct
import warnings
import zlib
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.ledger.bad_ledgers import BAD_LEDGERS, BAD_PARTITIONS, BadLedger, row

from ottla.errors import UserMistake
from ottla.ledger.files import check_partitions, count_rows, ledger_files, read_rows
from ottla.ledger.numbers_column import number_column
from ottla.ledger.schema import SEQUENCE_HEADER, pack_sequence, unpack_sequence
from ottla.ledger.writer import LedgerWriter

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


def write_lines(path: Path, *rows: dict[str, Any]) -> None:
    path.write_text("".join(json.dumps(each) + "\n" for each in rows))


def test_json_lines_are_read_with_their_checksums(tmp_path: Path) -> None:
    path = tmp_path / "orders.jsonl"
    rows = [
        row(0, key="ü", value="v", partition=2, offset=7),
        row(1, key=None, value_crc=5, outcome="unknown", note=["passed over"]),
        {"sequence": 2, "outcome": "failed"},
    ]
    write_lines(path, *rows)
    read = read_rows(ledger_files(path), "orders")
    assert read.table.to_pylist() == [
        {
            "partition": 2,
            "offset": 7,
            "sequence": 0,
            "outcome": "acked",
            "key_crc": zlib.crc32("ü".encode()),
            "value_crc": zlib.crc32(b"v"),
        },
        {"partition": 0, "offset": 1, "sequence": 1, "outcome": "unknown", "key_crc": -1, "value_crc": 5},
        {"partition": -1, "offset": -1, "sequence": 2, "outcome": "failed", "key_crc": -1, "value_crc": -1},
    ]
    assert read.guarantees == ()


def test_parquet_may_hold_bytes_and_other_widths(tmp_path: Path) -> None:
    path = tmp_path / "orders.parquet"
    columns = {
        "sequence": pa.array([0, 1], pa.uint32()),
        "outcome": pa.array(["acked", "acked"]).dictionary_encode(),
        "key": pa.array([b"\xff", None], pa.binary()),
    }
    pq.write_table(pa.table(columns), path)
    read = read_rows((path,), "orders")
    assert read.table.column("key_crc").to_pylist() == [zlib.crc32(b"\xff"), -1]
    assert read.table.column("offset").to_pylist() == [-1, -1]


def test_a_folder_holds_the_ledgers_of_many_topics(tmp_path: Path) -> None:
    for topic, guarantee in (("orders", "at-least-once"), ("others", "exactly-once")):
        with LedgerWriter(tmp_path / f"{topic}.parquet", run_id="r", guarantee=guarantee, topic=topic) as book:
            book.add(
                sequence=[0, 1],
                partition=[0, 0],
                key_crc=[1, 1],
                value_crc=[1, 1],
                outcome=["acked"] * 2,
                offset=[0, 1],
            )
    write_lines(tmp_path / "more.jsonl", row(2, topic="orders"), row(2, topic="others"), row(3))
    (tmp_path / ".orders.parquet.17.partial").write_bytes(b"half")
    (tmp_path / "_SUCCESS").touch()
    files = ledger_files(tmp_path)
    assert [path.name for path in files] == ["more.jsonl", "orders.parquet", "others.parquet"]
    read = read_rows(files, "orders")
    assert sorted(read.table.column("sequence").to_pylist()) == [0, 1, 2, 3]
    assert read.guarantees == ("at-least-once",)
    assert [read.where(n).split("/")[-1] for n in range(4)] == [
        *("more.jsonl", "more.jsonl", "orders.parquet", "orders.parquet"),
    ]
    assert read.where(1).startswith("line 3 of ")
    assert count_rows(files) >= 4


def test_blank_lines_count_as_lines(tmp_path: Path) -> None:
    path = tmp_path / "orders.jsonl"
    path.write_text(f"\n{json.dumps(row(0))}\n\n{json.dumps(row(0))}\n")
    with pytest.raises(UserMistake, match=r"more than once: in line 2 of .* and in line 4 of"):
        read_rows((path,), "orders")


@pytest.mark.parametrize("bad", BAD_LEDGERS, ids=lambda bad: bad.name)
def test_a_ledger_that_cannot_be_used_is_told_with_its_place(tmp_path: Path, bad: BadLedger) -> None:
    bad.write(tmp_path)
    # A warning would stand on the terminal above the sentence.
    with warnings.catch_warnings(action="error"), pytest.raises(UserMistake) as told:
        read_rows(ledger_files(tmp_path), "orders")
    assert bad.words.format(folder=tmp_path) in str(told.value)


@pytest.mark.parametrize("bad", BAD_PARTITIONS, ids=lambda bad: bad.name)
def test_a_partition_that_cannot_be_is_told_with_its_place(tmp_path: Path, bad: BadLedger) -> None:
    bad.write(tmp_path)
    with pytest.raises(UserMistake) as told:
        check_partitions(read_rows(ledger_files(tmp_path), "orders"), "orders", 2)
    assert bad.words.format(folder=tmp_path) in str(told.value)


def test_a_ledger_that_was_never_finished_is_no_empty_folder(tmp_path: Path) -> None:
    with pytest.raises(UserMistake, match="holds no ledger: give the one"):
        ledger_files(tmp_path)
    (tmp_path / ".orders.parquet.17.partial").write_bytes(b"PAR1")
    with pytest.raises(UserMistake, match=r"\.orders\.parquet\.17\.partial, which was never finished"):
        ledger_files(tmp_path)
    with pytest.raises(UserMistake, match="There is no ledger at"):
        ledger_files(tmp_path / "nowhere")


def test_the_number_of_a_record_is_found_among_its_headers() -> None:
    ours = (SEQUENCE_HEADER, pack_sequence(7))
    lists: list[list[tuple[str, bytes | None]] | None] = [
        [ours],
        [],
        None,
        [("trace", b"12345678"), (SEQUENCE_HEADER, pack_sequence(2**63 - 1))],
        [(SEQUENCE_HEADER, None)],
        [(SEQUENCE_HEADER, b"1234567")],
        [(SEQUENCE_HEADER, pack_sequence(3)), ours],
        [(SEQUENCE_HEADER, struct.pack(">Q", 2**63))],
        [(SEQUENCE_HEADER, pack_sequence(0))],
    ]
    pairs = [None if each is None else [{"key": key, "value": value} for key, value in each] for each in lists]
    column = pa.array(pairs, HEADERS)
    expected = [7, -1, -1, 2**63 - 1, -1, -1, 3, -1, 0]
    assert number_column(column).to_pylist() == expected
    assert number_column(column.slice(3, 5)).to_pylist() == expected[3:8]
    assert number_column(column.slice(1, 2)).to_pylist() == [-1, -1]
    assert number_column(pa.array([], HEADERS)).to_pylist() == []
    assert unpack_sequence(pack_sequence(2**63 - 1)) == expected[3]


def test_a_folder_of_folders_says_which_there_are(tmp_path: Path) -> None:
    for name in ("ledger", "brokers"):
        (tmp_path / name).mkdir()
    with pytest.raises(UserMistake) as told:
        ledger_files(tmp_path)
    assert str(told.value).endswith(" Folders in it (brokers, ledger) are not read: give one of them.")
