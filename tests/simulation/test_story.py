"""The story of a run tells what happened in it, in 120 columns or on a page that needs nothing else."""

from __future__ import annotations

import re

import pytest
from tools.mutation.weaknesses import weakened

from ottla.faults.fault import make_fault
from ottla.protocol.messages import MODULES
from ottla.simulation.draw import draw
from ottla.simulation.outcome import summary_of
from ottla.simulation.plan import BEGIN, COMMIT, CRASH, PAUSE, SEND, Act, Plan, ProducerPlan, TimedFault, TopicPlan
from ottla.simulation.run import execute
from ottla.simulation.story import FAULT, FINDING, FOLD, Story, as_text, fault_words, tell
from ottla.simulation.story_page import as_page
from ottla.simulation.words import _WORDS

from ..page import Page

TOPIC = TopicPlan("t0", 1, 3, {"min_insync_replicas": 2})
LOSE_ACK = TimedFault(make_fault("lose_ack", times=1), 0, 5_000_000)
KILL = make_fault("kill", moment="now", broker_id=1)


def sends(*numbers: int) -> list[Act]:
    return [Act(SEND, number, "t0", 0) for number in numbers]


def small(*acts: Act, faults: tuple[TimedFault, ...] = (LOSE_ACK,), **settings: object) -> Plan:
    producer = ProducerPlan("p0", {"enable_idempotence": True, **settings}, [Act(PAUSE, pause_us=1000), *acts])
    return Plan(1, 3, False, {}, [TOPIC], [producer], [], list(faults))


def words(story: Story) -> list[str]:
    return [line.words for line in story.lines]


def position(story: Story, start: str, after: int = 0) -> int:
    found = (n for n, told in enumerate(words(story)) if n >= after and told.startswith(start))
    return next(found)


def test_a_lost_ack_is_told_message_by_message_in_order() -> None:
    story = tell(small(*sends(7)))
    asked = position(story, "Produce: t0-0: record 7")
    fired = position(story, "fault 0: lose ack of Produce (times=1), for 5 s", asked)
    again = position(story, "Produce: t0-0: record 7", asked + 1)
    answered = position(story, "Produce answered: t0-0: offset 0", again)
    told = position(story, "told acked in t0-0: record 7", answered)
    read = position(story, "t0-0 read uncommitted: records 7 in offsets 0 to 1", told)
    assert asked < fired < again < answered < told < read
    assert [line.at_us for line in story.lines] == sorted(line.at_us for line in story.lines)
    assert story.lines[asked].sender == "p0"
    assert story.lines[asked].receiver.startswith("broker-")


def test_a_transaction_is_told_by_its_coordinator_too() -> None:
    story = tell(small(Act(BEGIN), *sends(3), Act(COMMIT), faults=(), transactional_id="tx"))
    committed = position(story, "EndTxn: commit tx producer 0/0")
    markers = position(story, "WriteTxnMarkers: commit producer 0/", committed)
    assert position(story, "told: committed") > committed
    assert markers > committed


def test_deaths_and_outages_stand_where_they_happened() -> None:
    kill = TimedFault(KILL, 300_000, 1_000_000)
    acts = [*sends(1), Act(PAUSE, pause_us=600_000), Act(CRASH, pause_us=1000), *sends(2)]
    story = tell(small(*acts, faults=(kill,)))
    killed = position(story, "fault 0: broker 1 is killed, for 1 s")
    died = position(story, "dies", killed)
    born = position(story, "is born", died)
    assert story.lines[killed].kind == FAULT
    assert story.lines[born].sender == "p0.2"
    assert "p0.2" in story.participants
    assert "everything has healed" in words(story)


def test_a_fault_is_told_in_words_with_how_long_it_lasts() -> None:
    cut = TimedFault(make_fault("cut_link", broker_id=1, other_id=-2), 0, 500_000)
    assert fault_words(cut) == "broker 1 and the controller cannot reach each other, for 0.5 s"
    stall = TimedFault(make_fault("stall", probability=0.1, delay_max_ms=50), 0, 0)
    assert fault_words(stall) == "10 % of all messages are held up for at most 50 ms"


