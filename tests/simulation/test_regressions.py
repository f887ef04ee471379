"""What once failed and was mended stays mended: every plan in tests/regressions runs clean.

Written by `ottla simulate --keep tests/regressions` when a seed failed, and left there when its cause is gone.
"""

from __future__ import annotations

from pathlib import Path

from ottla.seeds.kept_plan import read_plan
from ottla.simulation.run import execute

FOLDER = Path(__file__).parents[1] / "regressions"


def test_what_once_failed_runs_clean() -> None:
    outcomes = {path.name: execute(read_plan(path).plan) for path in sorted(FOLDER.glob("*.json"))}
    failing = {name: (found.crashed, found.findings) for name, found in outcomes.items() if not found.is_clean}
    assert not failing
