"""`produce`, `topics`, `read` and `serve`, run as programs against brokers of their own."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from tests.client.in_time import wait_until

from ottla.client.producer import Producer
from ottla.cluster.cluster import Cluster

from .on_terminal import shown_on

TIMEOUT_S = 60


def ottla(*arguments: str, given: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "ottla", *arguments],
        input=given,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )


@pytest.fixture
def servers(kafka_cluster: Cluster, patient_config: Path) -> tuple[str, ...]:
    return "--bootstrap-servers", kafka_cluster.bootstrap_servers, "--command-config", str(patient_config)


def test_lines_come_back_as_they_went_in(servers: tuple[str, ...], kafka_topic: str) -> None:
    sent = ottla("produce", kafka_topic, *servers, "--key-separator", ":", given="a:1\nb:2\nno key\na:3\n")
    assert (sent.returncode, sent.stdout) == (0, ""), sent.stderr
    assert sent.stderr == f"4 records sent to {kafka_topic}, all acknowledged\n"

    found = ottla("read", kafka_topic, *servers, "--format", "json")
    assert found.returncode == 0, found.stderr
    records = [json.loads(line) for line in found.stdout.splitlines()]
    assert sorted((record["key"] or "", record["value"]) for record in records) == [
        ("", "no key"),
        ("a", "1"),
        ("a", "3"),
        ("b", "2"),
    ]
    values = ottla("read", kafka_topic, *servers, "--format", "value", "--limit", "3").stdout.splitlines()
    assert len(values) == 3
    text = ottla("read", kafka_topic, *servers).stdout.splitlines()
    assert all(re.fullmatch(r"[0-2]:\d\t(a|b|)\t[^\t]+", line) for line in text)


def test_rows_of_a_file_become_json_with_the_key_column(
    servers: tuple[str, ...], kafka_topic: str, tmp_path: Path
) -> None:
    rows = tmp_path / "rows.csv"
    rows.write_text("id,name\n7,Ada\n8,\n")
    sent = ottla("produce", kafka_topic, *servers, "--input", str(rows), "--key", "id", "--compression", "lz4")
    assert sent.returncode == 0, sent.stderr
    output = tmp_path / "read.parquet"
    found = ottla("read", kafka_topic, *servers, "--output", str(output))
    assert found.stderr == f"2 records written to {output}\n"
    table = pq.read_table(output)
    by_key = {
        key: json.loads(value) for key, value in zip(table["key"].to_pylist(), table["value"].to_pylist(), strict=True)
    }
    assert by_key == {b"7": {"id": 7, "name": "Ada"}, b"8": {"id": 8, "name": None}}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["read.parquet", "rows.csv"]


def test_a_terminal_does_not_obey_what_a_record_holds(servers: tuple[str, ...], kafka_topic: str) -> None:
    value = "\x1b[2Jcleared\tß\x9b"
    assert ottla("produce", kafka_topic, *servers, given=f"{value}\n").returncode == 0
    assert value in ottla("read", kafka_topic, *servers).stdout
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "ottla", "read", kafka_topic, *servers, "--format", "value"]
    subprocess.run(command, stdout=theirs, check=True, timeout=TIMEOUT_S)
    os.close(theirs)
    shown = shown_on(ours).decode()
    assert shown == r"\x1b[2Jcleared" + "\tß" + r"\x9b" + "\r\n"


def test_a_parquet_file_behind_a_link_is_written_where_the_link_leads(
    servers: tuple[str, ...], kafka_topic: str, tmp_path: Path
) -> None:
    assert ottla("produce", kafka_topic, *servers, given="a\n").returncode == 0
    path, link = tmp_path / "orders.parquet", tmp_path / "latest.parquet"
    link.symlink_to(path)
    done = ottla("read", kafka_topic, *servers, "--output", str(link))
    assert done.returncode == 0, done.stderr
    assert link.is_symlink()
    assert pq.read_table(path).num_rows == 1


def test_topics_are_listed_while_one_has_no_leader() -> None:
    with Cluster(brokers=2) as cluster:
        servers = "-b", cluster.bootstrap_servers
        cluster.create_topic("alone", partitions=2, replication_factor=1)
        cluster.create_topic("orders", replication_factor=2)
        with Producer(cluster.bootstrap_servers) as producer:
            producer.send("orders", b"1").result(TIMEOUT_S)
        gone = cluster.leader("alone", 0)
        cluster.kill(gone)
        cluster.await_leader("orders", 0)
        wait_until(lambda: cluster.leader("alone", 0) == -1, "a broker that is down leads")
        listed = ottla("topics", *servers)
        assert listed.returncode == 0, listed.stderr
        assert [line.split() for line in listed.stdout.splitlines()[1:]] == [
            ["alone", "2", "1", "unknown"],
            ["orders", "1", "2", "1"],
        ]
        assert "a partition has no leader, or its leader does not answer: alone\n" in listed.stderr
        assert [row["records"] for row in json.loads(ottla("topics", "--json", *servers).stdout)] == [None, 1]
        described = ottla("topics", "alone", *servers)
        assert described.returncode == 0, described.stderr
        assert described.stdout.splitlines()[1].split() == ["0", "none", str(gone), str(gone)]


def test_what_was_deleted_before_an_error_is_told(servers: tuple[str, ...], kafka_topic: str) -> None:
    # The one that is missing does not keep the next one from being deleted.
    done = ottla("topics", "delete", "no-such-topic", kafka_topic, *servers)
    assert done.stdout == ""
    assert done.returncode != 0
    assert done.stderr.startswith(f"ottla: deleted: {kafka_topic}\nottla: UNKNOWN_TOPIC_OR_PARTITION")
    assert kafka_topic not in ottla("topics", *servers).stdout


def test_topics_lists_records_and_leaders(servers: tuple[str, ...], kafka_topic: str) -> None:
    assert ottla("produce", kafka_topic, *servers, given="one\ntwo\n").returncode == 0
    listed = ottla("topics", *servers)
    row = next(line.split() for line in listed.stdout.splitlines() if line.startswith(kafka_topic))
    assert row == [kafka_topic, "3", "3", "2"]
    described = ottla("topics", kafka_topic, *servers).stdout.splitlines()
    assert [line.split()[0] for line in described] == ["partition", "0", "1", "2"]


def test_headings_stay_whole_on_a_narrow_terminal(
    servers: tuple[str, ...], kafka_topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    shown = ottla("topics", kafka_topic, *servers).stdout
    words = {word for line in shown.splitlines()[:2] for word in line.split()}
    assert words == {"partition", "leader", "replicas", "in", "sync", "first", "offset", "end"}
    assert max(map(len, shown.splitlines())) <= 60


def test_a_topic_is_shown_whole_on_a_very_narrow_terminal(
    servers: tuple[str, ...], kafka_topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    assert ottla("produce", kafka_topic, *servers, given="a\n" * 1_000).returncode == 0
    lines = [line.rstrip() for line in ottla("topics", kafka_topic, *servers).stdout.splitlines()]
    blocks = [dict(line.split("  ", 1) for line in block.splitlines()) for block in "\n".join(lines).split("\n\n")]
    assert [block["partition"].strip() for block in blocks] == ["0", "1", "2"]
    assert all(
        block.keys() == {"partition", "leader", "replicas", "in sync", "first offset", "end offset"} for block in blocks
    )
    assert all(len(block["in sync"].split()) == 3 for block in blocks)
    assert sum(int(block["end offset"]) for block in blocks) == 1_000
    listed = [line.split() for line in ottla("topics", *servers).stdout.splitlines()]
    assert ["records", "1,000"] in listed
    assert max(map(len, lines)) <= 40


def test_topics_are_made_changed_shown_and_deleted(servers: tuple[str, ...]) -> None:
    def done(*arguments: str) -> str:
        ended = ottla("topics", *arguments, *servers)
        assert (ended.returncode, ended.stderr) == (0, "")
        return ended.stdout

    created = done("create", "by-hand", "--partitions", "2", "--replicas", "3", "--config", "retention.ms=60000")
    assert created == ""
    changes = "--config", "max.message.bytes=5000", "--default", "retention.ms"
    assert json.loads(done("alter", "by-hand", "--partitions", "3", *changes, "--json")) == {
        "altered": "by-hand",
        "partitions": 3,
        "configs": {"max.message.bytes": "5000", "retention.ms": None},
    }
    shown = json.loads(done("describe", "by-hand", "--json"))
    assert (shown["topic"], shown["configs"]) == ("by-hand", {"max.message.bytes": "5000"})
    assert [(each["partition"], len(each["replicas"]), each["end_offset"]) for each in shown["partitions"]] == [
        (0, 3, 0),
        (1, 3, 0),
        (2, 3, 0),
    ]
    assert done("by-hand").splitlines()[-1] == "settings: max.message.bytes=5000"
    listed = json.loads(done("--json"))
    assert {"topic": "by-hand", "partitions": 3, "replicas": 3, "records": 0} in listed
    made = json.loads(done("create", "by-hand-2", "--json"))
    assert made == {"created": "by-hand-2", "partitions": 1, "configs": {}}
    assert json.loads(done("delete", "by-hand", "by-hand-2", "--json")) == {"deleted": ["by-hand", "by-hand-2"]}
    assert "by-hand" not in done()


def test_the_oldest_records_of_a_topic_are_deleted(servers: tuple[str, ...]) -> None:
    ottla("topics", "create", "trimmed", *servers)
    ottla("produce", "trimmed", *servers, given="a\nb\nc\n")
    trimmed = ottla("topics", "trim", "trimmed", "--before", "0=2", *servers)
    assert (trimmed.returncode, trimmed.stdout) == (0, "trimmed-0 begins at offset 2 now\n"), trimmed.stderr
    assert ottla("read", "trimmed", *servers, "--format", "value").stdout == "c\n"
    assert ottla("topics", "trim", "trimmed", "--all", *servers).stdout == "trimmed-0 begins at offset 3 now\n"
    assert ottla("read", "trimmed", *servers, "--format", "value").stdout == ""
    ottla("topics", "delete", "trimmed", *servers)


def test_the_address_may_stand_before_the_verb(servers: tuple[str, ...], kafka_topic: str) -> None:
    shown = ottla("topics", *servers, "describe", kafka_topic)
    assert (shown.returncode, shown.stdout.split()[0]) == (0, "partition")


def test_bad_changes_of_topics_are_one_sentence(servers: tuple[str, ...], kafka_topic: str) -> None:
    for arguments, said in (
        (("alter", kafka_topic), "--partitions"),
        (("alter", kafka_topic, "--config", "retention.ms"), "NAME=VALUE"),
        (("alter", kafka_topic, "--config", "retention.ms=soon"), "retention.ms=soon"),
        (("alter", kafka_topic, "--config", "no.such.thing=1"), "no.such.thing"),
        (("alter", kafka_topic, "--partitions", "1"), "INVALID_PARTITIONS"),
        (("create", kafka_topic), "TOPIC_ALREADY_EXISTS"),
        (("create", "a b"), "a b"),
        (("create", "many", "--partitions", "0"), "--partitions"),
        (("create",), "TOPIC"),
        (("trim", kafka_topic), "--before PARTITION=OFFSET"),
        (("trim", kafka_topic, "--all", "--before", "0=1"), "--before PARTITION=OFFSET"),
        (("trim", kafka_topic, "--before", "0:1"), "PARTITION=OFFSET"),
        (("trim", kafka_topic, "--before", "0=1000"), "OFFSET_OUT_OF_RANGE"),
        (("delete", "nowhere"), "nowhere"),
    ):
        ended = ottla("topics", *arguments, *servers)
        assert ended.returncode == 2, ended
        assert said in ended.stderr, ended
        assert len(ended.stderr.splitlines()) == 1, ended


def test_topic_that_does_not_exist_is_named(servers: tuple[str, ...]) -> None:
    for command in (("topics",), ("read",), ("produce",)):
        ended = ottla(*command, "nowhere", *servers, given="x\n")
        assert ended.returncode == 2, ended
        assert "nowhere" in ended.stderr
        assert len(ended.stderr.splitlines()) == 1


@pytest.mark.parametrize("is_all_said", [False, True], ids=["more to come", "all said"])
@pytest.mark.parametrize(("number", "word"), [(signal.SIGINT, "interrupted"), (signal.SIGTERM, "terminated")])
def test_interrupted_produce_does_not_wait_for_silent_brokers_and_tells_what_it_does_not_know(
    kafka_cluster: Cluster, servers: tuple[str, ...], kafka_topic: str, number: int, word: str, is_all_said: bool
) -> None:
    with (
        kafka_cluster.faults.drop_request(topic=kafka_topic) as silence,
        subprocess.Popen(
            [sys.executable, "-m", "ottla", "produce", kafka_topic, *servers],
            stdin=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as producing,
    ):
        assert producing.stdin is not None
        producing.stdin.write("a\n")
        producing.stdin.flush()
        if is_all_said:
            producing.stdin.close()
        while not silence.fired:
            assert producing.poll() is None
        producing.send_signal(number)
        try:
            status = producing.wait(TIMEOUT_S)
        finally:
            producing.kill()
        assert producing.stderr is not None
        said = producing.stderr.read()
    assert (status, said) == (128 + number, f"ottla: {word}: 1 record not known to be stored\n")


# A command that comes to its end with something left to show.
HOLDING_BACK = """
import signal, sys
from ottla import cli, errors

