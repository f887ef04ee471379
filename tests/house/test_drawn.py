"""The seeds of the tests (tests/drawn.py): fixed, of the commit, named, fresh; and what is said of one that fails."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.drawn import commit, in_parts, seed_of

ROOT = Path(__file__).parents[2]
_SHOW = "from tests.drawn import commit_seeds, fixed_seeds\nprint(fixed_seeds(2, soak=3), commit_seeds(2, kept=(7,)))"
_FAILS = """
import pytest
from tests.drawn import fixed_seeds

@pytest.mark.parametrize("seed", fixed_seeds(2))
def test_storm(seed):
    assert seed != 1
"""


def python(*arguments: str, folder: Path = ROOT, **environment: str) -> str:
    command = [sys.executable, *arguments]
    others = {name: value for name, value in os.environ.items() if not name.startswith("OTTLA_")}
    environment = {**others, "PYTHONPATH": str(ROOT), **environment}
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=120, cwd=folder, env=environment, check=False
    )
    return done.stdout + done.stderr


def test_seeds_are_fixed_in_one_tier_and_the_commits_in_the_other() -> None:
    # Looked up again: somebody may commit while tests run.
    first = seed_of(commit.__wrapped__())
    assert python("-c", _SHOW) == f"[0, 1] [7, {first}, {first + 1}]\n"


def test_a_soak_runs_fresh_ones() -> None:
    assert python("-c", _SHOW, OTTLA_SOAK="1", OTTLA_SOAK_SEED="50") == "[50, 51, 52] [7, 50, 51]\n"
    assert python("-c", _SHOW, OTTLA_SOAK="1") != python("-c", _SHOW, OTTLA_SOAK="1")


@pytest.mark.parametrize(("named", "seeds"), [("4711", [4711]), ("4711-4713", [4711, 4712, 4713])])
def test_seeds_that_are_named_are_the_only_ones(named: str, seeds: list[int]) -> None:
    assert python("-c", _SHOW, OTTLA_SEEDS=named) == f"{seeds} {seeds}\n"


@pytest.mark.parametrize("named", ["many", "9-3", "-5", "1-"])
def test_what_names_no_seeds_is_refused(named: str) -> None:
    assert f"OTTLA_SEEDS={named}: give a seed such as 4711" in python("-c", _SHOW, OTTLA_SEEDS=named)


def test_every_seed_is_in_one_part() -> None:
    assert in_parts([*range(5)], 2) == [[0, 1], [2, 3], [4]]


def test_a_seed_that_fails_is_told_with_how_to_run_and_keep_it(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "test_storms.py").write_text(_FAILS)
    lines = python("-m", "pytest", "-p", "tests.drawn", "-p", "no:cacheprovider", folder=tmp_path).splitlines()
    assert "run it again: OTTLA_SEEDS=1 make test ARGS=test_storms.py" in lines
    assert "let every run have it: give the seed to `kept` in test_storms.py" in lines
