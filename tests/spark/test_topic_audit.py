"""`ottla audit` on PySpark says what it says in its own process: of ledgers, of topics, of what cannot be used."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rich.console import Console
from tests.ledger.bad_ledgers import BAD_LEDGERS, BAD_PARTITIONS, BadLedger, row
from tests.ledger.odd_ledgers import ODD_LEDGERS, OddLedger

import ottla
from ottla.audit.ledgers.tables import TopicTraits
from ottla.errors import OttlaError, UserMistake
from ottla.ledger.files import ledger_files, read_rows
from ottla.ledger.schema import SEQUENCE_HEADER, pack_sequence
from ottla.screen import showing_steps
from ottla.topic_audit.local import audit_here
from ottla.topic_audit.spark import (
    audit_on_spark,
    check_ledger,
    check_places,
    ledger_at,
    ledger_frame,
    told_in_a_sentence,
)
from ottla.topic_audit.topic import look_at_topic

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def cluster() -> Iterator[ottla.Cluster]:
    with ottla.Cluster(brokers=1) as cluster:
        yield cluster


def frame_of(spark: SparkSession, folder: Path, topic: str = "orders") -> DataFrame:
    return ledger_frame(spark, ledger_files(folder), topic)


@pytest.mark.parametrize("bad", BAD_LEDGERS, ids=lambda bad: bad.name)
def test_a_ledger_that_cannot_be_used_is_told_with_its_place(
    spark: SparkSession, tmp_path: Path, bad: BadLedger
) -> None:
    folder = tmp_path / "a folder [1]"
    folder.mkdir()
    bad.write(folder)
    with pytest.raises(UserMistake) as told:
        check_ledger(frame_of(spark, folder), "orders", 2)
    assert bad.words.format(folder=folder) in str(told.value)


@pytest.mark.parametrize("bad", BAD_PARTITIONS, ids=lambda bad: bad.name)
def test_a_partition_that_cannot_be_is_told_with_its_place(spark: SparkSession, tmp_path: Path, bad: BadLedger) -> None:
    bad.write(tmp_path)
    frame = frame_of(spark, tmp_path)
    check_ledger(frame, "orders", 2)
    with pytest.raises(UserMistake) as told:
        check_places(frame, "orders", 2)
    assert bad.words.format(folder=tmp_path) in str(told.value)


@pytest.mark.parametrize("odd", ODD_LEDGERS, ids=lambda odd: odd.name)
def test_both_engines_read_and_say_the_same_of_a_ledger(spark: SparkSession, tmp_path: Path, odd: OddLedger) -> None:
    folder = tmp_path / "a folder [1]"
    folder.mkdir()
    odd.write(folder)
    here, there = read_here(folder), read_on_spark(spark, folder)
    assert there == here
    assert odd.words.format(folder=folder) in here if odd.words else isinstance(here, list)


def read_here(folder: Path) -> list[dict[str, Any]] | str:
    """The rows by their numbers, or why there are none."""
    try:
        return read_rows(ledger_files(folder), "orders").table.sort_by("sequence").to_pylist()
    except UserMistake as mistake:
        return str(mistake)


def read_on_spark(spark: SparkSession, folder: Path) -> list[dict[str, Any]] | str:
    try:
        frame = frame_of(spark, folder)
        check_ledger(frame, "orders", 2)
    except UserMistake as mistake:
        return str(mistake)
    names = ("partition", "offset", "sequence", "outcome", "key_crc", "value_crc")
    return [each.asDict() for each in frame.select(*names).orderBy("sequence").collect()]


def test_both_engines_read_the_same_rows(spark: SparkSession, tmp_path: Path) -> None:
    lines = [row(0, key="ü", value="v"), row(1, key_crc=7, outcome="unknown", offset=None), row(2, topic="others")]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(each) + "\n" for each in lines))
    columns = {"sequence": [2], "outcome": ["failed"], "key": [b"\xff"], "guarantee": ["at-least-once"]}
    pq.write_table(pa.table(columns), tmp_path / "b.parquet")
    frame = frame_of(spark, tmp_path)
    assert check_ledger(frame, "orders", 2).claims == ("at-least-once",)
    rows = read_rows(ledger_files(tmp_path), "orders")
    assert rows.guarantees == ("at-least-once",)
    names = rows.table.column_names
    read = [each.asDict() for each in frame.select(*names).orderBy("sequence").collect()]
    assert read == rows.table.to_pylist()


def test_what_spark_cannot_do_is_told_in_a_sentence(spark: SparkSession, tmp_path: Path) -> None:
    """Also that its worker was killed, as where memory is short."""

    def die(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        os.kill(os.getpid(), signal.SIGKILL)
        yield from batches

    with pytest.raises(OttlaError, match="Spark could not do it: a Python worker ended"), told_in_a_sentence():
        spark.range(1).mapInArrow(die, "id long").collect()
    nowhere = r"Spark could not do it: \[PATH_NOT_FOUND\] Path does not exist: file:/nowhere"
    with pytest.raises(OttlaError, match=nowhere), told_in_a_sentence():
        ledger_at(spark, "file:///nowhere", "orders")
    (tmp_path / "a.parquet").write_bytes(b"PAR1 and no more")
    with pytest.raises(OttlaError, match=r"Spark could not do it: .* is not a Parquet file"), told_in_a_sentence():
        ledger_at(spark, f"file://{tmp_path}", "orders")


def test_what_one_of_ours_says_on_a_worker_is_told_alone(spark: SparkSession) -> None:
    def complain(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        raise OttlaError("no broker answers")

    with pytest.raises(OttlaError, match=r"^Spark could not do it: no broker answers$"), told_in_a_sentence():
        spark.range(1).mapInArrow(complain, "id long").collect()


def test_an_address_is_read_as_files_are(spark: SparkSession, tmp_path: Path) -> None:
    lines = [row(0, key="ü", value="v"), row(1, key_crc=7, outcome="unknown", offset=None), row(2, topic="others")]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(each) + "\n" for each in lines))
    frame = ledger_at(spark, f"file://{tmp_path}/a.jsonl", "orders")
    check_ledger(frame, "orders", 2)
    names = read_rows(ledger_files(tmp_path), "orders").table.column_names
    read = [each.asDict() for each in frame.select(*names).orderBy("sequence").collect()]
    assert read == read_here(tmp_path)
    (tmp_path / "a.jsonl").write_text("{'sequence': 0, 'outcome': 'acked'}\n")
    with pytest.raises(UserMistake, match=r"a\.jsonl holds a line that is no row of a ledger: \{'sequence': 0"):
        check_ledger(ledger_at(spark, f"file://{tmp_path}/a.jsonl", "orders"), "orders", 2)


def test_both_engines_judge_alike(spark: SparkSession, cluster: ottla.Cluster, tmp_path: Path) -> None:
    """A topic of which something is wrong, in slices of which several are out of order."""
    cluster.create_topic("orders", partitions=2)
    book = [row(number, partition=number % 2, offset=None, value=f"v{number}") for number in range(400)]
    for number, outcome in ((30, "unknown"), (31, "failed"), (17, "unknown")):
        # Nobody knows where: the first two are stored.
        book[number] |= {"partition": None, "outcome": outcome}
    order = sorted(range(400), key=lambda number: number + (150 if number % 50 == 3 else 0))
    with ottla.Producer(cluster.bootstrap_servers) as producer:
        for number in order:
            headers = [(SEQUENCE_HEADER, pack_sequence(number))]
            for _ in range(0 if number == 17 else 2 if number % 100 == 8 else 1):
                producer.send("orders", f"v{number}", headers=headers, partition=number % 2)
        producer.send("orders", "nobody's", partition=0)
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(each) + "\n" for each in book))
    seen = look_at_topic(cluster.bootstrap_servers, "orders", {})
    traits = TopicTraits(is_answered=True)
    rows = read_rows(ledger_files(tmp_path), "orders")
    with showing_steps(Console(quiet=True)) as steps:
        here = audit_here(rows, cluster.bootstrap_servers, seen, traits, {}, steps)
        frame = frame_of(spark, tmp_path)
        there: Any = audit_on_spark(
            spark, frame, cluster.bootstrap_servers, seen, traits, {}, steps, slice_numbers=40, evidence_max=3
        )
    assert (there.figures, there.outcomes, there.numbers) == (here.figures, here.outcomes, here.numbers)
    assert [each.count for each in there.findings] == [each.count for each in here.findings]
    assert (here.figures.lost, here.figures.duplicated, here.figures.altered) == (0, 4, 1)
    assert here.finding("failed but stored").count == 1
    assert here.figures.reordered > 0
