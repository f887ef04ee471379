"""Weather: every kind of mishap strikes, ends, and leaves a cluster that is whole; what is drawn keeps its promises."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.audit.judgement import judge
from ottla.simulation.chance import Chance
from ottla.simulation.draw import draw
from ottla.simulation.forecast import KINDS, SEVERE, draw_mishaps, draw_times
from ottla.simulation.plan import MILD_WEATHER, SEND, SEVERE_WEATHER, Mishap, Plan
from ottla.simulation.run import Run

SEEDS_AT_MOST = 40


def mishaps_of(kind: str, seed: int, plan: Plan) -> list[Mishap]:
    """Five mishaps of one kind, over the first seconds of the run; none where the plan has nothing for them."""
    chance, found = Chance(f"{kind} {seed}"), list[Mishap]()
    plan.weather = SEVERE_WEATHER if kind in SEVERE else MILD_WEATHER
    plan.mishaps = []
    for _ in range(100):
        if len(found) >= 5:
            break
        drawn = draw_mishaps(chance, draw_times(chance, 20), plan, kind if kind == "failing_disk" else None)
        found += [each for each in drawn if each.kind == kind]
    for number, each in enumerate(found[:5]):
        each.at_us = 300_000 + number * 1_500_000
    return found[:5]


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_of_mishap_strikes_and_heals(kind: str) -> None:
    for seed in range(SEEDS_AT_MOST):
        plan = draw(seed)
        plan.mishaps = mishaps_of(kind, seed, plan)
        if len(plan.mishaps) < 5:
            continue
        run = Run(plan)
        chronicle = run.go()
        assert not chronicle.stuck, f"seed {seed}"
        assert run.world.is_whole(), f"seed {seed}"
        assert not run.world.controller.is_dead
        assert not any(machine.is_dead or machine.is_frozen for machine in run.world.brokers.values())
        assert [fault.kind for fault in chronicle.faults] == [kind] * 5
        if any(fault.fired for fault in chronicle.faults):
            return
    pytest.fail(f"{kind} struck in none of {SEEDS_AT_MOST} seeds")


def test_mild_weather_has_nothing_that_kafka_does_not_survive() -> None:
    plans = [draw(seed) for seed in range(300)]
    assert {plan.weather for plan in plans} == {MILD_WEATHER, SEVERE_WEATHER}
    mild = [plan for plan in plans if plan.weather == MILD_WEATHER]
    assert not any(mishap.kind in SEVERE or mishap.details.get("anywhere") for plan in mild for mishap in plan.mishaps)
    crashes = [mishap.details["kind"] for plan in mild for mishap in plan.mishaps if mishap.kind == "rule"]
    assert not {"power_off", "cut_power"} & set(crashes)
    unclean = "unclean_leader_election_enable"
    assert not any(topic.settings.get(unclean) for plan in mild for topic in plan.topics)
    assert any(topic.settings.get(unclean) for plan in plans for topic in plan.topics)


def test_most_of_what_is_drawn_strikes() -> None:
    chronicles = [Run(draw(seed)).go() for seed in range(60)]
    faults = [fault for chronicle in chronicles for fault in chronicle.faults]
    missed = [fault for fault in faults if not fault.fired]
    assert len(missed) < 0.16 * len(faults), sorted(f"{fault.kind}: {fault.missed}" for fault in missed)


def test_what_a_controller_has_written_outlives_a_power_cut_of_everything() -> None:
    plan = draw(7, records=40, mishaps=0)
    plan.weather = SEVERE_WEATHER
    # The second one strikes a controller that is down already, and keeps it down.
    plan.mishaps = [
        Mishap("cut_power", 300_000, 1_000_000, {"controller": True}),
        Mishap("stop_controller", 4_000_000, 500_000),
        Mishap("cut_power", 4_100_000, 3_000_000, {"controller": True}),
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
    cuts = [mishap for seed in range(300) for mishap in draw(seed).mishaps if mishap.kind == "cut_power"]
    alone = sum(not cut.details for cut in cuts)
    assert len(cuts) // 4 < alone < len(cuts) * 3 // 4


def test_runs_differ_in_kind() -> None:
    plans = [draw(seed) for seed in range(300)]
    assert {mishap.kind for plan in plans for mishap in plan.mishaps} == set(KINDS)
    # Where brokers take their time, some runs have nothing else in them.
    assert all(len(plan.mishaps) >= 10 or plan.service for plan in plans)
    sent = [[act.number for producer in plan.producers for act in producer.acts if act.do == SEND] for plan in plans]
    assert all(len(set(numbers)) == 200 for numbers in sent)
    assert 0 < sum(len(numbers) > 200 for numbers in sent) < 30  # some applications hand records over again
    kinds = [len({mishap.kind for mishap in plan.mishaps}) for plan in plans if not plan.service]
    assert min(kinds) == 1
    assert max(kinds) >= 6
    assert {plan.producers[0].settings["acks"] for plan in plans} == {0, 1, "all"}
    assert {topic.replication_factor for plan in plans for topic in plan.topics} == {1, 2, 3}
    assert sum(plan.through_bytes for plan in plans) == 15
