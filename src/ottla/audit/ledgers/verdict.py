"""The guarantee claimed, compared with the guarantee seen.

Each guarantee promises that some kinds of anomaly do not happen, and allows others (`promises`). In a run whose faults
are meant to tell the guarantees apart, the anomalies that a guarantee allows must appear: a run in which at-least-once
duplicates nothing has proved nothing about exactly-once. Passing is therefore two things, `kept` and `shown`. A verdict
never proves absence beyond the records it has read.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from ottla.audit import findings as kinds
from ottla.audit.findings import Finding
from ottla.audit.ledgers.figures import Figures
from ottla.audit.ledgers.partition import Audit
from ottla.audit.promises import PROMISES


@dataclass(slots=True, frozen=True)
class Verdict:
    """One guarantee's judgement.

    `breaches`: findings the guarantee forbids. `missing`: kinds that the faults should have brought out and did not.
    `expected` and `seen` are short sentences for a table; `evidence` holds one anomaly per kind that was found.
    """

    guarantee: str
    audit: Audit
    breaches: tuple[Finding, ...]
    missing: tuple[str, ...]
    expected: str
    seen: str

    @property
    def figures(self) -> Figures:
        """The row of the table."""
        return self.audit.figures

    @property
    def void(self) -> str | None:
        """Why this proves nothing, whatever was found: the ledger is not whole, or no record was ever sent off."""
        if self.figures.sent and self.figures.failed == self.figures.sent:
            return "every record failed"
        return self.audit.numbers.wrong()

    @property
    def kept(self) -> bool:
        """The guarantee held for every record read, and the ledger is one of records that were sent."""
        return not self.breaches and self.void is None

    @property
    def passed(self) -> bool:
        """Kept, and the faults showed what this guarantee leaves open."""
        return self.kept and not self.missing

    @property
    def evidence(self) -> tuple[kinds.Anomaly, ...]:
        """One piece of evidence per kind of anomaly found, forbidden or not."""
        return tuple(finding.evidence[0] for finding in self.audit.findings if finding.evidence)

    @property
    def found(self) -> tuple[Finding, ...]:
        """What the guarantee forbids, and whether it is broken, for `properties`; the rest was meant to show."""
        broken = dict.fromkeys(finding.kind for finding in self.breaches)
        kept = (each if each.kind in broken else Finding(each.kind, 0) for each in self.audit.findings)
        detail = f"{self.guarantee}: {self.seen}"
        evidence = (kinds.Anomaly(kinds.BROKEN_PROMISE, "", -1, -1, (), detail),) if broken else ()
        return (*kept, Finding(kinds.BROKEN_PROMISE, len(broken), evidence))


def judge(guarantee: str, audit: Audit, *, shows: Collection[str] | None = None, max_in_flight: int = 5) -> Verdict:
    """Compare an audit with a guarantee's promise, for a producer with so many requests in flight.

    `shows`: the kinds that the faults should have brought out, () where nothing was broken on purpose; None: all that
    the guarantee leaves open.
    """
    promise = PROMISES[guarantee]
    # Nothing allows a torn transaction; where there were transactions, they were looked at besides.
    never = (*promise.forbids(max_in_flight=max_in_flight, is_redelivered=False), kinds.TORN)
    breaches = tuple(finding for finding in audit.findings if finding.count and finding.kind in never)
    missing = tuple(kind for kind in (promise.shows if shows is None else shows) if not audit.finding(kind).count)
    return Verdict(guarantee, audit, breaches, missing, promise.words, _seen(audit))


def guarantee_seen(audit: Audit) -> str | None:
    """The strongest guarantee that forbids nothing of what was found; None where each forbids something."""
    return next((name for name in reversed(PROMISES) if not judge(name, audit, shows=()).breaches), None)


def _seen(audit: Audit) -> str:
    if not audit.figures.sent:
        return "nothing was sent"
    taken = audit.finding(kinds.LOST).tallies
    found = [f"{finding.count:,} {finding.kind}" for finding in audit.findings if finding.count]
    if audit.figures.failed:
        found.append(f"{audit.figures.failed:,} reported failed")
    found += [f"{count:,} {what}" for what, count in taken]
    return ", ".join(found) or "every record once, in order, unaltered"
