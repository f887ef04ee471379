"""Every mishap of a plan strikes, or says why there was nothing to strike; one that does neither is found."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.audit.findings import FAULTLESS
from ottla.faults import plan as faults
from ottla.simulation.draw import draw
from ottla.simulation.outcome import Outcome
from ottla.simulation.plan import SEVERE_WEATHER, Mishap, Plan
from ottla.simulation.run import Run, execute
from ottla.simulation.world import World

LOSE_REQUEST = Mishap("rule", 0, 2_000_000, {"kind": "lose_request", "api": "Produce", "times": 1})


def befallen(*mishaps: Mishap) -> Plan:
    plan = draw(7, records=20, mishaps=0)
    plan.weather = SEVERE_WEATHER
    plan.mishaps = list(mishaps)
    return plan


def faultless(outcome: Outcome) -> list[str]:
    assert outcome.crashed is None
    return [each.detail for finding in outcome.findings if finding.kind == FAULTLESS for each in finding.evidence]


@pytest.mark.parametrize(
    ("mishap", "does"),
    [
        (Mishap("kill", 0, 200_000, {"broker": 1}), "kill"),
        (Mishap("pause", 0, 200_000, {"broker": 1}), "pause"),
        (Mishap("power_off", 0, 200_000, {"broker": 1, "anywhere": True}), "power_off"),
        (Mishap("cut_power", 0, 200_000), "power_off"),
        (Mishap("cut_power", 0, 200_000, {"controller": True}), "kill_controller"),
        (Mishap("stop_controller", 0, 200_000), "kill_controller"),
    ],
)
def test_a_mishap_that_does_nothing_is_found(mishap: Mishap, does: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert execute(befallen(mishap)).is_clean

    def do_nothing(*_: Any) -> None:
        pass

    monkeypatch.setattr(World, does, do_nothing)
    assert faultless(execute(befallen(mishap))) == [f"{mishap.kind} never struck: {mishap.details} at 0 us"]


def test_a_rule_whose_requests_come_and_are_not_struck_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    assert execute(befallen(LOSE_REQUEST)).fired == {"rule": 1}
    monkeypatch.setattr(faults._Entry, "is_due", lambda entry: False)
    (told,) = faultless(execute(befallen(LOSE_REQUEST)))
    assert told.startswith("rule never struck: {'kind': 'lose_request'")


@pytest.mark.parametrize(
    ("mishaps", "why"),
    [
        ([Mishap("kill", 0, 900_000, {"broker": 1}), Mishap("kill", 9, 0, {"broker": 1})], "its broker was down"),
        ([Mishap("pause", 0, 900_000, {"broker": 1}), Mishap("pause", 9, 0, {"broker": 1})], "its broker was frozen"),
        ([Mishap("stop_controller", at_us, 900_000) for at_us in (0, 9)], "the controller was down"),
        ([Mishap("kill", 900_000_000, 0, {"broker": 1})], "all healed before its time"),
        ([Mishap("rule", 59_000_000, 9, LOSE_REQUEST.details)], "all producers were done"),
        ([Mishap("rule", 0, 9, {**LOSE_REQUEST.details, "api": "ElectLeaders"})], "none of its requests came"),
        ([Mishap("rule", 0, 0, {**LOSE_REQUEST.details, "every": 9_000})], "none of its requests came"),
        ([Mishap("rule", 0, 60_000_000, {**LOSE_REQUEST.details, "every": 9_000})], "too few of its requests came"),
        ([Mishap("full_disk", 0, 0, {"broker": 1})], "nothing came its way"),
    ],
)
def test_a_mishap_that_finds_nothing_to_strike_says_why(mishaps: list[Mishap], why: str) -> None:
    plan = befallen(*mishaps)
    run = Run(plan)
    last = run.go().faults[-1]
    assert (last.fired, last.must_fire, last.missed) == (0, False, why)
    outcome = execute(plan)
    assert outcome.is_clean
    assert outcome.missed == {why: 1}
    assert f"seen while looking for “{FAULTLESS}”: {last.kind} did not strike: {why}" in outcome.states


def test_who_is_not_connected_has_the_next_connection_half_open() -> None:
    silent = {"broker": None, "client": "r0"}
    plan = befallen(Mishap("half_open", 0, 10_000_000, silent), Mishap("half_open", 0, 0, silent))
    plan.readers[0].pause_us = 500_000
    first, last = Run(plan).go().faults
    assert (first.fired, last.fired, last.missed) == (1, 0, "nobody was connected")
    every = Run(befallen(Mishap("half_open", 100_000, 0, {"broker": None, "client": "p0"}))).go().faults
    assert every[0].fired > 1, "all of its connections at once"


def test_two_rules_about_the_same_requests_excuse_each_other() -> None:
    outcome = execute(befallen(LOSE_REQUEST, Mishap("rule", 0, 2_000_000, {**LOSE_REQUEST.details, "times": 500})))
    assert outcome.is_clean
