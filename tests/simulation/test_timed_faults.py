"""Every kind of fault that is drawn fires, ends, and leaves a cluster that is whole; drawn plans keep promises."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.audit.chronicles.judgement import judge
from ottla.faults.cut_power import CutPower
from ottla.faults.fault import KINDS, make_fault
from ottla.faults.power_off import PowerOff
from ottla.simulation.chance import Chance
from ottla.simulation.draw import draw
from ottla.simulation.drawing import DRAWN_KINDS, REQUESTS, SEVERE_KINDS, draw_faults, draw_times
from ottla.simulation.plan import MILD, SEND, SEVERE, Plan, TimedFault
from ottla.simulation.run import Run

SEEDS_AT_MOST = 40


def is_of(timed: TimedFault, kind: str) -> bool:
    return timed.fault.applies_to_requests if kind == REQUESTS else timed.kind == kind


def faults_of(kind: str, seed: int, plan: Plan) -> list[TimedFault]:
    """Five faults of one kind, over the first seconds of the run; none where the plan has nothing for them."""
    chance, found = Chance(f"{kind} {seed}"), list[TimedFault]()
    plan.severity = SEVERE if kind in SEVERE_KINDS else MILD
    plan.faults = []
    for _ in range(100):
        if len(found) >= 5:
            break
        drawn = draw_faults(chance, draw_times(chance, 20), plan, kind if kind == "failing_disk" else None)
        found += [each for each in drawn if is_of(each, kind)]
    for number, each in enumerate(found[:5]):
        each.at_us = 300_000 + number * 1_500_000
    return found[:5]


@pytest.mark.parametrize("kind", DRAWN_KINDS)
def test_each_kind_of_fault_fires_and_heals(kind: str) -> None:
    for seed in range(SEEDS_AT_MOST):
        plan = draw(seed)
        plan.faults = faults_of(kind, seed, plan)
        if len(plan.faults) < 5:
            continue
        run = Run(plan)
        chronicle = run.go()
        assert not chronicle.stuck, f"seed {seed}"
        assert run.world.is_whole(), f"seed {seed}"
        assert not run.world.controller.is_dead
        assert not any(runner.is_dead or runner.is_frozen for runner in run.world.brokers.values())
        assert len(chronicle.faults) == 5
        if any(fault.fired for fault in chronicle.faults):
            return
    pytest.fail(f"{kind} fired in none of {SEEDS_AT_MOST} seeds")


def test_mild_plans_have_nothing_that_kafka_does_not_survive() -> None:
    plans = [draw(seed) for seed in range(300)]
    assert {plan.severity for plan in plans} == {MILD, SEVERE}
    mild = [plan for plan in plans if plan.severity == MILD]
    faults = [timed.fault for plan in mild for timed in plan.faults]
    assert not any(fault.kind in SEVERE_KINDS for fault in faults)
    assert all(fault.in_sync_only and not fault.applies_to_requests for fault in faults if isinstance(fault, PowerOff))
    assert any(isinstance(fault, PowerOff) for fault in faults)
    unclean = "unclean_leader_election_enable"
    assert not any(topic.settings.get(unclean) for plan in mild for topic in plan.topics)
    assert any(topic.settings.get(unclean) for plan in plans for topic in plan.topics)


def test_most_of_what_is_drawn_fires() -> None:
    chronicles = [Run(draw(seed)).go() for seed in range(60)]
    faults = [fault for chronicle in chronicles for fault in chronicle.faults]
    missed = [fault for fault in faults if not fault.fired]
    assert len(missed) < 0.16 * len(faults), sorted(f"{fault.kind}: {fault.missed}" for fault in missed)


def test_what_a_controller_has_written_outlives_a_power_cut_of_everything() -> None:
    plan = draw(7, records=40, faults=0)
    plan.severity = SEVERE
    # The second one is about a controller that is down already, and keeps it down.
    plan.faults = [
        TimedFault(make_fault("cut_power", moment="now"), 300_000, 1_000_000),
        TimedFault(make_fault("stop_controller"), 4_000_000, 500_000),
        TimedFault(make_fault("cut_power", moment="now"), 4_100_000, 3_000_000),
    ]
    run = Run(plan)
    first, stood = run.world.controller, []
    run.world.scheduler.at(6_000_000, lambda _: stood.append(run.world.controller.is_dead), None)
    chronicle = run.go()
    assert [fault.fired for fault in chronicle.faults] == [1, 1, 1]
    assert stood == [True]
    controller: Any = run.world.controller
    assert controller is not first
    assert [topic.name for topic in plan.topics if topic.name not in controller.core.image.topics] == []
    assert not [finding for finding in judge(chronicle) if finding.count]


def test_power_cuts_are_drawn_with_and_without_the_controller() -> None:
    drawn = [timed.fault for seed in range(300) for timed in draw(seed).faults]
    cuts = [fault for fault in drawn if isinstance(fault, CutPower) and not fault.applies_to_requests]
    alone = sum(not cut.controller for cut in cuts)
    assert len(cuts) // 4 < alone < len(cuts) * 3 // 4


def test_runs_differ_in_kind() -> None:
    plans = [draw(seed) for seed in range(300)]
    drawn = {timed.kind for plan in plans for timed in plan.faults}
    assert drawn == {*KINDS} - {"hold", "corrupt", "unclean_election"}
    # Where brokers take their time, some runs have nothing else in them.
    assert all(len(plan.faults) >= 10 or plan.service for plan in plans)
    sent = [[act.number for producer in plan.producers for act in producer.acts if act.do == SEND] for plan in plans]
    # A second transactional producer sends a quarter more.
    different = [len(set(numbers)) for numbers in sent]
    assert 30 < different.count(250) < 90
    assert different.count(200) + different.count(250) == 300
    # Some applications hand records over again.
    assert 0 < sum(len(numbers) > len(set(numbers)) for numbers in sent) < 30
    kinds = [len({timed.kind for timed in plan.faults}) for plan in plans if not plan.service]
    assert min(kinds) == 1
    assert max(kinds) >= 6
    assert {plan.producers[0].settings["acks"] for plan in plans} == {0, 1, "all"}
    assert {topic.replication_factor for plan in plans for topic in plan.topics} == {1, 2, 3}
    assert sum(plan.through_bytes for plan in plans) == 15
