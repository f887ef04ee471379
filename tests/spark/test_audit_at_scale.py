"""Spark's audit of frames finds what was planted in them, with the judge's own figures."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ottla.audit.ledgers.figures import Figures
from ottla.audit.ledgers.spark import audit_topics
from ottla.ledger.checksum import record_crc
from ottla.ledger.writer import LedgerWriter
from ottla.topic_audit.reduced import STORED_SCHEMA

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

SENT = 1_800_000_000_000_000


def record(
    sequence: int, offset: int, *, topic: str = "t", partition: int = 0, value: bytes | None = None
) -> dict[str, Any]:
    """What is known of a stored record; a sequence of -1 is none."""
    return {
        "topic": topic,
        "partition": partition,
        "offset": offset,
        "sequence": sequence,
        "key_crc": record_crc(f"k{sequence}"),
        "value_crc": record_crc(f"v{sequence}" if value is None else value),
        "timestamp": SENT,
    }


def frame(spark: SparkSession, folder: Path, records: list[dict[str, Any]]) -> DataFrame:
    path = folder / "records.parquet"
    reduced = STORED_SCHEMA.append(pa.field("topic", pa.string()))
    pq.write_table(pa.Table.from_pylist(records, schema=reduced), path)
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


def test_every_planted_fault_is_counted_in_its_topic(spark: SparkSession, tmp_path: Path) -> None:
    rows = [
        *(record(n, n, topic="clean") for n in range(4)),
        *(record(n, o) for o, n in enumerate([0, 2, 1, 0, 4])),
        record(3, 0, partition=1, value=b"other"),
        record(-1, 1, partition=1),
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
    audits = audit_topics(ledger(spark, tmp_path, sent), frame(spark, tmp_path, rows), bounds, evidence_max=1)
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
    audits = audit_topics(ledger(spark, tmp_path, sent), records, {"t": {0: (0, 1)}})
    assert list(audits) == ["t"]
    figures = audits["t"].figures
    assert figures == Figures(sent=1, acked=1, stored=1)
