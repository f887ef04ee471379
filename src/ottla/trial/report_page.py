"""The report of trials as a page (`ottla.page`): verdicts first, then of each side claim, evidence and timeline.

Every anomaly that was kept as evidence has a link to its row in the timeline, and that row one back. Names and titles
come from files of users: they are shown as text, and never read as HTML.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from ottla.page import NUMBER, WORD, as_document, drawn, head_row, key, shown, table
from ottla.trial.junit import failure_of
from ottla.trial.outcome import LeftOut, SideOutcome, TrialOutcome
from ottla.trial.report_chart import STYLE as CHART_STYLE
from ottla.trial.report_chart import draw
from ottla.trial.timeline import (
    ANSWER,
    BROKER,
    FAULT,
    FINDING,
    FLUSH,
    FOLD,
    LEADER,
    NO_ANSWER,
    PRODUCER,
    Finding,
    Row,
    Timeline,
    tell,
)

# So many partitions are drawn; the rows show all.
_DRAWN_MAX = 6
# With more lanes there is no room for a word above one.
_LANES_WIDE = 5
_CLASSES = {
    ANSWER: "answer",
    NO_ANSWER: "hangup",
    FAULT: "fault",
    BROKER: "fault",
    LEADER: "leader",
    FLUSH: "flush",
    FINDING: "finding",
    FOLD: "fold",
}
_STYLE = """
h2 { font-size: 1.2rem; margin: 2.5rem 0 .3rem; border-top: 2px solid var(--lane); padding-top: 1rem; }
h3 { font-size: 1.05rem; margin: 2rem 0 .3rem; } h4 { font-size: .95rem; margin: 1rem 0 .2rem; }
h1, h2, h3, p { overflow-wrap: anywhere; }
.hangup .dot { background: var(--bad); }
ul.found, ul.found ul { margin: .2rem 0 1rem; padding-left: 1.2rem; }
ul.found ul { color: var(--dim); margin-bottom: .5rem; } ul.found li { overflow-wrap: anywhere; }
.back { font-weight: 400; font-size: .85rem; }
.row, .finding { scroll-margin-top: 4rem; }
.leader .words, .flush .words { color: var(--arrow); }
.skip { position: absolute; left: -99rem; } .skip:focus { position: static; }
:focus-visible { outline: 2px solid var(--arrow); outline-offset: 2px; }
@media print { .head { position: static; } .chart { overflow: visible; } .row, li, tr { break-inside: avoid; }
  .chart svg { max-width: 100%; height: auto; } .skip { display: none; } }
