"""A trial on the terminal: what it teaches, a row a side, the evidence, and what that means."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from ottla.screen import plain_table
from ottla.trial.outcome import LeftOut, SideOutcome, TrialOutcome
from ottla.trial.scenario import BROKEN, Scenario


def show_scenario(console: Console, scenario: Scenario) -> None:
    """What is going to be tried."""
    console.print()
    console.print(Text(f"{scenario.name}: {scenario.title}", "bold"))
    console.print(Padding(Text(scenario.teaches), (0, 0, 1, 2)))


def show_list(console: Console, scenarios: Sequence[Scenario], elsewhere: Mapping[str, str | None]) -> None:
    """The trials there are. `elsewhere`: by name, why one runs on embedded clusters only; None where on any Kafka."""
    table = plain_table(has_heading=True)
    table.add_column("trial", no_wrap=True)
    table.add_column("what goes wrong")
    table.add_column("sides")
    for scenario in scenarios:
        mark = " *" if elsewhere[scenario.name] is None else ""
        table.add_row(f"{scenario.name}{mark}", scenario.title, ", ".join(side.name for side in scenario.sides))
    console.print(table)
    console.print()
    count = sum(why is None for why in elsewhere.values())
    words = f"* also on a Kafka of yours (--bootstrap-servers): {count} of {len(elsewhere)} trials."
    console.print(Text(words, "dim"))


def show_left_out(console: Console, left_out: Sequence[LeftOut]) -> None:
    """The trials that do not run on the Kafka that was given."""
    if not left_out:
        return
    console.print()
    table = plain_table(has_heading=True)
    table.add_column("not on a foreign Kafka", no_wrap=True)
    table.add_column("why")
    for each in left_out:
        table.add_row(each.scenario.name, each.why)
    console.print(table)
    console.print(
        Text(f"{len(left_out)} trial{'' if len(left_out) == 1 else 's'} left out: neither passed nor failed.", "yellow")
    )


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
    """The outcome of a trial."""
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
    where = f" to {outcome.kafka}" if outcome.kafka else ""
    console.print(Text(f"sent by {outcome.client or 'a client that did not say its name'}{where}", "dim"))
    for side in outcome.sides:
        _show_evidence(console, side)
    if outcome.unseen:
        console.print(Text(f"unseen on this Kafka: {'; '.join(outcome.unseen)}", "dim"))
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
        console.print(Text(f"{side.side.name}: this client does not have the trial's own setting {without}", "dim"))
    for name in side.counted:
        console.print(Text(f"{side.side.name}: {name} was {side.counts[name]:,}", "dim"))
    for why in side.void:
        console.print(Text(f"{side.side.name}: void: {why}", "red"))
    for kind in side.missing:
        console.print(Text(f"{side.side.name}: expected {kind}, and found none", "red"))
    for surprise in side.surprises:
        console.print(Text(f"{side.side.name}: {surprise}", "red"))
    for piece in side.evidence:
        console.print(Text(f"{side.side.name}  {piece.kind}: {piece.detail} (partition {piece.partition})", "dim"))


def _conclusion(outcome: TrialOutcome) -> Text:
    return Text(outcome.conclusion, "bold green" if outcome.passed else "bold red")
