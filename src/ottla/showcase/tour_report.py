"""What a tour shows on the terminal: a table and a chart for each knob, what diagnosis says, and what was learned.

All of it fits into 80 columns. Figures also go to a JSON file.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from textwrap import fill
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from ottla.json_output import write_json
from ottla.screen import plain_table
from ottla.showcase.tour_knobs import (
    BATCH,
    COMPRESSION,
    FIGURES,
    LATENCY,
    MB_PER_S,
    PARTITIONS,
    PER_REQUEST,
    QUEUE,
    RECORDS_PER_S,
    REQUESTS,
    Measured,
    Turned,
    make_records,
)
from ottla.showcase.tour_learned import both, figure, learned, ratio_words, shown

_HEADINGS = {
    RECORDS_PER_S: "records/s",
    MB_PER_S: "MB/s",
    BATCH: "batch\nbytes",
    PER_REQUEST: "records/\nrequest",
    COMPRESSION: "compr.\nrate",
    LATENCY: "latency\nms",
    QUEUE: "queue\nms",
    REQUESTS: "requests",
}
_NAMES = (
    "batch bytes: batch-size-avg. records/request: records-per-request-avg. compr. rate: compression-rate-avg. "
    "latency: request-latency-avg. queue: record-queue-time-avg. requests: Produce requests in all. "
    "MB: keys and values."
)
_BAR_MAX = 26
# What is told behind a bar.
_TOLD = 35


def show_tour(console: Console, turned: Sequence[Turned], took_s: float) -> None:
    """Print everything."""
    _, example = make_records()[0]
    console.print()
    console.print(f"The record, into {PARTITIONS} partitions on three brokers:", style="bold")
    console.print(example.decode(), soft_wrap=True)
    for each in turned:
        _show_knob(console, each)
    console.print()
    console.print(_NAMES, style="dim")
    console.print()
    _show_heading(console, "What was learned")
    for sentence in learned(turned):
        _show_point(console, sentence)
    console.print()
    console.print(
        f"All of it was measured in these {took_s:.0f} s, with brokers and producer on one machine: compare rows, and "
        'measure on yours. The page "What limits a producer" of the documentation says what each finding means.',
        style="dim",
    )


def _show_heading(console: Console, words: str) -> None:
    title = Text(words, "bold")
    if title.cell_len + 2 < console.width:
        console.rule(title, align="left", style="dim")
    else:
        console.print(title)


def _show_knob(console: Console, turned: Turned) -> None:
    knob = turned.knob
    pace = f"at {knob.pace:,} records/s" if knob.pace else "as fast as it goes"
    console.print()
    _show_heading(console, f"{knob.name}: {knob.words}")
    console.print(f"Records are sent {pace}.")
    for table in tables_of(turned, console.width):
        console.print(table)
    console.print()
    _show_chart(console, turned)
    for row in turned.rows:
        _show_point(console, f"{row.row.label}: {_advice(row)}")


def tables_of(turned: Turned, width: int) -> list[Table]:
    """A table with a row for each row of the knob; several with fewer figures each where `width` is short."""
    for size in range(len(FIGURES), 1, -1):
        tables = [_table(turned, FIGURES[first : first + size]) for first in range(0, len(FIGURES), size)]
        if all(Console(width=10_000).measure(table).maximum <= width for table in tables):
            return tables
    return [_table(turned, [name]) for name in FIGURES]


def _table(turned: Turned, names: Sequence[str]) -> Table:
    table = plain_table(has_heading=True)
    # One apart: eight figures and a label have to fit into 80 columns.
    table.padding = (0, 1, 0, 0)
    table.add_column("", no_wrap=True)
    for name in names:
        table.add_column(_HEADINGS[name], justify="right", no_wrap=True, vertical="bottom")
    for row in turned.rows:
        table.add_row(row.row.label, *(_cell(name, row.figures[name]) for name in names))
    return table


def _show_chart(console: Console, turned: Turned) -> None:
    """A bar for each row, and how each compares with the first."""
    name = turned.knob.shows
    first = turned.rows[0]
    most = max(figure(row, name) for row in turned.rows)
    label = max(len(row.row.label) for row in turned.rows)
    width = max(4, min(_BAR_MAX, console.width - label - _TOLD - 3))
    console.print(Text(name, "dim"))
    for row in turned.rows:
        value = figure(row, name)
        bar = "█" * max(1, round(width * value / most)) if value else ""
        told = shown(name, row.figures[name])
        if row is not first and value and figure(first, name):
            told = f"{both(name, first, row)} ({ratio_words(figure(first, name), value)})"
        console.print(f"{row.row.label:<{label}}  {bar:<{width}} {told}", soft_wrap=True)


def _advice(row: Measured) -> str:
    """What diagnosis says of a row: what limits it most in full, the rest in short."""
    diagnosis = row.diagnosis
    if not diagnosis.findings:
        if not diagnosis.is_certain:
            return "too little was sent to tell."
        # The first sentence has the records/s, which the table has, too; what is said besides is about this row.
        _, _, besides = diagnosis.sentence.partition(". ")
        return f"nothing in the producer limits it. {besides}".strip()
    first, *others = diagnosis.findings
    also = f" Besides: {', '.join(finding.limit.value for finding in others)}." if others else ""
    return first.sentence + also


def _show_point(console: Console, text: str) -> None:
    """A sentence with a mark before it, and its other lines indented."""
    indented = fill(text, max(20, console.width), initial_indent="• ", subsequent_indent="  ", break_on_hyphens=False)
    console.print(indented, soft_wrap=True)


def _cell(name: str, value: float | None) -> str:
    if value is None:
        return "–"
    if name == COMPRESSION:
        return f"{value:.2f}"
    return f"{value:,.0f}" if value >= 100 or name == REQUESTS else f"{value:.1f}"


def write_figures(place: str | Path, turned: Sequence[Turned], took_s: float) -> None:
    """The same figures, for programs."""
    content = {
        "seconds": round(took_s, 3),
        "partitions": PARTITIONS,
        "record": json.loads(make_records()[0][1]),
        "knobs": [
            {
                "knob": each.knob.name,
                "pace": each.knob.pace or None,
                "rows": [_as_json(row) for row in each.rows],
            }
            for each in turned
        ],
        "learned": learned(turned),
    }
    write_json(place, json.dumps(content, indent=2, ensure_ascii=False) + "\n", what="the figures")


def _as_json(row: Measured) -> dict[str, Any]:
    return {
        "name": row.row.name,
        "settings": dict(row.row.settings),
        "records": row.records,
        "seconds": round(row.seconds, 6),
        "figures": dict(row.figures),
        "diagnosis": {
            "sentence": row.diagnosis.sentence,
            "findings": [
                {
                    "limit": finding.limit.name,
                    "sentence": finding.sentence,
                    "evidence": dict(finding.evidence),
                    "setting": finding.setting,
                    "value": finding.value,
                }
                for finding in row.diagnosis.findings
            ],
        },
    }