"""
_KEY = (
    ("", "arrow right", "request"),
    ("answer", "arrow left", "answer"),
    ("hangup", "dot", "no answer"),
    ("fault", "dot", "fault, broker"),
    ("leader", "dot", "leader"),
    ("evidence", "dot", "about an anomaly"),
    ("finding", "dot", "anomaly"),
)
_CELLS = {
    "trial": "",
    "side": "",
    "claimed": WORD,
    "seen": WORD,
    "sent": NUMBER,
    "acked": NUMBER,
    "stored": NUMBER,
    "found": "",
    "verdict": "",
}
_DRAWING = (
    "A column is a row of the timeline, not a length of time. A bar is a batch from its request to its answer, with "
    "its base sequence (without idempotence: the number of its first record). Bars above each other were in flight at "
    "once. ↻ is a retry, red got no answer or an error, dashed blue was known already. ◆ fault, ✕ broker ends, "
    "▲ broker starts, L leader, F flush, ! anomaly."
)


def as_report(outcomes: Sequence[TrialOutcome], left_out: Sequence[LeftOut] = ()) -> str:
    """The whole page, of one trial or of many; `left_out`: those that do not run where they should have."""
    passed = sum(each.passed for each in outcomes)
    if len(outcomes) == 1:
        title = f"{outcomes[0].scenario.name}: {'as expected' if passed else 'not as expected'}"
    else:
        title = f"{len(outcomes)} trials: {passed} as expected, {len(outcomes) - passed} not"
    lanes = 1 + max((each.scenario.brokers for each in outcomes), default=0)
    verdicts = "\n".join(_verdict(number, each) for number, each in enumerate(outcomes, 1))
    trials = "\n".join(_trial(number, each) for number, each in enumerate(outcomes, 1))
    body = f"""<h1 id="top">{shown(title)}</h1>
{verdicts}
{_table(outcomes)}
{_left_out(left_out)}
<p>A trial sends the same records under several settings while the same things go wrong, and holds what the producer was
told against what is stored. What was not found is not proved to be impossible.</p>
{trials}"""
    return as_document(title, body, lanes=lanes, style=_STYLE + CHART_STYLE)


def _left_out(left_out: Sequence[LeftOut]) -> str:
    if not left_out:
        return ""
    rows = [(shown(each.scenario.name), shown(each.why)) for each in left_out]
    told = table({"not on a foreign Kafka": WORD, "why": ""}, rows)
    return f"{told}\n<p>What is left out has neither passed nor failed.</p>"


def _verdict(number: int, outcome: TrialOutcome) -> str:
    kind = "verdict" if outcome.passed else "verdict bad"
    name = shown(outcome.scenario.name)
    return f'<p class="{kind}"><a href="#t{number}">{name}</a>: {shown(outcome.conclusion)}</p>'


def _table(outcomes: Sequence[TrialOutcome]) -> str:
    rows = []
    for number, outcome in enumerate(outcomes, 1):
        for count, side in enumerate(outcome.sides, 1):
            figures = side.verdict.figures
            cells = (
                shown(outcome.scenario.name),
                f'<a href="#t{number}s{count}">{shown(side.side.name)}</a>',
                side.side.claims,
                side.guarantee_seen,
                f"{figures.sent:,}",
                f"{figures.acked:,}",
                f"{figures.stored:,}",
                shown(side.verdict.seen),
                _word(side),
            )
            rows.append(cells)
    return table(_CELLS, rows)


def _word(side: SideOutcome) -> str:
    word = "void" if side.void else side.seen
    if side.is_as_expected:
        return f'<span class="verdict">{word}{", as expected" if side.broken else ""}</span>'
    return f'<span class="verdict bad">{word}{"" if side.void else ", not as expected"}</span>'


def _trial(number: int, outcome: TrialOutcome) -> str:
    scenario = outcome.scenario
    sides = "\n".join(_side(f"t{number}s{count}", outcome, side) for count, side in enumerate(outcome.sides, 1))
    return f"""<section id="t{number}">
<h2>{shown(scenario.name)}: {shown(scenario.title)}</h2>
<p>{shown(scenario.teaches)}</p>
<p>{scenario.records:,} records of {scenario.value_bytes:,} bytes to {_plural(scenario.partitions, "partition")} on
{_where(outcome)}.</p>
{sides}
</section>"""


def _where(outcome: TrialOutcome) -> str:
    if not outcome.kafka:
        return _plural(outcome.scenario.brokers, "broker")
    return f"the Kafka at {shown(outcome.kafka)}. Unseen there: {shown('; '.join(outcome.unseen))}"


def _side(place: str, outcome: TrialOutcome, side: SideOutcome) -> str:
    timeline = tell(side, outcome.scenario.brokers)
    facts = {
        "claimed": side.side.claims,
        "seen": f"{side.guarantee_seen}: {side.verdict.seen}",
        "producer": _settings(side.side.producer),
        "topic": _settings(side.side.topic),
        "faults": "; ".join(f"{each.fault.tell()}: {_times(each.fired)}" for each in side.faults) or "none",
    }
    if side.counted:
        facts["counted"] = ", ".join(f"{name} {side.counts[name]:,}" for name in side.counted)
    told = "".join(f"<dt>{name}</dt><dd>{shown(words)}</dd>" for name, words in facts.items())
    failure = failure_of(side)
    wrong = "" if failure is None else f'<p class="verdict bad">{shown(failure[1])}</p>'
    return f"""<article id="{place}">
