"""`ottla run --tour`: over real brokers, with short rows; and sentences that say what the figures say, either way."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from ottla.producer.diagnosis import Diagnosis, Finding, Limit
from ottla.showcase.tour import _send
from ottla.showcase.tour_knobs import (
    BATCH,
    COMPRESSION,
    FIGURES,
    KNOBS,
    LATENCY,
    PARTITIONS,
    QUEUE,
    RECORDS_PER_S,
    REQUESTS,
    Knob,
    Measured,
    Status,
    Turned,
    make_records,
)
from ottla.showcase.tour_learned import learned
from ottla.showcase.tour_report import show_tour, tables_of

NOTHING = Diagnosis((), "Nothing limits it.", is_certain=True)
# A tour as `ottla run --tour` makes it, each row much shorter, where only the extra for the command line is there.
SHORT_TOUR = """
import sys
from pathlib import Path
for missing in ("pyarrow", "pyspark", "pandas", "numpy"):
    sys.modules[missing] = None
from ottla.showcase.tour import run_tour
sys.exit(run_tour(Path(sys.argv[1]), seconds=0.05))
"""
# The command, with rows that are shorter.
SHORT_COMMAND = """
import functools, runpy
import ottla.showcase.tour as tour
tour.run_tour = functools.partial(tour.run_tour, seconds=0.2)
runpy.run_module("ottla", run_name="__main__")
"""


@pytest.fixture(scope="module")
def tour(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, dict[str, Any]]:
    """What a short tour shows at 80 columns, and its JSON."""
    folder = tmp_path_factory.mktemp("tour")
    (folder / "tmp").mkdir()
    ended = subprocess.run(
        [sys.executable, "-c", SHORT_TOUR, "tour.json"],
        cwd=folder,
        env={**os.environ, "COLUMNS": "80", "TMPDIR": str(folder / "tmp"), "JAVA_HOME": "", "PATH": "/nowhere"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert (ended.returncode, ended.stderr) == (0, ""), ended
    assert list((folder / "tmp").iterdir()) == []
    return ended.stdout, json.loads((folder / "tour.json").read_text())


def test_a_tour_turns_each_knob_and_keeps_to_eighty_columns(tour: tuple[str, dict[str, Any]]) -> None:
    shown, _ = tour
    assert [line for line in shown.splitlines() if len(line) > 80] == []
    assert "…" not in shown
    for knob in KNOBS:
        assert f"{knob.name}: {knob.words}" in shown
        for row in knob.rows:
            # In the table, in the chart, and where diagnosis says something of it.
            assert sum(line.removeprefix("• ").startswith(row.label) for line in shown.splitlines()) >= 3, row
    assert "What was learned" in shown


def test_figures_are_those_that_the_producers_told(tour: tuple[str, dict[str, Any]]) -> None:
    shown, told = tour
    assert [knob["knob"] for knob in told["knobs"]] == [knob.name for knob in KNOBS]
    assert set(told["record"]) == {"name", "location", "status"}
    for each, knob in zip(told["knobs"], KNOBS, strict=True):
        assert [row["settings"] for row in each["rows"]] == [dict(row.settings) for row in knob.rows]
        for row in each["rows"]:
            figures = row["figures"]
            assert set(figures) == set(FIGURES)
            assert figures[RECORDS_PER_S] == pytest.approx(row["records"] / row["seconds"], rel=0.01)
            per_request = figures["records-per-request-avg"]
            assert per_request * figures[REQUESTS] == pytest.approx(row["records"])
            assert row["diagnosis"]["sentence"]
    by_name = {row["name"]: row["figures"] for knob in told["knobs"] for row in knob["rows"]}
    assert by_name["compression.type=lz4"][COMPRESSION] < 1 == by_name["compression.type=none"][COMPRESSION]
    assert by_name["acks=0"][LATENCY] is None
    assert by_name["batch.size=2048"][BATCH] <= 2_048 < by_name["batch.size=65536"][BATCH]
    for sentence in told["learned"]:
        assert sentence.split(" ")[0] in " ".join(shown.split())


@pytest.mark.parametrize("pace", [0, 1_000])
def test_a_row_sends_something_however_late_it_is(pace: int) -> None:
    sent: list[object] = []

    class Noting:
        def send(self, *record: object) -> None:
            sent.append(record)

    producer: Any = Noting()
    assert _send(producer, "tour", [(b"key", b"value")], pace, 0.0) == len(sent) > 0


def test_records_have_a_name_a_place_and_a_status() -> None:
    records = make_records()
    values = [json.loads(value) for _, value in records]
    assert [key.decode() for key, _ in records] == [value["name"] for value in values]
    assert {value["status"] for value in values} == {status.name for status in Status}
    assert len({value for _, value in records}) == len(records)
    assert PARTITIONS == 6


# ---- what is said of figures ------------------------------------------------------------------------------------


def knob_named(name: str) -> Knob:
    return next(knob for knob in KNOBS if knob.name == name)


def turned(name: str, *figures: dict[str, float | None], diagnosis: Diagnosis = NOTHING) -> Turned:
    """A knob whose rows came to these figures; the first one is diagnosed so."""
    knob = knob_named(name)
    usual: dict[str, float | None] = {**dict.fromkeys(FIGURES, 10.0), COMPRESSION: 1.0}
    return Turned(
        knob,
        tuple(
            Measured(row, 1000, 1.0, {**usual, **given}, NOTHING if number else diagnosis)
            for number, (row, given) in enumerate(zip(knob.rows, figures, strict=True))
        ),
    )


def test_the_batch_size_that_sent_most_is_named_and_none_where_none_did() -> None:
    rates = [{RECORDS_PER_S: rate} for rate in (1_000.0, 100.0, 2_000.0, 1_500.0)]
    (said,) = learned([turned("batch.size", *rates)])
    assert said.startswith("batch.size: batch.size=65536 sent most, 2.0 times the records/s (1,000 → 2,000) of")
    rates = [{RECORDS_PER_S: rate} for rate in (1_000.0, 100.0, 1_100.0, 900.0)]
    (said,) = learned([turned("batch.size", *rates)])
    assert said.startswith("batch.size: nothing sent notably more records/s than batch.size=16384 (1,000).")


@pytest.mark.parametrize(
    ("batch", "requests", "told"),
    [
        (16_000.0, 40.0, "8.0 times the batch size (2,000 → 16,000 bytes) and 1/10 of the number of requests"),
        (2_100.0, 390.0, "about the same batch size (2,000 → 2,100 bytes) and about the same number of requests"),
        (500.0, 1_600.0, "1/4.0 of the batch size (2,000 → 500 bytes) and 4.0 times the number of requests"),
    ],
)
def test_what_linger_did_is_said_as_it_was(batch: float, requests: float, told: str) -> None:
    short = {BATCH: 2_000.0, REQUESTS: 400.0, QUEUE: 0.2}
    long = {BATCH: batch, REQUESTS: requests, QUEUE: 50.0}
    (said,) = learned([turned("linger.ms", short, short, long)])
    assert said.startswith(f"linger.ms: at the same pace, linger.ms=100 instead of linger.ms=0 had {told}")
    assert said.endswith("Batches waited 0.2 → 50.0 ms for their request.")


def test_the_codec_that_is_smallest_need_not_be_the_fastest() -> None:
    figures: list[dict[str, float | None]] = [
        {COMPRESSION: 1.0, RECORDS_PER_S: 1_000.0},
        {COMPRESSION: 0.4, RECORDS_PER_S: 3_000.0},
        {COMPRESSION: 0.3, RECORDS_PER_S: 1_000.0},
        {COMPRESSION: 0.25, RECORDS_PER_S: 250.0},
    ]
    (said,) = learned([turned("compression.type", *figures)])
    assert "zstd, level 12 made batches smallest, 0.25 of their size" in said
    assert "compression.type=lz4 sent most, 3.0 times the records/s" in said
    assert "made batches 0.30 → 0.25 of their size and sent 1/4.0 of the records/s" in said
    figures[1][COMPRESSION], figures[1][RECORDS_PER_S] = 0.2, 900.0
    (said,) = learned([turned("compression.type", *figures)])
    assert "compression.type=lz4 made batches smallest" in said
    assert "nothing sent notably more records/s than compression.type=none" in said


@pytest.mark.parametrize(
    ("latency", "told"),
    [(4.0, "4.0 times the time (1.0 → 4.0 ms)"), (1.1, "about the same time"), (0.5, "1/2.0 of the time")],
)
def test_what_acks_cost_is_said_as_it_was(latency: float, told: str) -> None:
    said = learned([turned("acks", {LATENCY: latency}, {LATENCY: 1.0}, {LATENCY: None})])[0]
    assert f"with acks=all instead of acks=1 a request took {told}" in said
    assert "With acks=0 no broker answers" in said


def test_partitioners_are_held_against_placing_by_key() -> None:
    (said,) = learned([turned("partitioner.class", {BATCH: 2_000.0}, {BATCH: 12_000.0}, {BATCH: 2_100.0})])
    assert "partitioner.ignore.keys=true had 6.0 times the batch size" in said
    assert "partitioner.class=round_robin had about the same batch size" in said


@pytest.mark.parametrize(
    ("rate", "told"), [(3_000.0, "3.0 times the records/s"), (1_000.0, "about the same records/s")]
)
def test_what_came_of_advice_is_said_whether_it_helped_or_not(rate: float, told: str) -> None:
    finding = Finding(Limit.SLOW_ANSWERS, "Answers take long.", {}, "batch.size", 65_536, 0.5)
    found = Diagnosis((finding,), "Answers take long.", is_certain=True)
    rates = [{RECORDS_PER_S: 1_000.0}, {}, {RECORDS_PER_S: rate}, {}]
    said = learned([turned("batch.size", *rates, diagnosis=found)])[1]
    assert said.startswith("diagnosis said of batch.size=16384: answers take long; try batch.size=65536. That row had ")
    assert told in said


def test_a_narrow_terminal_gets_several_tables_and_loses_no_figure() -> None:
    large = dict.fromkeys(FIGURES, 123_456_789.0)
    each = turned("compression.type", large, large, large, {**large, LATENCY: None})
    assert len(tables_of(each, 120)) == 1
    console = Console(width=40, record=True, file=StringIO(), highlight=False)
    show_tour(console, [each], 1.0)
    lines = console.export_text().splitlines()
    tables = tables_of(each, 40)
    assert len(tables) > 1
    assert sum(len(table.columns) - 1 for table in tables) == len(FIGURES)
    assert "…" not in "".join(lines)


def test_of_each_row_it_is_said_what_limits_it_and_what_else_is_worth_knowing() -> None:
    finding = Finding(Limit.FEW_IN_FLIGHT, "Too few requests are in flight.", {}, None, None, 0.5)
    full = Finding(Limit.FULL_BUFFER, "buffer.memory is full.", {}, None, None, 0.5)
    said = {
        "Too few requests are in flight. Besides: buffer.memory is full.": Diagnosis(
            (finding, full), "Too few requests are in flight. buffer.memory is full.", is_certain=True
        ),
        "nothing in the producer limits it. Compression takes 40 % of a processor's time.": Diagnosis(
            (), "Nothing limits it: 1.5 % of the time. Compression takes 40 % of a processor's time.", is_certain=True
        ),
        "too little was sent to tell.": Diagnosis((), "Too little was sent.", is_certain=False),
    }
    each = turned("linger.ms", {}, {}, {})
    rows = [replace(row, diagnosis=diagnosis) for row, diagnosis in zip(each.rows, said.values(), strict=True)]
    console = Console(width=120, record=True, file=StringIO(), highlight=False)
    show_tour(console, [Turned(each.knob, tuple(rows))], 1.0)
    shown = " ".join(console.export_text().split())
    for row, sentence in zip(rows, said, strict=True):
        assert f"• {row.row.label}: {sentence}" in shown


# ---- the command ------------------------------------------------------------------------------------------------


def refused(folder: Path, *arguments: str) -> str:
    ended = subprocess.run(
        [sys.executable, "-m", "ottla", "run", "--tour", *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (ended.returncode, ended.stdout) == (2, ""), ended
    return ended.stderr


def test_a_tour_takes_no_input_and_no_kafka(tmp_path: Path) -> None:
    said = refused(tmp_path, "--key", "customer", "--bootstrap-servers", "localhost:9092", "--keep-topics")
    assert said == (
        "ottla: --tour makes its own records and brokers: leave out --key, --bootstrap-servers, --keep-topics, or "
        "--tour\n"
    )


def test_a_place_that_cannot_be_written_is_said_before_the_tour(tmp_path: Path) -> None:
    assert "there is no folder" in refused(tmp_path, "--json-file", "missing/tour.json")


@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGINT, 130), pytest.param(signal.SIGTERM, 143, marks=pytest.mark.prove)]
)
def test_a_tour_that_is_interrupted_leaves_nothing_behind(tmp_path: Path, number: int, status: int) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", SHORT_COMMAND, "run", "--tour", "--json-file", str(tmp_path / "tour.json")],
        env={**os.environ, "TMPDIR": str(tmp_path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as running:
        assert running.stdout is not None
        assert running.stderr is not None
        # In the middle of a row: brokers and a producer are at work.
        assert running.stdout.readline().startswith("turn batch.size: done")
        running.send_signal(number)
        said = running.stderr.read()
        assert running.wait(60) == status
    assert "Traceback" not in said
    assert list(tmp_path.iterdir()) == []


@pytest.mark.prove
def test_the_json_of_a_tour_is_all_that_stdout_has(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SHORT_COMMAND, "run", "--tour", "--json"],
        env={**os.environ, "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    assert json.loads(done.stdout)["partitions"] == 6
