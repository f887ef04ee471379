"""A fault plan counts what matches, fires where it says, and knows what really happened."""

from __future__ import annotations

import json

import pytest

from ottla.errors import ConfigError
from ottla.faults.fault import fault_from, make_fault
from ottla.faults.plan import FaultContext, FaultPlan
from ottla.faults.refuse import Refuse


def fired_kinds(plan: FaultPlan, requests: int, topic: str = "flights", partition: int = 0) -> list[str]:
    """What becomes of this many requests for one partition: the kind that fired, or "-"."""
    seen = []
    for _ in range(requests):
        context = FaultContext("Produce", ((topic, partition),))
        action = plan.before_append(context) or plan.after_append(context)
        seen.append(action.kind if action else "-")
    return seen


def test_nth_fires_for_that_request_only() -> None:
    plan = FaultPlan()
    fault_id = plan.add(make_fault("lose_ack", topic="flights", nth=3))
    assert fired_kinds(plan, 7) == ["-", "-", "lose_ack", "-", "-", "-", "-"]
    assert (plan.fired(fault_id), plan.matched(fault_id)) == (1, 7)


def test_every_fires_for_each_kth_and_times_ends_it() -> None:
    plan = FaultPlan()
    fault_id = plan.add(make_fault("lose_request", every=2, times=2))
    assert fired_kinds(plan, 7) == ["-", "lose_request", "-", "lose_request", "-", "-", "-"]
    assert plan.fired(fault_id) == 2


def test_requests_that_are_handled_at_once_do_not_fire_it_more_often_than_times() -> None:
    plan = FaultPlan()
    fault_id = plan.add(make_fault("lose_ack", every=2, times=1))
    contexts = [FaultContext("Produce", (("flights", 0),)) for _ in range(4)]
    for context in contexts:
        assert plan.before_append(context) is None
    fired = [plan.after_append(context) is not None for context in contexts]
    assert fired == [False, True, False, False]
    assert plan.fired(fault_id) == 1


def test_without_nth_and_every_it_fires_for_each_request_until_times() -> None:
    plan = FaultPlan()
    plan.add(make_fault("refuse", times=2))
    assert fired_kinds(plan, 4) == ["refuse", "refuse", "-", "-"]


def test_a_fault_counts_only_its_own_topic_and_partition() -> None:
    plan = FaultPlan()
    fault_id = plan.add(make_fault("lose_ack", topic="flights", partition=1, nth=2))
    assert fired_kinds(plan, 3, partition=0) == ["-"] * 3
    assert fired_kinds(plan, 3, topic="weather", partition=1) == ["-"] * 3
    assert fired_kinds(plan, 2, partition=1) == ["-", "lose_ack"]
    assert plan.matched(fault_id) == 2


def test_a_fault_for_another_api_does_not_count_produce_requests() -> None:
    plan = FaultPlan()
    fault_id = plan.add(make_fault("lose_request", api="Metadata"))
    assert fired_kinds(plan, 2) == ["-", "-"]
    assert plan.matched(fault_id) == 0
    action = plan.before_append(FaultContext("Metadata"))
    assert action is not None
    assert action.kind == "lose_request"


def test_before_the_append_wins_and_only_it_counts_as_fired() -> None:
    plan = FaultPlan()
    after = plan.add(make_fault("lose_ack", every=2))
    before = plan.add(make_fault("lose_request", every=4))
    assert fired_kinds(plan, 8) == ["-", "lose_ack", "-", "lose_request"] * 2
    assert (plan.fired(after), plan.matched(after)) == (2, 8)
    assert (plan.fired(before), plan.matched(before)) == (2, 8)


def test_the_rule_added_first_wins_among_equals() -> None:
    plan = FaultPlan()
    first = plan.add(make_fault("delay_ack", delay_ms=5))
    second = plan.add(make_fault("lose_ack"))
    assert fired_kinds(plan, 2) == ["delay_ack", "delay_ack"]
    assert (plan.fired(first), plan.fired(second)) == (2, 0)


def test_an_answer_is_not_lost_where_nothing_was_appended() -> None:
    plan = FaultPlan()
    fault_id = plan.add(make_fault("lose_ack", topic="flights", times=1))
    context = FaultContext("Produce", (("flights", 0), ("flights", 1), ("weather", 0)))
    assert plan.before_append(context) is None
    assert plan.after_append(context, (("weather", 0),)) is None
    assert plan.fired(fault_id) == 0
    assert plan.before_append(context) is None
    action = plan.after_append(context, (("flights", 1), ("weather", 0)))
    assert action is not None
    assert action.partitions == (("flights", 1),)
    assert plan.fired(fault_id) == 1


def test_refusal_names_the_partitions_it_is_about_and_its_error() -> None:
    plan = FaultPlan()
    plan.add(make_fault("refuse", topic="flights", partition=2, error=6))
    context = FaultContext("Produce", (("flights", 1), ("flights", 2)))
    action = plan.before_append(context)
    assert action is not None
    assert (action.partitions, action.error) == ((("flights", 2),), 6)