<h3>{shown(side.side.name)}: {_word(side)}</h3>
{wrong}<dl>{told}</dl>
{_found(place, side, timeline)}
{"" if timeline is None else _timeline(place, side, timeline)}
</article>"""


def _found(place: str, side: SideOutcome, timeline: Timeline | None) -> str:
    if not side.anomalies:
        return "<p>No anomaly was found.</p>"
    if timeline is None:
        items = "".join(f"<li>{shown(each.kind)}: {shown(each.detail)}</li>" for each in side.anomalies)
    else:
        items = "".join(_item(place, each) for each in timeline.findings)
    counts = ", ".join(f"{count:,} {kind}" for kind, count in side.found.items())
    total, kept = sum(side.found.values()), len(side.anomalies)
    more = f" The first {kept:,} are shown as evidence." if kept < total else ""
    return f'<h4>Anomalies: {shown(counts)}</h4>\n<p>{more}</p><ul class="found">{items}</ul>'.replace("<p></p>", "")


def _item(place: str, finding: Finding) -> str:
    link = f'<a id="{place}a{finding.number}" href="#{place}f{finding.number}">{shown(finding.words)}</a>'
    told = "".join(f"<li>{shown(each)}</li>" for each in finding.evidence)
    return f"<li>{link}<ul>{told}</ul></li>"


def _timeline(place: str, side: SideOutcome, timeline: Timeline) -> str:
    assert side.recorded is not None
    places = {id(row): _place(place, number, row) for number, row in enumerate(timeline.rows)}
    drawings = "\n".join(
        f"<h4>Partition {each}</h4>\n{draw(each, timeline.rows, side.recorded, lambda row: places[id(row)])}"
        for each in timeline.partitions[:_DRAWN_MAX]
    )
    more = len(timeline.partitions) - _DRAWN_MAX
    rest = f"<p>{_plural(more, 'more partition')} not drawn; the rows below tell of all.</p>" if more > 0 else ""
    lanes = {name: number for number, name in enumerate(timeline.lanes)}
    producer = PRODUCER if len(lanes) <= _LANES_WIDE else PRODUCER[0].upper()
    names = [(name, producer if name == PRODUCER else name.removeprefix("broker ")) for name in lanes]
    rows = "\n".join(_row(place, places[id(row)], row, timeline, lanes) for row in timeline.rows)
    return f"""<p><a class="skip" href="#{place}end">Skip the timeline of {shown(side.side.name)}</a></p>
{drawings}
{rest}<p>{_DRAWING}</p>
<h4>Timeline, as the brokers saw it</h4>
{key(_KEY)}
<div style="--lanes: {len(lanes)}">
{head_row(names)}
<ol>
{rows}
</ol>
</div>
<p id="{place}end" tabindex="-1"><a href="#top">To the verdicts</a></p>"""


def _place(place: str, number: int, row: Row) -> str:
    return f"{place}r{number}" if row.finding is None else f"{place}f{row.finding.number}"


def _row(place: str, row_id: str, row: Row, timeline: Timeline, lanes: dict[str, int]) -> str:
    kinds = ["row", _CLASSES.get(row.kind, "")]
    if row.is_evidence and row.kind != FINDING:
        kinds.append("evidence")
    who = f"{row.at} to {row.to}: " if row.to else f"{row.at}: " if row.at else ""
    back = ""
    if row.finding is not None:
        back = f' <a class="back" href="#{place}a{row.finding.number}">to its evidence</a>'
    seconds = (row.at_us - timeline.began_us) / 1_000_000
    return (
        f'<li class="{" ".join(filter(None, kinds))}" id="{row_id}" tabindex="-1"><span class="at">{seconds:.4f}</span>'
        f'<div class="lanes">{drawn(lanes.get(row.at), lanes.get(row.to), len(lanes))}</div>'
        f'<div class="words"><span class="who">{shown(who)}</span>{shown(row.words)}{back}</div></li>'
    )


def _settings(settings: Mapping[str, Any]) -> str:
    told = {
        name.replace("_", "."): each if isinstance(each, str) else json.dumps(each) for name, each in settings.items()
    }
    return ", ".join(f"{name}={each}" for name, each in told.items()) or "the defaults"


def _times(count: int) -> str:
    return "fired once" if count == 1 else f"fired {count:,} times" if count else "never fired"


def _plural(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"
