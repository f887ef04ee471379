"""The report of trials as a page: verdicts first, every anomaly leads to its place, and it needs nothing else."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from ottla.audit.findings import Anomaly
from ottla.trial.outcome import SideOutcome, TrialOutcome
from ottla.trial.recorded import Recorded
from ottla.trial.report_page import as_report
from ottla.trial.scenario import SENDFILE
from ottla.trial.timeline import ANSWER, FAULT, FINDING, FOLD, NO_ANSWER, REQUEST, ROWS_MAX, Timeline, tell

from ..page import Page
from .recorded_trials import HOSTILE, lost_ack, missing_control, power_cut, void_and_hostile

TRIALS = (lost_ack, power_cut, void_and_hostile, missing_control)


def timeline_of(side: SideOutcome) -> Timeline:
    found = tell(side, 3)
    assert found is not None
    return found


@pytest.mark.parametrize("trial", TRIALS)
def test_a_page_is_well_formed_and_fetches_nothing(trial: Callable[[], TrialOutcome]) -> None:
    page = as_report([trial()])
    parsed = Page(page)
    assert parsed.open == []
    assert parsed.fetched == []
    assert "script" not in parsed.tags
    assert not re.search(r"@import|url\(", page)
    assert re.findall(r"https?://[^\"]+", page.replace("http://www.w3.org/2000/svg", "")) == []


def test_what_a_side_has_to_count_stands_on_its_page() -> None:
    outcome = lost_ack()
    side = replace(outcome.sides[1], side=replace(outcome.sides[1].side, least={SENDFILE: 5}), counts={SENDFILE: 7_000})
    page = as_report([replace(outcome, sides=(outcome.sides[0], side))])
    assert page.count("<dt>counted</dt><dd>sendfile_bytes 7,000</dd>") == 1


@pytest.mark.parametrize("trial", TRIALS)
def test_every_link_has_one_place(trial: Callable[[], TrialOutcome]) -> None:
    parsed = Page(as_report([trial(), trial()]))
    assert [place for place, count in Counter(parsed.ids).items() if count > 1] == []
    assert [place for place in parsed.links if place not in parsed.ids] == []


@pytest.mark.parametrize("trial", [lost_ack, power_cut])
def test_every_anomaly_leads_to_a_row_and_back(trial: Callable[[], TrialOutcome]) -> None:
    side, parsed = trial().sides[0], Page(as_report([trial()]))
    timeline = timeline_of(side)
    assert side.anomalies
    assert [each for finding in timeline.findings for each in finding.anomalies] == list(side.anomalies)
    assert [row.finding for row in timeline.rows if row.kind == FINDING] == timeline.findings
    for finding in timeline.findings:
        assert parsed.links.count(f"t1s1f{finding.number}") >= 1
        assert f"t1s1a{finding.number}" in parsed.links


def test_the_verdict_comes_first_with_what_was_claimed_and_seen() -> None:
    text = Page(as_report([lost_ack(), missing_control()])).text
    assert text.index("2 trials: 1 as expected, 1 not") < text.index("lost-ack: As expected: every control shows")
    assert text.index("missing: This trial proves nothing") < text.index("The acknowledgement is lost")
    assert "claimed at-least-once seen at-least-once: 14 duplicated" in re.sub(
        r"(claimed|seen)", r" \1 ", text
    ).replace("  ", " ")


def test_a_lost_ack_is_told_from_the_fault_to_the_duplicate() -> None:
    side = lost_ack().sides[0]
    timeline = timeline_of(side)
    fired = next(place for place, row in enumerate(timeline.rows) if row.words == "fault fires: lose ack")
    told = timeline.rows[fired - 1 : fired + 5]
    assert [row.kind for row in told] == [REQUEST, FAULT, NO_ANSWER, REQUEST, ANSWER, FINDING]
    (finding,) = timeline.findings
    first, second = finding.anomalies[0].offsets
    lost, again = finding.evidence
    assert f"no answer, the connection is closed (answer lost by fault 1), appended at offset {first}" in lost
    assert f"(attempt 2): acknowledged at offset {second}, in the log of brokers 1, 2, 3, synced by none" in again
    assert all(row.is_evidence for row in told if row.kind != FAULT)


def test_an_idempotent_retry_is_known_by_its_sequence_number() -> None:
    timeline = timeline_of(lost_ack().sides[1])
    assert timeline.findings == []
    (known,) = [row.words for row in timeline.rows if "known by its sequence number, nothing appended" in row.words]
    assert "acknowledged at offset" in known


def test_what_a_power_cut_takes_was_synced_by_nobody_and_what_it_leaves_by_all() -> None:
    cache, synced = power_cut().sides
    assert all("synced by none" in finding.evidence[0] for finding in timeline_of(cache).findings)
    answers = [row.words for row in timeline_of(synced).rows if row.kind == ANSWER]
    assert answers
    assert all("synced by brokers" in words for words in answers)


def test_names_of_users_are_shown_and_not_obeyed() -> None:
    page = as_report([void_and_hostile()])
    assert "<script" not in page
    assert "\x07" not in page
    assert "\x1b" not in page
    text = Page(page).text
    assert HOSTILE in text
    assert r"<b>\x07\x1b]]>" in text


def test_what_is_void_or_missing_is_said_in_a_sentence() -> None:
    text = Page(as_report([void_and_hostile(), missing_control()])).text
    assert "This side proves nothing: the fault lose_ack never fired." in text
    assert "Expected duplicated, and found none: the faults had no effect." in text


def test_a_side_of_which_nothing_was_recorded_has_its_evidence_all_the_same() -> None:
    outcome = lost_ack()
    bare = TrialOutcome(outcome.scenario, tuple(replace(side, recorded=None) for side in outcome.sides))
    parsed = Page(as_report([bare]))
    assert "duplicated: record 14 is stored at offsets" in parsed.text
    assert [place for place in parsed.links if place not in parsed.ids] == []


# ---- many requests --------------------------------------------------------------------------------------------------


def exchange(number: int, **more: Any) -> dict[str, Any]:
    """A batch of one record that was acknowledged; its record and its offset are its number."""
    return {
        "order": 2 * number,
        "at_us": 1_000 * number,
        "ended_order": 2 * number + 1,
        "ended_us": 1_000 * number + 500,
        "broker": 1,
        "connection": 1,
        "partition": 0,
        "acks": -1,
        "producer_id": -1,
        "producer_epoch": -1,
        "sequence": -1,
        "count": 1,
        "size": 100,
        "crc": number,
        "first": number,
        "last": number,
        "appended_at": number,
        "base_offset": number,
        "error": "",
        "ending": "answered",
        "reason": "",
        "high_watermark": number + 1,
        "held": [1, 2, 3],
        "synced": [],
    } | more


def side_of(exchanges: list[dict[str, Any]], *anomalies: Anomaly, left_out: int = 0) -> SideOutcome:
    """A side with these exchanges and anomalies, otherwise one that was run."""
    recorded = Recorded.read({"exchanges": exchanges, "events": [], "watermarks": [], "left_out": left_out})
    side = lost_ack().sides[0]
    audit = side.verdict.audit
    found = tuple(
        replace(each, count=len(anomalies), evidence=anomalies if each.kind == "duplicated" else ())
        for each in audit.findings
    )
    return replace(side, verdict=replace(side.verdict, audit=replace(audit, findings=found)), recorded=recorded)


def lost(number: int) -> Anomaly:
    return Anomaly("duplicated", "trial", 0, number, (number,), f"record {number} is stored twice")


def test_many_requests_are_folded_around_the_anomalies() -> None:
    side = side_of([exchange(number) for number in range(30_000)], lost(17), lost(20_000), lost(29_998))
    timeline = timeline_of(side)
    assert len(timeline.rows) < 100
    assert [finding.exchanges[0].first for finding in timeline.findings] == [17, 20_000, 29_998]
    shown = sum(row.kind == REQUEST for row in timeline.rows)
    folded = [int(row.words.split()[0].replace(",", "")) for row in timeline.rows if row.kind == FOLD]
    assert shown + sum(folded) == 30_000


def test_a_page_stays_small_where_every_request_is_special() -> None:
    exchanges = [exchange(number, error="REQUEST_TIMED_OUT") for number in range(30_000)]
    outcome = lost_ack()
    side = side_of(exchanges, lost(15_000), left_out=7)
    timeline = timeline_of(side)
    assert len(timeline.rows) <= ROWS_MAX
    assert [row.exchange.first for row in timeline.rows if row.is_evidence and row.exchange] == [15_000] * 2
    page = as_report([TrialOutcome(outcome.scenario, (side,))])
    assert len(page) < 500_000
    assert "7 more were seen and are not told here" in page


def test_changes_of_many_leaders_are_folded() -> None:
    roles = [
        {"order": each, "at_us": each, "kind": "leads", "broker": 0, "partition": each, "leader": -1, "was": -1}
        | {"epoch": 0, "isr": [3]}
        for each in range(100)
    ]
    recorded = Recorded.read({"exchanges": [], "events": roles, "watermarks": [], "left_out": 0})
    rows = timeline_of(replace(side_of([]), recorded=recorded)).rows
    assert rows[0].words == "partition 0 has no leader; in sync: 3"
    assert [row.words for row in rows if row.kind == FOLD] == [
        "92 changes more of who leads a partition, or is in sync"
    ]


def test_an_anomaly_of_which_no_request_is_known_stands_at_the_end() -> None:
    timeline = timeline_of(side_of([exchange(number) for number in range(3)], lost(99)))
    assert timeline.rows[-1].finding is timeline.findings[0]
    assert timeline.findings[0].evidence == []


def test_requests_that_overlap_are_in_flight_together() -> None:
    exchanges = [exchange(0, ended_us=5_000), exchange(1, ended_us=5_000), exchange(6)]
    recorded = Recorded.read({"exchanges": exchanges, "events": [], "watermarks": [], "left_out": 0})
    assert recorded is not None
    assert [each.in_flight for each in recorded.exchanges] == [1, 2, 1]
