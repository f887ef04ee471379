"""What a checker reports: the kinds of anomaly, how many there are, and the evidence.

A finding counts everything and keeps a few pieces of evidence, so that a million duplicates cost no more than three.
What could not be seen is said beside the count (`unseen`): a count of 0 with something unseen does not count as passed.
Everything here adds up (partitions to a topic) and survives JSON (Spark's workers to the driver).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

LOST = "lost"
DUPLICATED = "duplicated"
REORDERED = "reordered"
ALTERED = "altered"
FAILED_BUT_STORED = "failed but stored"
WRONG_OFFSET = "wrong offset"
MISREAD = "misread"

# What only a whole run shows (`chronicle`), one checker a kind.
UNSETTLED = "unsettled"
REPEATED = "duplicated by the application"
CHANGED = "changed after it was read"
MISPOLLED = "skipped or repeated by a reader"
MISPLACED = "in the wrong place"
CORRUPT = "corrupt"
SEQUENCE = "broken sequence"
REFUSED = "refused though stored"
FENCED = "written after it was fenced"
EPOCH = "broken leader epoch"
WATERMARK = "fallen high watermark"
TRUNCATED = "truncated though committed"
DIVERGED = "diverged replicas"
UNDER_REPLICATED = "acknowledged too early"
ABORTED_READ = "aborted and read"
TORN = "torn transaction"
EARLY_READ = "read before its commit"
ZOMBIE = "committed by a zombie"
GROUP_OFFSET = "offset apart from its data"
HANGING = "hanging transaction"
BROKEN_PROMISE = "broken promise"
STUCK = "stuck"
OVERDUE = "told too late"
KEPT_WAITING = "kept waiting"
UNCAUSED = "failed without a cause"
FAULTLESS = "fault that did not fire"
UNCONTROLLED = "control run that was not caught"
UNREPEATABLE = "not repeatable"


@dataclass(slots=True, frozen=True)
class Property:
    """One property: its number, what it is about, and the kinds of `findings` that would break it."""

    number: int
    name: str
    kinds: tuple[str, ...]


PROPERTIES = (
    Property(1, "every record has one outcome", (UNSETTLED,)),
    Property(2, "nothing acknowledged is lost", (LOST,)),
    Property(3, "no duplicate that is not allowed", (DUPLICATED, REPEATED)),
    Property(4, "nothing that failed is stored", (FAILED_BUT_STORED,)),
    Property(5, "each record stays at the offset told", (WRONG_OFFSET, CHANGED)),
    Property(6, "order within a partition", (REORDERED,)),
    Property(7, "readers skip and repeat nothing", (MISPOLLED, MISREAD)),
    Property(8, "unaltered, and in the right partition", (ALTERED, MISPLACED, CORRUPT)),
    Property(9, "sequence numbers and fencing", (SEQUENCE, REFUSED, FENCED)),
    Property(10, "leaders and replicas agree", (EPOCH, WATERMARK, TRUNCATED, DIVERGED)),
    Property(11, "acked once all in-sync replicas had it", (UNDER_REPLICATED,)),
    Property(
        12,
        "transactions",
        (ABORTED_READ, TORN, EARLY_READ, ZOMBIE, GROUP_OFFSET, HANGING),
    ),
    Property(13, "the guarantee claimed was kept", (BROKEN_PROMISE,)),
    Property(
        14,
        "nothing stuck, late or failed without cause",
        (STUCK, OVERDUE, KEPT_WAITING, UNCAUSED),
    ),
    Property(15, "faults fired; weaker settings show damage", (FAULTLESS, UNCONTROLLED)),
    Property(16, "the same seed gives the same run", (UNREPEATABLE,)),
)
"""All that a cluster and its clients promise, in the order of their numbers."""

# What a ledger, compared with what is stored, can show.
LEDGER_KINDS = (LOST, DUPLICATED, REORDERED, ALTERED, FAILED_BUT_STORED, WRONG_OFFSET, MISREAD)

EVIDENCE_MAX = 3
"""Pieces of evidence a finding keeps unless the caller asks for more."""


@dataclass(slots=True, frozen=True)
class Anomaly:
    """One piece of evidence: this record, these offsets, what is wrong with it.

    `sequence` is the record's number in the input, -1 where the record carries none. `topic` is empty and `partition`
    -1 where it is about none. `brokers` names those it was seen on; `at_us` is the run's own time, -1 for none.
    """

    kind: str
    topic: str
    partition: int
    sequence: int
    offsets: tuple[int, ...]
    detail: str
    brokers: tuple[int, ...] = ()
    at_us: int = -1

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Anomaly:
        """The inverse of `to_dict`."""
        return cls(**data | {"offsets": tuple(data["offsets"]), "brokers": tuple(data["brokers"])})


@dataclass(slots=True, frozen=True)
class Finding:
    """What one checker found: how many, and the first few as evidence. `count` 0 means it looked and found none.

    `unseen`: what it could not look at, and why; with nothing unseen and nothing found it `passed`. `tallies`: what it
    counted besides: what nobody is to blame for, or one part of `count`.
    """

    kind: str
    count: int
    evidence: tuple[Anomaly, ...] = ()
    unseen: tuple[str, ...] = ()
    tallies: tuple[tuple[str, int], ...] = ()

    @property
    def passed(self) -> bool:
        """Everything was looked at and nothing found; a passing run never proves absence."""
        return not self.count and not self.unseen

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            "kind": self.kind,
            "count": self.count,
            "evidence": [piece.to_dict() for piece in self.evidence],
            "unseen": list(self.unseen),
            "tallies": dict(self.tallies),
        }

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Finding:
        """The inverse of `to_dict`."""
        evidence = tuple(Anomaly.from_dict(piece) for piece in data["evidence"])
        return cls(data["kind"], data["count"], evidence, tuple(data["unseen"]), tuple(data["tallies"].items()))


def add_findings(kind: str, findings: Iterable[Finding], evidence_max: int = EVIDENCE_MAX) -> Finding:
    """One finding out of several of the same kind: counts and tallies added, the first pieces of evidence kept."""
    count = 0
    evidence: list[Anomaly] = []
    unseen: dict[str, None] = {}
    tallies: dict[str, int] = {}
    for finding in findings:
        count += finding.count
        evidence.extend(finding.evidence)
        unseen.update(dict.fromkeys(finding.unseen))
        for name, number in finding.tallies:
            tallies[name] = tallies.get(name, 0) + number
    return Finding(kind, count, tuple(evidence[:evidence_max]), tuple(unseen), tuple(tallies.items()))


class Findings:
    """Collects what one checker finds: counts all of it and keeps the first pieces of evidence."""

    def __init__(self, kind: str, evidence_max: int = EVIDENCE_MAX) -> None:
        self.kind = kind
        self.count = 0
        self._evidence_max = evidence_max
        self._evidence: list[Anomaly] = []
        self._unseen: dict[str, None] = {}
        self._tallies: dict[str, int] = {}

    def add(
        self,
        detail: str,
        *,
        place: tuple[str, int] = ("", -1),
        number: int = -1,
        offsets: tuple[int, ...] = (),
        brokers: tuple[int, ...] = (),
        at_us: int = -1,
    ) -> None:
        """One more; `place` is a topic and a partition."""
        self.count += 1
        if len(self._evidence) < self._evidence_max:
            self._evidence.append(Anomaly(self.kind, *place, number, offsets, detail, brokers, at_us))

    def not_seen(self, what: str) -> None:
        """Something could not be looked at."""
        self._unseen[what] = None

    def tally(self, name: str, count: int = 1) -> None:
        """Count what is nobody's fault."""
        self._tallies[name] = self._tallies.get(name, 0) + count

    def finding(self) -> Finding:
        """All of it."""
        return Finding(self.kind, self.count, tuple(self._evidence), tuple(self._unseen), tuple(self._tallies.items()))
