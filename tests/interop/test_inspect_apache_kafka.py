"""`ottla inspect` over the data folder of a running Apache Kafka: each kind of file it writes, by Kafka itself."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

import ottla
from ottla.broker.log import files
from ottla.broker.log.survey import Kind, kind_of

from ..markers import await_markers

pytestmark = pytest.mark.kafka

TOPIC = "inspected"
BATCHES = 40


def inspect(*arguments: str | Path) -> Any:
    done = subprocess.run(
        [sys.executable, "-m", "ottla", "inspect", *map(str, arguments), "--json"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stdout[-2000:] + done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def partition(apache_kafka: str, apache_kafka_logs: Path) -> Path:
    """A partition of several segments, with an aborted and a committed transaction behind plain batches."""
    with ottla.Admin(apache_kafka) as admin:
        # Records of 2023 would be gone by age as soon as Apache Kafka looks.
        configs = {
            "segment.bytes": 1 << 20,
            "index.interval.bytes": 4096,
            "segment.index.bytes": 65536,
            "retention.ms": -1,
        }
        admin.create_topics(TOPIC, partitions=1, replication_factor=1, configs=configs)
        admin.end_offsets(TOPIC)
    with ottla.Producer(apache_kafka) as producer:
        for number in range(BATCHES):
            delivery = producer.send(TOPIC, b"%d" % number * 20_000, b"key", timestamp_ms=1_700_000_000_000 + number)
            delivery.result(120)
    config = {"bootstrap.servers": apache_kafka, "transactional.id": "inspector", "log_level": 0}
    transactional = Producer(config)
    transactional.init_transactions(60)
    for word, end in (("aborted", transactional.abort_transaction), ("committed", transactional.commit_transaction)):
        transactional.begin_transaction()
        transactional.produce(TOPIC, word * 1000)
        transactional.flush(120)
        end(60)
    # A commit is answered before its marker is written.
    await_markers(apache_kafka, TOPIC)
    # More, so that the segment with the transactions is closed and its indexes are cut to what they hold.
    with ottla.Producer(apache_kafka) as producer:
        for number in range(BATCHES):
            producer.send(TOPIC, b"%d" % number * 20_000).result(120)
    return apache_kafka_logs / f"{TOPIC}-0"


@pytest.fixture(scope="module")
def segments(partition: Path) -> list[Path]:
    found = sorted(partition.glob("*.log"))
    assert len(found) > 1
    return found


def test_every_file_of_a_partition_is_known_and_sound(partition: Path) -> None:
    found = inspect(partition)
    assert {each["file"] for each in found["files"]} == {each.name for each in partition.iterdir()}
    assert {each["kind"] for each in found["files"]} == {
        "segment",
        "offset index",
        "time index",
        "transaction index",
        "producer snapshot",
        "leader epochs",
        "partition metadata",
    }
    assert sum(each.get("record_count", 0) for each in found["files"]) == 2 * BATCHES + 4


def test_batches_and_records_are_the_ones_that_were_sent(segments: list[Path]) -> None:
    batches = [batch for path in segments for batch in inspect(path)["batches"]]
    assert all(batch["crc_ok"] for batch in batches)
    assert [batch["base_offset"] for batch in batches] == list(range(2 * BATCHES + 4))
    assert [batch["base_timestamp_ms"] for batch in batches[:BATCHES]] == [
        1_700_000_000_000 + number for number in range(BATCHES)
    ]
    middle = batches[BATCHES : BATCHES + 4]
    assert all(batch["is_transactional"] for batch in middle)
    assert [batch["is_control"] for batch in middle] == [False, True, False, True]
    records = [record for path in segments for record in inspect(path, "--records")["records"]]
    assert [record.get("control") for record in records[BATCHES : BATCHES + 4]] == [None, "abort", None, "commit"]
    assert records[BATCHES]["value"] == "aborted" * 1000
    assert (records[7]["key"], records[7]["value"]) == ("key", "7" * 20_000)


def test_indexes_point_at_batches(segments: list[Path]) -> None:
    entries = 0
    for path in segments:
        batches = inspect(path)["batches"]
        ends = {batch["position"]: batch["last_offset"] for batch in batches}
        newest = {batch["last_offset"]: batch["max_timestamp_ms"] for batch in batches}
        for entry in inspect(path.with_suffix(".index"))["entries"]:
            assert ends[entry["position"]] == entry["offset"]
            entries += 1
        for entry in inspect(path.with_suffix(".timeindex"))["entries"]:
            assert newest[entry["offset"]] == entry["timestamp_ms"]
            entries += 1
    assert entries > BATCHES


def test_the_aborted_transaction_is_in_the_transaction_index(segments: list[Path]) -> None:
    found = [entry for path in segments[0].parent.glob("*.txnindex") for entry in inspect(path)["entries"]]
    assert [(entry["first_offset"], entry["last_offset"]) for entry in found] == [(BATCHES, BATCHES + 1)]


def test_a_producer_snapshot_holds_the_last_batch_in_front_of_it(segments: list[Path]) -> None:
    batches = [batch for path in segments for batch in inspect(path)["batches"] if not batch["is_control"]]
    snapshots = sorted(segments[0].parent.glob("*.snapshot"))
    assert snapshots
    for path in snapshots:
        end = int(path.stem)
        for entry in inspect(path)["entries"]:
            last = [
                each for each in batches if each["producer_id"] == entry["producer_id"] and each["last_offset"] < end
            ][-1]
            assert entry["last_offset"] == last["last_offset"]
            assert entry["last_sequence"] == last["base_sequence"] + entry["offset_delta"]


WRITERS: dict[str, tuple[Callable[[bytes], Any], Callable[[Any], bytes]]] = {
    "transaction index": (files.read_transaction_index, files.write_transaction_index),
    "producer snapshot": (files.read_producer_snapshot, files.write_producer_snapshot),
    "leader epochs": (files.read_leader_epochs, files.write_leader_epochs),
    "partition metadata": (files.read_partition_metadata, files.write_partition_metadata),
}


def test_our_writers_write_what_kafka_wrote_byte_for_byte(partition: Path) -> None:
    written = set()
    for path in partition.iterdir():
        kind = kind_of(path.name)
        assert isinstance(kind, Kind)
        if kind.name in WRITERS:
            read, write = WRITERS[kind.name]
            data = path.read_bytes()
            again = write(read(data))
            assert again + bytes(len(data) - len(again)) == data
            written.add(kind.name)
    assert written == set(WRITERS)


def test_the_metadata_log_of_the_controller_is_a_log_like_any_other(apache_kafka_logs: Path) -> None:
    (first,) = inspect(apache_kafka_logs / "__cluster_metadata-0" / f"{0:020d}.log", "--records", "-n", "1")["records"]
    assert first["control"] == "leader change"
