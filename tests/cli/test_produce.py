"""`ottla produce`: what it sends of lines, files and random records, and what it says and writes down of them."""

from __future__ import annotations

import io
import itertools
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import ottla
from ottla.cli import main
from ottla.cluster.cluster import Cluster
from ottla.protocol.error_codes import ErrorCode

TIMEOUT_S = 60
Run = Callable[..., tuple[str, str]]
_numbers = itertools.count()


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(1) as cluster:
        yield cluster


@pytest.fixture
def topic(cluster: Cluster) -> str:
    name = f"orders-{next(_numbers)}"
    cluster.create_topic(name, partitions=2)
    return name


@pytest.fixture
def produce(
    cluster: Cluster, topic: str, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, patient: None
) -> Run:
    def run(*arguments: str, given: bytes = b"", status: int = 0) -> tuple[str, str]:
        """(stdout, stderr)"""
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(given)))
        ended = main(["produce", topic, "-b", cluster.bootstrap_servers, *arguments])
        shown = capfd.readouterr()
        assert ended == status, shown
        return shown.out, shown.err

    return run


def stored(cluster: Cluster, topic: str) -> list[dict[str, Any]]:
    return ottla.read_table(cluster.bootstrap_servers, topic).to_pylist()


@pytest.fixture
def audited(cluster: Cluster, topic: str, capfd: pytest.CaptureFixture[str]) -> Callable[[Path], str]:
    def audit(ledger: Path) -> str:
        """What the audit says, which found the guarantee that the ledger claims."""
        assert main(["audit", "--ledger", str(ledger), "--topic", topic, "-b", cluster.bootstrap_servers]) == 0
        return capfd.readouterr().out

    return audit


def test_every_record_has_the_headers_given(cluster: Cluster, topic: str, produce: Run, tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("id\n7\n")
    produce("--header", "source=web", "--header", "a=b=c", given=b"one\n")
    produce("--header", "source=web", "--header", "a=b=c", "--input", str(tmp_path / "rows.csv"))
    headers = [{"key": "source", "value": b"web"}, {"key": "a", "value": b"b=c"}]
    assert [record["headers"] for record in stored(cluster, topic)] == [headers, headers]


def test_bytes_that_are_no_text_are_sent_as_they_were_typed(cluster: Cluster, topic: str, produce: Run) -> None:
    # As Python reads the arguments where they are none of the locale's characters.
    produce("--header", os.fsdecode(b"raw=\xff"), given=b"one\n")
    produce("--header", "n\udcc3\udca4=\udcc3\udca4", given=b"two\n")
    produce("--key-separator", os.fsdecode(b"\xff"), given=b"ada\xffthree\n")
    # Which partition takes a record without a key is drawn.
    found = {record["value"]: record for record in stored(cluster, topic)}
    assert (found[b"one"]["headers"], found[b"two"]["headers"]) == (
        [{"key": "raw", "value": b"\xff"}],
        [{"key": "n\xe4", "value": "\xe4".encode()}],
    )
    assert found[b"three"]["key"] == b"ada"
    _, err = produce("--header", os.fsdecode(b"\xff=x"), given=b"four\n", status=2)
    assert "the name of a header is text" in err


def test_rows_without_a_key_column_have_no_keys(cluster: Cluster, topic: str, produce: Run, tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("id,name\n7,Ada\n8,\n")
    assert produce("--input", str(tmp_path / "rows.csv")) == ("", f"2 records sent to {topic}, all acknowledged\n")
    assert [(record["key"], json.loads(record["value"])["id"]) for record in stored(cluster, topic)] == [
        (None, 7),
        (None, 8),
    ]


def parquet(rows: list[dict[str, Any]]) -> bytes:
    out = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows), out)
    return out.getvalue()


