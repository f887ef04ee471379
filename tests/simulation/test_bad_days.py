"""Bad days nobody has seen before: every run takes a thousand fresh seeds, over all cores, and says which.

Whatever the weather, no core raises anything, everything comes to an end once all is healed, a seed repeats itself, and
no judge finds anything: what a power cut, an unclean election or cleaning took is put down to it, and nothing else is
gone. `ottla simulate --seed N` tells the story of a seed that fails. OTTLA_SEEDS=50 runs fewer, OTTLA_SOAK=1 ten
thousand.
"""

from __future__ import annotations

import os
import sys

import pytest

from ottla.trial.seeds import run_seeds

SEEDS = int(os.environ.get("OTTLA_SEEDS") or (10_000 if os.environ.get("OTTLA_SOAK") else 1_000))
FIRST_SEED = int.from_bytes(os.urandom(4), "big")


def test_bad_days_are_survived(capsys: pytest.CaptureFixture[str]) -> None:
    with capsys.disabled():
        sys.stdout.write(f"\nbad days of the seeds {FIRST_SEED} to {FIRST_SEED + SEEDS - 1}\n")
    fresh = range(FIRST_SEED, FIRST_SEED + SEEDS)
    failed = {
        outcome.seed: outcome.crashed or outcome.findings
        for outcome in run_seeds(fresh, os.cpu_count() or 1)
        if not outcome.is_clean
    }
    assert failed == {}
