"""Lost: sent, not stored, and not reported failed.

A producer that asks for answers reports itself which records are unknown. Those are tallied, and do not count as lost.
With acks=0 all records are unknown, and what is not stored is lost.

Only a read that reached the end offset can show it; `counts` is the checker that says whether this one did.

Retention and DeleteRecords take what lies below the start of the log; compaction takes a record when a newer one of its
key has been stored, and a tombstone some time later. Such records are tallied, and do not count as lost. A record whose
offset is unknown may have been there, too.
"""

from __future__ import annotations

from ottla.audit.findings import EVIDENCE_MAX, LOST, Anomaly, Finding
from ottla.audit.history import PartitionHistory
from ottla.ledger.schema import ACKED, FAILED, NO_CRC, NO_OFFSET


def check_lost(history: PartitionHistory, evidence_max: int = EVIDENCE_MAX) -> Finding:
    """Acknowledged or unknown records that are nowhere in the partition; acknowledged ones come first as evidence."""
    first_copy = history.first_copy
    absent = [row for row, sequence in enumerate(history.sent.sequence) if sequence not in first_copy]
    absent = [row for row in absent if history.sent.outcome[row] != FAILED]
    taken = _taken(history, absent)
    if history.is_answered:
        doubtful = [row for row in absent if history.sent.outcome[row] != ACKED]
        taken |= dict.fromkeys(doubtful, "in doubt, and not stored")
    lost = [row for row in absent if row not in taken]
    tallies: dict[str, int] = {}
    for why in taken.values():
        tallies[why] = tallies.get(why, 0) + 1
    acked = [row for row in lost if history.sent.outcome[row] == ACKED]
    unknown = [row for row in lost if history.sent.outcome[row] != ACKED] if len(acked) < evidence_max else []
    evidence = tuple(_anomaly(history, row) for row in (acked + unknown)[:evidence_max])
    return Finding(LOST, len(lost), evidence, (), tuple(tallies.items()))


def _taken(history: PartitionHistory, absent: list[int]) -> dict[int, str]:
    """Rows of the ledger whose records have been taken in due course, and by what."""
    taken: dict[int, str] = {}
    newest = _newest_by_key(history) if history.is_compacted else {}
    for row in absent:
        offset = history.sent.offset[row]
        if offset < history.start_offset and (offset != NO_OFFSET or history.start_offset > 0):
            taken[row] = "below the start of the log"
        elif history.is_compacted and history.sent.key_crc[row] != NO_CRC:
            newer, is_tombstone = newest.get(history.sent.key_crc[row], (NO_OFFSET, False))
            if newer > offset or is_tombstone:
                taken[row] = "compacted away"
    return taken


def _newest_by_key(history: PartitionHistory) -> dict[int, tuple[int, bool]]:
    """CRC of a key -> the highest offset at which a record of it was stored, and whether that is a tombstone."""
    newest: dict[int, tuple[int, bool]] = {}
    for side in (history.stored, history.sent):
        for key, value, offset in zip(side.key_crc, side.value_crc, side.offset, strict=True):
            if offset > newest.get(key, (NO_OFFSET, False))[0]:
                newest[key] = offset, value == NO_CRC
    return newest


def _anomaly(history: PartitionHistory, row: int) -> Anomaly:
    sent = history.sent
    offset = sent.offset[row]
    if sent.outcome[row] != ACKED:
        learned = "its outcome is unknown"
    elif offset >= 0:
        learned = f"acknowledged at offset {offset}"
    else:
        learned = "acknowledged"
    first, end = history.start_offset, history.end_offset
    there = f"offsets {first} to {end - 1}" if end > first else "which is empty"
    detail = f"record {sent.sequence[row]}: {learned}, and it is not in the partition ({there})"
    offsets = (offset,) if offset >= 0 else ()
    return Anomaly(LOST, history.topic, history.partition, sent.sequence[row], offsets, detail)
