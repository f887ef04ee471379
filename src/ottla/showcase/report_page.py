"""The report of a run as a page (`ottla.page`): the verdict first, then the figures, the evidence and the properties.

It shows what the terminal shows. There is no timeline: a run sends too many batches for its brokers to record each
(`ottla trial --report` has one).
"""

from __future__ import annotations

from ottla.audit.ledgers.verdict import Verdict
from ottla.audit.properties import VIOLATED
from ottla.page import NUMBER, WORD, as_document, shown, table
from ottla.showcase.outcome import RunOutcome
from ottla.showcase.report import (
    SCHEMAS,
    TOO_FEW_REQUESTS,
    VERSION_COLUMNS,
    answer_sentence,
    faults_told,
    property_why,
    verdict_word,
    version_cells,
)

_FIGURES = ("sent", "acked", "failed", "unknown", "stored", "lost", "duplicated", "reordered")


def as_report(outcome: RunOutcome) -> str:
    """The whole page."""
    is_good = outcome.exit_status == 0
    notes = [*([TOO_FEW_REQUESTS] if outcome.void and outcome.has_too_few_requests else []), *outcome.miscounted]
    faults = [(shown(guarantee), shown(fired)) for guarantee, fired in faults_told(outcome)]
    answers = [(shown(each.guarantee), shown(answer_sentence(each))) for each in outcome.answers]
    body = f"""<h1>{shown(outcome.title)}</h1>
<p class="verdict{"" if is_good else " bad"}">{shown(outcome.conclusion)}</p>
{"".join(f"<p>{shown(note)}</p>" for note in notes)}
{_verdicts(outcome)}
<h2>Evidence, one piece for each kind of anomaly</h2>
{_evidence(outcome)}
<h2>Broken on purpose</h2>
{table({"guarantee": WORD, "faults": ""}, faults)}
<h2>Asked of each topic: {shown(outcome.question)}</h2>
{table({"guarantee": WORD, "answer": ""}, answers)}
{_schemas(outcome)}
{_properties(outcome)}"""
    return as_document(outcome.title, body)


def _verdicts(outcome: RunOutcome) -> str:
    """A row for each topic; the evidence has links to them."""
    columns = {"claimed": WORD, "expected": "", "seen": ""} | dict.fromkeys(_FIGURES, NUMBER) | {"verdict": WORD}
    return table(columns, [_verdict(number, each) for number, each in enumerate(outcome.judged)])


def _verdict(number: int, verdict: Verdict) -> list[str]:
    figures = [f"{getattr(verdict.figures, name):,}" for name in _FIGURES]
    word = f'<span class="verdict{"" if verdict.passed else " bad"}">{shown(verdict_word(verdict).plain)}</span>'
    name = f'<span id="topic-{number}">{shown(verdict.guarantee)}</span>'
    return [name, shown(verdict.expected), shown(verdict.seen), *figures, word]


def _evidence(outcome: RunOutcome) -> str:
    items = []
    for number, verdict in enumerate(outcome.judged):
        link = f'<a href="#topic-{number}">{shown(verdict.guarantee)}</a>'
        for piece in verdict.evidence:
            example = outcome.examples.get(piece.sequence)
            told = f"{link}: {shown(piece.kind)}: {shown(piece.detail)}, partition {piece.partition}"
            items.append(f"<li>{told}{f'<br>{shown(example)}' if example else ''}</li>")
    return f"<ul>{''.join(items)}</ul>" if items else "<p>No anomaly was found.</p>"


def _schemas(outcome: RunOutcome) -> str:
    schemas = outcome.schemas
    if schemas is None:
        return ""
    columns = {head: WORD if head == "subject" else NUMBER for head in VERSION_COLUMNS}
    rows = [[shown(cell) for cell in version_cells(each)] for each in schemas.versions]
    kind = ' class="verdict bad"' if schemas.wrong else ""
    return f"<h2>{shown(SCHEMAS)}</h2><p{kind}>{shown(schemas.words)}</p>{table(columns, rows)}"


def _properties(outcome: RunOutcome) -> str:
    if not outcome.properties:
        return ""
    rows = []
    for verdict in outcome.properties:
        kind = "verdict bad" if verdict.word == VIOLATED else ""
        word = f'<span class="{kind}">{shown(verdict.word)}</span>'
        rows.append((str(verdict.what.number), word, shown(verdict.what.name), shown(property_why(verdict))))
    found = table({"property": NUMBER, "verdict": WORD, "about": WORD, "why": ""}, rows)
    return (
        "<h2>The properties, by the checkers that judge the simulation</h2>"
        f"{found}<p>Looked at: {shown(outcome.looked_at)}.</p>"
        f"{f'<p>{shown(outcome.unseen)}</p>' if outcome.kafka else ''}"
    )