def test_what_is_found_stands_where_it_happened() -> None:
    kill = TimedFault(make_fault("kill", moment="now", broker_id=2), 500_000, 2_000_000)
    cuts = [
        TimedFault(make_fault("cut_link", broker_id=broker, other_id=-2), 3_000_000, 2_000_000) for broker in (0, 1)
    ]
    with weakened("unclean_election_always") as control:
        story = control.call(tell, small(faults=(kill, *cuts)))
    found = position(story, "broken leader epoch: broker 2 was elected")
    elected = position(story, "t0-0 led by 2, epoch 1, in sync 2, an unclean election")
    assert elected < found < position(story, "everything has healed")


def test_what_repeats_itself_is_folded() -> None:
    story = tell(small(*(act for number in range(60) for act in (*sends(number), Act(PAUSE, pause_us=10_000)))))
    folds = [line for line in story.lines if line.kind == FOLD]
    assert folds
    assert len(story.lines) < 80


@pytest.mark.parametrize("seed", [3, 20])
def test_no_line_of_a_drawn_seed_is_wider_than_120_columns(seed: int) -> None:
    story = tell(draw(seed))
    lines = as_text(story)
    assert max(map(len, lines)) <= 120
    assert all(line.startswith(" ") for line in lines)
    assert lines[0].split()[0] == "seconds"
    assert {"b0", "b1", "b2"} <= set(lines[0].split())


def test_telling_a_story_changes_nothing_of_the_run() -> None:
    assert tell(draw(4)).outcome.trace_hash == execute(draw(4)).trace_hash


def test_what_was_found_ends_the_story_and_marks_what_it_is_about() -> None:
    with weakened("no_sequence_check") as control:
        story = control.call(tell, small(*sends(7)))
    assert story.lines[-1].kind == FINDING
    assert any(told.startswith("duplicated: record 7 is stored at offsets 0 and 1") for told in words(story))
    about = [line.words for line in story.lines if line.is_evidence and line.kind != FINDING]
    assert sum(told.startswith("Produce: t0-0: record 7") for told in about) == 2
    assert as_text(story)[-1].endswith("◀")


def test_the_page_has_every_line_and_needs_nothing_else() -> None:
    story = tell(small(*sends(7), transactional_id=None, client_id="<b>&"))
    page = as_page(story)
    parsed = Page(page)
    assert parsed.open == []
    assert parsed.fetched == []
    assert not re.search(r"https?:|@import|url\(|<script", page)
    text = "".join(parsed.words)
    assert [told for told in words(story) if told not in text] == []
    assert "<b>&" in text
    assert page.count('<li class="row') == len(story.lines)


def page_of(story: Story) -> Page:
    return Page(as_page(story))


def test_what_was_found_leads_to_its_rows() -> None:
    with weakened("no_sequence_check") as control:
        story = control.call(tell, small(*sends(7)))
    parsed = page_of(story)
    assert parsed.links
    assert parsed.links == parsed.ids
    assert len(parsed.links) == sum(line.kind == FINDING for line in story.lines)
    assert page_of(tell(small(*sends(7)))).links == []


def test_an_exception_is_named_and_leads_to_its_trace() -> None:
    story = tell(small(*sends(7), no_such_setting=1))
    assert story.outcome.crashed is not None
    page, parsed = as_page(story), page_of(story)
    assert f"<title>Seed 1: {summary_of(story.outcome)}</title>" in page
    assert [place for place in parsed.links if place not in parsed.ids] == []
    assert len(parsed.links) == 1
    # The trace's rows keep their indentation, and marks that would point nowhere are left out.
    assert "pre-wrap" in page
    assert [told for told in words(story) if not told.strip(" ^~")] == []


def test_faults_stand_under_the_numbers_by_which_the_rows_call_them() -> None:
    page = as_page(tell(small(*sends(7), faults=(LOSE_ACK, TimedFault(KILL, 300_000, 1_000_000)))))
    assert "<dd>0: lose ack of Produce (times=1), for 5 s</dd><dd>1: broker 1 is killed, for 1 s</dd>" in page


def test_every_message_that_has_words_is_one_there_is() -> None:
    names = {f"{name}{kind}" for _, name in MODULES.values() for kind in ("Request", "Response")}
    assert _WORDS.keys() <= names
