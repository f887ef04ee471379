"""Spark's audit of frames finds what was planted in them, with the judge's own figures."""

from __future__ import annotations

import zlib
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ottla.audit.ledgers.figures import Figures
from ottla.audit.ledgers.spark import audit_topics, stored_columns
from ottla.ledger.checksum import record_crc
from ottla.ledger.schema import SEQUENCE_HEADER, pack_sequence
from ottla.ledger.writer import LedgerWriter

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

SCHEMA = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", "UTC")),
        ("timestampType", pa.int32()),
        ("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
    ]
)
SENT = datetime(2026, 1, 2, 3, 4, 5, 6000, tzinfo=UTC)


def record(
    sequence: int | None, offset: int, *, topic: str = "t", partition: int = 0, **changes: Any
) -> dict[str, Any]:
    headers = [] if sequence is None else [{"key": SEQUENCE_HEADER, "value": pack_sequence(sequence)}]
    return {
        "key": f"k{sequence}".encode(),
        "value": f"v{sequence}".encode(),
        "topic": topic,
        "partition": partition,
        "offset": offset,
        "timestamp": SENT,
        "timestampType": 0,
        "headers": headers,
    } | changes


def frame(spark: SparkSession, folder: Path, records: list[dict[str, Any]]) -> DataFrame:
    path = folder / "records.parquet"
    pq.write_table(pa.Table.from_pylist(records, schema=SCHEMA), path)
    return spark.read.parquet(str(path))


def ledger(spark: SparkSession, folder: Path, topics: dict[str, list[tuple[int, int, str]]]) -> DataFrame:
    """{topic: [(partition, offset told, outcome), ...]}; a row's place is its sequence."""
    for topic, rows in topics.items():
        with LedgerWriter(
            folder / f"{topic}.ledger.parquet", run_id="run", guarantee="at-least-once", topic=topic
        ) as writer:
            writer.add(
                sequence=list(range(len(rows))),
                partition=[row[0] for row in rows],
                key_crc=[record_crc(f"k{sequence}") for sequence in range(len(rows))],
                value_crc=[record_crc(f"v{sequence}") for sequence in range(len(rows))],
                outcome=[row[2] for row in rows],
                offset=[row[1] for row in rows],
            )
    return spark.read.parquet(*[str(folder / f"{topic}.ledger.parquet") for topic in topics])


def test_stored_records_are_reduced_to_what_the_checkers_read(spark: SparkSession, tmp_path: Path) -> None:
    other = {"key": "trace", "value": b"12345678"}
    ours = {"key": SEQUENCE_HEADER, "value": pack_sequence(2**63 - 1)}
    rows = [
        record(7, 0),
        record(0, 1, key=None, value=None, headers=[other, ours]),
        record(0, 2, headers=None),
        record(0, 3, headers=[other]),
        record(0, 4, headers=[ours | {"value": b"1234567"}]),
        record(0, 5, headers=[ours | {"value": None}]),
        record(0, 6, headers=[ours | {"value": b"\xff" * 8}]),
    ]
    reduced = stored_columns(frame(spark, tmp_path, rows)).orderBy("offset").collect()
    assert reduced[0].asDict() == {
        "topic": "t",
        "partition": 0,
        "offset": 0,
        "timestamp": int(SENT.timestamp()) * 1_000_000 + 6000,
        "sequence": 7,
        "key_crc": zlib.crc32(b"k7"),
        "value_crc": zlib.crc32(b"v7"),
    }
    assert [row.sequence for row in reduced] == [7, 2**63 - 1, -1, -1, -1, -1, -1]
    assert (reduced[1].key_crc, reduced[1].value_crc) == (-1, -1)


def test_every_planted_fault_is_counted_in_its_topic(spark: SparkSession, tmp_path: Path) -> None:
    rows = [
        *(record(n, n, topic="clean") for n in range(4)),
        *(record(n, o) for o, n in enumerate([0, 2, 1, 0, 4])),
        record(3, 0, partition=1, value=b"other"),
        record(None, 1, partition=1),
    ]
    sent = {
        "clean": [(0, n, "acked") for n in range(4)],
        "t": [
            (0, 3, "acked"),
            (0, 2, "acked"),
            (0, 1, "acked"),
            (1, 0, "acked"),
            (0, -1, "failed"),
            (2, -1, "unknown"),
            (-1, -1, "failed"),
        ],
    }
    bounds = {"clean": {0: (0, 4)}, "t": {0: (0, 5), 1: (0, 2), 2: (0, 0), 3: (10, 13)}}
    audits = audit_topics(
        ledger(spark, tmp_path, sent), stored_columns(frame(spark, tmp_path, rows)), bounds, evidence_max=1
    )
    assert list(audits) == ["clean", "t"]
    assert [finding.count for finding in audits["clean"].findings] == [0] * 7
    assert audits["clean"].figures.stored == audits["clean"].figures.sent == 4
    found = {finding.kind: finding.count for finding in audits["t"].findings}
    assert found == {
        "lost": 1,
        "duplicated": 1,
        "reordered": 1,
        "altered": 2,
        "failed but stored": 1,
        "wrong offset": 0,
        "misread": 3,
    }
    figures = audits["t"].figures
    assert (figures.sent, figures.acked, figures.failed, figures.unknown, figures.stored) == (7, 4, 2, 1, 7)
    (copy,) = audits["t"].finding("duplicated").evidence
    assert (copy.topic, copy.partition, copy.sequence, copy.offsets) == ("t", 0, 0, (0, 3))
    (unread,) = audits["t"].finding("misread").evidence
    assert (unread.partition, unread.offsets) == (3, (10,))


def test_only_the_topics_asked_for_are_judged(spark: SparkSession, tmp_path: Path) -> None:
    sent = {"t": [(0, 0, "acked")], "other": [(0, 0, "acked")]}
    records = frame(spark, tmp_path, [record(0, 0), record(5, 0, topic="third")])
    audits = audit_topics(ledger(spark, tmp_path, sent), stored_columns(records), {"t": {0: (0, 1)}})
    assert list(audits) == ["t"]
    figures = audits["t"].figures
    assert figures == Figures(sent=1, acked=1, stored=1)
