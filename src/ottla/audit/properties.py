"""The properties: what one run says of each, by its checkers' findings or by why there are none.

A property is the kinds of anomaly that would break it (`findings.PROPERTIES`); findings of both judges count. It is
*violated* where any was found, *held* where all were looked for everywhere, *held in part* where something could not be
seen, and *not judged* where nothing could; that never counts as passed. A property that held proves nothing beyond what
was looked at.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ottla.audit.findings import PROPERTIES, Finding, Property, add_findings

HELD, HELD_IN_PART, NOT_JUDGED, VIOLATED = "held", "held in part", "not judged", "violated"


@dataclass(slots=True, frozen=True)
class PropertyVerdict:
    """What a run says of one property: a finding for each of its kinds that was judged, and what was `unseen`."""

    what: Property
    findings: tuple[Finding, ...]
    unseen: tuple[str, ...]

    @property
    def count(self) -> int:
        """How many anomalies were found; what two judges found counts twice."""
        return sum(finding.count for finding in self.findings)

    @property
    def word(self) -> str:
        """VIOLATED, HELD, HELD_IN_PART or NOT_JUDGED."""
        if self.count:
            return VIOLATED
        if not any(finding.passed for finding in self.findings):
            return NOT_JUDGED
        return HELD_IN_PART if self.unseen else HELD

    def why(self) -> str:
        """The first piece of evidence of each kind that was found; else what was not seen. Empty where it held."""
        if self.count:
            return "; ".join(f"{each.kind} ({each.count:,}){_first(each)}" for each in self.findings if each.count)
        return "; ".join(self.unseen)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {"name": self.what.name, "verdict": self.word, "found": self.count, "why": self.why()}


def judge_properties(findings: Iterable[Finding], not_judged: Mapping[str, str]) -> tuple[PropertyVerdict, ...]:
    """The verdicts of all properties; `not_judged`: kinds this run has no facts for, and why, whatever was found.

    Findings of the same kind are added up. A kind without any finding was not looked for.
    """
    found: dict[str, list[Finding]] = {}
    for finding in findings:
        if finding.kind not in not_judged:
            found.setdefault(finding.kind, []).append(finding)
    return tuple(_judge(each, found, not_judged) for each in PROPERTIES)


def _judge(what: Property, found: Mapping[str, list[Finding]], not_judged: Mapping[str, str]) -> PropertyVerdict:
    judged = tuple(add_findings(kind, found[kind]) for kind in what.kinds if kind in found)
    unseen = [what for finding in judged for what in finding.unseen]
    missing = [kind for kind in what.kinds if kind not in found]
    unseen += [not_judged.get(kind, f"nobody looked for “{kind}”") for kind in missing]
    return PropertyVerdict(what, judged, tuple(dict.fromkeys(unseen)))


def _first(finding: Finding) -> str:
    return f": {finding.evidence[0].detail}" if finding.evidence else ""
