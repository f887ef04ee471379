"""A run that an exception ends in the middle is judged by what was seen until then: for safety, and nothing else."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest
from tests.drawn import fixed_seeds
from tools.mutation.weaknesses import weakened

from ottla.audit.findings import STUCK, UNDER_REPLICATED, UNSETTLED
from ottla.simulation.chance import Chance
from ottla.simulation.draw import draw
from ottla.simulation.outcome import Outcome, kinds_of
from ottla.simulation.run import Run, conclude

SEEDS = fixed_seeds(25, soak=1_000)


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Brokers tell of every torn batch they cut."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


class Broke(Exception):
    pass


def broken(seed: int, after_us: int) -> Outcome:
    """The outcome of a seed in which a core raises something, so long after the beginning."""
    run = Run(draw(seed))

    def breaks() -> None:
        raise Broke

    run.world.scheduler.after(after_us, breaks)
    with pytest.raises(Broke):
        run.go()
    return conclude(run, "Broke: in a core")


def test_what_had_not_come_to_its_end_is_nobodys_fault() -> None:
    for seed in SEEDS:
        outcome = broken(seed, Chance(f"breaks {seed}").randint(1, 20_000_000))
        assert (outcome.crashed, outcome.findings) == ("Broke: in a core", []), seed
        assert {STUCK, UNSETTLED} & {*outcome.unseen} == {UNSETTLED}


def test_what_was_seen_until_then_is_told_beside_the_exception() -> None:
    with weakened("ack_before_replication") as control:
        outcome = control.call(broken, 0, 20_000_000)
    assert kinds_of(outcome)[0].startswith("Broke")
    assert UNDER_REPLICATED in kinds_of(outcome)
    assert not outcome.is_clean
