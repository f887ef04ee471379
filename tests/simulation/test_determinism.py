"""The same seed is the same run: in one process, in another, whatever Python's own hashes are, traced or not."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import weakref

from ottla.simulation.draw import draw
from ottla.simulation.plan import CRASH, SEND, Act
from ottla.simulation.run import Run, execute

SEEDS = range(20, 27)
OTHER_PROCESS = """
from ottla.simulation.draw import draw
from ottla.simulation.run import execute
for seed in range(20, 27):
    outcome = execute(draw(seed))
    print(seed, outcome.trace_hash, outcome.messages, outcome.simulated_us)
"""


def told(seed: int) -> str:
    outcome = execute(draw(seed))
    return f"{seed} {outcome.trace_hash} {outcome.messages} {outcome.simulated_us}"


def test_the_same_seed_is_the_same_run_in_every_process() -> None:
    here = [told(seed) for seed in SEEDS]
    assert [told(seed) for seed in SEEDS] == here
    assert len({line.split()[1] for line in here}) == len(SEEDS)
    for hash_seed in ("1", "4242"):
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        command = [sys.executable, "-c", OTHER_PROCESS]
        there = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=300)
        assert there.stdout.splitlines() == here


def test_looking_on_and_bytes_on_the_wire_change_nothing() -> None:
    for seed in SEEDS:
        plan = draw(seed)
        plain = execute(plan)
        assert execute(plan, keep_trace=True).trace_hash == plain.trace_hash
        plan.through_bytes = not plan.through_bytes
        assert execute(plan).trace_hash == plain.trace_hash


def test_records_with_other_contents_are_another_run() -> None:
    plan = draw(20)
    first, second = [act for act in plan.producers[0].acts if act.do == SEND][:2]
    first.number, second.number = second.number, first.number
    assert execute(plan).trace_hash != execute(draw(20)).trace_hash


def test_a_core_that_does_not_even_begin_is_a_finding() -> None:
    plan = draw(20)
    plan.brokers = 0
    outcome = execute(plan)
    assert outcome.crashed is not None
    assert not outcome.is_clean


def test_a_run_has_more_than_a_thousand_messages() -> None:
    for seed in SEEDS:
        outcome = execute(draw(seed))
        assert outcome.messages >= 1000
        assert outcome.records >= 150


def test_a_run_is_forgotten_with_the_producers_that_died_in_it() -> None:
    plan = draw(20, records=20, faults=0)
    plan.producers[0].acts = [
        Act(SEND, 0, "t0", 0, None, 8),
        Act(CRASH, pause_us=1_000),
        Act(SEND, 1, "t0", 0, None, 8),
    ]
    run = Run(plan)
    chronicle = run.go()
    assert [
        (sent.outcome, sent.told_us >= 0) for sent in chronicle.sent if sent.producer == plan.producers[0].name
    ] == [
        ("unknown", False),
        ("acked", True),
    ]
    world = weakref.ref(run.world)
    del run
    gc.collect()
    assert world() is None
