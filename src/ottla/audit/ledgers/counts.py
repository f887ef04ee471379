"""Misread: the reading itself was incomplete, repeated or out of range.

Every other checker believes what was read, so this one guards them all: each offset from the start to the end of the
partition must have been read exactly once. Where transactions are written, their markers take offsets that no reader
returns, and those of aborted ones hide records: there an offset that was not read says nothing, and only what was sent
tells what should have been (`lost`). Compacted topics have such holes, too.
"""

from __future__ import annotations

from collections.abc import Callable

from ottla.audit.findings import EVIDENCE_MAX, MISREAD, Anomaly, Finding
from ottla.audit.history import PartitionHistory

# The tally of offsets that were skipped: those may be markers of transactions that nobody was told of.
NOT_READ = "offsets that were not read"


def check_counts(history: PartitionHistory, evidence_max: int = EVIDENCE_MAX) -> Finding:
    """Offsets that were skipped, read more than once, or read beyond the partition's bounds."""
    start, end, offsets = history.start_offset, history.end_offset, history.stored.offset
    outside = [offset for offset in offsets if not start <= offset < end]
    evidence: list[Anomaly] = []
    skipping = Finding(MISREAD, 0)
    if not history.is_slice:
        skipping = check_skipped(history, len(offsets) - len(outside), lambda: _first_gap(offsets, start))
        evidence = list(skipping.evidence)

    def add(where: tuple[int, ...], detail: str) -> None:
        evidence.append(Anomaly(MISREAD, history.topic, history.partition, -1, where, detail))

    if history.reread:
        offset = history.reread[0]
        add((offset,), f"the reader returned {len(history.reread):,} records again; the first has offset {offset}")
    if outside:
        add(
            (outside[0],),
            f"{len(outside):,} records are not within offsets {start} to {end - 1}; the first is at {outside[0]}",
        )
    count = skipping.count + len(history.reread) + len(outside)
    return Finding(MISREAD, count, tuple(evidence[:evidence_max]), tallies=skipping.tallies)


def check_skipped(history: PartitionHistory, offsets_read: int, first_gap: Callable[[], int]) -> Finding:
    """Offsets of a partition that were not read, where `offsets_read` different ones were.

    `first_gap` says which is the first; it is asked only where there is one.
    """
    start, end = history.start_offset, history.end_offset
    skipped = 0 if history.is_transactional or history.is_compacted else end - start - offsets_read
    if not skipped:
        return Finding(MISREAD, 0)
    gap = first_gap()
    detail = f"{skipped:,} of the {end - start:,} offsets from {start} to {end - 1} were not read; the first is {gap}"
    anomaly = Anomaly(MISREAD, history.topic, history.partition, -1, (gap,), detail)
    return Finding(MISREAD, skipped, (anomaly,), tallies=((NOT_READ, skipped),))


def _first_gap(offsets: list[int], start: int) -> int:
    expected = start
    for offset in offsets:
        if offset > expected:
            break
        if offset == expected:
            expected += 1
    return expected
