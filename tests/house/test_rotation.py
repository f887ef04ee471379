"""The longest files of `make prove` are divided among commits (tests/rotation.py)."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.rotation import PARTS, of_other_commits

ROOT = Path(__file__).parents[2]


def test_each_of_these_files_is_there_and_is_run_by_one_commit_in_three() -> None:
    everything = [file for part in PARTS for file in part]
    assert len({*everything}) == len(everything)
    assert [file for file in everything if not (ROOT / file).exists()] == []
    for number, part in enumerate(PARTS):
        commit = f"{number:08x}" + "0" * 32
        assert of_other_commits(commit) == {*everything} - part


def test_a_run_of_every_part_leaves_none_of_them_out() -> None:
    words = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", "--tier", "prove"]
    # A folder, as a file that is named would run in any case.
    found = [
        subprocess.run([*words, *more, "tests/explain"], cwd=ROOT, capture_output=True, text=True, check=False).stdout
        for more in ([], ["--every-part"])
    ]
    left_out = ["left out unless named, being run by other commits" in text for text in found]
    assert left_out == [True, False]
    assert "tests/explain/test_known_plans.py" in found[1]


def test_no_part_is_much_longer_than_another() -> None:
    durations = json.loads((ROOT / "tests" / "durations.json").read_text())["prove"]
    seconds = [sum(durations.get(file, 0) for file in part) for part in PARTS]
    assert max(seconds) < 1.5 * min(seconds)
