"""The seeds that tests run: fixed ones in `make test`, the commit's in `make prove`, fresh ones in `make soak`.

Two runs of one commit run the same seeds, so one that fails fails again; the next commit runs others. OTTLA_SEEDS=4711
(one seed) or OTTLA_SEEDS=4711-4720 (a range) names them, in every tier.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Generator, Sequence
from functools import cache
from pathlib import Path
from random import SystemRandom

import pytest

from .soak import IS_SOAK

_ROOT = Path(__file__).parents[1]
# Where the commit is not known: an unpacked archive, a machine without git.
_UNKNOWN_COMMIT = "0" * 40
_SEED_MAX = 1 << 32
_SOAK_SEED = "OTTLA_SOAK_SEED"


@cache
def commit() -> str:
    """The hash of the commit that is checked out; zeros where there is none."""
    command = ["git", "-C", str(_ROOT), "rev-parse", "--verify", "--quiet", "HEAD"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    except OSError:
        return _UNKNOWN_COMMIT
    return done.stdout.strip() or _UNKNOWN_COMMIT


def seed_of(commit_hash: str) -> int:
    """The first seed that `make prove` runs of this commit."""
    return int(commit_hash[:8], 16)


def soak_seed() -> int:
    """The first seed of a soak; kept in the environment, so that all processes of a run take the same."""
    return int(os.environ.setdefault(_SOAK_SEED, str(SystemRandom().randrange(_SEED_MAX))))


def fixed_seeds(count: int, *, soak: int | None = None, kept: Sequence[int] = ()) -> list[int]:
    """Seeds of `make test`: the same ones in each run. `make soak` runs `soak` fresh ones in their place.

    `kept` are those that have failed once: they run whenever the test does.
    """
    return _seeds(0, count, soak, kept)


def commit_seeds(count: int, *, soak: int | None = None, kept: Sequence[int] = ()) -> list[int]:
    """Seeds of `make prove`: drawn from the commit. `soak` and `kept` are as for `fixed_seeds`."""
    return _seeds(seed_of(commit()), count, soak, kept)


def _seeds(first: int, count: int, soak: int | None, kept: Sequence[int]) -> list[int]:
    named = _named()
    if named:
        return named
    if IS_SOAK:
        first, count = soak_seed(), soak or count
    return [*kept, *range(first, first + count)]


def _named() -> list[int]:
    given = os.environ.get("OTTLA_SEEDS", "")
    if not given:
        return []
    first, dash, last = given.partition("-")
    if not dash:
        last = first
    if not (first.isdecimal() and last.isdecimal() and int(first) <= int(last)):
        raise pytest.UsageError(f"OTTLA_SEEDS={given}: give a seed such as 4711, or a range such as 4711-4720")
    return list(range(int(first), int(last) + 1))


def in_parts(seeds: list[int], size: int) -> list[list[int]]:
    """Seeds for `parametrize`, so many to a test."""
    return [seeds[begin : begin + size] for begin in range(0, len(seeds), size)]


def told(seeds: Sequence[int]) -> str:
    """The seeds in words, for whoever reads the output of a run."""
    return f"seed {seeds[0]}" if len(seeds) == 1 else f"seeds {seeds[0]} to {seeds[-1]}"


def pytest_configure() -> None:
    """Before other processes begin, which collect the same tests."""
    if IS_SOAK:
        soak_seed()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Where a test with seeds fails, say how it is run again and how its seed is kept."""
    report = yield
    parameters = item.callspec.params if isinstance(item, pytest.Function) and hasattr(item, "callspec") else {}
    seeds = parameters.get("seeds") or ([parameters["seed"]] if "seed" in parameters else [])
    if report.failed and seeds:
        file = item.nodeid.split("::")[0]
        named = f"{seeds[0]}" if len(seeds) == 1 else f"{seeds[0]}-{seeds[-1]}"
        again = f"run it again: OTTLA_SEEDS={named} make test ARGS={file}"
        report.sections.append(("Seeds", f"{again}\nlet every run have it: give the seed to `kept` in {file}"))
    return report
