"""The figures of a verdict: how many records were sent, told and found, and what became of each outcome.

They add up: partitions to a topic.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import Self

from ottla.audit.history import PartitionHistory
from ottla.ledger.schema import ACKED, FAILED, UNKNOWN


@dataclass(slots=True, frozen=True)
class _Counts:
    """Numbers that are added up name by name."""

    def __add__(self, other: Self) -> Self:
        return type(self)(*(getattr(self, each.name) + getattr(other, each.name) for each in fields(self)))

    def to_dict(self) -> dict[str, int]:
        """The numbers under their names, in their order."""
        return asdict(self)


@dataclass(slots=True, frozen=True)
class Figures(_Counts):
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


@dataclass(slots=True, frozen=True)
class OutcomeTally(_Counts):
    """What became of the records of each outcome: reported so, and found so."""

    acked_stored: int = 0
    acked_absent: int = 0
    failed_stored: int = 0
    failed_absent: int = 0
    unknown_stored: int = 0
    unknown_absent: int = 0


def tally_outcomes(history: PartitionHistory) -> OutcomeTally:
    """How many records of each outcome are stored, and how many are absent."""
    first_copy = history.first_copy
    counts = {(word, there): 0 for word in (ACKED, FAILED, UNKNOWN) for there in (True, False)}
    for sequence, word in zip(history.sent.sequence, history.sent.outcome, strict=True):
        counts[word, sequence in first_copy] += 1
    return OutcomeTally(
        acked_stored=counts[ACKED, True],
        acked_absent=counts[ACKED, False],
        failed_stored=counts[FAILED, True],
        failed_absent=counts[FAILED, False],
        unknown_stored=counts[UNKNOWN, True],
        unknown_absent=counts[UNKNOWN, False],
    )
