"""The end of a run on the terminal: the verdict table, what was expected beside what was seen, evidence, what next.

The table fits 100 columns. Where the terminal is narrower, or the counts are longer than that allows, it is transposed,
one column per guarantee, and cut in two rather than squeezed. Figures also go to a JSON file.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from ottla.audit.ledgers.figures import Figures
from ottla.audit.ledgers.verdict import Verdict
from ottla.audit.promises import PROMISES
from ottla.audit.properties import HELD, HELD_IN_PART, NOT_JUDGED, VIOLATED, PropertyVerdict
from ottla.json_output import write_json
from ottla.screen import plain_table
from ottla.showcase.outcome import FAULT_WORDS, LOSE_ACK, STREAMED, Answer, Group, RunOutcome, VersionRead

_FIGURES = (
    ("sent", "sent"),
    ("acked", "acked"),
    ("failed", "failed"),
    ("unknown", "unknown"),
    ("stored", "stored"),
    ("lost", "lost"),
    ("duplicated", "duplicated"),
    ("reordered", "out of\norder"),
)
TOO_FEW_REQUESTS = "The input makes too few Produce requests for that: 25 rows are the least, 500 are plenty."
SCHEMAS = "Two versions of a schema, read as the newest one"
VERSION_COLUMNS = ("subject", "version", "id", "sent", "stored", "with default")
_HEADING_COLUMNS = max(len(heading) for _, heading in _FIGURES)
_PROPERTY_STYLES = {HELD: "green", HELD_IN_PART: "green", NOT_JUDGED: "dim", VIOLATED: "bold red"}
_NO_ANSWER = " (without effect: acks=0 asks for no answer)"
_ANOMALIES = ("lost", "duplicated", "reordered", "altered")


def show_report(console: Console, outcome: RunOutcome, commands: Sequence[tuple[str, str]]) -> None:
    """Print everything a run found out; `commands` are (command line, what it does)."""
    console.print()
    title = Text(outcome.title, "bold")
    if title.cell_len + 2 < console.width:
        console.rule(title, align="left", style="dim")
    else:
        console.print(title)
    console.print()
    for table in verdict_tables(outcome.judged, console.width):
        console.print(table)
        console.print()
    console.print(expectation_table(outcome.judged))
    _show_faults(console, outcome)
    _show_answers(console, outcome)
    _show_schemas(console, outcome)
    _show_evidence(console, outcome)
    _show_properties(console, outcome)
    _show_conclusion(console, outcome)
    _show_commands(console, commands)


def verdict_tables(verdicts: Sequence[Verdict], width: int) -> list[Table]:
    """The figures, a verdict a row where `width` columns allow it; else transposed, in as many tables as it takes."""
    upright = plain_table(has_heading=True)
    upright.add_column("guarantee", no_wrap=True, vertical="bottom")
    for _, heading in _FIGURES:
        upright.add_column(heading, justify="right", no_wrap=True)
    upright.add_column("verdict", no_wrap=True)
    for verdict in verdicts:
        upright.add_row(_name(verdict.guarantee), *_cells(verdict.figures), verdict_word(verdict))
    if _columns_of(upright) <= width:
        return [upright]
    for size in range(len(verdicts), 1, -1):
        tables = [_transposed(verdicts[first : first + size]) for first in range(0, len(verdicts), size)]
        if max(map(_columns_of, tables)) <= width:
            return tables
    return [_transposed([verdict]) for verdict in verdicts]


def _transposed(verdicts: Sequence[Verdict]) -> Table:
    transposed = plain_table(has_heading=True)
    transposed.add_column("", min_width=_HEADING_COLUMNS)
    for verdict in verdicts:
        transposed.add_column(_name(verdict.guarantee), justify="right", no_wrap=True)
    columns = [_cells(verdict.figures) for verdict in verdicts]
    for row, (_, heading) in enumerate(_FIGURES):
        transposed.add_row(heading.replace("\n", " "), *(column[row] for column in columns))
    transposed.add_row("verdict", *(verdict_word(verdict) for verdict in verdicts))
    return transposed


def _columns_of(table: Table) -> int:
    return Console(width=10_000).measure(table).minimum


def verdict_word(verdict: Verdict) -> Text:
    """One or two words: the guarantee held and the faults showed what it leaves open, or not."""
    if verdict.passed:
        return Text("✓ as promised", "green")
    if verdict.kept:
        return Text("? not shown", "yellow")
    return Text("✗ broken", "bold red")


def expectation_table(verdicts: Sequence[Verdict]) -> Table:
    """Expected outcome beside seen outcome."""
    table = plain_table(has_heading=True)
    table.add_column("guarantee", no_wrap=True)
    table.add_column("expected", overflow="fold")
    table.add_column("seen in the topic", overflow="fold")
    for verdict in verdicts:
        table.add_row(_name(verdict.guarantee), verdict.expected, Text(verdict.seen, "" if verdict.passed else "red"))
    return table


def answer_sentence(answer: Answer) -> str:
    """How far off the answer of one topic is, by its worst group."""
    wrong, groups = answer.wrong, len(answer.groups)
    if not wrong:
        return "right in the only group" if groups == 1 else f"right in all {groups:,} groups"
    if groups == 1:
        return group_sentence(wrong[0])
    return f"{group_sentence(wrong[0])}; {len(wrong):,} of {groups:,} groups {'is' if len(wrong) == 1 else 'are'} off"


def group_sentence(group: Group) -> str:
    """One group that is off: "JFK 17h: 3 % too many (1,236 instead of 1,200), mean delay 21.4 instead of 20.9"."""
    difference = group.count - group.truth_count
    mean = ""
    if group.mean is not None and group.truth_mean is not None:
        seen, true = f"{group.mean:.1f}", f"{group.truth_mean:.1f}"
        mean = f", mean delay {seen} instead of {true} min" if seen != true else ""
    if not difference:
        return f"{group.label}: right count{mean or ', another mean'}"
    if not group.truth_count:
        return f"{group.label}: {group.count:,} that the file does not have"
    word = "too many" if difference > 0 else "missing"
    share = _percent(abs(group.deviation))
    return f"{group.label}: {share} {word} ({group.count:,} instead of {group.truth_count:,}){mean}"


def write_figures(place: str | Path, outcome: RunOutcome) -> None:
    """Write the figures of `RunOutcome.figures` to stdout or into a file; `UserMistake` where that fails."""
    write_json(place, json.dumps(outcome.figures(), indent=2) + "\n", what="the figures")


def _cells(figures: Figures) -> list[Text]:
    cells = []
    for name, _ in _FIGURES:
        count = getattr(figures, name)
        style = "" if count and name not in _ANOMALIES else "yellow" if count else "dim"
        cells.append(Text(f"{count:,}", style))
    return cells


def _name(guarantee: str) -> Text:
    return Text(guarantee, "bold cyan")


def _percent(share: float) -> str:
    percent = share * 100
    return f"{percent:.0f} %" if percent >= 1.95 else f"{percent:.1f} %" if percent >= 0.05 else "under 0.1 %"


def _show_faults(console: Console, outcome: RunOutcome) -> None:
    _heading(console, "Broken on purpose")
    for guarantee, fired in faults_told(outcome):
        _item(console, guarantee, Text(fired))


def faults_told(outcome: RunOutcome) -> list[tuple[str, str]]:
    """What was broken on purpose: (guarantee, which faults fired, and how often)."""
    told = []
    for guarantee, kinds in outcome.fired.items():
        # With acks=0 brokers send no answer that could get lost.
        is_answered = PROMISES[guarantee].is_answered
        fired = [
            f"{times:,} × {FAULT_WORDS.get(kind, kind)}{'' if is_answered or kind != LOSE_ACK else _NO_ANSWER}"
            for kind, times in kinds.items()
        ]
        told.append((guarantee, ", ".join(fired)))
    if outcome.streamed.killed:
        words = f"{outcome.streamed.killed} × Spark's driver killed, its batch decided and nothing of it committed"
        told.append((STREAMED, words))
    return told


def _show_answers(console: Console, outcome: RunOutcome) -> None:
    _heading(console, f"Asked of each topic: {outcome.question}")
    for answer in outcome.answers:
        _item(console, answer.guarantee, Text(answer_sentence(answer), "yellow" if answer.wrong else "green"))


def _show_schemas(console: Console, outcome: RunOutcome) -> None:
    schemas = outcome.schemas
    if schemas is None:
        return
    _heading(console, SCHEMAS)
    console.print(Text(schemas.words, "red" if schemas.wrong else ""))
    console.print()
    columns = plain_table(has_heading=True)
    for head in VERSION_COLUMNS:
        is_word = head == "subject"
        columns.add_column(head, justify="left" if is_word else "right", overflow="fold", no_wrap=not is_word)
    for each in schemas.versions:
        columns.add_row(*version_cells(each), style="" if each not in schemas.wrong else "red")
    console.print(columns)


def version_cells(version: VersionRead) -> list[str]:
    """A version of a schema in a row of `VERSION_COLUMNS`."""
    numbers = version.version, version.schema_id, version.sent, version.stored, version.with_default
    return [version.subject, *(f"{number:,}" for number in numbers)]


def _show_evidence(console: Console, outcome: RunOutcome) -> None:
    pieces = [(verdict.guarantee, anomaly) for verdict in outcome.judged for anomaly in verdict.evidence]
    if not pieces:
        return
    _heading(console, "Evidence, one piece for each kind of anomaly")
    for guarantee, anomaly in pieces:
        text = Text.assemble((f"{anomaly.kind}: ", "bold"), f"{anomaly.detail}, partition {anomaly.partition}")
        example = outcome.examples.get(anomaly.sequence)
        if example:
            text.append(f"\n{example}", "dim")
        _item(console, guarantee, text)


def _show_properties(console: Console, outcome: RunOutcome) -> None:
    if not outcome.properties:
        return
    _heading(console, "The properties, by the checkers that judge the simulation")
    console.print(property_table(outcome.properties))
    console.print(Text(f"Looked at: {outcome.looked_at}.", "dim"))
    if outcome.kafka:
        console.print(Text(outcome.unseen, "yellow"))


def property_table(verdicts: Sequence[PropertyVerdict]) -> Table:
    """A property a row: its verdict, and below it what was found, or what could not be looked at and why."""
    table = plain_table()
    table.add_column(justify="right", no_wrap=True)
    table.add_column(no_wrap=True, min_width=len(HELD_IN_PART))
    table.add_column()
    for verdict in verdicts:
        what, word, words = verdict.what, verdict.word, Text(verdict.what.name)
        why = property_why(verdict)
        if why:
            words.append(f"\n{why}", "red" if word == VIOLATED else "dim")
        table.add_row(str(what.number), Text(word, _PROPERTY_STYLES[word]), words)
    return table


def property_why(verdict: PropertyVerdict) -> str:
    """What was found of a property, or what of it was not seen; empty where it held."""
    if verdict.word == HELD:
        return ""
    return verdict.why() if verdict.word == VIOLATED else f"not seen: {verdict.why()}"


def _show_conclusion(console: Console, outcome: RunOutcome) -> None:
    console.print()
    console.print(Text(outcome.conclusion, "bold green" if outcome.exit_status == 0 else "bold red"))
    if outcome.void and outcome.has_too_few_requests:
        console.print(TOO_FEW_REQUESTS)
    for sentence in outcome.miscounted:
        console.print(Text(sentence, "red"))
    if outcome.kept_in is not None:
        what = "Ledgers" if outcome.kafka else "Topics and ledgers"
        console.print(f"{what} are kept in {outcome.kept_in}.", soft_wrap=True, highlight=False)


def _show_commands(console: Console, commands: Sequence[tuple[str, str]]) -> None:
    _heading(console, "Next")
    for line, purpose in commands:
        # A command must survive being copied: it is never wrapped.
        console.print(Text(f"  {line}", "cyan"), soft_wrap=True)
        console.print(Padding(Text(purpose, "dim"), (0, 0, 0, 6)))
    console.print()


def _heading(console: Console, words: str) -> None:
    console.print()
    console.print(Text(words, "bold"))


def _item(console: Console, guarantee: str, text: Text) -> None:
    line = plain_table()
    line.add_column(width=13, no_wrap=True)
    line.add_column()
    line.add_row(_name(guarantee), text)
    console.print(line)
