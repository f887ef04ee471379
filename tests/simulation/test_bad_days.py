"""Bad days nobody has seen before: every run takes fresh seeds, and says which.

Whatever the weather, no core raises anything and everything comes to an end once all is healed. In mild weather, on
topics that keep what they are given, no judge finds anything.
"""

from __future__ import annotations

import os
import sys

import pytest

from ottla.simulation.draw import draw
from ottla.simulation.plan import MILD_WEATHER, Plan
from ottla.simulation.run import Run, conclude

SEEDS = 10_000 if os.environ.get("OTTLA_SOAK") else 100
SEEDS_PER_TEST = 10
FIRST_SEED = int.from_bytes(os.urandom(4), "big")
CLEANING = {"cleanup_policy", "retention_ms"}


def is_judged_strictly(plan: Plan) -> bool:
    """Whether nothing that happens to this plan's records may take any of them away."""
    cleans = any(CLEANING & set(topic.settings) for topic in plan.topics)
    return plan.weather == MILD_WEATHER and not cleans


@pytest.mark.parametrize("part", range(SEEDS // SEEDS_PER_TEST))
def test_a_bad_day_is_survived(part: int, capsys: pytest.CaptureFixture[str]) -> None:
    first = FIRST_SEED + part * SEEDS_PER_TEST
    if not part:
        with capsys.disabled():
            sys.stdout.write(f"\nbad days of the seeds {FIRST_SEED} to {FIRST_SEED + SEEDS - 1}\n")
    for seed in range(first, first + SEEDS_PER_TEST):
        plan = draw(seed)
        run = Run(plan)
        chronicle = run.go()
        assert not chronicle.stuck, f"seed {seed}"
        if is_judged_strictly(plan):
            found = [finding for finding in conclude(run, None).findings if finding.count]
            assert not found, f"seed {seed}"
