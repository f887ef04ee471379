"""Negative controls: whatever guarantee is taken out of the cores, seeds drawn at random bring it to light.

A usual run looks for what is found within a few seeds, from one on that is known to convict; whoever changes how plans
are drawn moves it, and `tools/measure_weaknesses.py` tells where to begin anew. OTTLA_SOAK=1 begins anywhere. Either
way 2,000 seeds must be enough. The control of the control: a seed counts only if nothing is found in it where nothing
is missing.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from functools import cache
from random import Random
from typing import get_args

import pytest
from tests.soak import IS_SOAK
from tests.tiers import some_tested

from ottla.audit.findings import REPEATED
from ottla.simulation.draw import draw
from ottla.simulation.run import execute
from ottla.simulation.weaknesses import WEAKNESSES
from ottla.weaknesses import Weakness, Weaknesses

SEEDS_MOST = 2_000


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Brokers tell of every torn batch they cut."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@cache
def found(seed: int, weaknesses: Weaknesses = ()) -> tuple[str, ...]:
    """The kinds of what the judges find; an exception inside a core is one, too."""
    outcome = execute(draw(seed), weaknesses=weaknesses)
    return (*(each.kind for each in outcome.findings), *(["crashed"] if outcome.crashed is not None else []))


@pytest.mark.parametrize("weakness", some_tested(get_args(Weakness), "no_sequence_check", "reads_aborted"))
def test_a_weakness_is_found(weakness: Weakness, say: Callable[[str], None]) -> None:
    begin = Random().randrange(1 << 32) if IS_SOAK else 0
    for seed in range(begin, begin + SEEDS_MOST):
        kinds = found(seed, (weakness,))
        if any(kind in WEAKNESSES[weakness].convicted_of for kind in kinds) and not found(seed):
            say(f"{weakness}: seed {seed}, the {seed - begin + 1}. looked at: {', '.join(kinds)}")
            return
    pytest.fail(f"{weakness} stays hidden from seed {begin} to {seed}")


def test_copies_beyond_those_the_application_made_are_found(say: Callable[[str], None]) -> None:
    """Nothing can be taken out of a core that makes an application's copies: what is taken out makes more of them."""
    begin = Random().randrange(1 << 32) if IS_SOAK else 640
    for seed in range(begin, begin + SEEDS_MOST):
        if REPEATED in found(seed, ("no_sequence_check",)) and not found(seed):
            say(f"{REPEATED}: seed {seed}, the {seed - begin + 1}. looked at")
            return
    pytest.fail(f"{REPEATED} stays hidden from seed {begin} to {seed}")
