"""The outcome of trials as JUnit XML, which continuous integration shows as tests: a suite a trial, a case a side.

The form is the one that Jenkins and GitLab read: suites with counts and seconds, cases with `classname`, `name` and
`time`, and a `failure` with one sentence as its message. A side that is void or a control that shows nothing is a
failure, too: its trial proves nothing. A trial that an error has ended is a suite with one case, an `error`. XML 1.0
cannot hold most control characters, so they are spelled out.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from xml.sax.saxutils import escape, quoteattr

from ottla.trial.outcome import BrokenOff, LeftOut, SideOutcome, TrialOutcome

_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def as_junit(
    outcomes: Sequence[TrialOutcome], left_out: Sequence[LeftOut] = (), broken_off: BrokenOff | None = None
) -> str:
    """The whole file; trials that do not run where they should have are skipped cases."""
    sides = [side for outcome in outcomes for side in outcome.sides]
    counts = _counts(sides, sum(len(each.scenario.sides) for each in left_out), int(broken_off is not None))
    each_suite = [_suite(outcome) for outcome in outcomes]
    if broken_off is not None:
        each_suite.append(_broken_off(broken_off))
    suites = "\n".join([*each_suite, *(_skipped(each) for each in left_out)])
    return (
        f'<?xml version="1.0" encoding="UTF-8"?>\n<testsuites name="ottla trial" {counts}>\n{suites}\n</testsuites>\n'
    )


def failure_of(side: SideOutcome) -> tuple[str, str] | None:
    """What kind of failure a side is, and why, in a sentence; None where all is as expected."""
    if side.void:
        return "void", f"This side proves nothing: {'; '.join(side.void)}."
    if side.missing:
        shown = ", ".join(side.missing)
        return "missing control", f"Expected {shown}, and found none: the faults had no effect."
    if not side.is_as_expected:
        expected, found = side.side.expect, side.verdict.seen
        more = "".join(f" Not as expected: {each}." for each in side.surprises)
        if side.seen == expected:
            return "not as expected", more.strip()
        return (
            "not as expected",
            f"{side.side.claims} was expected to be {expected}, and is {side.seen}: {found}.{more}",
        )
    return None


def _suite(outcome: TrialOutcome) -> str:
    name = _attribute(outcome.scenario.name)
    cases = "\n".join(_case(name, side) for side in outcome.sides)
    return f" <testsuite name={name} {_counts(outcome.sides)}>\n{cases}\n </testsuite>"


def _broken_off(broken_off: BrokenOff) -> str:
    name = _attribute(broken_off.scenario.name)
    return (
        f" <testsuite name={name} {_counts([], errors=1)}>\n"
        f'  <testcase classname={name} name={name} time="0.000">\n'
        f'   <error type="broken off" message={_attribute(broken_off.why)}/>\n  </testcase>\n </testsuite>'
    )


def _skipped(left_out: LeftOut) -> str:
    name, sides = _attribute(left_out.scenario.name), left_out.scenario.sides
    cases = "\n".join(
        f'  <testcase classname={name} name={_attribute(side.name)} time="0.000">\n'
        f"   <skipped message={_attribute(left_out.why)}/>\n  </testcase>"
        for side in sides
    )
    return f" <testsuite name={name} {_counts([], len(sides))}>\n{cases}\n </testsuite>"


def _case(suite: str, side: SideOutcome) -> str:
    opened = f"  <testcase classname={suite} name={_attribute(side.side.name)} time={_seconds([side])}>"
    failure = failure_of(side)
    failed = ""
    if failure is not None:
        kind, why = failure
        details = "\n".join(f"{piece.kind}: {piece.detail}" for piece in side.evidence)
        failed = f"\n   <failure type={_attribute(kind)} message={_attribute(why)}>{_text(details)}</failure>"
    claimed = f"claimed {side.side.claims}, seen {side.guarantee_seen}: {side.verdict.seen}"
    return f"{opened}{failed}\n   <system-out>{_text(claimed)}</system-out>\n  </testcase>"


def _counts(sides: Sequence[SideOutcome], skipped: int = 0, errors: int = 0) -> str:
    failures = sum(failure_of(side) is not None for side in sides)
    more = f' skipped="{skipped}"' if skipped else ""
    tests = len(sides) + skipped + errors
    return f'tests="{tests}" failures="{failures}" errors="{errors}"{more} time={_seconds(sides)}'


def _seconds(sides: Sequence[SideOutcome]) -> str:
    return f'"{sum(side.seconds for side in sides):.3f}"'


def _attribute(text: str) -> str:
    return quoteattr(_allowed(text), {"\n": "&#10;", "\r": "&#13;", "\t": "&#9;"})


def _text(text: str) -> str:
    return escape(_allowed(text), {"\r": "&#13;"})


def _allowed(text: str) -> str:
    return _NOT_XML.sub(lambda found: found[0].encode("unicode_escape").decode(), text)
