"""A partition's timeline as a drawing: its batches in flight, what happened meanwhile, and the high watermark.

A column is a row of the timeline, so that what happens within a millisecond has as much room as a second in which
nothing does. A bar goes from the request to its answer; bars above each other were in flight at once. Each bar and each
mark leads to its row. The drawing scrolls in its own box; all of it stands in the rows below, too, in words.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from ottla.cluster.recorder import ANSWERED
from ottla.page import shown
from ottla.trial.recorded import Exchange, Recorded
from ottla.trial.timeline import ANSWER, BROKER, FAULT, FINDING, FLUSH, FOLD, LEADER, NO_ANSWER, REQUEST, Row

_COLUMN, _BAR, _TOP, _STEPS = 30, 18, 34, 64
_SIGNS = {FAULT: "◆", BROKER: "✕", LEADER: "L", FLUSH: "F", FINDING: "!"}

STYLE = """
.chart { overflow-x: auto; border: 1px solid var(--lane); border-radius: 4px; margin: .4rem 0 1rem; }
.chart:focus-visible { outline: 2px solid var(--arrow); }
.chart svg { display: block; font: 10px ui-monospace, monospace; }
.chart text { fill: var(--ink); } .chart .small { fill: var(--dim); }
.chart .bar rect { fill: var(--seen); stroke: var(--answer); stroke-width: 1.5; }
.chart .known rect { stroke: var(--arrow); stroke-dasharray: 4 2; }
.chart .bad rect { fill: var(--bad-paper); stroke: var(--bad); }
.chart .proof rect { stroke-width: 3; }
.chart .mark line { stroke: var(--lane); stroke-dasharray: 2 3; }
.chart .mark.fault text { fill: var(--storm); } .chart .mark.finding text { fill: var(--bad); font-weight: 700; }
.chart .mark.fault line { stroke: var(--storm); } .chart .mark.finding line { stroke: var(--bad); }
.chart .mark.broker text { fill: var(--bad); } .chart .mark.broker line { stroke: var(--bad); }
.chart .folded rect { fill: var(--lane); opacity: .35; }
.chart polyline { fill: none; stroke-width: 2; } .chart .water { stroke: var(--arrow); }
.chart .end { stroke: var(--dim); stroke-dasharray: 3 3; }
.chart a:focus-visible { outline: 2px solid var(--arrow); }
"""


def draw(partition: int, rows: Sequence[Row], recorded: Recorded, place: Callable[[Row], str]) -> str:
    """The drawing of one partition; `place` says the id of a row."""
    rows = [row for row in rows if row.partition in (partition, -1)]
    columns = {id(row): number for number, row in enumerate(rows)}
    bars = list(_bars(rows, columns))
    slots = max((slot for _, _, _, slot in bars), default=0) + 1
    base = _TOP + slots * (_BAR + 4)
    width, height = len(rows) * _COLUMN + 60, base + _STEPS + 42
    drawn = [_mark(row, columns[id(row)], height - 8, place) for row in rows if row.kind in _SIGNS or row.kind == FOLD]
    drawn += [_bar(row, begin, end, slot, place) for row, begin, end, slot in bars]
    drawn.append(_watermarks(partition, rows, recorded, base + 12))
    requests = sum(each.partition == partition for each in recorded.exchanges)
    label = (
        f"Partition {partition}: {requests:,} Produce requests, drawn from left to right; the rows below say the same"
    )
    return (
        f'<div class="chart" tabindex="0" role="region" aria-label="{shown(label)}">'
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}">'
        f"{''.join(drawn)}</svg></div>"
    )


def _bars(rows: Sequence[Row], columns: dict[int, int]) -> Iterator[tuple[Row, int, int, int]]:
    """(row of the request, first column, last column, how many are above it) of each batch."""
    ends = {
        row.exchange.order: columns[id(row)]
        for row in rows
        if row.exchange is not None and row.kind in (ANSWER, NO_ANSWER)
    }
    busy: list[int] = []
    for row in rows:
        if row.kind != REQUEST or row.exchange is None:
            continue
        begin = columns[id(row)]
        # If the row of the answer is folded, the bar is one column long: the fold is not far behind.
        end = ends.get(row.exchange.order, begin + 1)
        slot = next((number for number, until in enumerate(busy) if until <= begin), len(busy))
        busy[slot : slot + 1] = [end]
        yield row, begin, end, slot


def _bar(row: Row, begin: int, end: int, slot: int, place: Callable[[Row], str]) -> str:
    each = row.exchange
    assert each is not None
    x, y = begin * _COLUMN + _COLUMN // 2, _TOP + slot * (_BAR + 4)
    width = max(_COLUMN - 6, (end - begin) * _COLUMN)
    number = each.sequence if each.producer_id >= 0 else max(each.first, 0)
    words = f"{'↻' if each.attempt > 1 else ''}{number}"
    proof = " proof" if row.is_evidence else ""
    return (
        f'<a href="#{place(row)}" tabindex="-1" class="bar {_became(each)}{proof}"><title>{shown(row.words)}</title>'
        f'<rect x="{x}" y="{y}" width="{width}" height="{_BAR}" rx="3"/>'
        f'<text x="{x + 3}" y="{y + 13}">{words}</text></a>'
    )


def _became(each: Exchange) -> str:
    if each.ending != ANSWERED or each.error:
        return "bad"
    if each.appended_at < 0:
        # Known by its sequence number; of acks=0, lost before the append.
        return "known" if each.base_offset >= 0 else "bad"
    return ""


def _mark(row: Row, column: int, height: int, place: Callable[[Row], str]) -> str:
    x = column * _COLUMN + _COLUMN // 2
    opened = f'<a href="#{place(row)}" tabindex="-1" class="mark {row.kind}"><title>{shown(row.words)}</title>'
    if row.kind == FOLD:
        half = _COLUMN // 2
        return (
            f'<g class="folded"><title>{shown(row.words)}</title><rect x="{x - half}" y="18" width="{_COLUMN}" '
            f'height="{height - 18}"/><text x="{x - 4}" y="13">…</text></g>'
        )
    sign = f"L{row.at.removeprefix('broker ')}" if row.kind == LEADER else _SIGNS[row.kind]
    if row.kind == BROKER and row.words.endswith("starts"):
        sign = "▲"
    return (
        f'{opened}<line x1="{x}" x2="{x}" y1="18" y2="{height}"/>'
        f'<text x="{x}" y="13" text-anchor="middle">{sign}</text></a>'
    )


def _watermarks(partition: int, rows: Sequence[Row], recorded: Recorded, top: int) -> str:
    """The high watermark and the end of the leader's log, a step a column."""
    ends, marks, end = [], [], 0
    for row in rows:
        each = row.exchange
        if each is not None and each.partition == partition and each.appended_at >= 0 and row.kind != REQUEST:
            end = each.appended_at + each.count
        ends.append(end)
        # A fold ends with the last that is folded.
        at_us = each.end_us if each is not None and row.kind == FOLD else row.at_us
        marks.append(recorded.high_watermark(partition, at_us))
    most = max(*ends, *marks, 1)
    bottom = top + _STEPS

    def line(values: Sequence[int], kind: str) -> str:
        points = []
        for number, value in enumerate(values):
            y = bottom - value * _STEPS / most
            points.append(f"{number * _COLUMN},{y:.1f} {(number + 1) * _COLUMN},{y:.1f}")
        return f'<polyline class="{kind}" points="{" ".join(points)}"/>'

    return (
        f"{line(ends, 'end')}{line(marks, 'water')}"
        f'<text class="small" x="4" y="{bottom + 20}">high watermark, {marks[-1] if marks else 0:,} at the end; '
        "dashed: end of the log</text>"
    )
