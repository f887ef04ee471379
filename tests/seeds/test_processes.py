"""Seeds in processes: each is run once, and whatever becomes of a process, its seed has an outcome."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest

from ottla.audit.findings import LOST, UNREPEATABLE, Finding
from ottla.seeds import processes as module
from ottla.seeds.processes import run_seed, run_seeds
from ottla.seeds.tally import Tally
from ottla.simulation.outcome import Outcome
from ottla.simulation.plan import Plan


def test_every_seed_is_run_once_and_gives_what_it_gives_alone() -> None:
    outcomes = {outcome.seed: outcome for outcome in run_seeds(range(30, 37), 2)}
    assert sorted(outcomes) == list(range(30, 37))
    assert outcomes[33].trace_hash == run_seed(33).trace_hash
    assert len({outcome.trace_hash for outcome in outcomes.values()}) == 7


def test_a_process_that_dies_names_its_seed_and_the_others_are_run() -> None:
    # Each seed ends its process with its own number as exit status.
    outcomes = list(run_seeds(range(3, 8), 2, run=os._exit))  # type: ignore[arg-type]
    assert sorted((outcome.seed, outcome.crashed) for outcome in outcomes) == [
        (seed, f"the process that ran it died: exit status {seed}") for seed in range(3, 8)
    ]


def test_a_seed_that_never_ends_is_given_up_and_named() -> None:
    [outcome] = run_seeds([3600], 1, run=time.sleep, patience_s=0.1)  # type: ignore[arg-type]
    assert outcome.seed == 3600
    assert "had not come to an end" in (outcome.crashed or "")


def test_closing_ends_the_processes() -> None:
    outcomes = run_seeds(range(10**9), 2)
    first = next(outcomes)
    outcomes.close()
    assert first.seed in range(4)
    assert list(outcomes) == []


def test_ctrl_c_is_kept_from_the_first_process_too() -> None:
    """With the first one multiprocessing starts a process of its own, and lets Ctrl+C through; so in a new Python."""
    code = """
from functools import partial
from signal import SIG_BLOCK, pthread_sigmask
from ottla.seeds.processes import run_seeds
[blocked] = run_seeds([()], 1, run=partial(pthread_sigmask, SIG_BLOCK))
print([each.name for each in blocked])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout, done.stderr) == ("['SIGINT']\n", "")


def test_whatever_is_raised_is_part_of_the_outcome(monkeypatch: pytest.MonkeyPatch) -> None:
    def raising(plan: Plan) -> Outcome:
        raise RecursionError("too deep")

    monkeypatch.setattr(module, "execute", raising)
    outcome = run_seed(5)
    assert not outcome.is_clean
    assert "RecursionError: too deep" in (outcome.crashed or "")


def test_a_seed_that_does_not_repeat_itself_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    hashes = iter("abcc")
    monkeypatch.setattr(module, "execute", lambda plan: Outcome(plan.seed, next(hashes)))
    [finding] = run_seed(50).findings
    assert (finding.kind, finding.count) == (UNREPEATABLE, 1)
    assert finding.evidence[0].detail == "run 2 left the trace b, and the first one a"
    assert run_seed(100).is_clean


def test_a_tally_adds_up_runs_and_keeps_what_failed_by_seed() -> None:
    tally = Tally()
    lost = [Finding(LOST, 2)]
    tally.add(Outcome(9, "a", lost, None, 10, 3, 1_000_000, {"kill": 2}, ("no leader", "record acked")))
    tally.add(Outcome(8, "b", lost, None, 1, 1, 500_000, {"kill": 1, "rule": 4}, ("record acked",)))
    for _ in range(2):
        tally.add(Outcome(7, "c", [], None, 1, 1, 500_000, {}, (), missed={"its broker was down": 2}))
    assert tally.to_dict() | {"failed": []} == {
        "runs": 4,
        "messages": 13,
        "records": 6,
        "simulated_hours": 0.001,
        "fired": {"kill": 3, "rule": 4},
        "missed": {"its broker was down": 4},
        "states": {"no leader": 1, "record acked": 2},
        "unseen": {},
        "failed": [],
    }
    assert [outcome.seed for outcome in tally.failed] == [8, 9]
