"""Altered: a stored record is not what was sent: its key or value differs, or nobody sent it.

Every stored copy is compared. A record without our number, or with a number the ledger of this partition does not
hold, is one nobody sent (to this partition).
"""

from __future__ import annotations

from ottla.audit.findings import ALTERED, EVIDENCE_MAX, Anomaly, Finding
from ottla.audit.history import NO_SEQUENCE, PartitionHistory
from ottla.ledger.schema import NO_CRC


def check_alteration(history: PartitionHistory, evidence_max: int = EVIDENCE_MAX) -> Finding:
    """Stored records that differ from the ledger in key or value, and stored records the ledger does not know."""
    count = 0
    evidence: list[Anomaly] = []
    sent, stored, sent_row = history.sent, history.stored, history.sent_row
    key_crc, value_crc = sent.key_crc, sent.value_crc
    for row, (sequence, key, value) in enumerate(zip(stored.sequence, stored.key_crc, stored.value_crc, strict=True)):
        source = sent_row.get(sequence)
        if source is not None and key_crc[source] == key and value_crc[source] == value:
            continue
        count += 1
        if len(evidence) < evidence_max:
            evidence.append(_anomaly(history, row, source))
    return Finding(ALTERED, count, tuple(evidence))


def _anomaly(history: PartitionHistory, row: int, source: int | None) -> Anomaly:
    stored, offset = history.stored, history.stored.offset[row]
    sequence = stored.sequence[row]
    if sequence == NO_SEQUENCE:
        detail = f"the record at offset {offset} has no record number: it is not of this ledger"
    elif source is None:
        detail = f"record {sequence} is stored at offset {offset}: by the ledger nobody sent it to this partition"
    else:
        parts = [
            f"its {name} {'is null' if there == NO_CRC else f'has CRC {there:#010x}'}, "
            f"sent was {'null' if here == NO_CRC else f'{here:#010x}'}"
            for name, there, here in (
                ("key", stored.key_crc[row], history.sent.key_crc[source]),
                ("value", stored.value_crc[row], history.sent.value_crc[source]),
            )
            if there != here
        ]
        detail = f"record {sequence} is stored altered at offset {offset}: {'; '.join(parts)}"
    return Anomaly(ALTERED, history.topic, history.partition, sequence, (offset,), detail)
