"""The outcome of an audit: the guarantee claimed, the one seen, and the evidence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ottla.audit.findings import MISREAD, Anomaly
from ottla.audit.ledgers.verdict import Verdict, guarantee_seen

NONE_SEEN = "none"


@dataclass(slots=True, frozen=True)
class AuditOutcome:
    """One topic's verdict; `engine` is where it was judged, `notes` are what to bear in mind."""

    topic: str
    verdict: Verdict
    engine: str
    seconds: float
    notes: tuple[str, ...] = ()

    @property
    def seen(self) -> str:
        """The strongest guarantee that what was found allows; NONE_SEEN where it allows none of the three."""
        return guarantee_seen(self.verdict.audit) or NONE_SEEN

    @property
    def void(self) -> str | None:
        """Why this proves nothing; None where it proves something."""
        misread = self.verdict.audit.finding(MISREAD).count
        # All other findings may be caused by what was not read.
        return f"{misread:,} {MISREAD}" if misread else self.verdict.void

    @property
    def evidence(self) -> tuple[Anomaly, ...]:
        """All pieces of evidence that were kept, what the guarantee forbids first."""
        forbidden = dict.fromkeys(finding.kind for finding in self.verdict.breaches)
        findings = sorted(self.verdict.audit.findings, key=lambda each: each.kind not in forbidden)
        return tuple(piece for finding in findings for piece in finding.evidence)

    @property
    def exit_status(self) -> int:
        """0 where what was claimed was kept, 1 where it was broken, 2 where nothing is proved."""
        if self.void is not None:
            return 2
        return 0 if self.verdict.kept else 1

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            "topic": self.topic,
            "claimed": self.verdict.guarantee,
            "seen": self.seen,
            "kept": self.verdict.kept,
            "void": self.void,
            "figures": self.verdict.figures.to_dict(),
            "found": {each.kind: each.count for each in self.verdict.audit.findings if each.count},
            "tallies": {why: count for each in self.verdict.audit.findings for why, count in each.tallies},
            "evidence": [piece.to_dict() for piece in self.evidence],
            "engine": self.engine,
            "seconds": round(self.seconds, 3),
        }
