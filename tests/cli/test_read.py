"""`ottla read`: which records it reads, and the forms they take on stdout and in files."""

from __future__ import annotations

import csv
import json
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tools.ports import free_ports

import ottla
from ottla.cli import main
from ottla.cluster.cluster import Cluster

Read = Callable[..., str]
NOON_MS = int(datetime(2025, 11, 27, 12, tzinfo=UTC).timestamp() * 1000)
MINUTE_MS = 60_000
TIMEOUT_S = 60


@pytest.fixture(scope="module")
def orders() -> Iterator[str]:
    """The address of a topic `orders`: two partitions, four records each, a minute between them, from noon on."""
    with Cluster(1) as cluster:
        cluster.create_topic("orders", partitions=2)
        with ottla.Producer(cluster.bootstrap_servers) as producer:
            for number in range(8):
                producer.send(
                    "orders",
                    f"order {number}",
                    f"k{number}",
                    partition=number % 2,
                    timestamp_ms=NOON_MS + number // 2 * MINUTE_MS,
                    headers=[("from", b"web")] if number == 7 else None,
                )
        yield cluster.bootstrap_servers


@pytest.fixture
def read(orders: str, capfd: pytest.CaptureFixture[str], patient: None) -> Read:
    def run(*arguments: str, status: int = 0) -> str:
        """What is on stdout, or for another status what is on stderr."""
        ended = main(["read", "orders", "-b", orders, *arguments])
        shown = capfd.readouterr()
        assert ended == status, shown
        return shown.err if status else shown.out

    return run


@pytest.mark.parametrize(
    ("arguments", "numbers"),
    [
        (["--partition", "1"], [1, 3, 5, 7]),
        (["-p", "1", "-p", "0", "-p", "1", "--start", "3"], [6, 7]),
        (["--start", "2025-11-27T12:02"], [4, 5, 6, 7]),
        (["--start", "2025-11-27T14:02+02:00", "-p", "0"], [4, 6]),
        (["--end", "1"], [0, 1]),
        (["--end", "2025-11-27T12:01:00.001Z"], [0, 1, 2, 3]),
        (["--end", "2026-01-01"], list(range(8))),
        (["--end", "1000", "--start", "2"], [4, 5, 6, 7]),
        (["--start", "9", "--end", "1000"], []),
        (["--start", "2", "--end", "2"], []),
        (["--start", "2026-01-01"], []),
        (["--start", "latest"], []),
        (["--start", "1960-01-01"], list(range(8))),
        (["--end", "1960-01-01"], []),
        (["-p", "0", "--start", "0001-01-01T00:00+14:00"], [0, 2, 4, 6]),
    ],
    ids=str,
)
def test_partitions_offsets_and_times_choose_the_records(read: Read, arguments: list[str], numbers: list[int]) -> None:
    assert sorted(read(*arguments, "--format", "value").splitlines()) == [f"order {number}" for number in numbers]


def test_json_is_a_flag_for_the_format(read: Read) -> None:
    told = json.loads(read("--json", "-p", "1", "--start", "3"))
    assert told == {
        "partition": 1,
        "offset": 3,
        "timestamp": "2025-11-27T12:03:00.000+00:00",
        "key": "k7",
        "value": "order 7",
        "headers": [["from", "web"]],
    }
    assert read("--json", "--format", "json") == read("--json")


