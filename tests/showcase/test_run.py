"""The main job as a user starts it, over small inputs: figures, files, exit status, and the ways out.

Ways out are Ctrl+C, SIGTERM and a Java that was killed: each ends with a sentence and leaves nothing behind.

The figures are checked against a client that shares no code with ours: the kept topics are served again and read with
confluent-kafka, and what it finds is counted here, in a dozen lines.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from tests.soak import IS_SOAK, SOAK
from tools.mutation.weaknesses import weakened

from ottla.client.admin import Admin
from ottla.cluster.cluster import Cluster
from ottla.ledger.reader import read_ledger
from ottla.ledger.schema import AT_LEAST_ONCE, AT_MOST_ONCE, EXACTLY_ONCE, GUARANTEES
from ottla.patience import comes_within

pytestmark = pytest.mark.spark

PROGRAM = [sys.executable, "-m", "ottla"]
ROWS = 2_000
# As good a name as any, and a pattern to Spark.
KEPT = "kept [1]"
# Without the second run, `test_properties` compares what two runs send.
NUMBERS = (1, 2) if IS_SOAK else (1,)
TIMEOUT_S = 900
ENDS_S = 240


def ottla(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    (folder / "tmp").mkdir(exist_ok=True)
    return subprocess.run(
        [sys.executable, "-m", "ottla", *arguments],
        cwd=folder,
        env={**os.environ, "TMPDIR": str(folder / "tmp"), "COLUMNS": "100"},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )


def write_orders(folder: Path, rows: int) -> None:
    lines = [f"{n},{'' if n % 50 == 7 else f'customer-{n * n % 97}'},{n * 0.25},{n % 3 == 0}" for n in range(rows)]
    (folder / "orders.csv").write_text("id,customer,total,paid\n" + "\n".join(lines) + "\n")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A kept run over 2,000 rows; with OTTLA_SOAK=1 a second one after it."""
    folder = tmp_path_factory.mktemp("run")
    write_orders(folder, ROWS)
    for number in NUMBERS:
        ended = ottla(
            folder,
            *("run", "--input", "orders.csv", "--key", "customer"),
            *("--data-dir", KEPT, "--json-file", f"figures-{number}.json", "--report", f"report-{number}.html"),
        )
        assert (ended.returncode, ended.stderr) == (0, ""), ended
        (folder / f"shown-{number}.txt").write_text(ended.stdout)
    return folder


def figures(folder: Path, number: int = 1) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((folder / f"figures-{number}.json").read_text())
    return content


def test_a_report_is_written_that_begins_with_the_verdict(folder: Path) -> None:
    page = (folder / "report-1.html").read_text()
    assert (folder / "shown-1.txt").read_text().endswith("The report is report-1.html.\n")
    assert '<p class="verdict">Every guarantee did what it promises' in page
    assert "The properties" in page


def test_each_guarantee_shows_what_it_is_worth(folder: Path) -> None:
    found = figures(folder)
    assert found["records"] == ROWS
    assert list(found["guarantees"]) == [EXACTLY_ONCE, AT_MOST_ONCE, AT_LEAST_ONCE]
    at_most, at_least, exactly = (found["guarantees"][name] for name in GUARANTEES)
    assert exactly == {
        "sent": ROWS,
        "acked": ROWS,
        "failed": 0,
        "unknown": 0,
        "stored": ROWS,
        "lost": 0,
        "duplicated": 0,
        "reordered": 0,
        "altered": 0,
    }
    assert found["streamed"] == {**exactly, "drivers_killed": 1}
    assert at_least["stored"] == ROWS + at_least["duplicated"]
    assert at_least["duplicated"] >= 20
    assert (at_least["acked"], at_least["lost"], at_least["altered"]) == (ROWS, 0, 0)
    assert at_most["stored"] == ROWS - at_most["lost"]
    assert at_most["lost"] >= 20
    assert (at_most["unknown"], at_most["duplicated"], at_most["altered"]) == (ROWS, 0, 0)


def test_each_of_the_properties_is_judged_or_says_why_not(folder: Path) -> None:
    found = figures(folder)["properties"]
    verdicts = {number: each["verdict"] for number, each in found.items()}
    partly = {"11": "not judged", "12": "held in part", "14": "held in part", "16": "not judged"}
    assert verdicts == {str(number): partly.get(str(number), "held") for number in range(1, 17)}
    assert all(bool(each["why"]) == (each["verdict"] != "held") for each in found.values())
    told = [line.rstrip() for line in (folder / "shown-1.txt").read_text().splitlines()]
    for number, each in found.items():
        assert f"{number:>2}  {each['verdict']:<12}  {each['name']}" in told


