"""Reordered: within a partition, a first copy that stands behind the first copy of a record sent later.

Only first copies count: a reader that drops the copies it has seen would meet the records in this order. A batch that
was stored again later is duplicated, not reordered.
"""

from __future__ import annotations

from ottla.audit.findings import EVIDENCE_MAX, REORDERED, Anomaly, Finding
from ottla.audit.history import PartitionHistory


def check_order(history: PartitionHistory, evidence_max: int = EVIDENCE_MAX) -> Finding:
    """First copies out of input order, against the highest record number seen before each."""
    count = 0
    evidence: list[Anomaly] = []
    sent_row = history.sent_row
    highest = -1
    for sequence, row in history.first_copy.items():
        if sequence > highest:
            if sequence in sent_row:  # a stranger's number must not make the records behind it look late
                highest = sequence
            continue
        if sequence not in sent_row:
            continue
        count += 1
        if len(evidence) < evidence_max:
            evidence.append(_anomaly(history, sequence, row, highest))
    return Finding(REORDERED, count, tuple(evidence))


def _anomaly(history: PartitionHistory, sequence: int, row: int, earlier: int) -> Anomaly:
    offsets = (history.stored.offset[history.first_copy[earlier]], history.stored.offset[row])
    detail = (
        f"record {sequence} is stored at offset {offsets[1]}, "
        f"behind record {earlier} at offset {offsets[0]}, which was sent after it"
    )
    return Anomaly(REORDERED, history.topic, history.partition, sequence, offsets, detail)
