"""Spark's audit of frames finds what was planted in them, with the judge's own figures."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.audit.test_slices import drawn_case, table
from tests.drawn import fixed_seeds

from ottla.audit.findings import LEDGER_KINDS
from ottla.audit.ledgers.figures import Figures
from ottla.audit.ledgers.local import audit_tables
from ottla.audit.ledgers.spark import audit_topics
from ottla.audit.ledgers.tables import SENT_COLUMNS, STORED_COLUMNS, TopicTraits
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


def test_the_first_gaps_of_all_partitions_are_found_in_one_more_read(spark: SparkSession, tmp_path: Path) -> None:
    """As where transactions were written, and nobody said so: each partition has gaps."""
    reads = spark.sparkContext.accumulator(0)

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        reads.add(1)
        yield from batches

    partitions = 5
    rows = [record(n, n + 3 + n // 4, partition=n % partitions) for n in range(40)]
    stored = frame(spark, tmp_path, rows).coalesce(1)
    stored = stored.mapInArrow(read, stored.schema)
    bounds = {"t": dict.fromkeys(range(partitions), (3, 60)), "other": {0: (7, 9)}}
    sent = {"t": [(n % partitions, n + 3 + n // 4, "acked") for n in range(40)]}
    audits = audit_topics(ledger(spark, tmp_path, sent), stored, bounds, slice_numbers=10, evidence_max=9)
    assert [each.offsets[0] for each in audits["t"].finding("misread").evidence] == [4, 3, 3, 3, 3]
    assert audits["other"].finding("misread").evidence[0].offsets == (7,)
    assert reads.value == 2


@pytest.mark.parametrize("seed", fixed_seeds(2))
def test_spark_says_of_drawn_histories_what_one_process_says(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    """All evidence included, whatever the order of rows; each history is a topic, and all are judged at once."""
    chance = Random(seed)
    traits, bounds, here = {}, {}, {}
    sides: tuple[list[pa.Table], list[pa.Table]] = ([], [])
    for topic in (f"t{number}" for number in range(50)):
        sent, stored, bounds[topic] = drawn_case(chance)
        each = traits[topic] = TopicTraits(chance.random() < 0.2, chance.random() < 0.2, chance.random() < 0.5)
        tables = table(sent, SENT_COLUMNS), table(stored, STORED_COLUMNS)
        here[topic] = audit_tables(topic, *tables, bounds[topic], each, slice_numbers=7)
        for side, rows in zip(sides, tables, strict=True):
            side.append(rows.append_column("topic", pa.repeat(topic, rows.num_rows)))
    frames = []
    for name, side in zip(("sent", "stored"), sides, strict=True):
        rows = pa.concat_tables(side)
        rows = rows.take(pa.array(chance.sample(range(rows.num_rows), rows.num_rows)))
        pq.write_table(rows, tmp_path / f"{name}.parquet")
        frames.append(spark.read.parquet(str(tmp_path / f"{name}.parquet")))
    there = audit_topics(
        *frames,
        bounds,
        transactional=[topic for topic in bounds if traits[topic].is_transactional],
        compacted=[topic for topic in bounds if traits[topic].is_compacted],
        answered=[topic for topic in bounds if traits[topic].is_answered],
        slice_numbers=7,
    )
    assert there == here
    found = {finding.kind for audit in here.values() for finding in audit.findings if finding.count}
    assert found == set(LEDGER_KINDS)
