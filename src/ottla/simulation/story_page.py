"""The story of a run as a page: one HTML file that needs nothing else, on paper-white or dark, on a desk or a phone.

A row is a moment: when, an arrow across the lanes, and the words; on narrow screens the words stand below their
arrow. The lanes' names stay in sight. What was found stands at the top and leads to the rows it was found in. The plan
is at the end, to be copied into a file and run.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from html import escape

from ottla.simulation.outcome import evidence_of, kinds_of, verdict_of
from ottla.simulation.story import FAULT, FINDING, FOLD, HANG_UP, Line, Story, fault_words, short

_STYLE = """
:root { color-scheme: light dark; --ink: #1d2330; --dim: #5b6473; --paper: #fdfdfb; --lane: #d5d9e0; --arrow: #2f6fb3;
  --answer: #5c8a3a; --bad: #b42318; --bad-paper: #fdecea; --storm: #8a5a00; --storm-paper: #fff4d6; --seen: #eef4fb; }
@media (prefers-color-scheme: dark) { :root { --ink: #e4e7ec; --dim: #98a2b3; --paper: #14171d; --lane: #343b47;
  --arrow: #7db4ee; --answer: #a3cf7d; --bad: #ff9c92; --bad-paper: #3a1a18; --storm: #f4c55c; --storm-paper: #33280f;
  --seen: #1b2634; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 76rem; padding: 1.2rem 1rem 4rem; background: var(--paper); color: var(--ink);
  font: 15px/1.45 system-ui, sans-serif; }
h1 { font-size: 1.35rem; margin: 0 0 .3rem; }
a { color: var(--arrow); }
p, dl { margin: .3rem 0 1rem; color: var(--dim); }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .1rem 1rem; }
dt { color: var(--dim); } dd { grid-column: 2; margin: 0; color: var(--ink); overflow-wrap: anywhere; }
ol { list-style: none; margin: 0; padding: 0; }
.row { display: grid; grid-template-columns: 5.4rem min(calc(var(--lanes) * 5rem), 50%) 1fr;
  gap: 0 .8rem; align-items: stretch; }
.row > * { padding: .12rem 0; }
.head { position: sticky; top: 0; background: var(--paper); border-bottom: 1px solid var(--lane); z-index: 1;
  font-weight: 600; font-size: .85rem; }
.names { display: grid; grid-template-columns: repeat(var(--lanes), 1fr); text-align: center; }
.names span { display: -webkit-box; -webkit-box-orient: vertical; -webkit-line-clamp: 2; overflow: hidden;
  overflow-wrap: anywhere; }
.at { color: var(--dim); text-align: right; font: .8rem/1.8 ui-monospace, monospace; }
.lanes { position: relative; min-height: 1.5rem; background: linear-gradient(to right, transparent calc(50% - .5px),
  var(--lane) 0 calc(50% + .5px), transparent 0) 0 0 / calc(100% / var(--lanes)) 100%; }
.arrow { position: absolute; top: .85rem; border-top: 2px solid var(--arrow); }
.arrow::after { content: ""; position: absolute; top: -6px; border: 5px solid transparent; }
.arrow.right::after { right: 0; border-left: 8px solid var(--arrow); border-right: 0; }
.arrow.left::after { left: 0; border-right: 8px solid var(--arrow); border-left: 0; }
.answer .arrow { border-top: 2px dashed var(--answer); }
.answer .arrow.right::after { border-left-color: var(--answer); }
.answer .arrow.left::after { border-right-color: var(--answer); }
.hangup .arrow { border-top-color: var(--bad); border-top-style: dotted; }
.hangup .arrow.right::after { border-left-color: var(--bad); }
.hangup .arrow.left::after { border-right-color: var(--bad); }
.dot { position: absolute; top: .6rem; width: .6rem; height: .6rem; margin-left: -.3rem; border-radius: 50%;
  background: var(--ink); }
.fault .dot { background: var(--storm); border-radius: 2px; rotate: 45deg; }
.finding .dot { background: var(--bad); }
.key { display: flex; flex-wrap: wrap; gap: .2rem 1.4rem; }
.key > * { padding-right: .5rem; }
.key .lanes { display: inline-block; width: 2.4rem; min-height: 1rem; margin: 0 .4rem; background: none; }
.key .arrow { left: 0; width: 100%; } .key .dot { left: 50%; top: .5rem; }
.words { overflow-wrap: anywhere; white-space: pre-wrap; }
.finding { scroll-margin-top: 4rem; }
.fault, .fault .words { background: var(--storm-paper); color: var(--storm); }
.finding, .finding .words { background: var(--bad-paper); color: var(--bad); font-weight: 600; }
.fold .words { color: var(--dim); font-style: italic; }
.evidence { background: var(--seen); font-weight: 600; }
.row:target { outline: 2px solid var(--bad); outline-offset: -2px; }
details { margin-top: 1.5rem; } summary { cursor: pointer; }
.who { position: absolute; clip-path: inset(50%); width: 1px; height: 1px; overflow: hidden; }
pre { overflow-x: auto; font: .8rem/1.4 ui-monospace, monospace; background: var(--seen); padding: .8rem; }
@media (max-width: 60rem) {
  .row { grid-template-columns: 4.6rem 1fr; }
  .row .words { grid-column: 1 / -1; padding: 0 0 .45rem; }
  .head .words { display: none; }
  .head .names { font-size: .7rem; letter-spacing: -.02em; }
}
"""


def as_page(story: Story) -> str:
    """The whole page."""
    plan, verdict = story.plan, verdict_of(story.outcome)
    names = "".join(f'<span title="{escape(name)}">{escape(short(name))}</span>' for name in story.participants)
    lanes = {name: number for number, name in enumerate(story.participants)}
    rows = "\n".join(_row(number, line, lanes) for number, line in enumerate(story.lines))
    facts = {
        "records": [str(plan.records)],
        "faults": [f"{number}: {fault_words(timed)}" for number, timed in enumerate(plan.faults)] or ["none"],
        "producers": [f"{each.name}: {_settings(each.settings)}" for each in plan.producers] or ["none"],
        "trace hash": [story.outcome.trace_hash],
    }
    told = _fact("found", _found(story)) + "".join(_fact(name, map(escape, values)) for name, values in facts.items())
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Seed {plan.seed}: {escape(verdict)}</title>
<style>{_STYLE}</style>
</head>
<body style="--lanes: {len(lanes)}">
<h1>Seed {plan.seed}: {escape(verdict)}</h1>
<p>A simulated run, message by message. Times are simulated seconds; what repeats itself is folded.</p>
<dl>{told}</dl>
<p class="key">{_KEY}</p>
<div class="row head"><span class="at">seconds</span>
<div class="names">{names}</div><div class="words">what happened</div></div>
<ol>
{rows}
</ol>
<details><summary>The plan, for <code>ottla simulate --plan FILE</code></summary>
<pre>{escape(json.dumps(plan.to_dict(), indent=1))}</pre></details>
</body>
</html>
"""


# What the signs in the lanes mean, drawn as they are there.
_KEY = "".join(
    f'<span class="{kind}"><span class="lanes"><i class="{sign}"></i></span>{words}</span>'
    for kind, sign, words in (
        ("", "arrow right", "request"),
        ("answer", "arrow left", "answer"),
        ("hangup", "arrow right", "hangs up"),
        ("", "dot", "happened there"),
        ("fault", "dot", "fault"),
        ("evidence", "dot", "about what was found"),
        ("finding", "dot", "found"),
    )
)


def _fact(name: str, values: Iterable[str]) -> str:
    return f"<dt>{name}</dt>" + "".join(f"<dd>{value}</dd>" for value in values)


def _found(story: Story) -> list[str]:
    """What was found, each a link to its row; an exception's, to the first row of its trace."""
    seen = {words for _, words in evidence_of(story.outcome)}
    rows = [(number, line.words) for number, line in enumerate(story.lines) if line.kind == FINDING]
    found = [(number, words) for number, words in rows if words in seen]
    trace = [number for number, words in rows if words not in seen]
    if trace:
        found.insert(0, (trace[0], kinds_of(story.outcome)[0]))
    return [f'<a href="#row-{number}">{escape(words)}</a>' for number, words in found] or ["nothing"]


def _settings(settings: dict[str, object]) -> str:
    return ", ".join(f"{name} {json.dumps(value)}" for name, value in settings.items()) or "the settings' defaults"


def _row(number: int, line: Line, lanes: dict[str, int]) -> str:
    kinds = [_CLASSES.get(line.kind, "")]
    if line.is_answer:
        kinds.append("answer")
    if line.is_evidence and line.kind != FINDING:
        kinds.append("evidence")
    who = f"{line.sender} to {line.receiver}: " if line.receiver else f"{line.sender}: " if line.sender else ""
    # A place to lead to, also for whoever walks the page by keyboard.
    place = f' id="row-{number}" tabindex="-1"' if line.kind == FINDING else ""
    return (
        f'<li class="{" ".join(["row", *filter(None, kinds)])}"{place}>'
        f'<span class="at">{line.at_us / 1_000_000:.4f}</span>'
        f'<div class="lanes">{_drawn(line, lanes)}</div>'
        f'<div class="words"><span class="who">{escape(who)}</span>{escape(line.words)}</div></li>'
    )


_CLASSES = {FAULT: "fault", FOLD: "fold", FINDING: "finding", HANG_UP: "hangup"}


def _drawn(line: Line, lanes: dict[str, int]) -> str:
    one, other = lanes.get(line.sender), lanes.get(line.receiver)
    if one is None:
        return ""
    width = 100 / len(lanes)
    if other is None or other == one:
        return f'<i class="dot" style="left:{(one + 0.5) * width:.2f}%"></i>'
    left, length = (min(one, other) + 0.5) * width, abs(one - other) * width
    way = "right" if other > one else "left"
    return f'<i class="arrow {way}" style="left:{left:.2f}%;width:{length:.2f}%"></i>'
