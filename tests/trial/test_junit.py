"""The outcome of trials as JUnit XML, as Jenkins and GitLab read it."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from dataclasses import replace

import pytest

from ottla.trial.junit import as_junit
from ottla.trial.outcome import BrokenOff, TrialOutcome
from ottla.trial.scenario import SENDFILE

from .recorded_trials import HOSTILE, lost_ack, missing_control, power_cut, void_and_hostile

# What the schema of Jenkins' xunit plugin (junit-10.xsd) allows: attributes and children, those needed first.
ALLOWED: dict[str, tuple[set[str], set[str], set[str]]] = {
    "testsuites": (set(), {"name", "time", "tests", "failures", "errors", "skipped"}, {"testsuite"}),
    "testsuite": ({"name", "tests", "failures", "errors"}, {"time", "skipped", "timestamp", "hostname"}, {"testcase"}),
    "testcase": ({"classname", "name", "time"}, {"group"}, {"failure", "error", "system-out"}),
    "error": (set(), {"type", "message"}, set()),
    "failure": (set(), {"type", "message"}, set()),
    "system-out": (set(), set(), set()),
}


def parsed(*outcomes: TrialOutcome) -> ElementTree.Element:
    return ElementTree.fromstring(as_junit(outcomes))


def test_it_has_the_form_that_is_read() -> None:
    root = parsed(lost_ack(), power_cut(), void_and_hostile(), missing_control())
    check_form(root)


def check_form(root: ElementTree.Element) -> None:
    assert root.tag == "testsuites"
    for element in root.iter():
        needed, allowed, children = ALLOWED[element.tag]
        assert needed <= set(element.attrib) <= needed | allowed
        assert {child.tag for child in element} <= children


def test_a_suite_is_a_trial_and_a_case_is_a_side() -> None:
    root = parsed(lost_ack(), missing_control())
    assert [suite.get("name") for suite in root] == ["lost-ack", "missing"]
    assert [case.get("name") for case in root[0]] == ["at-least-once", "exactly-once"]
    assert {case.get("classname") for case in root[0]} == {"lost-ack"}
    assert (root.get("tests"), root.get("failures")) == ("3", "1")
    assert [(suite.get("tests"), suite.get("failures")) for suite in root] == [("2", "0"), ("1", "1")]
    assert float(root[0].get("time", "")) == pytest.approx(
        sum(float(case.get("time", "")) for case in root[0]), abs=0.01
    )
    assert "claimed at-least-once, seen at-least-once: 14 duplicated" in (root[0][0].findtext("system-out") or "")


def test_a_void_side_and_a_missing_control_are_failures_with_their_sentence() -> None:
    void, missing = parsed(void_and_hostile(), missing_control())
    for case in void:
        failure = case.find("failure")
        assert failure is not None
        assert (failure.get("type"), failure.get("message")) == (
            "void",
            "This side proves nothing: the fault lose_ack never fired.",
        )
    failure = missing[0].find("failure")
    assert failure is not None
    assert failure.get("type") == "missing control"
    assert failure.get("message") == "Expected duplicated, and found none: the faults had no effect."


def test_a_count_that_is_wrong_is_a_failure_with_its_sentence() -> None:
    outcome = lost_ack()
    side = replace(outcome.sides[1], side=replace(outcome.sides[1].side, most={SENDFILE: 5}), counts={SENDFILE: 7})
    (suite,) = parsed(replace(outcome, sides=(outcome.sides[0], side)))
    failure = suite[1].find("failure")
    assert failure is not None
    assert failure.get("message") == "Not as expected: sendfile_bytes: 7; expected: 5 or less."


def test_a_trial_that_an_error_has_ended_is_an_error_with_its_sentence() -> None:
    scenario = missing_control().scenario
    root = ElementTree.fromstring(as_junit([lost_ack()], broken_off=BrokenOff(scenario, "no broker <answers>")))
    check_form(root)
    assert [root.get(name) for name in ("tests", "failures", "errors")] == ["3", "0", "1"]
    suite = root[1]
    assert [suite.get(name) for name in ("name", "tests", "failures", "errors")] == ["missing", "1", "0", "1"]
    error = suite[0].find("error")
    assert error is not None
    assert (error.get("type"), error.get("message")) == ("broken off", "no broker <answers>")


def test_characters_that_xml_has_no_place_for_are_spelled_out() -> None:
    (suite,) = parsed(void_and_hostile())
    assert suite.get("name") == HOSTILE
    assert suite[0].get("name") == r"<b>\x07\x1b]]>"
