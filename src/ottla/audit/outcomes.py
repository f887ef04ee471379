"""What became of the records of each outcome, and the one outcome that must never be wrong: `failed`.

A failed record is certainly not stored: the user will send it again. If it is stored all the same, that is an anomaly
under every guarantee. Unknown may turn out either way; it is tallied, never counted as failed.
"""

from __future__ import annotations

from ottla.audit.findings import EVIDENCE_MAX, FAILED_BUT_STORED, Anomaly, Finding, OutcomeTally
from ottla.audit.history import PartitionHistory
from ottla.ledger.schema import ACKED, FAILED, UNKNOWN


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
