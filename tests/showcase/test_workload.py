"""Records are made of a table once, the same each time, and the ledger's words follow from what was learned."""

from __future__ import annotations

import json
from pathlib import Path
from zlib import crc32

import pyarrow as pa
import pytest

from ottla.audit.promises import PROMISES
from ottla.cluster.cluster import Cluster
from ottla.errors import UserMistake
from ottla.inputs.source import open_source
from ottla.inputs.table import read_source
from ottla.ledger.reader import read_ledger
from ottla.showcase.workload import BATCHES_WANTED, Records, make_records, send_records, sequence_headers


def records_of(folder: Path, rows: int) -> Records:
    path = folder / "rows.csv"
    path.write_text("id,name\n" + "".join(f"{n},{'' if n % 3 == 2 else f'name-{n % 7}'}\n" for n in range(rows)))
    source = open_source(path, "name")
    return make_records(source, read_source(source))


def no_error() -> None:
    pass


def test_row_becomes_json_with_its_number_in_a_header(tmp_path: Path) -> None:
    records = records_of(tmp_path, 5)
    row = records.made(range(4, 5)).to_pylist()[0]
    assert json.loads(row["value"]) == {"id": 4, "name": "name-4"}
    assert row["key"] == "name-4"
    assert row["headers"] == [{"key": "ottla.sequence", "value": (4).to_bytes(8, "big")}]
    assert records.values.checksums()[4].as_py() == crc32(row["value"])
    assert records.key_crc[4].as_py() == crc32(b"name-4")
    assert records.key_crc[2].as_py() == -1


def test_records_without_a_key_go_where_their_number_says(tmp_path: Path) -> None:
    partition = records_of(tmp_path, 4_500).partition.to_pylist()
    assert partition[:6] == [None, None, 0, None, None, 0]
    assert {n for n in partition if n is not None} == {0, 1, 2}


@pytest.mark.parametrize(("rows", "partitions", "alone"), [(1, 1, True), (1_400, 1, False), (1_500, 3, False)])
def test_batches_are_as_small_as_the_faults_need(tmp_path: Path, rows: int, partitions: int, alone: bool) -> None:
    records = records_of(tmp_path, rows)
    assert records.partitions == partitions
    assert (records.batch_bytes == 1) is alone
    assert records.batch_bytes <= max(1, records.size_bytes // BATCHES_WANTED)


def test_records_made_in_pieces_are_those_made_at_once(tmp_path: Path) -> None:
    records = records_of(tmp_path, 107)
    pieces = list(records.values.pieces())
    assert len(pieces) > 10
    made = [row for numbers in pieces for row in records.made(numbers).to_pylist()]
    assert made == records.made(range(107)).to_pylist()
    assert [crc32(row["value"]) for row in made] == records.values.checksums().to_pylist()


def test_sequence_headers_of_no_rows_is_an_empty_column() -> None:
    assert sequence_headers(range(0)).to_pylist() == []


def test_ledger_says_what_was_learned_under_each_guarantee(kafka_cluster: Cluster, tmp_path: Path) -> None:
    records = records_of(tmp_path, 60)
    for guarantee, promise in PROMISES.items():
        topic = f"workload-{guarantee}"
        kafka_cluster.create_topic(topic, partitions=1)
        ledger = tmp_path / f"{guarantee}.parquet"
        taken: list[int] = []
        requests = send_records(
            kafka_cluster.bootstrap_servers, topic, promise, records, ledger, "r", taken.append, no_error
        )
        assert requests == 60
        assert sum(taken) == 60
        table = read_ledger(ledger)
        assert table.column("sequence").to_pylist() == list(range(60))
        answered = promise.is_answered
        assert set(table.column("outcome").to_pylist()) == {"acked" if answered else "unknown"}
        assert table.column("offset").to_pylist() == (list(range(60)) if answered else [-1] * 60)
        kafka_cluster.delete_topic(topic)


def test_column_that_json_cannot_hold_is_named(tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    pq.write_table(pa.table({"id": [1], "blob": [b"\xff"]}), tmp_path / "a.parquet")
    source = open_source(tmp_path / "a.parquet", "id")
    with pytest.raises(UserMistake, match="'blob'"):
        make_records(source, read_source(source))