def run(arguments):
    sys.stdout.write("held back")
    if arguments:
        signal.raise_signal(int(arguments[0]))
    raise errors.UserMistake("that cannot be")

cli._run = run
sys.exit(cli.main())
"""


@contextmanager
def stdout_whose_reader(does: str) -> Iterator[int]:
    """A pipe whose reader is gone, or does not read what it is full of."""
    reader, writer = os.pipe()
    try:
        if does == "is gone":
            os.close(reader)
        else:
            os.set_blocking(writer, False)
            with suppress(BlockingIOError):
                while True:
                    os.write(writer, bytes(65_536))
            os.set_blocking(writer, True)
        yield writer
    finally:
        os.close(writer)
        if does != "is gone":
            os.close(reader)


def end_holding_back(stdout: int, *arguments: str) -> tuple[int, str]:
    ended = subprocess.run(
        [sys.executable, "-c", HOLDING_BACK, *arguments],
        # Where this is set, nothing is ever held back.
        env={name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"},
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    return ended.returncode, ended.stderr


@pytest.mark.parametrize("does", ["is gone", "does not read"])
def test_interrupted_command_waits_for_no_reader(does: str) -> None:
    with stdout_whose_reader(does) as stdout:
        assert end_holding_back(stdout, f"{signal.SIGINT:d}") == (130, "ottla: interrupted\n")
        assert end_holding_back(stdout, f"{signal.SIGTERM:d}") == (143, "ottla: terminated\n")


def test_interrupted_command_leaves_its_last_line_in_a_file(tmp_path: Path) -> None:
    with (tmp_path / "shown").open("wb") as shown:
        assert end_holding_back(shown.fileno(), f"{signal.SIGINT:d}") == (130, "ottla: interrupted\n")
    assert (tmp_path / "shown").read_text() == "held back"


def test_mistake_is_named_where_nobody_reads_what_was_shown() -> None:
    with stdout_whose_reader("is gone") as stdout:
        assert end_holding_back(stdout) == (2, "ottla: that cannot be\n")


def test_serve_serves_until_it_is_interrupted_and_keeps_its_data(tmp_path: Path) -> None:
    for topics in (("--topic", "orders:2"), ()):
        arguments = ("serve", "--brokers", "1", "--port", "0", "--data-dir", str(tmp_path / "data"), *topics)
        with subprocess.Popen(
            [sys.executable, "-m", "ottla", *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as serving:
            assert serving.stdout is not None
            assert select.select([serving.stdout], [], [], TIMEOUT_S)[0]
            address = re.search(r"127\.0\.0\.1:\d+", serving.stdout.readline())
            assert address is not None
            listed = ottla("topics", "--bootstrap-servers", address[0])
            serving.send_signal(signal.SIGINT)
            assert serving.wait(TIMEOUT_S) == 0
            assert serving.stderr is not None
            assert serving.stderr.read() == ""
        assert re.search(r"^orders +2 +1 +0", listed.stdout, re.MULTILINE), listed


def test_reading_into_a_pipe_that_closes_is_no_error(servers: tuple[str, ...], kafka_topic: str) -> None:
    assert ottla("produce", kafka_topic, *servers, given="x" * 1000 + "\n" * 500).returncode == 0
    lines = f"{'y' * 1000}\n" * 2_000
    assert ottla("produce", kafka_topic, *servers, given=lines).returncode == 0
    with subprocess.Popen(
        [sys.executable, "-m", "ottla", "read", kafka_topic, *servers],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as reading:
        assert reading.stdout is not None
        assert reading.stderr is not None
        reading.stdout.readline()
        reading.stdout.close()
        assert reading.wait(TIMEOUT_S) == 141
        assert reading.stderr.read() == ""


def test_topics_are_listed_by_the_verb_and_without_it(servers: tuple[str, ...], kafka_topic: str) -> None:
    short, long = (json.loads(ottla("topics", *verb, *servers, "--json").stdout) for verb in ((), ("list",)))
    assert kafka_topic in [row["topic"] for row in short]
    assert {row["topic"] for row in long} >= {kafka_topic}


def test_a_mistyped_verb_is_told_and_not_taken_for_a_topic(servers: tuple[str, ...]) -> None:
    done = ottla("topics", "delte", "orders", *servers)
    assert done.returncode == 2
    assert done.stderr == "ottla: 'delte' is no command of `ottla topics`; did you mean delete?\n"


@pytest.mark.parametrize(("word", "hint"), [("lst", "list"), ("creat", "create"), ("xyzzy", None)])
def test_a_name_that_is_not_there_may_have_been_a_verb(servers: tuple[str, ...], word: str, hint: str | None) -> None:
    done = ottla("topics", word, *servers)
    assert done.returncode == 2
    assert f"UNKNOWN_TOPIC_OR_PARTITION: the broker does not know this topic or partition (topic '{word}')" in (
        done.stderr
    )
    assert done.stderr.endswith(f'; did you mean "ottla topics {hint}"?\n' if hint else ")\n")
    # Behind a verb it is a name and nothing else.
    assert "did you mean" not in ottla("topics", "describe", word, *servers).stderr


@pytest.mark.parametrize("command", [("topics",), ("topics", "delete"), ("groups",), ("groups", "delete")])
def test_a_name_that_is_no_text_is_named_and_not_taken_for_an_outage(
    servers: tuple[str, ...], command: tuple[str, ...]
) -> None:
    done = ottla(*command, os.fsdecode(b"\xff"), *servers)
    assert (done.returncode, done.stdout) == (2, "")
    assert "cannot be written as UTF-8" in done.stderr
    assert len(done.stderr.splitlines()) == 1
