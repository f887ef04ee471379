"""All checkers over one chronicle: what was found, one finding a kind.

The checkers of single partitions (`partition`) are asked once for every instance of every producer, since order and
sameness are promised within one; the others look at the whole chronicle.
"""

from __future__ import annotations

from ottla.audit.chronicle import Chronicle, ReadSeen, SentRecord
from ottla.audit.findings import KINDS, MISREAD, Finding, add_findings
from ottla.audit.history import PartitionHistory, Sent, Stored
from ottla.audit.liveness import check_liveness
from ottla.audit.partition import audit_partition
from ottla.ledger.schema import NO_PARTITION

_WHOLE = (check_liveness,)


def judge(chronicle: Chronicle) -> list[Finding]:
    """Every checker's finding, those that found nothing included."""
    parts = [audit_partition(history).findings for history in histories(chronicle)]
    # Whether a partition was read whole cannot be told from one producer's records.
    single = [
        add_findings(kind, (f for found in parts for f in found if f.kind == kind)) for kind in KINDS if kind != MISREAD
    ]
    return [*single, *(check(chronicle) for check in _WHOLE)]


def histories(chronicle: Chronicle) -> list[PartitionHistory]:
    """What each instance of each producer sent to each partition, beside what of it is stored in the end."""
    stored = {
        (r.topic, r.partition): r for r in chronicle.reads if r.is_final and r.isolation_level == "read_uncommitted"
    }
    sent: dict[tuple[str, int, str, int], list[SentRecord]] = {}
    for record in chronicle.sent:
        if record.partition != NO_PARTITION:
            place = record.topic, record.partition, record.producer, record.instance
            sent.setdefault(place, []).append(record)
    return [
        _history(records, read)
        for (topic, partition, _, _), records in sent.items()
        if (read := stored.get((topic, partition))) is not None
    ]


def _history(sent: list[SentRecord], read: ReadSeen) -> PartitionHistory:
    numbers = {record.number: None for record in sent}
    mine = [record for record in read.records if record.number in numbers]
    return PartitionHistory(
        read.topic,
        read.partition,
        Sent(
            [record.number for record in sent],
            [record.outcome for record in sent],
            [record.key_crc for record in sent],
            [record.value_crc for record in sent],
            [record.offset for record in sent],
        ),
        Stored(
            [record.offset for record in mine],
            [record.number for record in mine],
            [record.key_crc for record in mine],
            [record.value_crc for record in mine],
            [record.timestamp_ms for record in mine],
        ),
        read.start,
        read.end,
    )
