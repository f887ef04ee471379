"""Wrong offset: the producer was told an offset at which another record stands.

A record that is nowhere at all is lost, and counted there. A record stored several times may be acknowledged at any of
its copies: after a lost acknowledgement the retry's answer names the later one.
"""

from __future__ import annotations

from ottla.audit.findings import EVIDENCE_MAX, WRONG_OFFSET, Anomaly, Finding
from ottla.audit.history import PartitionHistory
from ottla.ledger.schema import ACKED, NO_OFFSET


def check_offsets(history: PartitionHistory, evidence_max: int = EVIDENCE_MAX) -> Finding:
    """Acknowledged records that are stored, but not where the acknowledgement said."""
    count = 0
    evidence: list[Anomaly] = []
    sent, first_copy = history.sent, history.first_copy
    standing = dict(zip(history.stored.offset, history.stored.sequence, strict=True))
    for sequence, word, offset in zip(sent.sequence, sent.outcome, sent.offset, strict=True):
        if word != ACKED or offset == NO_OFFSET or standing.get(offset) == sequence or sequence not in first_copy:
            continue
        count += 1
        if len(evidence) < evidence_max:
            actual = history.stored.offset[first_copy[sequence]]
            detail = f"record {sequence} was acknowledged at offset {offset} and is stored at offset {actual}"
            evidence.append(Anomaly(WRONG_OFFSET, history.topic, history.partition, sequence, (offset, actual), detail))
    return Finding(WRONG_OFFSET, count, tuple(evidence))