@pytest.mark.parametrize(
    ("file_format", "given"),
    [
        ("csv", b"id,name\n7,Ada\n8,Bob\n"),
        ("tsv", b"id\tname\n7\tAda\n8\tBob\n"),
        ("ndjson", b'{"id": 7, "name": "Ada"}\n{"id": 8, "name": "Bob"}\n'),
        ("parquet", parquet([{"id": 7, "name": "Ada"}, {"id": 8, "name": "Bob"}])),
    ],
    ids=["csv", "tsv", "ndjson", "parquet"],
)
def test_rows_come_from_standard_input_and_from_files_of_any_name(
    cluster: Cluster, topic: str, produce: Run, tmp_path: Path, file_format: str, given: bytes
) -> None:
    (tmp_path / "rows").write_bytes(given)
    produce("--input", "-", "--input-format", file_format, "--key", "id", given=given)
    produce("--input", str(tmp_path / "rows"), "--input-format", file_format, "--key", "id")
    rows = [{"id": 7, "name": "Ada"}, {"id": 8, "name": "Bob"}]
    found = [(record["key"], json.loads(record["value"])) for record in stored(cluster, topic)]
    assert sorted(found, key=lambda each: each[0]) == [(b"7", rows[0])] * 2 + [(b"8", rows[1])] * 2


def test_random_records_have_a_name_a_location_and_a_status(cluster: Cluster, topic: str, produce: Run) -> None:
    out, err = produce("--random", "200", "--rate", "10000", "--json")
    assert err == ""
    told = json.loads(out)
    assert told.pop("seconds") >= 0.0199
    assert told == {"topic": topic, "records": 200, "acked": 200, "failed": 0, "unknown": 0, "ledger": None}
    records = [(record["key"], json.loads(record["value"])) for record in stored(cluster, topic)]
    assert len(records) == 200
    assert all(list(value) == ["name", "location", "status"] for _, value in records)
    assert all(value["name"].encode() == key for key, value in records)
    assert {value["status"] for _, value in records} == {"OPEN", "CLOSED", "MOVED"}


@pytest.mark.parametrize(
    ("arguments", "given", "count"),
    [
        (["--key-separator", ":", "--header", "source=web"], b"a:1\nb:2\nc\n", 3),
        (["--random", "30"], b"", 30),
        (["--input", "-", "--input-format", "csv", "--key", "id"], b"id,at\n7,2013-01-01\n,\n8,2013-01-02\n", 3),
        (["--input", "-", "--input-format", "ndjson", "--header", "source=web"], b'{"id": 7}\n{"id": 8}\n', 2),
    ],
    ids=["lines", "random", "rows with keys", "rows without keys"],
)
def test_ledger_of_what_was_sent_stands_the_audit(
    cluster: Cluster,
    topic: str,
    produce: Run,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    given: bytes,
    count: int,
    audited: Callable[[Path], str],
) -> None:
    monkeypatch.setattr("ottla.cli.sent_ledger._CHUNK", 10)
    monkeypatch.setattr("ottla.cli.sending._ROWS_AT_A_TIME", 2)
    ledger = tmp_path / "sent.parquet"
    produce(*arguments, "--ledger", str(ledger), given=given)
    told = audited(ledger)
    assert f"{topic} is as claimed, exactly-once: {count} records audited" in told


