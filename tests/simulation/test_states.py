"""The states of a run are told as what it went through, never as something found."""

from __future__ import annotations

import pytest

from ottla.audit import findings
from ottla.audit.findings import LOST, UNDER_REPLICATED, Finding
from ottla.simulation.draw import draw
from ottla.simulation.run import execute
from ottla.simulation.states import States

KINDS = tuple(value for name, value in vars(findings).items() if name.isupper() and isinstance(value, str))


@pytest.mark.parametrize("seed", [0, 1])
def test_no_state_of_a_clean_run_reads_like_a_finding(seed: int) -> None:
    outcome = execute(draw(seed))
    assert outcome.is_clean
    assert "seen while looking for “acknowledged too early”: held by 3" in outcome.states
    assert [state for state in outcome.states if state.startswith(KINDS)] == []


def test_of_an_excuse_the_kind_is_a_state_and_not_who_and_when() -> None:
    states = States()
    for at_us in (1_000, 2_000):
        excuse = f"lost and excused: power off of broker 2 at {at_us} us"
        states.add_tallies([Finding(LOST, 0, tallies=((excuse, 3),))])
    states.add_tallies([Finding(UNDER_REPLICATED, 0, tallies=(("held by 2", 1),))])
    assert [*states.seen] == [
        "seen while looking for “lost”: lost and excused: power off of broker N at N us",
        "seen while looking for “acknowledged too early”: held by 2",
    ]
