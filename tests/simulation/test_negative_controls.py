"""Negative controls: whatever guarantee is taken out of the cores, seeds drawn at random bring it to light.

Each control is a process with a changed source (`tools/mutation`). Seed after seed is looked at until one convicts the
control of what its row says; 2,000 must be enough. In every seed looked at the unchanged cores must be acquitted: a
seed that convicts them, too, is no control, and fails. OTTLA_SOAK=1 begins anywhere.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from random import Random

import pytest
from tests.soak import IS_SOAK
from tests.tiers import some_tested
from tools.mutation.seeds import kinds_found
from tools.mutation.weaknesses import WEAKNESSES, weakened

from ottla.audit.findings import REPEATED

SEEDS_MOST = 2_000


@cache
def sound(seed: int) -> tuple[str, ...]:
    """What is found with the unchanged source."""
    return kinds_found(seed)


def convicts(weakness: str, kinds: tuple[str, ...], begin: int) -> str:
    """The seed in which this control is found to have done one of these, in words."""
    with weakened(weakness) as control:
        for number, seed in enumerate(range(begin, begin + SEEDS_MOST), start=1):
            assert sound(seed) == (), f"seed {seed} convicts the unchanged cores"
            found = control.call(kinds_found, seed)
            if {*kinds} & {*found}:
                return f"seed {seed}, the {number}. looked at: {', '.join(found)}"
    pytest.fail(f"{weakness} stays hidden from seed {begin} to {seed}")


@pytest.mark.parametrize("weakness", some_tested(WEAKNESSES, "no_sequence_check", "reads_aborted"))
def test_a_weakness_is_found(weakness: str, say: Callable[[str], None]) -> None:
    begin = Random().randrange(1 << 32) if IS_SOAK else 0
    say(f"{weakness}: {convicts(weakness, WEAKNESSES[weakness].convicted_of, begin)}")


def test_copies_beyond_those_the_application_made_are_found(say: Callable[[str], None]) -> None:
    """Nothing can be taken out of a core that makes an application's copies: what is taken out makes more of them."""
    begin = Random().randrange(1 << 32) if IS_SOAK else 640
    say(f"{REPEATED}: {convicts('no_sequence_check', (REPEATED,), begin)}")
