"""Trials on a real cluster: what comes with ottla is as expected, and what proves nothing says so."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import pytest

from ottla.errors import ConfigError
from ottla.trial.outcome import TrialOutcome
from ottla.trial.run import run_scenario
from ottla.trial.scenario import load_shipped, read_scenario, shipped_names

HEAD = 'title = "t"\nteaches = "t"\nrecords = 40\n'
LOSE_ACK = '[[fault]]\nkind = "lose_ack"\nnth = 1\n'
CONTROL = (
    '[[side]]\nname = "control"\nclaims = "at-least-once"\nshows = ["duplicated"]\n'
    'producer = { acks = "all", "enable.idempotence" = false }\n'
)
SOUND = '[[side]]\nname = "sound"\nclaims = "exactly-once"\nproducer = { acks = "all" }\n'


class Silent:
    def advance(self, count: int = 1) -> None: ...


def stepping(words: str, total: int | None = None, unit: str = "") -> Any:
    return nullcontext(Silent())


def run(text: str) -> TrialOutcome:
    return run_scenario(read_scenario("mine", text, "mine.toml"), stepping)


@pytest.mark.parametrize("name", shipped_names())
def test_a_trial_that_comes_with_ottla_is_as_expected(name: str) -> None:
    outcome = run_scenario(load_shipped(name), stepping)
    assert outcome.passed, outcome.to_dict()
    assert outcome.is_controlled
    for side in outcome.sides:
        assert side.verdict.figures.sent == outcome.scenario.records
        assert all(each.fired for each in side.faults)


def test_a_lost_ack_duplicates_one_batch_and_only_without_idempotence() -> None:
    outcome = run(HEAD + LOSE_ACK + CONTROL + SOUND)
    control, sound = outcome.sides
    assert outcome.passed
    assert control.found == {"duplicated": control.verdict.figures.stored - 40}
    assert control.evidence[0].offsets == (0, control.evidence[0].offsets[1])
    assert (sound.found, sound.seen, sound.verdict.figures.stored) == ({}, "kept", 40)


def test_a_fault_that_never_fires_voids_its_side() -> None:
    outcome = run(HEAD + LOSE_ACK.replace("nth = 1", "nth = 5000") + CONTROL + SOUND)
    assert not outcome.passed
    assert not outcome.is_controlled
    assert [each.void for each in outcome.sides] == [("the fault lose_ack never fired",)] * 2


def test_a_control_that_shows_nothing_proves_nothing() -> None:
    outcome = run(HEAD + LOSE_ACK + CONTROL.replace("false", "true") + SOUND)
    assert not outcome.is_controlled
    assert outcome.sides[0].missing == ("duplicated",)
    assert outcome.sides[1].is_as_expected


def test_a_guarantee_that_is_broken_is_named_with_its_evidence() -> None:
    liar = CONTROL.replace('"control"', '"liar"').replace('"at-least-once"', '"exactly-once"')
    outcome = run(HEAD + LOSE_ACK + CONTROL + liar.replace('shows = ["duplicated"]\n', ""))
    assert outcome.is_controlled
    assert not outcome.passed
    assert (outcome.sides[1].seen, outcome.sides[1].broken) == ("broken", ("duplicated",))


def test_a_producer_that_asks_nobody_loses_what_is_not_stored_whatever_it_claims() -> None:
    liar = (
        '[[side]]\nname = "liar"\nclaims = "at-least-once"\nexpect = "broken"\nshows = ["lost"]\n'
        'producer = { acks = 0, retries = 0, "enable.idempotence" = false }\n'
    )
    outcome = run(HEAD + LOSE_ACK.replace("lose_ack", "lose_request") + liar + SOUND)
    assert outcome.passed, outcome.to_dict()
    assert outcome.sides[0].broken == ("lost",)


def test_settings_that_a_producer_does_not_take_are_told() -> None:
    with pytest.raises(ConfigError):
        run(HEAD + LOSE_ACK + CONTROL.replace("acks", "akcs") + SOUND)
