"""`ottla inspect` over files of the embedded cluster: sound ones, damaged ones, and files that are something else."""

from __future__ import annotations

import json
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from crc32c import crc32c

import ottla
from ottla.broker.log import files
from ottla.records.plain import Record, encode_batch

from ..broker.index_bytes import offset_index, time_index

TIMEOUT_S = 60
NAME = f"{0:020d}"


def inspect(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "ottla", "inspect", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )


def as_json(*arguments: str | Path, status: int = 0) -> Any:
    done = inspect(*arguments, "--json")
    assert (done.returncode, done.stderr) == (status, "")
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def partition(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a partition with a batch of two records per codec."""
    folder = tmp_path_factory.mktemp("data")
    with ottla.Cluster(brokers=1, data_dir=folder) as cluster:
        cluster.create_topic("flights", partitions=1)
        for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
            with ottla.Producer(cluster.bootstrap_servers, compression_type=codec, linger_ms=10_000) as producer:
                producer.send("flights", b"a\tb", b"key", headers=[("h", b"\xff"), ("n", None)], timestamp_ms=1_000)
                producer.send("flights", b"\x00\xfe\x01" * 100, timestamp_ms=2_000)
    return next(folder.rglob("flights-0"))


@pytest.fixture
def segment(partition: Path, tmp_path: Path) -> Path:
    """A copy of the segment, to be damaged."""
    copy = tmp_path / f"{NAME}.log"
    copy.write_bytes((partition / copy.name).read_bytes())
    return copy


def test_a_segment_is_shown_as_its_batches(segment: Path) -> None:
    found = as_json(segment)
    assert (found["kind"], found["batch_count"], found["record_count"]) == ("segment", 5, 10)
    assert [each["codec"] for each in found["batches"]] == ["none", "gzip", "snappy", "lz4", "zstd"]
    assert [each["base_offset"] for each in found["batches"]] == [0, 2, 4, 6, 8]
    assert all(each["crc_ok"] and each["record_count"] == 2 for each in found["batches"])
    assert sum(each["size_bytes"] for each in found["batches"]) == found["size_bytes"] == segment.stat().st_size
    table = inspect(segment)
    assert (table.returncode, table.stderr) == (0, "")
    assert "5 batches, 10 records, offsets 0 to 9; sound" in table.stdout
    assert "1970-01-01T00:00:01.000Z" in table.stdout


def test_records_are_shown_as_text_where_they_are_text(segment: Path) -> None:
    found = as_json(segment, "--records")
    assert len(found["records"]) == 10
    first, second = found["records"][:2]
    assert first == {
        "offset": 0,
        "timestamp_ms": 1000,
        "key": "key",
        "value": "a\tb",
        "headers": [["h", {"base64": "/w=="}], ["n", None]],
    }
    assert (second["key"], second["value"]) == (None, {"base64": "AP4B" * 100})
    lines = inspect(segment, "--records").stdout.splitlines()
    assert lines[2].split() == ["0", "1970-01-01T00:00:01.000Z", "key", r"a\tb", "h=0xff", "n=null"]
    assert lines[3].split() == ["1", "1970-01-01T00:00:02.000Z", "null", "0x" + "00fe01" * 100]


def test_the_limit_shortens_what_is_shown_and_not_what_is_checked(segment: Path) -> None:
    segment.write_bytes(segment.read_bytes()[:-1])
    assert len(as_json(segment, "--records", "--limit", "3", status=1)["records"]) == 3
    found = as_json(segment, "--limit", "1", status=1)
    assert (len(found["batches"]), found["batch_count"], len(found["damage"])) == (1, 4, 1)


def test_a_folder_is_shown_as_its_files(partition: Path) -> None:
    found = as_json(partition)
    by_name = {each["file"]: each for each in found["files"]}
    assert list(by_name) == sorted(each.name for each in partition.iterdir())
    assert {f"{NAME}.log", f"{NAME}.index", f"{NAME}.timeindex", "partition.metadata"} <= by_name.keys()
    assert by_name[f"{NAME}.log"]["record_count"] == 10
    assert "batches" not in by_name[f"{NAME}.log"]
    assert "partition metadata" in inspect(partition).stdout
    shown = as_json(partition, "--records", "--limit", "7")["files"]
    assert [len(each["records"]) for each in shown if each["file"] == f"{NAME}.log"] == [7]


def test_json_goes_to_a_file_beside_the_table(segment: Path, tmp_path: Path) -> None:
    target = tmp_path / "found.json"
    done = inspect(segment, "--json-file", target)
    assert "5 batches" in done.stdout
    assert json.loads(target.read_text()) == as_json(segment)
    assert sorted(each.name for each in tmp_path.iterdir()) == [segment.name, target.name]


def test_a_torn_tail_is_shown_with_its_position(segment: Path) -> None:
    last = as_json(segment)["batches"][-1]
    segment.write_bytes(segment.read_bytes()[:-1])
    found = as_json(segment, status=1)
    assert found["batch_count"] == 4
    (damage,) = found["damage"]
    assert (damage["position"], damage["size_bytes"]) == (last["position"], last["size_bytes"] - 1)
    assert "torn" in damage["what"]
    table = inspect(segment)
    assert table.returncode == 1
    assert f"damaged at position {last['position']:,}" in table.stdout


def test_a_few_bytes_and_zeros_at_the_end_are_told_apart(segment: Path) -> None:
    whole = segment.read_bytes()
    segment.write_bytes(whole + whole[:20])
    assert "20 bytes are left" in as_json(segment, status=1)["damage"][0]["what"]
    segment.write_bytes(whole + bytes(5000))
    (damage,) = as_json(segment, status=1)["damage"]
    assert (damage["position"], damage["size_bytes"]) == (len(whole), 5000)
    assert "only zeros" in damage["what"]


def test_a_wrong_crc_is_shown_and_the_batches_behind_it_too(segment: Path) -> None:
    batch = as_json(segment)["batches"][1]
    data = bytearray(segment.read_bytes())
    data[batch["position"] + batch["size_bytes"] - 1] ^= 1
    segment.write_bytes(data)
    found = as_json(segment, status=1)
    assert [each["crc_ok"] for each in found["batches"]] == [True, False, True, True, True]
    (damage,) = found["damage"]
    assert damage["position"] == batch["position"]
    assert f"at position {batch['position']} " in damage["what"]
    assert len(as_json(segment, "--records", status=1)["records"]) == 8
    assert "WRONG" in inspect(segment).stdout


def test_offsets_that_run_backwards_are_damage(segment: Path) -> None:
    whole = segment.read_bytes()
    segment.write_bytes(whole + whole)
    assert "10 is the first that may follow" in as_json(segment, status=1)["damage"][0]["what"]


def test_control_batches_and_producers_are_named(tmp_path: Path) -> None:
    path = tmp_path / f"{7:020d}.log"
    marker = Record(8, 5, b"\0\0\0\1", b"\0\0\0\0\0\3")
    path.write_bytes(
        encode_batch(
            [Record(7, 4, None, b"v")], producer_id=9, producer_epoch=1, base_sequence=3, is_transactional=True
        )
        + encode_batch([marker], producer_id=9, producer_epoch=1, is_transactional=True, is_control=True)
    )
    data, control = as_json(path)["batches"]
    assert (data["producer_id"], data["producer_epoch"], data["base_sequence"]) == (9, 1, 3)
    assert (data["is_transactional"], data["is_control"]) == (True, False)
    assert (control["is_transactional"], control["is_control"]) == (True, True)
    assert as_json(path, "--records")["records"][1]["control"] == "commit"
    assert "transactional control" in inspect(path).stdout


SMALL_FILES = {
    f"{100:020d}.index": offset_index([files.OffsetEntry(5, 4096)]),
    f"{100:020d}.timeindex": time_index([files.TimeEntry(1000, 5)]),
    f"{100:020d}.txnindex": files.write_transaction_index([files.AbortedTransaction(1, 2, 3, 4)]),
    f"{100:020d}.snapshot": files.write_producer_snapshot([files.ProducerSnapshotEntry(1, 2, 3, 4, 5, 6, 7, -1)]),
    "leader-epoch-checkpoint": files.write_leader_epochs([files.EpochEntry(3, 100)]),
}


@pytest.mark.parametrize("name", SMALL_FILES)
def test_small_files_are_shown_and_their_damage_too(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(SMALL_FILES[name])
    found = as_json(path)
    assert (found["entry_count"], len(found["entries"])) == (1, 1)
    assert inspect(path).stdout.endswith("sound\n")
    if name.endswith("index") and "txn" not in name:
        assert found["entries"][0]["offset"] == 105
    path.write_bytes(SMALL_FILES[name][:-1])
    assert len(as_json(path, status=1)["damage"]) == 1
    assert "damaged at position" in inspect(path).stdout


def _snapshot(*entries: bytes) -> bytes:
    """A file of Kafka's ProducerStateManager: version, CRC of all that follows, how many, and the producers."""
    body = len(entries).to_bytes(4) + b"".join(entries)
    return (1).to_bytes(2) + crc32c(body).to_bytes(4) + body


# name -> (the file's bytes as Kafka writes them, its entries in JSON, the table's lines)
SHOWN: dict[str, tuple[bytes, list[dict[str, int]], list[str]]] = {
    f"{100:020d}.index": (
        struct.pack(">iiii", 5, 4096, 9, 70_000),
        [
            {"offset": 105, "relative_offset": 5, "position": 4096},
            {"offset": 109, "relative_offset": 9, "position": 70_000},
        ],
        [
            "offset  relative offset  position",
            "105     5                4096",
            "109     9                70000",
        ],
    ),
    f"{100:020d}.timeindex": (
        struct.pack(">qiqi", 1000, 5, 1_700_000_000_123, 9),
        [
            {"offset": 105, "timestamp_ms": 1000, "relative_offset": 5},
            {"offset": 109, "timestamp_ms": 1_700_000_000_123, "relative_offset": 9},
        ],
        [
            "offset  timestamp                 relative offset",
            "105     1970-01-01T00:00:01.000Z  5",
            "109     2023-11-14T22:13:20.123Z  9",
        ],
    ),
    f"{100:020d}.snapshot": (
        _snapshot(struct.pack(">qhiqiqiq", 7, 2, 30, 140, 5, 1000, 4, 136), struct.pack(">qhiqiqiq", 8, 0, *[-1] * 6)),
        [
            {
                "producer_id": 7,
                "producer_epoch": 2,
                "last_sequence": 30,
                "last_offset": 140,
                "offset_delta": 5,
                "timestamp_ms": 1000,
                "coordinator_epoch": 4,
                "current_txn_first_offset": 136,
            },
            {
                "producer_id": 8,
                "producer_epoch": 0,
                "last_sequence": -1,
                "last_offset": -1,
                "offset_delta": -1,
                "timestamp_ms": -1,
                "coordinator_epoch": -1,
                "current_txn_first_offset": -1,
            },
        ],
        [
            "producer id  producer epoch  last sequence  last offset  offset delta  timestamp                 "
            "coordinator epoch  current txn first offset",
            "7            2               30             140          5             1970-01-01T00:00:01.000Z  "
            "4                  136",
            "8            0               -              -            -             -                         "
            "-                  -",
        ],
    ),
}


@pytest.mark.parametrize("name", SHOWN)
def test_entries_are_shown_one_by_one_as_json_and_as_a_table(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    content, entries, lines = SHOWN[name]
    path.write_bytes(content)
    found = as_json(path)
    assert found["entries"] == entries
    assert (found["entry_count"], found["damage"]) == (2, [])
    table = inspect(path)
    assert (table.returncode, table.stderr) == (0, "")
    assert table.stdout.splitlines() == [
        f"{path}: {found['kind']}, {len(content)} bytes",
        *lines,
        "2 entries; sound",
    ]
    assert as_json(path, "--limit", "1")["entries"] == entries[:1]


def test_indexes_that_a_broker_wrote_lead_to_its_batches(tmp_path: Path) -> None:
    """What the table says of an index is where the segment beside it has that offset and that time."""
    with ottla.Cluster(brokers=1, data_dir=tmp_path) as cluster:
        cluster.create_topic("flights", configs={"index.interval.bytes": "500"})
        with ottla.Producer(cluster.bootstrap_servers, linger_ms=0) as producer:
            for number in range(20):
                producer.send("flights", b"x" * 400, timestamp_ms=1000 + number).result(30)
    (folder,) = tmp_path.rglob("flights-0")
    batches = {each["last_offset"]: each for each in as_json(folder / f"{NAME}.log")["batches"]}
    offsets = as_json(folder / f"{NAME}.index")["entries"]
    times = as_json(folder / f"{NAME}.timeindex")["entries"]
    assert len(offsets) > 5
    assert [batches[each["offset"]]["position"] for each in offsets] == [each["position"] for each in offsets]
    assert len(times) > 5
    assert [batches[each["offset"]]["max_timestamp_ms"] for each in times] == [each["timestamp_ms"] for each in times]
    (snapshot,) = folder.glob("*.snapshot")
    (entry,) = as_json(snapshot)["entries"]
    last = batches[19]
    assert (entry["producer_id"], entry["producer_epoch"]) == (last["producer_id"], last["producer_epoch"])
    assert (entry["last_sequence"], entry["last_offset"]) == (19, 19)


@pytest.mark.parametrize("name", ["server.log", "words.index", "my.snapshot", "notes.txt", "folder"])
def test_what_is_no_file_of_a_broker_is_said_in_a_sentence(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    if name == "folder":
        path.mkdir()
    else:
        path.write_text(
            "[2026-01-01] started, and more words than a batch's header has bytes: enough to look like one\n"
        )
    for options in ([], ["--json"], ["--json-file", str(tmp_path / "out.json")]):
        done = inspect(path, *options)
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.startswith(f"ottla: {path} is no")
        assert done.stderr.count("\n") == 1
    assert [each.name for each in tmp_path.iterdir()] == [name]


def test_a_file_that_is_not_there_and_records_of_an_index(tmp_path: Path) -> None:
    missing = inspect(tmp_path / f"{NAME}.log")
    assert (missing.returncode, missing.stdout) == (2, "")
    assert "is not there" in missing.stderr
    index = tmp_path / f"{NAME}.index"
    index.write_bytes(b"")
    done = inspect(index, "--records")
    assert done.returncode == 2
    assert "only segments hold records" in done.stderr


def test_an_output_nobody_can_write_is_one_sentence(segment: Path, tmp_path: Path) -> None:
    done = inspect(segment, "--json-file", tmp_path / "missing" / "out.json")
    assert (done.returncode, done.stdout) == (2, "")
    assert "cannot be written" in done.stderr


def test_a_data_folder_names_one_of_its_partitions(partition: Path) -> None:
    done = inspect(partition.parent)
    assert done.returncode == 2
    assert f"such as {partition}" in done.stderr
