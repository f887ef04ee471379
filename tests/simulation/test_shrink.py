"""What fails is made as small as it can be, and still fails in the same way; nothing of it depends on luck."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tools.mutation.weaknesses import weakened

from ottla.audit.chronicles import judgement
from ottla.audit.chronicles.chronicle import Chronicle
from ottla.audit.findings import DUPLICATED, LOST, Finding
from ottla.broker.core import BrokerCore
from ottla.faults.fault import make_fault
from ottla.simulation.draw import draw
from ottla.simulation.outcome import Outcome, kinds_of
from ottla.simulation.plan import BEGIN, Plan, TimedFault
from ottla.simulation.run import execute
from ottla.simulation.shrink import shrink


def outcome(plan: Plan, *kinds: str) -> Outcome:
    return Outcome(plan.seed, "made up", [Finding(kind, 1) for kind in kinds])


def fails_with_two_parts(plan: Plan) -> Outcome:
    """Made up: record 150, which lies in a transaction, is lost where the stall of seed 4 is there."""
    numbers = [act.number for producer in plan.producers for act in producer.acts]
    is_lost = 150 in numbers and any(timed == draw(4).faults[3] for timed in plan.faults)
    return outcome(plan, *([LOST] if is_lost else []), *([DUPLICATED] if len(plan.faults) < 5 else []))


def test_only_what_the_finding_needs_is_left() -> None:
    plan = draw(4)
    shrunk = shrink(plan, fails_with_two_parts(plan), run=fails_with_two_parts)
    assert (shrunk.kind, len(shrunk.plan.faults), shrunk.plan.records) == (LOST, 1, 1)
    assert [producer.name for producer in shrunk.plan.producers] == ["p1"]
    assert shrunk.plan.readers == []
    assert [topic.name for topic in shrunk.plan.topics] == [shrunk.plan.producers[0].acts[-1].topic]
    assert kinds_of(shrunk.outcome)[0] == LOST


def test_the_same_plan_is_made_small_in_the_same_way() -> None:
    plan = draw(4)
    one, other = (shrink(plan, fails_with_two_parts(plan), run=fails_with_two_parts) for _ in range(2))
    assert (one.plan, one.runs) == (other.plan, other.runs)


def test_no_more_runs_are_made_than_allowed() -> None:
    told: list[int] = []
    shrunk = shrink(
        draw(4),
        fails_with_two_parts(draw(4)),
        run=fails_with_two_parts,
        runs_max=7,
        progress=lambda plan, runs: told.append(runs),
    )
    assert (shrunk.runs, shrunk.stopped_early) == (7, True)
    assert told == list(range(1, 8))
    assert LOST in kinds_of(fails_with_two_parts(shrunk.plan))


def test_when_it_is_enough_the_smallest_found_until_then_is_what_there_is() -> None:
    plan = draw(4)
    whole = shrink(plan, fails_with_two_parts(plan), run=fails_with_two_parts)
    assert not whole.stopped_early
    asked = iter(range(10))
    shrunk = shrink(
        plan, fails_with_two_parts(plan), run=fails_with_two_parts, goes_on=lambda: next(asked, None) is not None
    )
    assert (shrunk.runs, shrunk.stopped_early) == (10, True)
    assert len(shrunk.plan.faults) < len(plan.faults)
    assert LOST in kinds_of(fails_with_two_parts(shrunk.plan))
    assert LOST in kinds_of(shrunk.outcome)
    never = shrink(plan, fails_with_two_parts(plan), run=fails_with_two_parts, goes_on=lambda: False)
    assert (never.plan, never.runs, never.stopped_early) == (plan, 0, True)


def test_a_plan_that_cannot_be_smaller_stays_as_it_is() -> None:
    plan = draw(4)

    def run(tried: Plan) -> Outcome:
        return outcome(tried, *([LOST] if tried == plan else []))

    assert shrink(plan, run(plan), run=run).plan == plan


def test_a_judge_that_breaks_is_a_finding_too(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(chronicle: Chronicle) -> list[Finding]:
        raise LookupError(len(chronicle.sent))

    monkeypatch.setattr(judgement, "judge", broken)
    assert kinds_of(execute(draw(2))) == ["LookupError in test_shrink.py, broken"]


def test_a_plan_in_which_nobody_does_anything_is_clean() -> None:
    plan = draw(2)
    plan.producers, plan.faults = [], []
    assert execute(plan).is_clean


def test_what_is_made_small_may_be_kept_and_run_again() -> None:
    befalls = [
        TimedFault(make_fault("unplug", broker_id=0, client_id="p0"), 0, 1_000),
        TimedFault(make_fault("drift_clock", client_id="r1", drift_ppm=200), 0, 1_000),
        TimedFault(make_fault("move_leader", topic="t1", partition=0), 0, 0),
        TimedFault(make_fault("lose_ack", topic="t0", partition=1), 0, 1_000),
    ]
    plan = next(each for each in map(draw, range(100)) if each.topics[0].partitions > 1)
    plan.faults = befalls
    tried: list[Plan] = []

    def run(smaller: Plan) -> Outcome:
        """Made up: something is lost for as long as faults are left or nobody else is."""
        tried.append(smaller)
        is_lost = len(smaller.faults) == 4 or not (smaller.producers and smaller.readers) or len(smaller.topics) < 2
        return outcome(smaller, *([LOST] if is_lost else []))

    shrink(plan, outcome(plan, LOST), run=run, runs_max=100)
    assert any(not each.producers for each in tried)
    for each in tried:
        assert Plan.from_dict(each.to_dict()) == each


@pytest.fixture
def weak() -> Iterator[Callable[[Plan], Outcome]]:
    """Runs plans with a bug in a core."""
    with weakened("no_sequence_check") as control:
        yield lambda plan: control.call(execute, plan)


def test_a_seed_that_fails_for_a_bug_in_a_core_is_shrunk_to_a_handful_and_still_fails(
    weak: Callable[[Plan], Outcome],
) -> None:
    tried = ((draw(seed), weak(draw(seed))) for seed in range(100))
    plan, found = next((plan, found) for plan, found in tried if DUPLICATED in kinds_of(found))
    found.findings = [finding for finding in found.findings if finding.kind == DUPLICATED]
    shrunk = shrink(plan, found, run=weak)
    assert len(shrunk.plan.faults) <= 2
    assert shrunk.plan.records <= 5
    again = weak(Plan.from_dict(shrunk.plan.to_dict()))
    assert DUPLICATED in kinds_of(again)
    assert again.trace_hash == shrunk.outcome.trace_hash
    assert DUPLICATED not in kinds_of(execute(shrunk.plan))


def test_an_exception_inside_a_core_is_a_finding_and_is_shrunk(monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken(BrokerCore):
        def receive(self, event: Any, now_us: int) -> None:
            if getattr(getattr(event, "message", None), "transactional_id", None) == "tx":
                raise ZeroDivisionError(f"at {now_us}")
            super().receive(event, now_us)

    monkeypatch.setattr("ottla.host.host.BrokerCore", Broken)
    plan = draw(5)
    found = execute(plan)
    assert not found.is_clean
    assert found.crashed is not None
    assert kinds_of(found) == ["ZeroDivisionError in test_shrink.py, receive"]
    shrunk = shrink(plan, found)
    assert shrunk.plan.faults == []
    assert [act.do for producer in shrunk.plan.producers for act in producer.acts] == [BEGIN]


def test_a_fault_of_one_partition_is_made_plainer_without_its_topic() -> None:
    plan = draw(4)
    topic = plan.topics[0].name
    plan.faults = [TimedFault(make_fault("lose_ack", topic=topic, partition=0, nth=1), 0, 1_000_000)]

    def fails(plan: Plan) -> Outcome:
        return outcome(plan, *([LOST] if plan.faults else []))

    shrunk = shrink(plan, fails(plan), run=fails)
    assert [each.fault for each in shrunk.plan.faults] == [make_fault("lose_ack", nth=1)]
