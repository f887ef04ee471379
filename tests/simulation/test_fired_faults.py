"""Every fault of a plan fires, or says why it never did; one that does neither is found."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.audit.findings import FAULTLESS
from ottla.faults import plan as plans
from ottla.faults.fault import make_fault
from ottla.host.site import HostSite
from ottla.simulation.draw import draw
from ottla.simulation.outcome import Outcome
from ottla.simulation.plan import SEVERE, Plan, TimedFault
from ottla.simulation.run import Run, execute


def timed(kind: str, at_us: int, lasts_us: int, **fields: Any) -> TimedFault:
    return TimedFault(make_fault(kind, **fields), at_us, lasts_us)


LOSE_REQUEST = timed("lose_request", 0, 2_000_000, times=1)
KILL, PAUSE = {"broker_id": 1, "moment": "now"}, {"broker_id": 1, "moment": "now"}


def planned(*faults: TimedFault) -> Plan:
    plan = draw(7, records=20, faults=0)
    plan.severity = SEVERE
    plan.faults = list(faults)
    return plan


def faultless(outcome: Outcome) -> list[str]:
    assert outcome.crashed is None
    return [each.detail for finding in outcome.findings if finding.kind == FAULTLESS for each in finding.evidence]


class Nothing:
    """What a fault does that does nothing."""

    fired = 0

    def end(self) -> None: ...


@pytest.mark.parametrize(
    ("fault", "does"),
    [
        (timed("kill", 0, 200_000, broker_id=1, moment="now"), "kill"),
        (timed("pause", 0, 200_000, broker_id=1, moment="now"), "pause"),
        (timed("power_off", 0, 200_000, broker_id=1, moment="now"), "power_off"),
        (timed("cut_power", 0, 200_000, moment="now"), "power_off"),
        (timed("stop_controller", 0, 200_000), "stop_controller"),
    ],
)
def test_a_fault_that_does_nothing_is_found(fault: TimedFault, does: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert execute(planned(fault)).is_clean

    monkeypatch.setattr(HostSite, does, lambda *_, **__: Nothing())
    assert faultless(execute(planned(fault))) == [f"{fault.kind} never fired: {fault.fault} at 0 us"]


@pytest.mark.parametrize(
    ("faults", "why"),
    [
        ([timed("kill", 0, 900_000, **KILL), timed("kill", 9, 0, **KILL)], "its broker was down"),
        ([timed("pause", 0, 900_000, **PAUSE), timed("pause", 9, 0, **PAUSE)], "its broker was frozen"),
        ([timed("stop_controller", at_us, 900_000) for at_us in (0, 9)], "the controller was down"),
        ([timed("kill", 900_000_000, 0, **KILL)], "all faults were healed before it began"),
        ([timed("lose_request", 59_000_000, 9, times=1)], "all producers were done"),
        ([timed("lose_request", 0, 9, times=1, api="ElectLeaders")], "no matching request came"),
        ([timed("lose_request", 0, 0, times=1, every=9_000)], "no matching request came"),
        ([timed("lose_request", 0, 60_000_000, times=1, every=9_000)], "too few matching requests came"),
        ([timed("full_disk", 0, 0, broker_id=1)], "nothing passed that it applies to"),
    ],
)
def test_a_fault_that_never_fires_says_why(faults: list[TimedFault], why: str) -> None:
    plan = planned(*faults)
    run = Run(plan)
    last = run.go().faults[-1]
    assert (last.fired, last.must_fire, last.missed) == (0, False, why)
    outcome = execute(plan)
    assert outcome.is_clean
    assert outcome.missed == {why: 1}
    assert f"seen while looking for “{FAULTLESS}”: {last.kind} did not fire: {why}" in outcome.states


def test_a_fault_whose_requests_come_and_that_does_not_fire_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    assert execute(planned(LOSE_REQUEST)).fired == {"lose_request": 1}
    monkeypatch.setattr(plans._Entry, "is_due", lambda entry: False)
    (told,) = faultless(execute(planned(LOSE_REQUEST)))
    assert told.startswith("lose_request never fired: lose_request(times=1)")


def test_who_is_not_connected_has_the_next_connection_half_open() -> None:
    plan = planned(timed("half_open", 0, 10_000_000, client_id="r0"), timed("half_open", 0, 0, client_id="r0"))
    plan.readers[0].pause_us = 500_000
    first, last = Run(plan).go().faults
    assert (first.fired, last.fired, last.missed) == (1, 0, "nobody was connected")
    every = Run(planned(timed("half_open", 100_000, 0, client_id="p0"))).go().faults
    assert every[0].fired > 1, "all of its connections at once"


def test_two_faults_about_the_same_requests_excuse_each_other() -> None:
    outcome = execute(planned(LOSE_REQUEST, timed("lose_request", 0, 2_000_000, times=500)))
    assert outcome.is_clean
