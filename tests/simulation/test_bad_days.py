"""Bad days nobody has seen before: every run takes fresh seeds, and says which.

Whatever the weather, no core raises anything, everything comes to an end once all is healed, and no judge finds
anything: what a power cut, an unclean election or cleaning took is put down to it, and nothing else is gone.
"""

from __future__ import annotations

import os
import sys

import pytest

from ottla.simulation.draw import draw
from ottla.simulation.run import execute

SEEDS = 10_000 if os.environ.get("OTTLA_SOAK") else 100
SEEDS_PER_TEST = 10
FIRST_SEED = int.from_bytes(os.urandom(4), "big")


@pytest.mark.parametrize("part", range(SEEDS // SEEDS_PER_TEST))
def test_a_bad_day_is_survived(part: int, capsys: pytest.CaptureFixture[str]) -> None:
    first = FIRST_SEED + part * SEEDS_PER_TEST
    if not part:
        with capsys.disabled():
            sys.stdout.write(f"\nbad days of the seeds {FIRST_SEED} to {FIRST_SEED + SEEDS - 1}\n")
    for seed in range(first, first + SEEDS_PER_TEST):
        outcome = execute(draw(seed))
        assert outcome.is_clean, f"seed {seed}: {outcome.crashed or outcome.findings}"
