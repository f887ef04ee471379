"""Duplicated: one record stored at several offsets; every copy beyond the first counts.

The timestamp shows who made the copy: a producer that sends a batch again sends the same bytes, so its copies carry the
same timestamp; an application that sends the record again gives it a new one. It cannot be seen where brokers set the
timestamps. The third kind, a reader that returns one offset twice, is no duplicate of the topic: see `counts`.
"""

from __future__ import annotations

from itertools import islice

from ottla.audit.findings import DUPLICATED, EVIDENCE_MAX, Anomaly, Finding
from ottla.audit.history import PartitionHistory
from ottla.ledger.schema import NO_TIMESTAMP


def check_duplicates(history: PartitionHistory, evidence_max: int = EVIDENCE_MAX) -> Finding:
    """Copies beyond the first of the records somebody sent; copies of records that nobody sent are for `alteration`."""
    copies = {sequence: rows for sequence, rows in history.copies.items() if sequence in history.sent_row}
    count = sum(map(len, copies.values())) - len(copies)
    evidence = tuple(_anomaly(history, *item) for item in islice(copies.items(), evidence_max))
    return Finding(DUPLICATED, count, evidence)


def _anomaly(history: PartitionHistory, sequence: int, rows: list[int]) -> Anomaly:
    offsets = tuple(history.stored.offset[row] for row in rows)
    first, *others = (history.stored.timestamp[row] for row in rows)
    if NO_TIMESTAMP in (first, *others):
        author = "its timestamps are not its producer's, so who sent it again cannot be seen"
    elif all(timestamp == first for timestamp in others):
        author = "the same timestamp: the producer sent the batch again"
    else:
        author = "different timestamps: the application sent the record again"
    places = ", ".join(map(str, offsets[:-1])) + f" and {offsets[-1]}"
    detail = f"record {sequence} is stored at offsets {places} ({author})"
    return Anomaly(DUPLICATED, history.topic, history.partition, sequence, offsets, detail)