def test_ledger_tells_what_was_not_stored(cluster: Cluster, topic: str, produce: Run, tmp_path: Path) -> None:
    ledger = tmp_path / "sent.parquet"
    config = tmp_path / "client.properties"
    # It switches idempotence off, and with it what the ledger claims.
    config.write_text("retries=0\n")
    arguments = ("--command-config", str(config), "--ledger", str(ledger), "--json")
    with cluster.faults.refuse(error=ErrorCode.INVALID_RECORD, topic=topic):
        out, err = produce(*arguments, given=b"a\nb\n", status=1)
    assert err.startswith("ottla: 2 records were not delivered; the first cause: INVALID_RECORD")
    assert {name: json.loads(out)[name] for name in ("records", "acked", "failed", "unknown")} == {
        "records": 2,
        "acked": 0,
        "failed": 2,
        "unknown": 0,
    }
    rows = pq.read_table(ledger).to_pylist()
    assert [(row["sequence"], row["outcome"]) for row in rows] == [(0, "failed"), (1, "failed")]
    assert {row["guarantee"] for row in rows} == {"at-least-once"}


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_produce_tells_what_became_of_all_it_sent(
    cluster: Cluster, topic: str, tmp_path: Path, end: signal.Signals
) -> None:
    ledger = tmp_path / "sent.parquet"
    command = [sys.executable, "-m", "ottla", "produce", topic, "-b", cluster.bootstrap_servers, "--json"]
    with (
        cluster.faults.drop_request(topic=topic) as silence,
        subprocess.Popen(
            [*command, "--ledger", str(ledger)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        ) as sending,
    ):
        assert sending.stdin is not None
        sending.stdin.write(b"a\n")
        sending.stdin.flush()
        while not silence.fired:
            assert sending.poll() is None
        sending.send_signal(end)
        try:
            status = sending.wait(TIMEOUT_S)
        finally:
            sending.kill()
        assert sending.stdout is not None
        assert sending.stderr is not None
        told = json.loads(sending.stdout.read())
        assert (told["records"], told["acked"], told["failed"], told["unknown"]) == (1, 0, 0, 1)
        said = "interrupted" if end == signal.SIGINT else "terminated"
        assert sending.stderr.read().decode() == f"ottla: {said}: 1 record not known to be stored\n"
    assert status == 128 + end
    assert [row["outcome"] for row in pq.read_table(ledger).to_pylist()] == ["unknown"]


def test_line_that_cannot_be_sent_leaves_a_ledger_of_those_before_it(
    produce: Run, tmp_path: Path, audited: Callable[[Path], str]
) -> None:
    ledger = tmp_path / "sent.parquet"
    _, err = produce("--ledger", str(ledger), given=b"a\n" + b"b" * 2_000_000 + b"\n", status=2)
    assert err.startswith("ottla: line 2: ")
    assert "is as claimed, exactly-once: 1 record audited" in audited(ledger)


def test_what_cannot_be_meant_is_refused(produce: Run, tmp_path: Path) -> None:
    for arguments, given, said in (
        (["--header", "source"], b"", "--header source is no NAME=VALUE"),
        (["--input", "-"], b"a\n1\n", "--input - needs --input-format beside it: csv, tsv, ndjson, parquet"),
        (["--input-format", "csv"], b"", "--input-format is the format of a file"),
        (["--input", "-", "--input-format", "xml"], b"", "--input-format xml is not one of csv"),
        (["--input", "-", "--input-format", "csv"], b"a,b\n1\n", "line 2 of standard input has 1 columns"),
        (["--input", "-", "--input-format", "csv"], b"", "standard input is empty"),
        (["--input", "-", "--input-format", "csv", "--key", "c"], b"a,b\n1,2\n", "standard input has no column 'c'"),
        (["--input", "no/rows", "--input-format", "csv"], b"", "no/rows does not exist"),
        (["--random", "5", "--input", "x.csv"], b"", "give one of the two"),
        (["--random", "0"], b"", "--random 0 is no whole number"),
        (["--rate", "5"], b"", "--rate is for random records"),
        (["--random", "5", "--key-separator", ":"], b"", "--key-separator is for lines"),
        (["--ledger", str(tmp_path / "sent.jsonl")], b"", "--ledger writes Parquet"),
        (["--ledger", str(tmp_path / "none" / "sent.parquet")], b"", "there is no folder"),
    ):
        out, err = produce(*arguments, given=given, status=2)
        assert (out, said in err, len(err.splitlines())) == ("", True, 1), (arguments, err)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "text", "values"),
    [
        (
            "a.ndjson",
            '{"at":"2026-01-01","with":"2026-01-01T10:00:00+02:00","n":5}\n{"at":"2026-01-02","with":"x","n":6}\n',
            [
                {"at": "2026-01-01", "with": "2026-01-01T10:00:00+02:00", "n": 5},
                {"at": "2026-01-02", "with": "x", "n": 6},
            ],
        ),
        (
            "a.csv",
            "zip,day,at,n,x\n01234,2026-01-01,2026-01-01 10:00:00,5,1.5\n99999,2026-01-02,2026-01-01 11:00:00,6,2\n",
            [
                {"zip": "01234", "day": "2026-01-01", "at": "2026-01-01 10:00:00", "n": 5, "x": 1.5},
                {"zip": "99999", "day": "2026-01-02", "at": "2026-01-01 11:00:00", "n": 6, "x": 2.0},
            ],
        ),
    ],
)
def test_texts_of_a_file_are_sent_as_they_are(
    name: str, text: str, values: list[Any], cluster: Cluster, topic: str, produce: Run, tmp_path: Path
) -> None:
    (tmp_path / name).write_text(text)
    produce("--input", str(tmp_path / name))
    assert sorted((json.loads(each["value"]) for each in stored(cluster, topic)), key=str) == sorted(values, key=str)
