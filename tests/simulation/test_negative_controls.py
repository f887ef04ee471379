"""Negative controls: whatever guarantee is taken out of the cores, seeds drawn at random bring it to light.

Each control is a process with a changed source (`tools/mutation`). Seed after seed is looked at until one convicts the
control of what its row says; 2,000 must be enough. In every seed looked at the unchanged cores must be acquitted: a
seed that convicts them, too, is no control, and fails. Without OTTLA_SOAK=1 the rare ones begin shortly before a seed
that has convicted them once (`BEGIN`); a change of the cores moves it, and the search goes on from there. OTTLA_SOAK=1
begins anywhere.
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
# Where the search begins, for weaknesses that few seeds bring to light; 0 for all others.
BEGIN = {
    "aborted_index_lost": 7,
    "closes_by_clock": 95,
    "commit_timeout_aborts": 25,
    "dedupe_window_of_four": 55,
    "end_told_before_stored": 88,
    "group_offsets_before_commit": 18,
    "moved_before_they_are_in_sync": 49,
    "no_transaction_verification": 24,
    "reorders_on_retry": 8,
    "skips_after_leader_change": 7,
    REPEATED: 939,
}


@cache
def sound(seed: int) -> tuple[str, ...]:
    """What is found with the unchanged source."""
    return kinds_found(seed)


def convicts(weakness: str, kinds: tuple[str, ...], usual_begin: int) -> str:
    """The seed in which this control is found to have done one of these, in words."""
    begin = Random().randrange(1 << 32) if IS_SOAK else usual_begin
    with weakened(weakness) as control:
        for number, seed in enumerate(range(begin, begin + SEEDS_MOST), start=1):
            assert sound(seed) == (), f"seed {seed} convicts the unchanged cores"
            found = control.call(kinds_found, seed)
            if {*kinds} & {*found}:
                return f"seed {seed}, the {number}. looked at: {', '.join(found)}"
    pytest.fail(f"{weakness} stays hidden from seed {begin} to {seed}")


@pytest.mark.parametrize("weakness", some_tested(WEAKNESSES, "no_sequence_check", "reads_aborted"))
def test_a_weakness_is_found(weakness: str, say: Callable[[str], None]) -> None:
    say(f"{weakness}: {convicts(weakness, WEAKNESSES[weakness].convicted_of, BEGIN.get(weakness, 0))}")


def test_copies_beyond_those_the_application_made_are_found(say: Callable[[str], None]) -> None:
    """Nothing can be taken out of a core that makes an application's copies: what is taken out makes more of them."""
    say(f"{REPEATED}: {convicts('no_sequence_check', (REPEATED,), BEGIN[REPEATED])}")


def test_the_rare_weaknesses_are_ones_there_are() -> None:
    assert BEGIN.keys() - {REPEATED} <= WEAKNESSES.keys()
