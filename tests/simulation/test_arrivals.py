"""Records that come at a rate, brokers that need time for requests, and producers that idle for hours."""

from __future__ import annotations

from functools import cache

import pytest
from tools.mutation.weaknesses import weakened

from ottla.audit.chronicles.judgement import judge
from ottla.audit.findings import KEPT_WAITING, Finding
from ottla.simulation.arrivals import IDLE_SETTINGS
from ottla.simulation.draw import draw
from ottla.simulation.outcome import Outcome
from ottla.simulation.plan import PAUSE, SEND, Act, Plan, ProducerPlan, ServicePlan, TopicPlan
from ottla.simulation.run import Run, execute
from ottla.simulation.shrink import shrink
from ottla.simulation.story import as_text, tell

HOUR_US = 3_600_000_000
DRAWN = 400


@cache
def drawn() -> list[Plan]:
    return [draw(seed) for seed in range(DRAWN)]


def paced(records: int, every_us: int, burst: int = 1, **settings: object) -> Plan:
    """One producer, and one partition on a broker that takes 20 ms for a request; nothing goes wrong."""
    acts: list[Act] = []
    for number in range(records):
        acts.append(Act(SEND, number, "t0", 0, None, 100))
        if number % burst == burst - 1:
            acts.append(Act(PAUSE, pause_us=every_us * burst))
    producer = ProducerPlan("p0", {"acks": "all", "linger_ms": 5, "batch_size": 16_384, **settings}, acts)
    service = [ServicePlan(0, 20_000, 20_000)]
    return Plan(7, 1, False, {}, [TopicPlan("t0", 1, 1)], [producer], [], [], service=service)


def waits_us(plan: Plan) -> list[int]:
    """For each record, the time from sending to its outcome."""
    sent = Run(plan).go().sent
    assert all(record.outcome == "acked" for record in sent)
    return [record.told_us - record.sent_us for record in sent]


def kept_waiting(outcome: Outcome) -> list[str]:
    assert outcome.crashed is None
    assert [finding.kind for finding in outcome.findings] in ([], [KEPT_WAITING])
    return [piece.detail for finding in outcome.findings for piece in finding.evidence]


@pytest.mark.parametrize(
    ("every_us", "burst", "batch_size"),
    [
        pytest.param(1_000, 1, 16_384, id="a thousand a second, one by one"),
        pytest.param(1_000, 100, 16_384, id="a thousand a second, in bursts"),
        pytest.param(200, 1, 16_384, id="five thousand a second"),
        pytest.param(25_000, 1, 16_384, id="fewer than requests"),
        pytest.param(1_000, 1, 1_000, id="more than full batches carry"),
    ],
)
def test_a_record_waits_no_longer_than_its_broker_needs(every_us: int, burst: int, batch_size: int) -> None:
    assert kept_waiting(execute(paced(600, every_us, burst, batch_size=batch_size))) == []


def test_waits_do_not_grow_while_full_batches_carry_the_rate() -> None:
    waits = waits_us(paced(2_000, 1_000))
    assert max(waits[1_000:]) <= 5_000 + 7 * 20_000 + 20_000


def test_with_little_memory_senders_wait_and_every_record_gets_its_outcome() -> None:
    plan = paced(300, 0, buffer_memory=8_192)
    chronicle = Run(plan).go()
    assert [record.outcome for record in chronicle.sent] == ["acked"] * 300
    assert chronicle.sent[-1].sent_us - chronicle.sent[0].sent_us > 3 * 20_000, "it had to wait for the broker"


def test_batches_that_are_closed_by_the_clock_are_found() -> None:
    plan = paced(600, 1_000)
    with weakened("closes_by_clock") as control:
        (first, *_) = kept_waiting(control.call(execute, plan))
    assert "its broker took no more than 20000 us for a request" in first


@pytest.mark.parametrize("kept_ms", [60_000, 86_400_000], ids=["forgotten", "kept"])
def test_what_comes_after_hours_is_stored_once_whether_its_producer_is_forgotten_or_not(kept_ms: int) -> None:
    plan = paced(4, HOUR_US)
    plan.settings = IDLE_SETTINGS | {
        "producer_id_expiration_ms": kept_ms,
        "producer_id_expiration_check_interval_ms": 60_000,
    }
    chronicle = Run(plan).go()
    assert [record.outcome for record in chronicle.sent] == ["acked"] * 4
    assert chronicle.sent[-1].sent_us >= 3 * HOUR_US
    assert chronicle.ended_us >= 3 * HOUR_US
    assert [finding.kind for finding in judge(chronicle) if finding.count] == []


def test_plans_are_drawn_in_which_brokers_take_their_time() -> None:
    busy = [plan for plan in drawn() if plan.service]
    assert 0.02 * DRAWN < len(busy) < 0.12 * DRAWN
    assert {bool(plan.faults) for plan in busy} == {True, False}
    assert {each.least_us == each.most_us for plan in busy for each in plan.service} == {True, False}
    pauses = [sum(act.do == PAUSE for act in plan.producers[0].acts) for plan in busy]
    assert min(pauses) <= 2, "tight"
    assert max(pauses) >= 100, "one by one"


def test_plans_are_drawn_in_which_producers_idle_for_hours() -> None:
    longest = [max(act.pause_us for act in plan.producers[0].acts) for plan in drawn()]
    assert 0 < sum(us >= 400_000_000 for us in longest) < 0.03 * DRAWN


def test_a_plan_is_cut_down_to_the_broker_that_takes_its_time() -> None:
    plan = paced(3, 1_000)
    plan.brokers, plan.service = 3, [ServicePlan(each, 5_000, 20_000) for each in range(3)]

    def found(smaller: Plan) -> Outcome:
        is_slow = any(each.broker == 1 for each in smaller.service)
        return Outcome(smaller.seed, "made up", [Finding(KEPT_WAITING, 1)] if is_slow else [])

    shrunk = shrink(plan, found(plan), run=found)
    assert shrunk.plan.service == [ServicePlan(1, 20_000, 20_000)]


def test_a_story_tells_how_long_a_broker_took() -> None:
    lines = as_text(tell(paced(2, 1_000)))
    assert any("(after 0.02 s)" in line for line in lines)
