"""Every kind of finding has a run behind it in which it is found: by a planted bug, or by doctoring what was seen.

Most are found where a guarantee is taken out of a core (`test_negative_controls`). What is left is not a core's to
break: whether a fault fired, whether a control was caught and whether a run repeats itself are questions about the
runs. Of a real run that was judged clean one fact is changed then, and the judge must say so.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tools.mutation.weaknesses import WEAKNESSES

from ottla.audit import findings
from ottla.audit.chronicles.chronicle import Chronicle, ControlSeen, FaultSeen
from ottla.audit.chronicles.judgement import judge
from ottla.audit.findings import BROKEN_PROMISE, FAULTLESS, MISREAD, REPEATED, UNCONTROLLED, UNREPEATABLE
from ottla.simulation.draw import draw
from ottla.simulation.run import Run

SEED = 3
KINDS = {value for name, value in vars(findings).items() if name.isupper() and isinstance(value, str)}


def a_fault_misses(seen: Chronicle) -> None:
    seen.faults.append(FaultSeen("lose_ack", 0, "the third answer", must_fire=True))


def a_control_is_not_caught(seen: Chronicle) -> None:
    seen.controls = [ControlSeen("idempotence", ("duplicated",), {})]


def a_second_run_leaves_another_trace(seen: Chronicle) -> None:
    seen.trace_hashes = ("one", "other")


DOCTORED: dict[str, Callable[[Chronicle], None]] = {
    FAULTLESS: a_fault_misses,
    UNCONTROLLED: a_control_is_not_caught,
    UNREPEATABLE: a_second_run_leaves_another_trace,
}
# The table of what the other checkers found; what only `ottla run` counts (`audit.counts`); see `REPEATED` in
# test_negative_controls.
ELSEWHERE = {BROKEN_PROMISE, MISREAD, REPEATED}


@pytest.fixture(scope="module")
def seen() -> Chronicle:
    """Of a run in which all went well."""
    return Run(draw(SEED)).go()


def found(seen: Chronicle) -> list[str]:
    return [finding.kind for finding in judge(seen) if finding.count]


def test_every_kind_has_a_run_in_which_it_is_found() -> None:
    convicted = {kind for weakness in WEAKNESSES.values() for kind in weakness.convicted_of}
    lacking = sorted(KINDS - convicted - {*DOCTORED} - ELSEWHERE)
    assert not lacking, f"{lacking} need a control in tools/mutation/weaknesses.py, or a row in DOCTORED"
    assert convicted | {*DOCTORED} | ELSEWHERE == KINDS


@pytest.mark.parametrize("kind", DOCTORED)
def test_what_is_no_cores_to_break_is_found_where_it_is_doctored(kind: str, seen: Chronicle) -> None:
    before = seen.faults, seen.controls, seen.trace_hashes
    assert found(seen) == []
    seen.faults = [*seen.faults]
    DOCTORED[kind](seen)
    assert found(seen) == [kind]
    seen.faults, seen.controls, seen.trace_hashes = before
