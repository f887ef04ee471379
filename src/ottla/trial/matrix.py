"""Trials with several clients in one table: a row a side, a column a client, and how to run again what failed."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from ottla.screen import plain_table
from ottla.trial.outcome import SideOutcome, TrialOutcome

_NOT_POSSIBLE = "-"
_WIDTH_MAX = 1_000


@dataclass(slots=True, frozen=True)
class Row:
    """One trial with several clients, which have the names that `--client` takes. `given`: how it was named there."""

    given: str
    outcomes: Mapping[str, TrialOutcome]


def show_matrix(console: Console, rows: Sequence[Row]) -> None:
    """What was seen of every side with every client."""
    clients = list(dict.fromkeys(name for row in rows for name in row.outcomes))
    table = plain_table(has_heading=True)
    for heading in ("trial", "side", *clients):
        table.add_column(heading, overflow="fold")
    for row in rows:
        first = next(iter(row.outcomes.values()))
        for index, side in enumerate(first.sides):
            cells = (_cell(row.outcomes[name].sides[index]) for name in clients)
            table.add_row("" if index else first.scenario.name, side.side.name, *cells)
    console.print()
    _print_whole(console, table)
    console.print()
    console.print(Text(f"{_NOT_POSSIBLE}: the client does not have what this side needs. !: not as expected.", "dim"))
    for name in clients:
        told = next((row.outcomes[name].client for row in rows if row.outcomes[name].client), "it never said")
        console.print(Text(f"{name}: {told}", "dim"))
    for row in rows:
        for name, outcome in row.outcomes.items():
            _show_red(console, row.given, name, outcome)


def _print_whole(console: Console, table: Table) -> None:
    """In a file nothing is folded; on a terminal what does not fit is."""
    width = console.width
    if not console.is_terminal:
        wanted = Measurement.get(console, console.options.update(max_width=_WIDTH_MAX), table).maximum
        console.width = max(width, wanted)
    console.print(table)
    console.width = width


def _cell(side: SideOutcome) -> Text:
    """The verdict, and below it what was found: kept does not mean that there was nothing."""
    if side.impossible is not None:
        return Text(_NOT_POSSIBLE, "dim")
    if side.void:
        return Text("void", "bold red")
    verdict = Text(side.seen, "green") if side.is_as_expected else Text(f"{side.seen}!", "bold red")
    return Text("\n").join([verdict, *(Text(kind, "dim") for kind in side.found)])


def _show_red(console: Console, given: str, name: str, outcome: TrialOutcome) -> None:
    """What was not as expected, and the command that shows it again."""
    wrong = [side for side in outcome.sides if not side.is_as_expected]
    if not wrong:
        return
    console.print()
    for side in wrong:
        console.print(Text(f"{name}, {outcome.scenario.name}, {side.side.name}: {_why(side)}", "red"))
    there = f" --bootstrap-servers {shlex.quote(outcome.kafka)}" if outcome.kafka else ""
    console.print(Text(f"  ottla trial {shlex.quote(given)} --client {name}{there}"), soft_wrap=True)


def _why(side: SideOutcome) -> str:
    if side.void:
        return f"void: {side.void[0]}"
    missing = "".join(f"; expected {kind}, and found none" for kind in side.missing)
    return f"expected {side.side.expect}, seen {side.seen}: {side.verdict.seen}{missing}"
