from __future__ import annotations

import os
import resource
import zlib
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ottla.errors import UserMistake
from ottla.ledger.checksum import crc_column, record_crc
from ottla.ledger.reader import read_ledger
from ottla.ledger.schema import pack_sequence, unpack_sequence
from ottla.ledger.writer import LedgerWriter


def writer(path: Path, **changes: str) -> LedgerWriter:
    words = {"run_id": "run-1", "guarantee": "exactly-once", "topic": "flights"} | changes
    return LedgerWriter(path, **words)


def add_three(ledger: LedgerWriter, first: int = 0) -> None:
    ledger.add(
        sequence=[first, first + 1, first + 2],
        partition=pa.array([0, 2, 1], pa.int32()),
        key_crc=[1, -1, 3],
        value_crc=[4, 5, 6],
        outcome=["acked", "unknown", "failed"],
        offset=pa.array([7, None, None], pa.int64()),
        error=[None, "no answer", "MESSAGE_TOO_LARGE"],
    )


def test_rows_come_back_as_they_were_added(tmp_path: Path) -> None:
    path = tmp_path / "flights.parquet"
    with writer(path) as ledger:
        add_three(ledger)
        add_three(ledger, first=3)
    assert ledger.rows == 6
    table = read_ledger(path)
    assert table.column("sequence").to_pylist() == [0, 1, 2, 3, 4, 5]
    assert table.slice(0, 2).to_pylist() == [
        {
            "run_id": "run-1",
            "guarantee": "exactly-once",
            "topic": "flights",
            "partition": 0,
            "sequence": 0,
            "key_crc": 1,
            "value_crc": 4,
            "outcome": "acked",
            "offset": 7,
            "error": None,
        },
        {
            "run_id": "run-1",
            "guarantee": "exactly-once",
            "topic": "flights",
            "partition": 2,
            "sequence": 1,
            "key_crc": -1,
            "value_crc": 5,
            "outcome": "unknown",
            "offset": -1,
            "error": "no answer",
        },
    ]


def test_nothing_is_there_before_close(tmp_path: Path) -> None:
    path = tmp_path / "flights.parquet"
    ledger = writer(path)
    add_three(ledger)
    assert not path.exists()
    ledger.close()
    ledger.close()
    assert path.exists()
    assert list(tmp_path.iterdir()) == [path]


def test_an_exception_leaves_nothing_behind(tmp_path: Path) -> None:
    def interrupted() -> None:
        with writer(tmp_path / "flights.parquet") as ledger:
            add_three(ledger)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserMistake, match=r"nowhere.*cannot be written"):
        writer(tmp_path / "nowhere" / "flights.parquet")


def test_a_file_that_cannot_grow_is_one_sentence_and_leaves_nothing(tmp_path: Path) -> None:
    ledger = writer(tmp_path / "flights.parquet")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (16, hard))
    try:
        with pytest.raises(UserMistake, match=r"flights\.parquet cannot be written \(.*has room"):
            add_three(ledger)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_is_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / "flights.parquet"
    partial = tmp_path / f".flights.parquet.{os.getpid()}.partial"
    partial.symlink_to("/dev/full")
    if not partial.exists():
        pytest.skip("this system has no /dev/full")
    with pytest.raises(UserMistake, match="cannot be written"):
        writer(path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"outcome": ["acked", "lost"]}, "'lost' is not an outcome"),
        ({"offset": [1]}, "offset has 1 rows"),
        ({"value_crc": [1, None]}, "value_crc holds a null"),
    ],
)
def test_a_wrong_column_is_refused(tmp_path: Path, change: dict[str, object], message: str) -> None:
    columns: dict[str, object] = {
        "sequence": [0, 1],
        "partition": [0, 0],
        "key_crc": [1, 1],
        "value_crc": [1, 1],
        "outcome": ["acked", "acked"],
        "offset": [0, 1],
    }
    with pytest.raises(ValueError, match=message), writer(tmp_path / "x.parquet") as ledger:
        ledger.add(**columns | change)


def test_an_unknown_guarantee_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserMistake, match="at-most-once, at-least-once, exactly-once"):
        writer(tmp_path / "x.parquet", guarantee="most-of-the-time")


def test_a_missing_ledger_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserMistake, match=r"no ledger at .*gone\.parquet"):
        read_ledger(tmp_path / "gone.parquet")


def test_a_file_that_is_not_parquet_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    path.write_bytes(b"PAR1 not really")
    with pytest.raises(UserMistake, match="cannot be read as a ledger"):
        read_ledger(path)


def test_parquet_that_is_not_a_ledger_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    pq.write_table(pa.table({"sequence": [1]}), path)
    with pytest.raises(UserMistake, match="lacks the column run_id, guarantee"):
        read_ledger(path)


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.binary(), pa.string_view()])
def test_crc_column_is_zlibs_crc32_and_minus_one_for_null(kind: pa.DataType) -> None:
    column = pa.array(["N14228", None, "", "ü"], pa.string()).cast(kind)
    expected = [zlib.crc32(b"N14228"), -1, 0, zlib.crc32("ü".encode())]
    assert crc_column(column).to_pylist() == expected
    assert crc_column(column.slice(1, 2)).to_pylist() == expected[1:3]
    assert crc_column(pa.chunked_array([column, column.slice(2)])).to_pylist() == expected + expected[2:]
    assert [record_crc(value) for value in ("N14228", None, b"", "ü")] == expected


def test_crc_column_reads_dictionaries_and_empty_columns() -> None:
    assert crc_column(pa.array(["a", None, "a"]).dictionary_encode()).to_pylist() == [
        zlib.crc32(b"a"),
        -1,
        zlib.crc32(b"a"),
    ]
    assert crc_column(pa.array([], pa.string())).to_pylist() == []
    assert crc_column(pa.chunked_array([], pa.string())).to_pylist() == []


def test_crc_column_refuses_numbers() -> None:
    with pytest.raises(UserMistake, match="type int64"):
        crc_column(pa.array([1, 2]))


@pytest.mark.parametrize("sequence", [0, 1, 336_775, 2**63 - 1])
def test_a_sequence_survives_its_header(sequence: int) -> None:
    packed = pack_sequence(sequence)
    assert len(packed) == 8
    assert unpack_sequence(packed) == sequence


@pytest.mark.parametrize("value", [None, b"", b"1234567", b"123456789"])
def test_a_header_of_another_length_is_not_ours(value: bytes | None) -> None:
    assert unpack_sequence(value) is None
