"""Bugs that other clients are known for, as trials in `known_bugs/`: ottla's producer has none of them.

A trial there says which client it is about, and docs/trials.md what was seen of it. The control shows that the faults
do what they have to: a producer without the guarantee stores records twice.
"""

from __future__ import annotations

import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

import ottla
from ottla.trial.run import run_scenario
from ottla.trial.scenario_file import load_file

KNOWN_BUGS = sorted(Path(__file__).with_name("known_bugs").glob("*.toml"))
GUIDE = Path(__file__).parents[2] / "docs" / "trials.md"


class Silent:
    def advance(self, count: int = 1) -> None: ...


def stepping(words: str, total: int | None = None, unit: str = "") -> Any:
    return nullcontext(Silent())


@pytest.mark.parametrize("path", KNOWN_BUGS, ids=lambda path: path.stem)
def test_ottla_does_not_have_what_another_client_is_known_for(path: Path) -> None:
    outcome = run_scenario(load_file(path), stepping)
    assert outcome.passed, outcome.to_dict()


@pytest.mark.parametrize("path", KNOWN_BUGS, ids=lambda path: path.stem)
def test_the_guide_has_the_command_that_shows_it(path: Path) -> None:
    assert f"ottla trial tests/trial/known_bugs/{path.name} --c" in GUIDE.read_text("utf-8")


@pytest.mark.prove
@pytest.mark.skipif(sys.platform != "linux", reason="pipes that hold one line are Linux's")
def test_a_member_of_librdkafka_that_polled_too_late_comes_back_in_the_version_tested() -> None:
    script = KNOWN_BUGS[0].with_name("librdkafka_5541.py")
    with ottla.Cluster(brokers=1) as cluster:
        command = [sys.executable, str(script), cluster.bootstrap_servers]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    # It had left: what would not have shown the bug has the exit status 2.
    assert done.stdout.endswith("offsets committed\n")


def test_the_guide_has_the_command_for_the_member_that_polls_too_late() -> None:
    assert "python tests/trial/known_bugs/librdkafka_5541.py" in GUIDE.read_text("utf-8")


@pytest.mark.parametrize("arguments", [(), ("127.0.0.1:9092", "127.0.0.1:9093")])
def test_the_member_that_polls_too_late_needs_one_address(arguments: tuple[str, ...]) -> None:
    command = [sys.executable, str(KNOWN_BUGS[0].with_name("librdkafka_5541.py")), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "give the address of one Kafka broker, for example 127.0.0.1:9092\n"
