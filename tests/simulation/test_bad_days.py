"""Bad days of hundreds of simulated seeds, over all cores: no seed may fail.

Whatever goes wrong, no core raises anything, everything comes to an end once all is healed, no judge finds anything,
and a seed repeats itself. `make test` runs 25 seeds, always the same; `make prove` five hundred, drawn from the
commit; OTTLA_SOAK=1 ten thousand fresh ones. A seed that fails is kept as a plan in tests/regressions, by the command
that the failure names.
"""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest
from tests.drawn import commit_seeds, fixed_seeds, told

from ottla.seeds.processes import run_seeds
from ottla.simulation.outcome import Outcome, kinds_of

# A follower whose disk fails while it cuts its log is to cut it at the same offset again.
_KEPT = (147548059,)


@pytest.mark.parametrize(
    "seeds",
    [
        pytest.param(fixed_seeds(25, soak=1_000, kept=_KEPT), id="fixed"),
        pytest.param(commit_seeds(500, soak=10_000), id="of the commit", marks=pytest.mark.prove),
    ],
)
def test_bad_days_are_survived(seeds: list[int], say: Callable[[str], None]) -> None:
    say(f"bad days of the {told(seeds)}")
    unclean = [outcome for outcome in run_seeds(seeds, os.cpu_count() or 1) if not outcome.is_clean]
    if unclean:
        pytest.fail("\n".join(map(_failure, unclean)), pytrace=False)


def _failure(outcome: Outcome) -> str:
    found = outcome.crashed or ", ".join(kinds_of(outcome))
    keep = f".venv/bin/ottla simulate --seed {outcome.seed} --keep tests/regressions"
    return f"seed {outcome.seed}: {found}\nkeep it as a regression: {keep}"
