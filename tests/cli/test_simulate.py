"""`ottla simulate` as a user runs it: many seeds, one seed, a kept plan, Ctrl+C, and what cannot be used."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ottla import __version__
from ottla.seeds.kept_plan import keep
from ottla.simulation.draw import draw
from ottla.simulation.plan import FORMAT
from ottla.simulation.run import execute

TIMEOUT_S = 120
COMMAND = [sys.executable, "-m", "ottla", "simulate"]


def simulate(*arguments: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
        env={**os.environ, **environment},
    )


def as_json(*arguments: str | Path, **environment: str) -> Any:
    done = simulate(*arguments, "--no-shrink", "--json", **environment)
    outcome = json.loads(done.stdout)
    failed = outcome.get("failed") or outcome.get("findings") or outcome.get("crashed")
    assert (done.returncode, done.stderr) == (1 if failed else 0, "")
    return outcome


def refused(*arguments: str | Path) -> str:
    done = simulate(*arguments)
    assert done.returncode == 2, done
    assert done.stdout == ""
    lines = done.stderr.splitlines()
    assert len(lines) == 1, done.stderr
    assert lines[0].startswith("ottla: ")
    return lines[0]


def test_a_seed_gives_the_same_trace_whatever_python_hashes_strings_to() -> None:
    # Every 20th seed goes through real bytes.
    one, other = (as_json("--seed", "40", PYTHONHASHSEED=seed) for seed in ("1", "2"))
    assert one == other
    assert re.fullmatch("[0-9a-f]{64}", one["trace_hash"])
    assert one["messages"] >= 1000


def test_a_trace_hash_is_whole_on_a_narrow_terminal() -> None:
    shown = simulate("--seed", "3", COLUMNS="40").stdout
    assert execute(draw(3)).trace_hash in "".join(line[16:].rstrip() for line in shown.splitlines())


def test_many_seeds_are_summed_up() -> None:
    outcome = as_json("--seeds", "5", "--first-seed", "60", "--jobs", "2")
    assert (outcome["first_seed"], outcome["seeds"], outcome["runs"]) == (60, 5, 5)
    assert outcome["messages"] >= 5000
    assert outcome["records"] >= 500
    assert outcome["simulated_hours"] > 0
    assert outcome["states"]["record acked"] == 5
    assert sum(outcome["fired"].values()) > 5


def test_without_a_first_seed_fresh_ones_are_run_and_named(tmp_path: Path) -> None:
    ranges = []
    for _ in range(2):
        file = tmp_path / "outcome.json"
        done = simulate("--seeds", "2", "--jobs", "1", "--no-shrink", "--json-file", file)
        told = re.match(r"seeds (\d+) to (\d+), 1 at once: ottla simulate --first-seed (\d+) --seeds 2\n", done.stdout)
        assert told is not None, done
        first, last, named = map(int, told.groups())
        assert (last, named) == (first + 1, first)
        assert json.loads(file.read_text())["first_seed"] == first
        for words in ("messages", "records", "simulated", "faults", "states covered", "2 run"):
            assert words in done.stdout
        ranges.append(first)
    assert ranges[0] != ranges[1]


def test_ctrl_c_sums_up_what_was_run() -> None:
    with subprocess.Popen(
        [*COMMAND, "--seeds", "1000000", "--first-seed", "0", "--jobs", "2"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("seeds 0 to 999999, 2 at once")
        # A terminal sends it to the whole group: the processes that run seeds must not answer with tracebacks.
        os.killpg(process.pid, signal.SIGINT)
        out, err = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 130
    assert err == "ottla: interrupted\n"
    assert re.search(r"^seeds 0 to 999999, interrupted: [\d,]+ of 1,000,000 run, none failed$", out, re.MULTILINE)
    assert "states covered" in out


def test_ctrl_c_is_said_where_it_has_ended_who_reads_too() -> None:
    with subprocess.Popen(
        [*COMMAND, "--seeds", "1000000", "--first-seed", "0", "--jobs", "1"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("seeds 0 to 999999, 1 at once")
        process.stdout.close()
        process.send_signal(signal.SIGINT)
        assert process.stderr is not None
        assert (process.stderr.read(), process.wait(TIMEOUT_S)) == ("ottla: interrupted\n", 130)


def test_a_kept_plan_is_run_again_with_the_same_trace(tmp_path: Path) -> None:
    outcome = execute(draw(3))
    path = keep(tmp_path, draw(3), outcome)
    assert path.name == "seed-3.json"
    content = json.loads(path.read_text())
    assert content["found"]["trace_hash"] == outcome.trace_hash
    assert content["replay"] == "ottla simulate --plan seed-3.json"
    again = as_json("--plan", path)
    assert again["trace_hash"] == outcome.trace_hash
    assert (again["kept_by"], again["same_trace"]) == (__version__, True)
    content["found"]["trace_hash"] = "0" * 64
    content["ottla"] = "0.0.9"
    path.write_text(json.dumps(content))
    told = simulate("--plan", path, "--no-shrink").stdout
    assert "The trace is not the one that ottla 0.0.9 kept" in told
    again = as_json("--plan", path)
    assert (again["kept_by"], again["same_trace"]) == ("0.0.9", False)
    path.write_text(json.dumps(content["plan"]))
    for again in (as_json("--plan", path), as_json("--seed", "3")):
        assert (again["kept_by"], again["same_trace"]) == (None, None)


def test_the_story_of_a_seed_is_written_as_a_page(tmp_path: Path) -> None:
    page = tmp_path / "story.html"
    path = keep(tmp_path, small := draw(3), execute(small))
    content = json.loads(path.read_text())
    content["plan"]["producers"] = []
    content["plan"]["faults"] = []
    path.write_text(json.dumps(content["plan"]))
    done = simulate("--plan", path, "--story", page)
    assert done.returncode == 0, done
    assert page.read_text().startswith("<!doctype html>")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--seeds", "0"), "--seeds 0 is no whole number of "),
        (("--seeds", "-5"), "--seeds -5 is no whole number of "),
        (("--seeds", "many"), "--seeds many is no whole number of "),
        (("--jobs", "0"), "--jobs 0 is no whole number of "),
        (("--shrink-seconds", "0"), "--shrink-seconds 0 is no whole number of "),
        (("--shrink-seconds", "5", "--no-shrink"), "--shrink-seconds and --no-shrink exclude each other"),
        (("--seed", "-1"), "--seed -1 is no whole number of "),
        (("--seed", "9" * 5000), "--seed 99999999999999999999... (5000 characters) is no whole number of 0 or more"),
        (("--first-seed", "-1"), "--first-seed -1 is no whole number of "),
        (("--seed", "1", "--seeds", "5"), "--seed runs one and --seeds is about many"),
        (("--seed", "1", "--first-seed", "5"), "--seed runs one and --first-seed is about many"),
        (("--plan", "plan.json", "--jobs", "2"), "--plan runs one and --jobs is about many"),
        (("--plan", "plan.json", "--seed", "2"), "--seed and --plan each say what to run"),
        (("--plan", "absent.json"), "absent.json cannot be read (No such file or directory)"),
        (("--plan", "."), ". cannot be read (Is a directory)"),
        (("--seed", "1", "--story", "absent/story.html"), "the story cannot be written to absent/story.html"),
        (("--seed", "1", "--story", "."), "the story cannot be written to ."),
        (("--seed", "1", "--json-file", "absent/figures.json"), "the outcome cannot be written to absent/figures.json"),
        (("--seed", "1", "--keep", ""), "--keep has an empty value; give --keep DIR"),
        (("--seed", "1", "--keep="), "--keep has an empty value; give --keep DIR"),
        (("--seed", "1", "--keep", "/dev/null/folder"), "/dev/null/folder cannot be made (Not a directory)"),
    ],
)
def test_what_cannot_be_used_is_refused_in_a_sentence(
    arguments: tuple[str, ...], sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert sentence in refused(*arguments)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("{ not JSON", "is not JSON"),
        ("[1, 2]", "this plan has format None"),
        ("{}", "this plan has format None"),
        ("17", "this plan has format None"),
        (json.dumps({"format": FORMAT}), "this is no plan of a simulation"),
        (
            json.dumps({"ottla": "9.9", "plan": {"format": FORMAT + 1}}),
            f"(written by ottla 9.9): this plan has format {FORMAT + 1}, and this ottla runs format {FORMAT}",
        ),
        (json.dumps({"ottla": "9.9", "plan": "seed 7"}), "this plan has format None"),
        (json.dumps({**draw(1).to_dict(), "faults": [{"fault": {"kind": "kill"}}]}), "this is no plan of a simulation"),
        (json.dumps({**draw(1).to_dict(), "brokers": "three"}), "Plan.brokers is 'three' and must be int"),
        (json.dumps({**draw(1).to_dict(), "settings": {"no_such_setting": 1}}), "no_such_setting"),
        (
            json.dumps({**draw(1).to_dict(), "brokers": 0}),
            "plan.json: this plan cannot be run: brokers is 0 and",
        ),
        (
            json.dumps({**draw(1).to_dict(), "faults": [{"at_us": 0, "fault": {"kind": "stop", "broker_id": 7}}]}),
            "fault 1 of 1, 'stop': broker_id is 7 and must be one of 0, 1, 2",
        ),
        (json.dumps({"found": "x", "plan": draw(1).to_dict()}), "found is 'x' and must be an object"),
        (
            json.dumps({"found": {"trace_hash": 7}, "plan": draw(1).to_dict()}),
            "found.trace_hash is 7 and must be a",
        ),
        (json.dumps({"ottla": {"a": 1}, "plan": draw(1).to_dict()}), "ottla is {'a': 1} and must be a text"),
        ("[" * 100_000 + "]" * 100_000, "is nested too deep for a plan"),
        ("9" * 10_000, "has a number of thousands of digits, and no plan has one"),
    ],
)
def test_a_file_that_is_no_plan_of_this_version_is_never_run(content: str, sentence: str, tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    path.write_text(content)
    assert sentence in refused("--plan", path)


def test_a_plan_of_bytes_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    path.write_bytes(b"\xff\xfe\x00")
    assert "it is not text" in refused("--plan", path)
