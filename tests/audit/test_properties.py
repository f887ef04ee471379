"""The properties: each kind belongs to one, and nothing that could not be seen is ever called held."""

from __future__ import annotations

import pytest

from ottla.audit import findings as kinds
from ottla.audit.findings import PROPERTIES, Anomaly, Finding
from ottla.audit.properties import HELD, HELD_IN_PART, NOT_JUDGED, VIOLATED, judge_properties

KINDS = tuple(value for name, value in vars(kinds).items() if name.isupper() and isinstance(value, str))
CLEAN = [Finding(kind, 0) for kind in KINDS]


def test_each_kind_of_anomaly_breaks_one_property() -> None:
    assert [each.number for each in PROPERTIES] == list(range(1, len(PROPERTIES) + 1))
    assert sorted(kind for each in PROPERTIES for kind in each.kinds) == sorted(KINDS)


def test_what_was_looked_for_everywhere_and_not_found_held() -> None:
    assert {verdict.word for verdict in judge_properties(CLEAN, {})} == {HELD}


@pytest.mark.parametrize("kind", KINDS)
def test_one_anomaly_violates_its_property_and_no_other(kind: str) -> None:
    piece = Anomaly(kind, "t", 0, 7, (3,), "record 7 is wrong")
    verdicts = judge_properties([*CLEAN, Finding(kind, 2, (piece,))], {})
    (violated,) = [verdict for verdict in verdicts if verdict.word == VIOLATED]
    assert kind in violated.what.kinds
    assert violated.why() == f"{kind} (2): record 7 is wrong"


@pytest.mark.parametrize("kind", KINDS)
def test_what_could_not_be_seen_is_never_held(kind: str) -> None:
    seen = [finding for finding in CLEAN if finding.kind != kind]
    partly = Finding(kind, 0, (), ("the logs",))
    for verdicts in (
        judge_properties([*seen, partly], {}),
        judge_properties(seen, {kind: "the logs"}),
        judge_properties([*seen, Finding(kind, 3)], {kind: "the logs"}),
    ):
        (verdict,) = [verdict for verdict in verdicts if verdict.word != HELD]
        assert verdict.word == (NOT_JUDGED if len(verdict.what.kinds) == 1 else HELD_IN_PART)
        assert verdict.why() == "the logs"


def test_a_kind_that_nobody_looked_for_says_so() -> None:
    assert judge_properties([], {})[0].why() == "nobody looked for “unsettled”"
