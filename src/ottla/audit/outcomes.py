"""Failed but stored: a record that its producer was told has failed stands in the topic.

A failed record is certainly not stored: the user will send it again. If it is stored all the same, that is an anomaly
under every guarantee. Unknown may turn out either way, and is never counted as failed.
"""

from __future__ import annotations

from ottla.audit.findings import EVIDENCE_MAX, FAILED_BUT_STORED, Anomaly, Finding
from ottla.audit.history import PartitionHistory
from ottla.ledger.schema import FAILED


def check_failed(history: PartitionHistory, evidence_max: int = EVIDENCE_MAX) -> Finding:
    """Records reported as certainly not stored which are stored."""
    count = 0
    evidence: list[Anomaly] = []
    for sequence, word in zip(history.sent.sequence, history.sent.outcome, strict=True):
        if word != FAILED or sequence not in history.first_copy:
            continue
        count += 1
        if len(evidence) < evidence_max:
            offset = history.stored.offset[history.first_copy[sequence]]
            detail = f"record {sequence} was reported failed, and is stored at offset {offset}"
            evidence.append(Anomaly(FAILED_BUT_STORED, history.topic, history.partition, sequence, (offset,), detail))
    return Finding(FAILED_BUT_STORED, count, tuple(evidence))
