"""Divides a partition into slices of bounded size, and adds their audits up to what the whole partition's would be.

The checkers keep some hundred bytes for each record they look at, so a partition of 30 million records is too much for
them at once. A slice is `SLICE_NUMBERS` record numbers in a row: what the ledger says of them, and all stored copies of
them, wherever they stand. Records without a number are divided by their offsets. So each checker asks its question of
a slice alone, and the counts add up, but for two questions:

- **Order.** A record may stand behind one of a higher number that is in another slice. Each slice tells where its
  first copies begin and end; one that reaches behind the beginning of a later slice is looked at again (`look_again`),
  knowing that beginning. Where a producer kept the order, none is.
- **Offsets that were not read** are counted once for all slices (`check_skipped`).

A compacted topic is not divided: which record of a key is the newest, only the whole partition knows.

Not seen: one offset that is returned twice with two numbers, which lie in two slices; it hides an offset that was
skipped. Readers that repeat an offset return the same record.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from ottla.audit import findings as kinds
from ottla.audit.findings import EVIDENCE_MAX, add_findings
from ottla.audit.history import PartitionHistory
from ottla.audit.ledgers.counts import check_skipped
from ottla.audit.ledgers.partition import Audit, add_audits, audit_partition

SLICE_NUMBERS = 200_000
"""Record numbers in a slice of a topic, however many partitions share them."""

FirstCopy = tuple[int, int]
"""Where a record's first copy is stored: its offset, and the number of the record."""


@dataclass(slots=True, frozen=True)
class SliceAudit:
    """The audit of one slice, and what the partition's other slices need to know of it.

    `offsets_read`: how many different offsets within the partition's bounds. `earliest` and `latest`: the first and the
    last of the first copies of records that were sent; None where there is no such copy.
    """

    audit: Audit
    offsets_read: int
    earliest: FirstCopy | None
    latest: FirstCopy | None

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            "audit": self.audit.to_dict(),
            "offsets_read": self.offsets_read,
            "earliest": self.earliest,
            "latest": self.latest,
        }

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> SliceAudit:
        """The inverse of `to_dict`."""
        return cls(
            Audit.from_dict(data["audit"]),
            data["offsets_read"],
            data["earliest"] and tuple(data["earliest"]),
            data["latest"] and tuple(data["latest"]),
        )


def audit_slice(history: PartitionHistory, evidence_max: int = EVIDENCE_MAX) -> SliceAudit:
    """Every checker's answer for one slice; ConfigError for an outcome that is none."""
    offsets, sent_row = history.stored.offset, history.sent_row
    copies = history.first_copy.items()
    earliest = next(((offsets[row], number) for number, row in copies if number in sent_row), None)
    latest = next(((offsets[row], number) for number, row in reversed(copies) if number in sent_row), None)
    offsets_read = sum(history.start_offset <= offset < history.end_offset for offset in offsets)
    return SliceAudit(audit_partition(history, evidence_max), offsets_read, earliest, latest)


def look_again(slices: Mapping[int, SliceAudit]) -> dict[int, FirstCopy]:
    """The slices of a partition that reach behind the beginning of a later one, and that beginning."""
    again: dict[int, FirstCopy] = {}
    beginning: FirstCopy | None = None
    for number in sorted(slices, reverse=True):
        this = slices[number]
        if beginning is not None and this.latest is not None and this.latest > beginning:
            again[number] = beginning
        if this.earliest is not None and (beginning is None or this.earliest < beginning):
            beginning = this.earliest
    return again


def add_slices(
    nothing: PartitionHistory,
    slices: Mapping[int, SliceAudit],
    first_gap: Callable[[], int],
    evidence_max: int = EVIDENCE_MAX,
) -> Audit:
    """The slices of a partition as one audit. `nothing` is its history without records.

    `first_gap` gives the first offset that was not read; it is asked only where there is one.
    """
    if not slices:
        return audit_partition(nothing, evidence_max)
    whole = add_audits((slices[number].audit for number in sorted(slices)), evidence_max)
    skipped = check_skipped(nothing, sum(each.offsets_read for each in slices.values()), first_gap)
    findings = (
        add_findings(kinds.MISREAD, (skipped, each), evidence_max) if each.kind == kinds.MISREAD else each
        for each in whole.findings
    )
    return replace(whole, findings=tuple(findings))