def test_a_guarantee_taken_out_of_the_brokers_ends_with_status_one(tmp_path: Path) -> None:
    write_orders(tmp_path, 600)
    (tmp_path / "tmp").mkdir()
    with weakened("no_sequence_check") as control:
        ended = subprocess.run(
            [*PROGRAM, "run", "--input", "orders.csv", "--key", "customer", "--json-file", "figures.json"],
            cwd=tmp_path,
            env={**control.environment, "TMPDIR": str(tmp_path / "tmp")},
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
    assert ended.returncode == 1, ended
    properties = json.loads((tmp_path / "figures.json").read_text())["properties"]
    assert {"3", "9", "13"} <= {number for number, each in properties.items() if each["verdict"] == "violated"}
    assert "property 9 (sequence numbers and fencing)" in " ".join(ended.stdout.split())


@SOAK
def test_two_runs_place_the_faults_on_the_same_records(folder: Path) -> None:
    assert figures(folder, 1) == figures(folder, 2)
    for guarantee in GUARANTEES:
        first, second = (
            read_ledger(folder / KEPT / f"run-{number}" / "ledger" / f"{guarantee}.parquet").drop(["run_id"])
            for number in (1, 2)
        )
        assert first.equals(second), guarantee


def test_counts_are_those_that_a_foreign_client_finds(folder: Path) -> None:
    found = figures(folder)["guarantees"]
    with Cluster(data_dir=folder / KEPT / "run-1" / "brokers") as cluster:
        for guarantee in GUARANTEES:
            copies = Counter(read_sequences(cluster.bootstrap_servers, f"orders-{guarantee}"))
            assert copies.total() == found[guarantee]["stored"]
            assert copies.total() - len(copies) == found[guarantee]["duplicated"]
            assert ROWS - len(copies) == found[guarantee]["lost"]


def read_sequences(bootstrap_servers: str, topic: str) -> list[int]:
    """The record numbers in a topic, each as often as it is stored, read by librdkafka."""
    consumer = Consumer({"bootstrap.servers": bootstrap_servers, "group.id": "count", "enable.auto.commit": False})
    partitions = consumer.list_topics(topic, timeout=30).topics[topic].partitions
    ends = {
        number: consumer.get_watermark_offsets(TopicPartition(topic, number), timeout=30)[1] for number in partitions
    }
    consumer.assign([TopicPartition(topic, number, 0) for number in partitions])
    sequences = []
    while len(sequences) < sum(ends.values()):
        message = consumer.poll(30)
        assert message is not None, "nothing more came"
        assert message.error() is None, message.error()
        sequences.append(int.from_bytes(dict(message.headers())["ottla.sequence"], "big"))
    consumer.close()
    return sequences


def test_report_shows_table_evidence_and_what_to_do_next(folder: Path) -> None:
    shown = (folder / "shown-1.txt").read_text()
    # Commands are never wrapped: they are there to be copied.
    told = [line for line in shown.splitlines() if "--topic orders-" not in line]
    assert len(told) == len(shown.splitlines()) - 1
    assert max(map(len, told)) <= 100
    end = shown.index("stored: once (offset 3)")
    assert end < shown.index("read orders.csv: done") < shown.index("start Spark: done")
    for words in (
        "2,000 records of orders.csv, three times",
        "✓ as promised",
        "how many records by customer?",
        "right in all 32 groups",
        "duplicated: record ",
        "lost: record ",
        f"serve --data-dir '{KEPT}/run-1/brokers'",
    ):
        assert words in shown, words


def test_runs_leave_nothing_but_what_was_asked_for(folder: Path) -> None:
    asked_for = [name for n in NUMBERS for name in (f"figures-{n}.json", f"report-{n}.html", f"shown-{n}.txt")]
    assert {path.name for path in folder.iterdir()} == {*asked_for, KEPT, "orders.csv", "tmp"}
    assert list((folder / "tmp").iterdir()) == []
    for number in NUMBERS:
        assert sorted(path.name for path in (folder / KEPT / f"run-{number}").iterdir()) == ["brokers", "ledger"]


@SOAK
def test_input_too_small_for_the_faults_voids_the_run(tmp_path: Path) -> None:
    write_orders(tmp_path, 12)
    ended = ottla(tmp_path, "run", "--input", "orders.csv", "--key", "customer", "--json-file", "figures.json")
    assert ended.returncode == 1, ended
    assert "This run is void" in ended.stdout
    assert "“request lost before the append” never fired" in " ".join(ended.stdout.split())
    assert json.loads((tmp_path / "figures.json").read_text())["records"] == 12


@contextmanager
def run_that_leaves_nothing(folder: Path, words: str) -> Iterator[subprocess.Popen[str]]:
    """A run over 2,000 rows, handed over at the line that starts with `words`; it must come to its end by itself."""
    write_orders(folder, ROWS)
    (folder / "tmp").mkdir()
    arguments = ["run", "--input", "orders.csv", "--key", "id", "--data-dir", "kept", "--json-file", "figures.json"]
    with subprocess.Popen(
        [sys.executable, "-u", "-m", "ottla", *arguments],
        cwd=folder,
        env={**os.environ, "TMPDIR": str(folder / "tmp"), "PYTHONFAULTHANDLER": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as running:
        assert running.stdout is not None
        for line in running.stdout:
            if line.startswith(words):
                break
        else:
            assert running.stderr is not None
            pytest.fail(f"the run never came to {words!r}: {running.stderr.read()}")
        yield running
        # The pipe's other ends are gone too: no JVM and no worker has outlived the program.
        assert select.select([running.stdout], [], [], 30)[0]
        assert running.stdout.read().count("Traceback") == 0
    assert sorted(path.name for path in folder.iterdir()) == ["orders.csv", "tmp"]
    assert list((folder / "tmp").iterdir()) == []


def how_it_ended(running: subprocess.Popen[str]) -> tuple[int, str]:
    """Exit status and stderr; where it does not end, what each of its threads is doing."""
    assert running.stderr is not None
    try:
        status = running.wait(ENDS_S)
    except subprocess.TimeoutExpired:
        running.send_signal(signal.SIGABRT)
        status = running.wait()
    return status, running.stderr.read()


# While Spark starts, in CI its Java process is killed instead (below). While it reads, in CI it is interrupted only.
STARTING = pytest.param("start Spark", marks=SOAK)
READING = pytest.param("read ", marks=SOAK)


@pytest.mark.parametrize("words", ["read ", "send at-least-once", STARTING, "PySpark audits each topic"])
def test_interrupted_run_ends_at_once_and_leaves_nothing_behind(tmp_path: Path, words: str) -> None:
    with run_that_leaves_nothing(tmp_path, words) as running:
        # As a terminal does it: every process of the foreground group gets the signal.
        os.killpg(running.pid, signal.SIGINT)
        assert how_it_ended(running) == (130, "ottla: interrupted\n")


@pytest.mark.parametrize("words", [READING, "send at-least-once", STARTING])
def test_terminated_run_ends_at_once_and_leaves_nothing_behind(tmp_path: Path, words: str) -> None:
    with run_that_leaves_nothing(tmp_path, words) as running:
        # As `timeout` does it: the program first, then every process of its group, the program again among them.
        os.kill(running.pid, signal.SIGTERM)
        os.killpg(running.pid, signal.SIGTERM)
        assert how_it_ended(running) == (143, "ottla: terminated\n")


@pytest.mark.parametrize("words", [pytest.param("send exactly-once", marks=SOAK), "start Spark"])
def test_a_java_process_that_was_killed_is_reported_in_one_sentence(tmp_path: Path, words: str) -> None:
    with run_that_leaves_nothing(tmp_path, words) as running:
        os.kill(java_process(running.pid), signal.SIGKILL)
        status, said = how_it_ended(running)
        assert status == 1
        assert said.startswith("ottla: Spark's Java process ended ")
        assert "signal 9" in said
        assert said.count("\n") == 1


def java_process(parent: int) -> int:
    """The child of `parent` that runs Java, as soon as it does."""
    deadline = time.monotonic() + ENDS_S
    while time.monotonic() < deadline:
        for folder in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                status = (folder / "stat").read_text()
                name, rest = status[status.index("(") + 1 :].rsplit(") ", 1)
                # Another Java before it only says which version it is.
                is_sparks = b"org.apache.spark.deploy.SparkSubmit" in (folder / "cmdline").read_bytes()
                if name == "java" and int(rest.split()[1]) == parent and is_sparks:
                    return int(folder.name)
    pytest.fail("the run has started no Java")


def test_ctrl_c_deletes_the_topics_of_a_run_on_a_foreign_kafka(tmp_path: Path) -> None:
    write_orders(tmp_path, 600)
    with Cluster(brokers=1) as cluster, Admin(cluster.bootstrap_servers) as admin:
        admin.create_topics("somebody-elses")
        command = [*PROGRAM, "run", "--input", "orders.csv", "--key", "customer", "-b", cluster.bootstrap_servers]
        with subprocess.Popen(
            command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        ) as process:
            assert comes_within(ENDS_S, lambda: any("at-least-once" in topic for topic in admin.list_topics()))
            process.send_signal(signal.SIGINT)
            said, _ = process.communicate(timeout=ENDS_S)
        assert (process.returncode, said.splitlines()[-1]) == (130, "ottla: interrupted")
        assert admin.list_topics() == ["somebody-elses"]
