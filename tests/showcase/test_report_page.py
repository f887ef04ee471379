"""The report of a run as a page: it says what the terminal says, verdict first, and needs nothing else."""

from __future__ import annotations

import re
from dataclasses import replace

from ottla.audit import findings as kinds
from ottla.audit.findings import Finding
from ottla.audit.properties import judge_properties
from ottla.ledger.schema import EXACTLY_ONCE
from ottla.showcase.report_page import as_report

from ..page import Page
from .test_report import outcome, verdict


def test_the_verdict_comes_before_figures_and_evidence() -> None:
    text = Page(as_report(outcome())).text
    assert text.index("Every guarantee did what it promises in 61 s") < text.index("367,232") < text.index("Evidence")
    assert "duplicated: record 8 is stored at offsets 1 and 2, partition 0" in text
    assert "UA1545 EWR-IAH on 2013-1-1" in text
    assert "110 × answer lost after the append" in text
    assert "JFK 17h: 3 % too many (1,236 instead of 1,200)" in text


def test_what_is_not_as_promised_is_named_first() -> None:
    page = as_report(outcome(exactly=verdict(EXACTLY_ONCE, lost=1)))
    assert '<p class="verdict bad">Not as promised: exactly-once.</p>' in page


def test_properties_say_what_was_not_seen() -> None:
    properties = judge_properties([], {})
    text = Page(as_report(replace(outcome(), properties=properties, looked_at="5 records"))).text
    assert all(each.what.name in text and f"not seen: {each.why()}" in text for each in properties)
    assert "Looked at: 5 records." in text


def test_a_narrow_screen_shows_no_label_without_words() -> None:
    properties = judge_properties([Finding(kind, 0) for kind in (kinds.UNSETTLED,)], {})
    page = as_report(replace(outcome(), properties=properties))
    assert '<td data-label="why"></td>' in page
    assert "td:empty { display: none; }" in page


def test_a_page_is_well_formed_whatever_the_input_is_called() -> None:
    hostile = "<script>alert(1)</script>\x1b"
    page = as_report(replace(outcome(), shown=hostile, question=hostile, examples={7: hostile}))
    parsed = Page(page)
    assert parsed.open == []
    assert parsed.fetched == []
    assert "script" not in parsed.tags
    assert not re.search(r"https?:|@import|url\(|\x1b", page)
    assert parsed.links
    assert [place for place in parsed.links if place not in parsed.ids] == []
