"""What a checker reports: the kinds of anomaly, the evidence, and the figures of the verdict's table.

A finding counts everything and keeps a few pieces of evidence, so that a million duplicates cost no more than three.
Everything here adds up (partitions to a topic) and survives JSON (Spark's workers to the driver).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields
from typing import Any

LOST = "lost"
DUPLICATED = "duplicated"
REORDERED = "reordered"
ALTERED = "altered"
FAILED_BUT_STORED = "failed but stored"
WRONG_OFFSET = "wrong offset"
MISREAD = "misread"
STUCK = "stuck"

KINDS = (LOST, DUPLICATED, REORDERED, ALTERED, FAILED_BUT_STORED, WRONG_OFFSET, MISREAD)

EVIDENCE_MAX = 3
"""Pieces of evidence a finding keeps unless the caller asks for more."""


@dataclass(slots=True, frozen=True)
class Anomaly:
    """One piece of evidence: this record, these offsets, what is wrong with it.

    `sequence` is the record's number in the input, -1 where the record carries none.
    """

    kind: str
    topic: str
    partition: int
    sequence: int
    offsets: tuple[int, ...]
    detail: str

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Anomaly:
        """The inverse of `to_dict`."""
        return cls(**data | {"offsets": tuple(data["offsets"])})


@dataclass(slots=True, frozen=True)
class Finding:
    """What one checker found: how many, and the first few as evidence. `count` 0 means it looked and found none."""

    kind: str
    count: int
    evidence: tuple[Anomaly, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {"kind": self.kind, "count": self.count, "evidence": [piece.to_dict() for piece in self.evidence]}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Finding:
        """The inverse of `to_dict`."""
        return cls(data["kind"], data["count"], tuple(Anomaly.from_dict(piece) for piece in data["evidence"]))


def add_findings(kind: str, findings: Iterable[Finding], evidence_max: int = EVIDENCE_MAX) -> Finding:
    """One finding out of several of the same kind: counts added, the first pieces of evidence kept."""
    count = 0
    evidence: list[Anomaly] = []
    for finding in findings:
        count += finding.count
        evidence.extend(finding.evidence)
    return Finding(kind, count, tuple(evidence[:evidence_max]))


@dataclass(slots=True, frozen=True)
class Figures:
    """One row of the verdict's table, in records.

    `acked + failed + unknown == sent`. `stored` counts records read from the topic, copies included. `lost`: sent,
    not stored, and not reported failed. `duplicated`: copies beyond the first. `reordered`: first copies that stand
    behind one that was sent later. `altered`: stored records whose key or value is not what was sent, or which
    nobody sent.
    """

    sent: int = 0
    acked: int = 0
    failed: int = 0
    unknown: int = 0
    stored: int = 0
    lost: int = 0
    duplicated: int = 0
    reordered: int = 0
    altered: int = 0

    def __add__(self, other: Figures) -> Figures:
        return Figures(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(Figures)))

    def to_dict(self) -> dict[str, int]:
        """The figures under their names, in the order of the table."""
        return asdict(self)


@dataclass(slots=True, frozen=True)
class OutcomeTally:
    """What became of the records of each outcome: reported so, and found so."""

    acked_stored: int = 0
    acked_absent: int = 0
    failed_stored: int = 0
    failed_absent: int = 0
    unknown_stored: int = 0
    unknown_absent: int = 0

    def __add__(self, other: OutcomeTally) -> OutcomeTally:
        return OutcomeTally(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(OutcomeTally)))

    def to_dict(self) -> dict[str, int]:
        """The tallies under their names."""
        return asdict(self)
