"""What a simulated run did to its records, compared with exactly-once in order, whatever its producers claim.

The judge of a run (`audit.chronicles`) finds nothing if a producer kept what it claimed. Here all must keep the same:
every record that was acknowledged, or sent with acks=0, is stored once, and in the order of sending. Read from the
chronicle alone: what was handed over, what was told, and the final reads.
"""

from __future__ import annotations

from ottla.audit.chronicles.chronicle import Chronicle, ReadSeen, SentRecord
from ottla.audit.findings import DUPLICATED, LOST, REORDERED, Finding, Findings
from ottla.ledger.schema import ACKED, FAILED

_UNCOMMITTED = "read_uncommitted"


def judge_delivery(chronicle: Chronicle) -> list[Finding]:
    """Duplicated, lost and reordered, those that found something."""
    duplicated, lost, reordered = Findings(DUPLICATED), Findings(LOST), Findings(REORDERED)
    sent: dict[tuple[str, int], list[SentRecord]] = {}
    for record in chronicle.sent:
        sent.setdefault((record.topic, record.partition), []).append(record)
    unasked = [each.producer for each in chronicle.producers if each.acks == 0]
    for read in chronicle.reads:
        if not read.is_final or read.isolation_level != _UNCOMMITTED:
            continue
        records = sent.get((read.topic, read.partition), [])
        offsets = _offsets(read)
        _look_for_copies(read, records, offsets, duplicated)
        for record in records:
            is_due = record.outcome == ACKED or (record.producer in unasked and record.outcome != FAILED)
            if is_due and record.number not in offsets:
                place = read.topic, read.partition
                words = f"record {record.number} of {record.producer} is not stored"
                lost.add(words, place=place, number=record.number, at_us=record.told_us)
        _look_for_order(read, records, offsets, reordered)
    return [each.finding() for each in (duplicated, lost, reordered) if each.count]


def _offsets(read: ReadSeen) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for record in read.records:
        found.setdefault(record.number, []).append(record.offset)
    return found


def _look_for_copies(read: ReadSeen, records: list[SentRecord], offsets: dict[int, list[int]], found: Findings) -> None:
    times: dict[int, int] = {}
    for record in records:
        times[record.number] = times.get(record.number, 0) + 1
    for number, count in times.items():
        stored = offsets.get(number, [])
        if len(stored) > count:
            words = f"record {number} is stored at offsets {', '.join(map(str, stored))}"
            found.add(words, place=(read.topic, read.partition), number=number, offsets=tuple(stored))


def _look_for_order(read: ReadSeen, records: list[SentRecord], offsets: dict[int, list[int]], found: Findings) -> None:
    highest: dict[tuple[str, int], tuple[int, int]] = {}
    for record in records:
        if record.number not in offsets:
            continue
        offset = offsets[record.number][0]
        who = record.producer, record.instance
        before = highest.get(who)
        if before is not None and offset < before[0]:
            words = f"record {record.number} is stored at offset {offset}, before record {before[1]} at {before[0]}"
            place = read.topic, read.partition
            found.add(words, place=place, number=record.number, offsets=(offset, before[0]))
        else:
            highest[who] = offset, record.number
