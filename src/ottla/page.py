"""HTML pages that need no other file: light or dark, for wide and narrow screens.

What the pages of simulations and of trials have in common: colours, and a timeline. Each row of it has a time, an arrow
from one lane to another, and words. On narrow screens the words stand below their arrow. The lanes' names stay in
sight. Nothing is fetched and no script runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape

from ottla.printable import printable

STYLE = """
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
:root { --good: #3c6b1e; } @media (prefers-color-scheme: dark) { :root { --good: #a3cf7d; } }
.verdict { color: var(--good); font-weight: 600; } .verdict.bad { color: var(--bad); }
table { border-collapse: collapse; width: 100%; margin: .6rem 0 1rem; }
th, td { text-align: left; padding: .25rem .6rem .25rem 0; border-bottom: 1px solid var(--lane); vertical-align: top;
  overflow-wrap: break-word; }
.wide { overflow-x: auto; }
th { color: var(--dim); font-weight: 600; font-size: .85rem; } .number { text-align: right; white-space: nowrap; }
@media (min-width: 60rem) { .word, td .verdict { white-space: nowrap; } }
@media (max-width: 45rem) {
  thead { position: absolute; clip-path: inset(50%); width: 1px; height: 1px; overflow: hidden; }
  table, tbody, tr, td { display: block; }
  tr { border-bottom: 2px solid var(--lane); padding: .4rem 0; }
  td { overflow-wrap: anywhere; border: 0; padding: .05rem 0; }
  td::before { content: attr(data-label) ": "; color: var(--dim); }
  td:empty { display: none; }
  .number { text-align: left; }
}
"""
NUMBER, WORD = "number", "word"
"""Kinds of columns of a `table`: right-aligned, and not broken where there is room; "" for all others."""


def as_document(title: str, body: str, *, lanes: int = 1, style: str = "") -> str:
    """The whole page. `body` is HTML; its timelines have `lanes` lanes. `style` is CSS, after that of all pages."""
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{shown(title)}</title>
<style>{STYLE}{style}</style>
</head>
<body style="--lanes: {lanes}">
{body}
</body>
</html>
"""


def shown(text: str) -> str:
    """Text of others as HTML: shown as it is, with control characters spelled out."""
    return escape(printable(text, besides="\n"))


def table(columns: Mapping[str, str], rows: Iterable[Sequence[str]]) -> str:
    """A table of these columns (heading -> kind) with cells of HTML; on narrow screens each row is a list."""
    kinds = {head: f' class="{kind}"' if kind else "" for head, kind in columns.items()}
    heads = "".join(f'<th scope="col"{kind}>{shown(head)}</th>' for head, kind in kinds.items())
    told = []
    for row in rows:
        cells = zip(kinds.items(), row, strict=True)
        told.append("".join(f'<td data-label="{shown(head)}"{kind}>{cell}</td>' for (head, kind), cell in cells))
    body = "".join(f"<tr>{each}</tr>" for each in told)
    return f'<div class="wide"><table><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table></div>'


def head_row(names: Sequence[tuple[str, str]]) -> str:
    """The row above a timeline, with the names of its lanes: (in full, short) for each."""
    told = "".join(f'<span title="{shown(name)}">{shown(short)}</span>' for name, short in names)
    return (
        f'<div class="row head"><span class="at">seconds</span>\n<div class="names">{told}</div>'
        '<div class="words">what happened</div></div>'
    )


def drawn(one: int | None, other: int | None, lanes: int) -> str:
    """An arrow from lane `one` to lane `other`; a dot if `other` is None or the same lane; "" if `one` is None."""
    if one is None:
        return ""
    width = 100 / lanes
    if other is None or other == one:
        return f'<i class="dot" style="left:{(one + 0.5) * width:.2f}%"></i>'
    left, length = (min(one, other) + 0.5) * width, abs(one - other) * width
    way = "right" if other > one else "left"
    return f'<i class="arrow {way}" style="left:{left:.2f}%;width:{length:.2f}%"></i>'


def key(signs: Sequence[tuple[str, str, str]]) -> str:
    """What the signs in the lanes mean, drawn as they are there: (class of the row, sign, words)."""
    told = "".join(
        f'<span class="{kind}"><span class="lanes"><i class="{sign}"></i></span>{words}</span>'
        for kind, sign, words in signs
    )
    return f'<p class="key">{told}</p>'