@pytest.mark.parametrize("style", ["text", "value", "json", "table"])
def test_a_time_that_no_calendar_has_hides_no_record(
    orders: str, style: str, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    topic = f"far-{style}"
    with ottla.Admin(orders) as admin:
        admin.create_topics(topic, partitions=1, configs={"message.timestamp.after.max.ms": 2**63 - 1})
    times = 253_402_300_799_999, 253_402_300_800_000, 2**62, 2**63 - 1
    with ottla.Producer(orders) as producer:
        for number, time_ms in enumerate(times):
            producer.send(topic, f"value-{number}", timestamp_ms=time_ms)
    assert main(["read", topic, "-b", orders, "--format", style]) == 0
    shown = capfd.readouterr().out
    assert all(f"value-{number}" in shown for number in range(4))
    assert main(["read", topic, "-b", orders, "-o", str(tmp_path / "far.csv")]) == 0
    with (tmp_path / "far.csv").open(newline="") as file:
        assert [row["timestamp"] for row in csv.DictReader(file)] == [
            "9999-12-31T23:59:59.999+00:00",
            "+10000-01-01T00:00:00.000+00:00",
            "+146140482-04-24T15:36:27.904+00:00",
            "+292278994-08-17T07:12:55.807+00:00",
        ]


def test_table_has_a_row_for_each_record_and_headers_where_there_are_any(read: Read) -> None:
    lines = [line.split() for line in read("--format", "table", "-p", "1").splitlines()]
    assert lines[0] == ["partition", "offset", "timestamp", "key", "value", "headers"]
    assert lines[4] == ["1", "3", "2025-11-27T12:03:00.000+00:00", "k7", "order", "7", "from=web"]
    assert "headers" not in read("--format", "table", "-p", "0")
    assert read("--format", "table", "--start", "latest") == "no records\n"


@pytest.mark.parametrize("columns", [40, 60])
def test_table_loses_nothing_on_a_narrow_terminal(read: Read, monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    shown = read("--format", "table")
    assert max(map(len, shown.splitlines())) <= columns
    assert [f"order {number}" in shown for number in range(8)] == [True] * 8


def test_table_of_many_records_says_that_it_ends(
    orders: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("ottla.cli.read.TABLE_ROWS_MAX", 3)
    assert main(["read", "orders", "-b", orders, "--format", "table"]) == 0
    shown = capfd.readouterr()
    assert len(shown.out.splitlines()) == 4
    assert shown.err.startswith("ottla: the first 3 records; ")
    assert main(["read", "orders", "-b", orders, "--format", "table", "--limit", "3"]) == 0
    assert capfd.readouterr().err == ""


def test_file_is_of_the_format_that_its_name_ends_with(read: Read, tmp_path: Path) -> None:
    places = {ending: tmp_path / f"orders.{ending}" for ending in ("parquet", "csv", "ndjson", "JSONL")}
    for place in places.values():
        read("-p", "1", "--output", str(place))
    assert pq.read_table(places["parquet"])["value"].to_pylist()[3] == b"order 7"
    with places["csv"].open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["value"] for row in rows] == ["order 1", "order 3", "order 5", "order 7"]
    assert rows[3]["headers"] == '[["from", "web"]]'
    assert places["ndjson"].read_text() == places["JSONL"].read_text() == read("-p", "1", "--json")


@contextmanager
def following(servers: str, topic: str, *arguments: str) -> Iterator[tuple[subprocess.Popen[str], Callable[[], str]]]:
    """The command, and its next line; the topic has one record, `0`."""
    with ottla.Admin(servers) as admin:
        admin.create_topics(topic)
    ottla.write_table(servers, topic, pa.table({"value": ["0"]}))
    command = [sys.executable, "-m", "ottla", "read", topic, "-b", servers, "--follow", "--format", "value", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        output = process.stdout

        def next_line() -> str:
            assert select.select([output], [], [], TIMEOUT_S)[0]
            return output.readline()

        try:
            yield process, next_line
        finally:
            process.kill()


def test_follow_shows_what_comes_later_until_ctrl_c(orders: str) -> None:
    with following(orders, "followed") as (process, next_line), ottla.Producer(orders) as producer:
        # What is there already is shown; then it goes on.
        assert next_line() == "0\n"
        for later in ("1", "2"):
            producer.send("followed", later).result(TIMEOUT_S)
            assert next_line() == f"{later}\n"
        assert process.poll() is None
        process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=TIMEOUT_S) == ("", "ottla: interrupted\n")
        assert process.returncode == 130


def test_follow_waits_for_a_broker_that_is_away() -> None:
    with (
        Cluster(1) as cluster,
        ottla.Producer(cluster.bootstrap_servers) as producer,
        following(cluster.bootstrap_servers, "waited") as (process, next_line),
    ):
        assert next_line() == "0\n"
        cluster.kill(1)
        assert process.stderr is not None
        # It has noticed, and says why nothing comes.
        assert "cannot be used: " in process.stderr.readline()
        cluster.start(1)
        producer.send("waited", "1").result(TIMEOUT_S)
        assert next_line() == "1\n"
        assert process.poll() is None


def test_a_file_with_settings_says_how_long_follow_waits(orders: str, tmp_path: Path) -> None:
    config = tmp_path / "client.properties"
    config.write_text("default.api.timeout.ms=30000\n")
    with following(orders, "configured", "--limit", "1", "--command-config", str(config)) as (process, next_line):
        assert next_line() == "0\n"
        assert process.wait(TIMEOUT_S) == 0


def test_what_follow_cannot_reach_at_all_is_told_soon(capfd: pytest.CaptureFixture[str]) -> None:
    [port] = free_ports(1)
    assert main(["read", "orders", "-b", f"127.0.0.1:{port}", "--follow"]) == 2
    assert "no Kafka broker could be reached" in capfd.readouterr().err


def test_where_a_partition_begins_later_than_asked_it_is_read_from_there(orders: str) -> None:
    with ottla.Admin(orders) as admin:
        admin.create_topics("trimmed", partitions=2)
        with ottla.Producer(orders) as producer:
            for number in range(8):
                producer.send("trimmed", f"{number}", partition=number % 2)
        admin.delete_records("trimmed", {0: 3})
    command = [sys.executable, "-m", "ottla", "read", "trimmed", "-b", orders, "--format", "value", "--start"]
    done = subprocess.run([*command, "1"], capture_output=True, text=True, check=True, timeout=TIMEOUT_S)
    assert sorted(done.stdout.split()) == ["3", "5", "6", "7"]
    assert done.stderr == "ottla: offset 1 is deleted, so these begin later: trimmed-0 at 3\n"
    done = subprocess.run([*command, "1700000000000"], capture_output=True, text=True, check=True, timeout=TIMEOUT_S)
    assert done.stdout == ""
    assert done.stderr.startswith("ottla: --start 1700000000000 is beyond the end of every partition; a time is")


def test_a_table_shows_control_characters_and_no_terminal_obeys_them(orders: str) -> None:
    with ottla.Admin(orders) as admin:
        admin.create_topics("hostile")
    with ottla.Producer(orders) as producer:
        headers = [("\x1bh", b"\x1b")]
        producer.send("hostile", "\x1b[2Jv", "\x1b]52;c;aGk=\x07\u202ek", headers=headers).result(TIMEOUT_S)
    done = subprocess.run(
        [sys.executable, "-m", "ottla", "read", "hostile", "-b", orders, "--format", "table"],
        capture_output=True,
        text=True,
        check=True,
        timeout=TIMEOUT_S,
    )
    assert all(each.isprintable() for each in done.stdout.replace("\n", ""))
    assert r"\x1b]52;c;aGk=\x07" in done.stdout
    assert r"\u202ek" in done.stdout


def test_follow_ends_after_as_many_records_as_limit_says(orders: str) -> None:
    with following(orders, "limited", "--limit", "2") as (process, next_line), ottla.Producer(orders) as producer:
        assert next_line() == "0\n"
        assert process.poll() is None
        producer.send("limited", "1").result(TIMEOUT_S)
        producer.send("limited", "2").result(TIMEOUT_S)
        assert process.communicate(timeout=TIMEOUT_S) == ("1\n", "")
        assert process.returncode == 0


def test_what_cannot_be_meant_is_refused_before_anything_is_read(read: Read, tmp_path: Path) -> None:
    for arguments, said in (
        (["-o", str(tmp_path / "orders.xlsx")], "has .xlsx: give a name that ends with .parquet, .pq, .csv"),
        (["-o", str(tmp_path / "orders")], "has no ending"),
        (["-o", str(tmp_path / "o.csv"), "--json"], "--output writes what its name ends with"),
        (["--json", "--format", "table"], "--json is --format json"),
        (["--follow", "--format", "table"], "--format table needs an end"),
        (["--follow", "--end", "5"], "--follow never ends"),
        (["--start", "5", "--end", "4"], "--end 4 is before --start 5"),
        (["--start", "2026-13-01"], "--start 2026-13-01 is neither earliest, latest, an offset, nor a time such as"),
        (["--end", "earliest"], "--end earliest is neither latest, an offset"),
        (["--end", "20251127000000000000"], "--end 20251127000000000000 is neither"),
        (["-p", "2"], "orders has no partition 2: it has 2, from 0 to 1"),
        (["-p", "all"], "--partition all is no whole number"),
    ):
        assert said in read(*arguments, status=2)
    assert list(tmp_path.iterdir()) == []
