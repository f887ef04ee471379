"""Runs every checker over one partition and adds partitions up to a topic."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from ottla.audit import findings as kinds
from ottla.audit.duplicates import check_duplicates
from ottla.audit.findings import EVIDENCE_MAX, Finding, add_findings
from ottla.audit.history import PartitionHistory
from ottla.audit.ledgers.alteration import check_alteration
from ottla.audit.ledgers.counts import check_counts
from ottla.audit.ledgers.figures import Figures, OutcomeTally, tally_outcomes
from ottla.audit.ledgers.lost import check_lost
from ottla.audit.ledgers.numbers import Numbers, count_numbers
from ottla.audit.offsets import check_offsets
from ottla.audit.order import check_order
from ottla.audit.outcomes import check_failed
from ottla.errors import ConfigError
from ottla.ledger.schema import OUTCOMES

_CHECKERS = (
    check_lost,
    check_duplicates,
    check_order,
    check_alteration,
    check_failed,
    check_offsets,
    check_counts,
)


@dataclass(slots=True, frozen=True)
class Audit:
    """What the checkers found in a partition, or in the partitions of a topic: figures, tallies, one finding a kind.

    `numbers`: the record numbers of the ledger.
    """

    figures: Figures
    outcomes: OutcomeTally
    findings: tuple[Finding, ...]
    numbers: Numbers

    def finding(self, kind: str) -> Finding:
        """The finding of one kind of `findings.LEDGER_KINDS`."""
        return next(finding for finding in self.findings if finding.kind == kind)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            "figures": self.figures.to_dict(),
            "outcomes": self.outcomes.to_dict(),
            "findings": [finding.to_dict() for finding in self.findings],
            "numbers": self.numbers.to_dict(),
        }

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Audit:
        """The inverse of `to_dict`."""
        return cls(
            Figures(**data["figures"]),
            OutcomeTally(**data["outcomes"]),
            tuple(Finding.from_dict(finding) for finding in data["findings"]),
            Numbers(**data["numbers"]),
        )


def audit_partition(history: PartitionHistory, evidence_max: int = EVIDENCE_MAX) -> Audit:
    """Every checker's answer for one partition; ConfigError for an outcome that is none."""
    _check_outcomes(history)
    found = {finding.kind: finding for finding in (check(history, evidence_max) for check in _CHECKERS)}
    outcomes = tally_outcomes(history)
    figures = Figures(
        sent=len(history.sent.sequence),
        acked=outcomes.acked_stored + outcomes.acked_absent,
        failed=outcomes.failed_stored + outcomes.failed_absent,
        unknown=outcomes.unknown_stored + outcomes.unknown_absent,
        stored=history.rows_read,
        lost=found[kinds.LOST].count,
        duplicated=found[kinds.DUPLICATED].count,
        reordered=found[kinds.REORDERED].count,
        altered=found[kinds.ALTERED].count,
    )
    return Audit(figures, outcomes, tuple(found[kind] for kind in kinds.LEDGER_KINDS), count_numbers(history))


def _check_outcomes(history: PartitionHistory) -> None:
    wrong = dict.fromkeys(history.sent.outcome).keys() - set(OUTCOMES)
    if wrong:
        row = next(row for row, word in enumerate(history.sent.outcome) if word in wrong)
        raise ConfigError(
            f"the ledger of {history.topic}-{history.partition} says {history.sent.outcome[row]!r} of record "
            f"{history.sent.sequence[row]}: an outcome is one of {', '.join(OUTCOMES)}"
        )


def add_audits(audits: Iterable[Audit], evidence_max: int = EVIDENCE_MAX) -> Audit:
    """The partitions of a topic as one; of no partitions at all, an audit of nothing."""
    parts = list(audits)
    figures, outcomes, numbers = Figures(), OutcomeTally(), Numbers()
    for part in parts:
        figures += part.figures
        outcomes += part.outcomes
        numbers += part.numbers
    merged = (add_findings(kind, (part.finding(kind) for part in parts), evidence_max) for kind in kinds.LEDGER_KINDS)
    return Audit(figures, outcomes, tuple(merged), numbers)
