"""`ottla trial` as a user runs it."""

from __future__ import annotations

import json
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

TIMEOUT_S = 120


def trial(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "ottla", "trial", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )


def test_all_trials_are_listed() -> None:
    done = trial("--list")
    assert done.returncode == 0
    for name in ("lost-ack", "reordering", "min-insync-replicas"):
        assert name in done.stdout


def test_a_trial_that_is_shown_and_kept_can_be_run(tmp_path: Path) -> None:
    shown = trial("--show", "lost-ack")
    mine = tmp_path / "mine.toml"
    mine.write_text(shown.stdout)
    done = trial(mine, "--json-file", tmp_path / "outcome.json")
    assert (done.returncode, done.stderr) == (0, "")
    assert "As expected: every control shows the damage that it is to show" in done.stdout
    (outcome,) = json.loads((tmp_path / "outcome.json").read_text())
    assert (outcome["trial"], outcome["passed"]) == ("mine", True)
    assert [side["seen"] for side in outcome["sides"]] == ["kept", "kept"]
    assert outcome["sides"][0]["found"]["duplicated"] > 0
    assert outcome["sides"][0]["faults"][0]["fired"] == 1


def test_a_report_and_a_junit_file_are_written(tmp_path: Path) -> None:
    report, junit = tmp_path / "report.html", tmp_path / "junit.xml"
    done = trial("lost-ack", "--report", report, "--junit", junit)
    assert (done.returncode, done.stderr) == (0, "")
    assert f"The report is {report}." in done.stdout
    assert "<title>lost-ack: as expected</title>" in report.read_text()
    assert ElementTree.parse(junit).getroot().get("failures") == "0"
    assert sorted(tmp_path.iterdir()) == [junit, report]


def test_a_trial_that_is_not_as_expected_ends_with_1(tmp_path: Path) -> None:
    mine = tmp_path / "mine.toml"
    mine.write_text(trial("--show", "lost-ack").stdout.replace("nth = 2", "nth = 9000"))
    done = trial(mine, "--json")
    assert done.returncode == 1
    (outcome,) = json.loads(done.stdout)
    assert outcome["sides"][0]["void"] == ["the fault lose_ack never fired"]


def test_the_outcome_names_the_client_that_sent() -> None:
    done = trial("lost-ack", "--client", "confluent-kafka")
    assert (done.returncode, done.stderr) == (0, "")
    assert "sent by confluent-kafka " in done.stdout
    done = trial("lost-ack", "--command", f"{sys.executable} -c pass", "--json")
    assert done.returncode == 1
    (outcome,) = json.loads(done.stdout)
    assert (outcome["client"], outcome["sides"][0]["client"]) == ("", "")
    void = outcome["sides"][0]["void"]
    assert void[0] == "the client ended with exit status 0 before it said who it is"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "which trial? `ottla trial --list` shows all"),
        (("lost-akc",), "there is no trial 'lost-akc'; did you mean 'lost-ack'?"),
        (("none.toml",), "none.toml cannot be read: No such file or directory"),
        (("--show", "all"), "--show prints a trial that comes with ottla, and 'all' is not one"),
        (("lost-ack", "--client", "kafka-pyton"), "there is no client 'kafka-pyton'; did you mean 'kafka-python'?"),
        (("lost-ack", "--command", " "), "--command is empty: give a program and its arguments"),
        (("lost-ack", "--command", "'python"), '--command "\'python" cannot be read: No closing quotation'),
        (("lost-ack", "--command", "no-such-program"), "the client cannot be started: no-such-program: No such file"),
        (("lost-ack", "--client", "ottla", "--command", "true"), "--client and --command both say who sends"),
        (("lost-ack", "--json-file", "/none/outcome.json"), "/none"),
        (("lost-ack", "--report", "/none/report.html"), "the report cannot be written to /none/report.html"),
        (("lost-ack", "--junit", "/none/junit.xml"), "the JUnit file cannot be written to /none/junit.xml"),
        (("--list", "--report", "report.html"), "--list shows the trials, and --report writes their outcome"),
    ],
)
def test_what_cannot_be_used_is_one_sentence(arguments: tuple[str, ...], words: str) -> None:
    done = trial(*arguments)
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert line.startswith("ottla: ")
    assert words in line
