"""1,000 seeds that nobody has run before, at every build; 100,000 with OTTLA_SOAK=1."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

SEEDS = 100_000 if os.environ.get("OTTLA_SOAK") else 1_000


def test_fresh_seeds_are_clean(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "ottla.cli", "simulate", "--seeds", str(SEEDS), "--keep", str(tmp_path / "found")],
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    # Shown by `pytest -rP`, and where it fails: the first line names the seeds, and whatever was found is told.
    sys.stdout.write(done.stdout)
    assert done.returncode == 0
