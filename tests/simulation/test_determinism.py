"""The same seed is the same run: in one process, in another, whatever Python's own hashes are, traced or not."""

from __future__ import annotations

import os
import subprocess
import sys

from ottla.simulation.draw import draw
from ottla.simulation.run import execute

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


def test_a_run_has_more_than_a_thousand_messages() -> None:
    for seed in SEEDS:
        outcome = execute(draw(seed))
        assert outcome.messages >= 1000
        assert outcome.records >= 150
