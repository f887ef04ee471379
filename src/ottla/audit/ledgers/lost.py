"""Lost: sent, not stored, and not reported failed.

Only a read that reached the end offset can show it; `counts` is the checker that says whether this one did.
"""

from __future__ import annotations

from ottla.audit.findings import EVIDENCE_MAX, LOST, Anomaly, Finding
from ottla.audit.history import PartitionHistory
from ottla.ledger.schema import ACKED, FAILED


def check_lost(history: PartitionHistory, evidence_max: int = EVIDENCE_MAX) -> Finding:
    """Acknowledged or unknown records that are nowhere in the partition; acknowledged ones come first as evidence."""
    first_copy = history.first_copy
    absent = [row for row, sequence in enumerate(history.sent.sequence) if sequence not in first_copy]
    lost = [row for row in absent if history.sent.outcome[row] != FAILED]
    acked = [row for row in lost if history.sent.outcome[row] == ACKED]
    unknown = [row for row in lost if history.sent.outcome[row] != ACKED] if len(acked) < evidence_max else []
    evidence = tuple(_anomaly(history, row) for row in (acked + unknown)[:evidence_max])
    return Finding(LOST, len(lost), evidence)


def _anomaly(history: PartitionHistory, row: int) -> Anomaly:
    sent = history.sent
    offset = sent.offset[row]
    if sent.outcome[row] != ACKED:
        learned = "its outcome is unknown"
    elif offset >= 0:
        learned = f"acknowledged at offset {offset}"
    else:
        learned = "acknowledged"
    detail = (
        f"record {sent.sequence[row]}: {learned}, "
        f"and it is not between offsets {history.start_offset} and {history.end_offset}"
    )
    offsets = (offset,) if offset >= 0 else ()
    return Anomaly(LOST, history.topic, history.partition, sent.sequence[row], offsets, detail)
