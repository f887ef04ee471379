"""Whatever guarantee is taken out of the mechanism, histories drawn at random bring it to light."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import pytest
from tests.tiers import some_tested

from .history import play
from .weaknesses import WEAKNESSES, findings_of, weakened

_SEEDS_MOST = 200


@cache
def sound(seed: int) -> tuple[str, ...]:
    """What is found with the unchanged source."""
    return tuple(play(seed).findings)


@pytest.mark.parametrize("weakness", some_tested(WEAKNESSES, "applied_before_it_is_decided"))
def test_a_weakness_is_found(weakness: str, say: Callable[[str], None]) -> None:
    with weakened(weakness) as control:
        for seed in range(_SEEDS_MOST):
            found = control.call(findings_of, seed)
            if found and not sound(seed):
                say(f"{weakness}: seed {seed}: {found}")
                return
    pytest.fail(f"{weakness} stays hidden in {_SEEDS_MOST} seeds")
