"""The record numbers of a ledger: each from 0 on stands in it once, or the ledger is not whole and proves nothing."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Self

from ottla.audit.history import PartitionHistory


@dataclass(slots=True, frozen=True)
class Numbers:
    """How many rows and how many different numbers, the highest of them (-1 for none), and what they add up to."""

    rows: int = 0
    different: int = 0
    highest: int = -1
    total: int = 0

    def __add__(self, other: Self) -> Self:
        return type(self)(
            self.rows + other.rows,
            self.different + other.different,
            max(self.highest, other.highest),
            self.total + other.total,
        )

    def to_dict(self) -> dict[str, int]:
        """Plain JSON values."""
        return asdict(self)

    def wrong(self) -> str | None:
        """What is wrong with the ledger, in one clause; None where each number stands in it once."""
        if not self.rows:
            return "the ledger holds no record"
        repeated = self.rows - self.different
        due = self.highest + 1
        if repeated or self.different > due:
            count = max(repeated, self.rows - due)
            return f"the ledger holds {count:,} of its record numbers more than once"
        if self.different < due:
            return f"the ledger lacks {due - self.different:,} of the record numbers from 0 to {self.highest:,}"
        if self.total != due * (due - 1) // 2:
            return "the ledger holds some record numbers more than once, and lacks as many"
        return None


def count_numbers(history: PartitionHistory) -> Numbers:
    """Those of one partition."""
    sent, sequence = history.sent_row, history.sent.sequence
    return Numbers(len(sequence), len(sent), max(sequence, default=-1), sum(sent))
