"""Torn: some records of a transaction are there for a reader of committed ones, and others are not.

A committed transaction is wholly there, and an unknown one is wholly there or not at all. Missing records of a
committed one count as lost, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ottla.audit.findings import TORN, Finding, Findings
from ottla.audit.history import PartitionHistory


def check_torn(transactions: Iterable[Sequence[int]], histories: Iterable[PartitionHistory]) -> Finding:
    """Transactions, each the numbers of its records, of which a part is stored in the partitions read."""
    parts = list(histories)
    findings = Findings(TORN)
    for numbers in transactions:
        there = {number for number in numbers if any(number in part.first_copy for part in parts)}
        if there and len(there) < len(numbers):
            missing = next(number for number in numbers if number not in there)
            findings.add(
                f"of the {len(numbers):,} records of a transaction, {numbers[0]} to {numbers[-1]}, {len(there):,} are "
                f"there; the first that is not is record {missing}",
                place=(parts[0].topic, -1),
                number=missing,
            )
    return findings.finding()