def test_healed_rule_fires_no_more_and_keeps_its_counts() -> None:
    plan = FaultPlan()
    fault_id = plan.add(make_fault("lose_ack"))
    assert plan.active
    fired_kinds(plan, 2)
    plan.heal(fault_id)
    plan.heal(fault_id)
    assert not plan.active
    assert fired_kinds(plan, 2) == ["-", "-"]
    assert (plan.fired(fault_id), plan.matched(fault_id)) == (2, 2)


@pytest.mark.parametrize("kind", ["lose_ack", "kill", "redeliver"])
def test_a_fault_that_was_healed_while_its_request_was_handled_does_not_fire(kind: str) -> None:
    plan = FaultPlan()
    fault_id = plan.add(make_fault(kind))
    context = FaultContext("Produce", (("flights", 0),))
    assert plan.before_append(context) is None
    plan.heal(fault_id)
    assert plan.after_append(context) is None
    assert (plan.fired(fault_id), plan.matched(fault_id)) == (0, 1)


def test_faults_survive_the_control_channel() -> None:
    faults = [
        make_fault("lose_ack", topic="flights", partition=0, every=10),
        make_fault("refuse", error=6),
        make_fault("refuse_after_append", nth=2),
        make_fault("delay_ack", delay_ms=20, times=3, api="Fetch"),
    ]
    for fault in faults:
        assert fault_from(json.loads(json.dumps(fault.to_dict()))) == fault
    assert isinstance(faults[2], Refuse)
    assert faults[2].error == 20


@pytest.mark.parametrize(
    ("fields", "clue"),
    [
        ({"kind": "explode"}, "lose_ack"),
        ({"kind": "lose_ack", "nth": 0}, "nth=0"),
        ({"kind": "lose_ack", "every": -1}, "every=-1"),
        ({"kind": "lose_ack", "nth": True}, "nth=True"),
        ({"kind": "lose_ack", "times": "3"}, "times='3'"),
        ({"kind": "lose_ack", "nth": 1, "every": 2}, "excludes"),
        ({"kind": "lose_ack", "partition": 1}, "needs a topic"),
        ({"kind": "lose_ack", "error": 6}, "it has no field error"),
        ({"kind": "refuse", "error": 0}, "error=0"),
        ({"kind": "refuse", "api": "Fetch"}, "Produce"),
        ({"kind": "delay_ack"}, "delay_ms"),
        ({"kind": "lose_ack", "delay_ms": 5}, "it has no field delay_ms"),
        ({"kind": "lose_ack", "when": "noon"}, "when"),
    ],
)
def test_impossible_faults_are_refused_with_the_reason(fields: dict[str, object], clue: str) -> None:
    with pytest.raises(ConfigError, match=clue):
        fault_from(fields)


def test_unknown_ids_are_refused() -> None:
    with pytest.raises(ConfigError, match="id 7"):
        FaultPlan().fired(7)


def test_a_fault_for_one_broker_counts_that_brokers_requests_only() -> None:
    plan = FaultPlan()
    fault_id = plan.add(make_fault("lose_request", broker_id=2))
    assert plan.before_append(FaultContext("Produce", (("flights", 0),), 1)) is None
    assert plan.before_append(FaultContext("Produce", (("flights", 0),), 2)) is not None
    assert plan.matched(fault_id) == 1


def test_chance_is_drawn_from_the_seed_alone() -> None:
    def run(seed: int) -> list[str]:
        plan = FaultPlan()
        plan.add(make_fault("lose_ack", probability=0.3, seed=seed))
        return fired_kinds(plan, 200)

    assert run(1) == run(1) != run(2)
    assert 30 < run(1).count("lose_ack") < 90


def test_a_fault_is_in_force_for_its_time_only() -> None:
    plan = FaultPlan()
    fault_id = plan.add(make_fault("lose_request", after_ms=10, duration_ms=5), 1_000_000)
    fired = [
        plan.before_append(FaultContext("Produce"), 1_000_000 + ms * 1000) is not None for ms in (0, 9, 10, 14, 15, 99)
    ]
    assert fired == [False, False, True, True, False, False]
    assert (plan.fired(fault_id), plan.matched(fault_id)) == (2, 2)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"kind": "lose_ack", "probability": 1.5}, "probability=1.5"),
        ({"kind": "lose_ack", "probability": 0.5, "nth": 2}, "excludes nth"),
        ({"kind": "lose_ack", "seed": 3}, "goes with a probability"),
        ({"kind": "lose_ack", "moment": "append"}, "it has no field moment"),
        ({"kind": "kill", "moment": "lunch"}, "moment='lunch'"),
        ({"kind": "hold", "moment": "append"}, "moment='append' must be one of 'request', 'ack'"),
        ({"kind": "delay_request"}, "it needs delay_ms, an integer"),
        ({"kind": "lose_ack", "delay_ms": 5}, "it has no field delay_ms"),
    ],
)
def test_a_fault_that_makes_no_sense_says_why(fields: dict[str, object], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        fault_from(fields)


@pytest.mark.parametrize("moment", ["request", "append", "ack"])
def test_a_crash_fires_at_its_moment(moment: str) -> None:
    plan = FaultPlan()
    plan.add(make_fault("kill", nth=1, moment=moment))
    context = FaultContext("Produce", (("flights", 0),))
    before = plan.before_append(context)
    assert (before is not None) == (moment == "request")
    after = plan.after_append(context)
    assert (after is None) == (moment == "request")
