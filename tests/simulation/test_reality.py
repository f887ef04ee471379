"""Compared with reality: what the simulated world says of a schedule, an embedded cluster says of it, too.

A sample of schedules (`schedules`) is carried out twice: in the simulated world, and by producers and readers with
threads and sockets against an `ottla.Cluster` with the same faults. What must agree, agrees. The seeds are drawn from
the commit; OTTLA_SEEDS=N carries out that one, OTTLA_SOAK=1 four hundred fresh ones. The control: with a guarantee
taken out of the cores of the simulated world alone, a difference is reported.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from tests.drawn import commit_seeds, told
from tools.mutation.control import Control
from tools.mutation.weaknesses import weakened

from ottla.faults.jump_clock import JumpClock
from ottla.simulation.run import Run

from .agreement import World, differences
from .reality import carry_out
from .schedules import TIMED, Schedule, draw_schedule

SEEDS = commit_seeds(20, soak=400)
# Most of the time everybody waits: for a request to time out, for a broker to be given up.
SIDE_BY_SIDE = 3
# Each shows in another way: twice in a log, under other numbers, in what is told, in a transaction.
CONTROLS = (
    "no_sequence_check",
    "retries_with_new_sequence",
    "failed_told_for_unknown",
    "no_producer_fencing",
)


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Brokers tell of every connection they cut."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def simulated(schedule: Schedule) -> World:
    return World("the simulation", Run(schedule.plan).go())


def real(schedule: Schedule, folder: Path) -> World:
    return World("reality", carry_out(schedule.plan, folder))


@pytest.mark.prove
def test_simulated_schedules_come_to_the_same_in_reality(tmp_path: Path, say: Callable[[str], None]) -> None:
    say(f"schedules of the {told(SEEDS)} in reality")

    def compare(seed: int) -> tuple[str, list[str]]:
        schedule = draw_schedule(seed)
        return schedule.kind, differences(schedule, simulated(schedule), real(schedule, tmp_path / str(seed)))

    with ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
        found = dict(zip(SEEDS, pool.map(compare, SEEDS), strict=True))
    differing = [
        line
        for seed, (kind, lines) in found.items()
        if lines
        for line in (f"OTTLA_SEEDS={seed}, a {kind} schedule:", *lines)
    ]
    if differing:
        pytest.fail("\n".join(differing), pytrace=False)


@pytest.mark.prove
@pytest.mark.parametrize("weakness", CONTROLS)
def test_a_guarantee_that_only_the_simulation_lacks_is_a_difference(
    weakness: str, tmp_path: Path, say: Callable[[str], None]
) -> None:
    with weakened(weakness) as control:
        schedule, weak = showing(control)
    reality = real(schedule, tmp_path)
    assert not differences(schedule, simulated(schedule), reality)
    lines = differences(schedule, weak, reality)
    say(f"{weakness} in the simulation alone, seed {schedule.plan.seed}: {len(lines)} differences")
    assert lines


def showing(control: Control) -> tuple[Schedule, World]:
    """The first schedule in which the control makes a difference at all."""
    for seed in range(200):
        schedule = draw_schedule(seed)
        weak = control.call(simulated, schedule)
        if differences(schedule, simulated(schedule), weak):
            return schedule, weak
    pytest.fail("none of the first 200 schedules brings the weakness to light")


def test_no_clock_is_moved_so_far_that_a_transaction_may_have_had_its_time() -> None:
    jumps_ms: dict[int, None] = {}
    for seed in range(40, 60):
        plan = draw_schedule(seed, TIMED).plan
        timeout_ms = min(each.settings.get("transaction_timeout_ms", 1 << 31) for each in plan.producers)
        for timed in plan.faults:
            if isinstance(timed.fault, JumpClock):
                jumps_ms[timed.fault.jump_ms] = None
                assert abs(timed.fault.jump_ms) < timeout_ms, f"seed {seed}"
    assert min(jumps_ms) < 0 < max(jumps_ms)


def test_schedules_have_many_kinds_of_faults() -> None:
    kinds: dict[Any, None] = {}
    for seed in range(15):
        schedule = draw_schedule(seed)
        assert schedule.plan.faults, f"nothing goes wrong in schedule {seed}"
        kinds |= dict.fromkeys(timed.kind for timed in schedule.plan.faults)
    assert len(kinds) >= 10
