"""A trial on the terminal: what it teaches, a row a side, the evidence, and what that means."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from ottla.screen import plain_table
from ottla.trial.outcome import SideOutcome, TrialOutcome
from ottla.trial.scenario import BROKEN, Scenario


def show_scenario(console: Console, scenario: Scenario) -> None:
    """What is going to be tried."""
    console.print()
    console.print(Text(f"{scenario.name}: {scenario.title}", "bold"))
    console.print(Padding(Text(scenario.teaches), (0, 0, 1, 2)))


def show_list(console: Console, scenarios: Sequence[Scenario]) -> None:
    """The trials there are."""
    table = plain_table(has_heading=True)
    table.add_column("trial", no_wrap=True)
    table.add_column("what goes wrong")
    table.add_column("sides")
    for scenario in scenarios:
        table.add_row(scenario.name, scenario.title, ", ".join(side.name for side in scenario.sides))
    console.print(table)


def show_summary(console: Console, outcomes: Sequence[TrialOutcome]) -> None:
    """A line a trial."""
    console.print()
    table = plain_table(has_heading=True)
    table.add_column("trial", no_wrap=True)
    table.add_column("outcome")
    for outcome in outcomes:
        table.add_row(outcome.scenario.name, _conclusion(outcome))
    console.print(table)


def show_outcome(console: Console, outcome: TrialOutcome) -> None:
    """What came of it."""
    console.print()
    table = plain_table(has_heading=True)
    for heading, right in (("side", False), ("claims", False), ("sent", True), ("acked", True), ("stored", True)):
        table.add_column(heading, justify="right" if right else "left", no_wrap=right)
    table.add_column("found")
    table.add_column("verdict", no_wrap=True)
    for side in outcome.sides:
        figures = side.verdict.figures
        numbers = (f"{figures.sent:,}", f"{figures.acked:,}", f"{figures.stored:,}")
        table.add_row(side.side.name, side.side.claims, *numbers, side.verdict.seen, _verdict(side))
    console.print(table)
    console.print()
    console.print(Text(f"sent by {outcome.client or 'a client that never said who it is'}", "dim"))
    for side in outcome.sides:
        _show_evidence(console, side)
    console.print(_conclusion(outcome))


def _verdict(side: SideOutcome) -> Text:
    if side.impossible is not None:
        return Text("not possible", "yellow")
    if side.void:
        return Text("void", "bold red")
    style = "green" if side.is_as_expected else "bold red"
    if side.seen == side.side.expect == BROKEN:
        return Text("broken, as expected", style)
    return Text(side.seen, style)


def _show_evidence(console: Console, side: SideOutcome) -> None:
    if side.impossible is not None:
        console.print(Text(f"{side.side.name}: not possible with this client: {side.impossible}", "yellow"))
    elif side.without:
        without = ", ".join(side.without)
        console.print(Text(f"{side.side.name}: this client goes without the trial's own {without}", "dim"))
    for name in side.counted:
        console.print(Text(f"{side.side.name}: {name} was {side.counts[name]:,}", "dim"))
    for why in side.void:
        console.print(Text(f"{side.side.name}: void: {why}", "red"))
    for kind in side.missing:
        console.print(Text(f"{side.side.name}: nothing was {kind}, and something had to be", "red"))
    for surprise in side.surprises:
        console.print(Text(f"{side.side.name}: {surprise}", "red"))
    for piece in side.evidence:
        console.print(Text(f"{side.side.name}  {piece.kind}: {piece.detail} (partition {piece.partition})", "dim"))


def _conclusion(outcome: TrialOutcome) -> Text:
    return Text(outcome.conclusion, "bold green" if outcome.passed else "bold red")
