"""The sixteen groups of guarantees: what one run says of each, by its checkers' findings or by why there are none.

A group is the kinds of anomaly that would break it. It is *violated* where any was found, *held* where all were looked
for everywhere, *held in part* where something could not be seen, and *not judged* where nothing of it could: that is
never called passed. A group that held proves nothing beyond what was looked at.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ottla.audit import findings as kinds
from ottla.audit.findings import Finding, add_findings

HELD, HELD_IN_PART, NOT_JUDGED, VIOLATED = "held", "held in part", "not judged", "violated"


@dataclass(slots=True, frozen=True)
class Group:
    """One group: its number, what it is about, and the kinds of `findings` that would break it."""

    number: int
    name: str
    kinds: tuple[str, ...]


GROUPS = (
    Group(1, "every record has one outcome", (kinds.UNSETTLED,)),
    Group(2, "nothing acknowledged is lost", (kinds.LOST,)),
    Group(3, "duplicates, by who made them", (kinds.DUPLICATED, kinds.REPEATED)),
    Group(4, "what failed is not stored", (kinds.FAILED_BUT_STORED,)),
    Group(5, "one record an offset, the one told", (kinds.WRONG_OFFSET, kinds.CHANGED)),
    Group(6, "order within a partition", (kinds.REORDERED,)),
    Group(7, "readers skip and repeat nothing", (kinds.MISPOLLED, kinds.MISREAD)),
    Group(8, "unaltered, and in its place", (kinds.ALTERED, kinds.MISPLACED, kinds.CORRUPT)),
    Group(9, "sequence numbers and fencing", (kinds.SEQUENCE, kinds.REFUSED, kinds.FENCED)),
    Group(10, "leaders and replicas agree", (kinds.EPOCH, kinds.WATERMARK, kinds.TRUNCATED, kinds.DIVERGED)),
    Group(11, "held by all in sync when acked", (kinds.UNDER_REPLICATED,)),
    Group(
        12,
        "transactions",
        (kinds.ABORTED_READ, kinds.TORN, kinds.EARLY_READ, kinds.ZOMBIE, kinds.GROUP_OFFSET, kinds.HANGING),
    ),
    Group(13, "the guarantee claimed is the one seen", (kinds.BROKEN_PROMISE,)),
    Group(14, "everything ends, and in time", (kinds.STUCK, kinds.OVERDUE, kinds.KEPT_WAITING)),
    Group(15, "faults struck, controls are caught", (kinds.FAULTLESS, kinds.UNCONTROLLED)),
    Group(16, "the same seed, the same run", (kinds.UNREPEATABLE,)),
)


@dataclass(slots=True, frozen=True)
class GroupVerdict:
    """What a run says of one group: a finding for each of its kinds that was judged, and what was `unseen`."""

    group: Group
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
            return "; ".join(f"{each.count:,} {each.kind}{_first(each)}" for each in self.findings if each.count)
        return "; ".join(self.unseen)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {"name": self.group.name, "verdict": self.word, "found": self.count, "why": self.why()}


def judge_groups(findings: Iterable[Finding], not_judged: Mapping[str, str]) -> tuple[GroupVerdict, ...]:
    """All sixteen verdicts; `not_judged`: kinds for which this run has no facts, and why, whatever was found of them.

    Findings of the same kind are added up. A kind without any finding was not looked for.
    """
    found: dict[str, list[Finding]] = {}
    for finding in findings:
        if finding.kind not in not_judged:
            found.setdefault(finding.kind, []).append(finding)
    return tuple(_judge(group, found, not_judged) for group in GROUPS)


def _judge(group: Group, found: Mapping[str, list[Finding]], not_judged: Mapping[str, str]) -> GroupVerdict:
    judged = tuple(add_findings(kind, found[kind]) for kind in group.kinds if kind in found)
    unseen = [what for finding in judged for what in finding.unseen]
    missing = [kind for kind in group.kinds if kind not in found]
    unseen += [not_judged.get(kind, f"nobody looked for “{kind}”") for kind in missing]
    return GroupVerdict(group, judged, tuple(dict.fromkeys(unseen)))


def _first(finding: Finding) -> str:
    return f": {finding.evidence[0].detail}" if finding.evidence else ""
