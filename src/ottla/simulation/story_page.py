"""The story of a run as an HTML page (`ottla.page`), message by message.

What was found is at the top, with links to its rows. The plan is at the end, to be copied into a file and run.
"""

from __future__ import annotations

import json
from collections.abc import Iterable

from ottla.page import as_document, drawn, head_row, key, shown
from ottla.simulation.outcome import evidence_of, kinds_of, summary_of
from ottla.simulation.story import FAULT, FINDING, FOLD, HANG_UP, Line, Story, fault_words, short


def as_page(story: Story) -> str:
    """The whole page."""
    plan, summary = story.plan, summary_of(story.outcome)
    lanes = {name: number for number, name in enumerate(story.participants)}
    rows = "\n".join(_row(number, line, lanes) for number, line in enumerate(story.lines))
    facts = {
        "records": [str(plan.records)],
        "faults": [f"{number}: {fault_words(timed)}" for number, timed in enumerate(plan.faults)] or ["none"],
        "producers": [f"{each.name}: {_settings(each.settings)}" for each in plan.producers] or ["none"],
        "trace hash": [story.outcome.trace_hash],
    }
    told = _fact("found", _found(story)) + "".join(_fact(name, map(shown, values)) for name, values in facts.items())
    title = f"Seed {plan.seed}: {summary}"
    body = f"""<h1>{shown(title)}</h1>
<p>A simulated run, message by message. Times are simulated seconds; what repeats itself is folded.</p>
<dl>{told}</dl>
{key(_KEY)}
{head_row([(name, short(name)) for name in story.participants])}
<ol>
{rows}
</ol>
<details><summary>The plan, for <code>ottla simulate --plan FILE</code></summary>
<pre>{shown(json.dumps(plan.to_dict(), indent=1))}</pre></details>"""
    return as_document(title, body, lanes=len(lanes))


_KEY = (
    ("", "arrow right", "request"),
    ("answer", "arrow left", "answer"),
    ("hangup", "arrow right", "hangs up"),
    ("", "dot", "happened there"),
    ("fault", "dot", "fault"),
    ("evidence", "dot", "about what was found"),
    ("finding", "dot", "found"),
)


def _fact(name: str, values: Iterable[str]) -> str:
    return f"<dt>{name}</dt>" + "".join(f"<dd>{value}</dd>" for value in values)


def _found(story: Story) -> list[str]:
    """What was found, each as a link to its row; an exception links to the first row of its traceback."""
    seen = {words for _, words in evidence_of(story.outcome)}
    rows = [(number, line.words) for number, line in enumerate(story.lines) if line.kind == FINDING]
    found = [(number, words) for number, words in rows if words in seen]
    trace = [number for number, words in rows if words not in seen]
    if trace:
        found.insert(0, (trace[0], kinds_of(story.outcome)[0]))
    return [f'<a href="#row-{number}">{shown(words)}</a>' for number, words in found] or ["nothing"]


def _settings(settings: dict[str, object]) -> str:
    return ", ".join(f"{name} {json.dumps(value)}" for name, value in settings.items()) or "the settings' defaults"


def _row(number: int, line: Line, lanes: dict[str, int]) -> str:
    kinds = [_CLASSES.get(line.kind, "")]
    if line.is_answer:
        kinds.append("answer")
    if line.is_evidence and line.kind != FINDING:
        kinds.append("evidence")
    who = f"{line.sender} to {line.receiver}: " if line.receiver else f"{line.sender}: " if line.sender else ""
    # The target of a link; tabindex makes it work with the keyboard, too.
    place = f' id="row-{number}" tabindex="-1"' if line.kind == FINDING else ""
    return (
        f'<li class="{" ".join(["row", *filter(None, kinds)])}"{place}>'
        f'<span class="at">{line.at_us / 1_000_000:.4f}</span>'
        f'<div class="lanes">{drawn(lanes.get(line.sender), lanes.get(line.receiver), len(lanes))}</div>'
        f'<div class="words"><span class="who">{shown(who)}</span>{shown(line.words)}</div></li>'
    )


_CLASSES = {FAULT: "fault", FOLD: "fold", FINDING: "finding", HANG_UP: "hangup"}
