"""An audit on the terminal: the figures, the guarantee claimed beside the one seen, and the evidence."""

from __future__ import annotations

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from ottla.audit.promises import PROMISES
from ottla.screen import plain_table
from ottla.topic_audit.outcome import NONE_SEEN, AuditOutcome

_FIGURES = ("sent", "acked", "failed", "unknown", "stored", "lost", "duplicated", "reordered", "altered")


def show_outcome(console: Console, outcome: AuditOutcome) -> None:
    """Print all of it."""
    verdict = outcome.verdict
    console.print()
    # A row for each figure, so that the table fits every terminal however large the counts are.
    table = plain_table()
    table.add_column(min_width=max(map(len, _FIGURES)))
    table.add_column(justify="right", no_wrap=True)
    for name in _FIGURES:
        table.add_row(name, f"{getattr(verdict.figures, name):,}")
    console.print(table)
    console.print()
    words = plain_table()
    words.add_column(no_wrap=True)
    words.add_column()
    words.add_row("claimed", f"{verdict.guarantee}: {PROMISES[verdict.guarantee].claim_words}")
    words.add_row("seen", f"{_seen_words(outcome)}: {verdict.seen}")
    console.print(words)
    if outcome.evidence:
        console.print()
        for piece in outcome.evidence:
            console.print(Padding(f"{piece.kind}: partition {piece.partition}: {piece.detail}", (0, 0, 0, 2)))
    if outcome.notes:
        console.print()
    for note in outcome.notes:
        console.print(note, style="yellow")
    console.print()
    console.print(_conclusion(outcome))


def _seen_words(outcome: AuditOutcome) -> str:
    if outcome.void is not None:
        return "not known"
    return "none of the three guarantees" if outcome.seen == NONE_SEEN else outcome.seen


def _conclusion(outcome: AuditOutcome) -> Text:
    verdict = outcome.verdict
    if outcome.void is not None:
        return Text(f"This proves nothing: {outcome.void}.", "bold red")
    sent = verdict.figures.sent
    took = f"{sent:,} record{'s' * (sent != 1)} audited {outcome.engine} in {outcome.seconds:,.1f} s"
    if verdict.kept:
        return Text(f"{outcome.topic} is as claimed, {verdict.guarantee}: {took}.", "bold green")
    broken = ", ".join(f"{each.count:,} {each.kind}" for each in verdict.breaches)
    return Text(f"{outcome.topic} is not {verdict.guarantee}: {broken}; {took}.", "bold red")
