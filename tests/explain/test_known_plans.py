"""Plans of which it is known what they break, explained from their captures alone."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest
from tests.explain.known_plans import Known, known
from tests.soak import SOAK

from ottla.errors import UserMistake
from ottla.explain.breaches import Breach
from ottla.explain.delivered import judge_delivery
from ottla.explain.explanation import Explanation, explain, read
from ottla.simulation.draw import draw
from ottla.simulation.recording import record
from ottla.simulation.run import Run
from ottla.tap.exchange import Entry, Exchange

# Of 300 plans half break something; `make test` takes the first 30, `make prove` 100 and `make soak` all.
SHARE_FOUND = 0.9


def drawn(count: int) -> Iterator[Known]:
    """So many plans, half of which break something: of the seeds from 0 on the first that do, and that do not."""
    broken = clean = 0
    seed = 0
    while broken + clean < count:
        plan = known(seed)
        seed += 1
        if plan.broken and broken < count // 2:
            broken += 1
            yield plan
        elif not plan.broken and clean < count // 2:
            clean += 1
            yield plan


def kinds(found: Explanation) -> set[str]:
    return {each.kind for each in found.breaches}


@pytest.mark.parametrize(
    "count", [30, pytest.param(100, marks=pytest.mark.prove), pytest.param(300, marks=[pytest.mark.prove, SOAK])]
)
def test_what_is_broken_is_found_and_nothing_is_invented(count: int) -> None:
    found = broken = 0
    for plan in drawn(count):
        told = kinds(read(plan.entries, "the capture"))
        assert told <= {*plan.broken}, f"seed {plan.seed}: {told} told, {plan.broken} true"
        broken += bool(plan.broken)
        found += bool(plan.broken) and told == {*plan.broken}
    assert broken == count // 2
    assert found >= SHARE_FOUND * broken, f"{found} of {broken} found"


@pytest.mark.parametrize(
    "count", [16, pytest.param(100, marks=pytest.mark.prove), pytest.param(300, marks=[pytest.mark.prove, SOAK])]
)
def test_a_capture_that_shows_a_part_invents_nothing(count: int) -> None:
    for seed in range(count):
        plan = known(seed)
        for part in parts(plan.entries, seed):
            told = {each.kind for each in read_or_nothing(part)}
            assert told <= {*plan.broken}, f"seed {seed}: {told} told, {plan.broken} true"


@pytest.mark.parametrize(
    "count", [4, pytest.param(70, marks=pytest.mark.prove), pytest.param(200, marks=[pytest.mark.prove, SOAK])]
)
def test_storms_with_transactions_and_bad_disks_invent_nothing(count: int) -> None:
    for seed in range(count):
        run = Run(draw(seed, records=80, faults=6))
        tap = record(run)
        chronicle = run.go()
        tap.close()
        told = {each.kind for each in read_or_nothing(tap.entries)}
        assert told <= {each.kind for each in judge_delivery(chronicle)}, f"seed {seed}: {told} told"


def parts(entries: list[Entry], seed: int) -> Iterator[list[Entry]]:
    """Cut at both ends; without what readers ask for; of one client alone."""
    rng = random.Random(seed)
    begin, end = rng.randrange(len(entries) // 2), rng.randrange(len(entries) // 2, len(entries))
    yield entries[begin:end]
    yield [each for each in entries if not isinstance(each, Exchange) or each.api not in ("Fetch", "ListOffsets")]
    clients = sorted({each.client.partition(":")[0] for each in entries})
    one = rng.choice(clients)
    yield [each for each in entries if each.client.startswith(f"{one}:")]


def read_or_nothing(entries: list[Entry]) -> list[Breach]:
    try:
        return read(entries, "the capture").breaches
    except UserMistake:
        return []


@pytest.mark.parametrize(
    "count", [3, pytest.param(24, marks=pytest.mark.prove), pytest.param(60, marks=[pytest.mark.prove, SOAK])]
)
def test_what_is_found_breaks_in_the_simulator_too(count: int) -> None:
    same = broken = 0
    for plan in drawn(2 * count):
        if plan.broken:
            found = explain(plan.entries, "the capture", shrinks=False)
            broken += bool(found.breaches)
            same += found.reproduced
    assert same >= SHARE_FOUND * broken, f"{same} of {broken} shown again"
