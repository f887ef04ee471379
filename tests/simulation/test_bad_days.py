"""Bad days nobody has seen before: every run takes a thousand fresh seeds, over all cores, and says which.

In mild weather nothing happens that Kafka does not survive: no core raises anything, everything comes to an end once
all is healed, a seed repeats itself, and no judge finds anything. In severe weather (power cuts of the whole cluster,
unclean elections) a judge must moreover put each loss down to what took it, and one in some thousand seeds still shows
a chain of events that none of them knows: such a seed is told, as a lead to follow, and more of them than `LEADS` are
a failure. No core raises anything there, either. `ottla simulate --seed N` tells the story of a seed. OTTLA_SEEDS=50
runs fewer, OTTLA_SOAK=1 ten thousand, and lets no lead pass.
"""

from __future__ import annotations

import os
import sys

import pytest

from ottla.simulation.draw import draw
from ottla.simulation.plan import SEVERE_WEATHER
from ottla.trial.seeds import run_seeds

SEEDS = int(os.environ.get("OTTLA_SEEDS") or (10_000 if os.environ.get("OTTLA_SOAK") else 1_000))
LEADS = 0 if os.environ.get("OTTLA_SOAK") else 3
FIRST_SEED = int.from_bytes(os.urandom(4), "big")


def test_bad_days_are_survived(capsys: pytest.CaptureFixture[str]) -> None:
    with capsys.disabled():
        sys.stdout.write(f"\nbad days of the seeds {FIRST_SEED} to {FIRST_SEED + SEEDS - 1}\n")
    fresh = range(FIRST_SEED, FIRST_SEED + SEEDS)
    unclean = [outcome for outcome in run_seeds(fresh, os.cpu_count() or 1) if not outcome.is_clean]
    leads = [each for each in unclean if each.crashed is None and draw(each.seed).weather == SEVERE_WEATHER]
    with capsys.disabled():
        for lead in leads:
            sys.stdout.write(f"seed {lead.seed}: {', '.join(finding.kind for finding in lead.findings)}\n")
    failed = {each.seed: each.crashed or each.findings for each in unclean if each not in leads}
    assert failed == {}
    assert len(leads) <= LEADS
