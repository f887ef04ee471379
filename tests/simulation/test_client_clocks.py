"""Clients have clocks of their own: what they promise by the clock they promise by theirs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ottla.audit.chronicles.case import Case
from ottla.audit.chronicles.deadlines import check_deadlines
from ottla.faults.fault import make_fault
from ottla.simulation.draw import draw
from ottla.simulation.plan import PAUSE, SEND, Act, Plan, ProducerPlan, TimedFault, TopicPlan
from ottla.simulation.run import Run

DELIVERY_TIMEOUT_US = 6_000_000


def run_with_drift(ppm: int) -> Run:
    """A record whose requests are all lost; then, in peace, a second one."""
    settings = {
        "linger_ms": 0,
        "request_timeout_ms": 1_000,
        "delivery_timeout_ms": DELIVERY_TIMEOUT_US // 1000,
        "retry_backoff_ms": 100,
    }
    acts = [Act(SEND, 0, "t", 0, None, 8), Act(PAUSE, pause_us=20_000_000), Act(SEND, 1, "t", 0, None, 8)]
    faults = [TimedFault(make_fault("drop_request"), 0, 19_000_000)]
    if ppm:
        faults.append(TimedFault(make_fault("drift_clock", client_id="p", drift_ppm=ppm), 0, 25_000_000))
    plan = Plan(1, 3, False, {}, [TopicPlan("t")], [ProducerPlan("p", settings, acts)], [], faults)
    run = Run(plan)
    run.go()
    return run


@pytest.mark.parametrize(("ppm", "takes_us"), [(0, 6_000_000), (-500_000, 12_000_000), (1_000_000, 3_000_000)])
def test_a_record_is_given_up_when_the_producers_own_clock_says_so(ppm: int, takes_us: int) -> None:
    chronicle = run_with_drift(ppm).chronicle
    lost, kept = chronicle.sent
    assert lost.outcome == "unknown"
    assert lost.told_us - lost.sent_us == pytest.approx(takes_us, abs=50_000)
    assert kept.outcome == "acked"
    assert check_deadlines(Case(chronicle)).count == 0


def test_a_slow_clock_excuses_nobody_else() -> None:
    chronicle = run_with_drift(-500_000).chronicle
    (promise,) = chronicle.producers
    chronicle.producers = [replace(promise, delivery_timeout_ms=DELIVERY_TIMEOUT_US // 1000)]
    assert check_deadlines(Case(chronicle)).count == 1


def test_dates_come_from_the_clients_clock() -> None:
    first, second = (
        next(read for read in run_with_drift(ppm).chronicle.reads if read.is_final).records[-1].timestamp_ms
        for ppm in (0, 1_000_000)
    )
    assert second - first == pytest.approx(20_000, abs=100)


def test_some_seeds_have_clients_whose_clocks_drift() -> None:
    drifting = [seed for seed in range(400) if any(_is_clients(timed) for timed in draw(seed).faults)]
    assert 20 <= len(drifting) <= 60
    for seed in drifting[:3]:
        run = Run(draw(seed))
        chronicle = run.go()
        fired = [
            seen.fired for timed, seen in zip(run.plan.faults, chronicle.faults, strict=True) if _is_clients(timed)
        ]
        assert all(fired)
        assert not chronicle.stuck


def _is_clients(timed: TimedFault) -> bool:
    return timed.kind == "drift_clock" and isinstance(timed.fault.victim, str)
