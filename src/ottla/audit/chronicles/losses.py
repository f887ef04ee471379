"""Lost, in a whole run: acknowledged, and absent from the final read, which reached the end of its partition.

Promise: what was acknowledged by all replicas in sync stays, unless `durability` says by name what took it away; with
acks=1 another leader may be the reason, and with acks=0 nothing is acknowledged. Unknown records are never lost; they
are tallied. (`lost` is the checker for a ledger without a chronicle, in which at-most-once is meant to show its
losses.)

Not observable: partitions whose final read did not reach the end, topics with retention or compaction, and, where it is
not known which brokers led and went down, whether a loss was excused.
"""

from __future__ import annotations

from collections.abc import Iterator

from ottla.audit.chronicles.case import UNCOMMITTED, Case, Place
from ottla.audit.chronicles.chronicle import ReadSeen, SentRecord
from ottla.audit.findings import EVIDENCE_MAX, LOST, Finding, Findings
from ottla.ledger.schema import ACKED, NO_PARTITION


def check_losses(case: Case, evidence_max: int = EVIDENCE_MAX) -> Finding:
    """Acknowledged records that are lost although nothing happened that excuses it."""
    found = Findings(LOST, evidence_max)
    for place, sent in case.sent_to.items():
        if place[1] == NO_PARTITION:
            continue
        read = _whole_read(case, place)
        if read is None:
            why = (
                "belongs to a topic that cleans up" if (UNCOMMITTED, place) in case.final else "was not read to its end"
            )
            found.not_seen(f"{place[0]}-{place[1]} {why}")
            continue
        stored = _stored(read)
        for record in sent:
            if record.outcome != ACKED:
                found.tally(f"{record.outcome}, {'stored' if record.number in stored else 'absent'}")
        for record in _missing(case, sent, stored):
            _judge(case, found, record, (read.start, read.end))
    return found.finding()


def losses_by_producer(case: Case) -> dict[str, int]:
    """How many acknowledged records of each producer are lost without an excuse."""
    counts: dict[str, int] = {}
    for place, sent in case.sent_to.items():
        read = _whole_read(case, place)
        if read is None:
            continue
        for record in _missing(case, sent, _stored(read)):
            if case.excuse(record) is None:
                counts[record.producer] = counts.get(record.producer, 0) + 1
    return counts


def _stored(read: ReadSeen) -> dict[int, list[int]]:
    """Record number -> the offsets at which it was read."""
    stored: dict[int, list[int]] = {}
    for record in read.records:
        stored.setdefault(record.number, []).append(record.offset)
    return stored


def _missing(case: Case, sent: list[SentRecord], stored: dict[int, list[int]]) -> Iterator[SentRecord]:
    """The acknowledged records that are not there: one that was handed over twice has to be there twice."""
    again: dict[int, list[SentRecord]] = {}
    for record in sent:
        if record.outcome != ACKED:
            continue
        if record.number not in stored:
            yield record
        elif len(case.sent[record.number]) > 1:
            again.setdefault(record.number, []).append(record)
    for number, records in again.items():
        absent = [record for record in records if record.offset not in stored[number]]
        yield from absent[: max(0, len(records) - len(stored[number]))]


def _whole_read(case: Case, place: Place) -> ReadSeen | None:
    """The final read of a partition, if a record that it lacks is lost; None if that cannot be said."""
    topic = case.topics.get(place[0])
    return None if topic is not None and topic.cleanup else case.final.get((UNCOMMITTED, place))


def _judge(case: Case, found: Findings, record: SentRecord, bounds: tuple[int, int]) -> None:
    excuse = case.excuse(record)
    if excuse is not None:
        found.tally(f"lost and excused: {excuse}")
        return
    if not case.durability.is_observable:
        found.not_seen("whether a power cut or an unclean election excuses what is lost")
    place = record.topic, record.partition
    commit = case.durability.committed(place, record.offset, record.sent_us)
    held = ""
    if commit is not None:
        brokers = ", ".join(map(str, commit.held_by))
        held = f" (brokers {brokers} held that offset at {commit.at_us} us)"
    found.add(
        f"record {record.number} of {record.producer} was acknowledged at offset {record.offset} at {record.told_us} us"
        f"{held}, and is not between offsets {bounds[0]} and {bounds[1]}",
        place=place,
        number=record.number,
        offsets=(record.offset,) if record.offset >= 0 else (),
        brokers=() if commit is None else commit.held_by,
        at_us=record.told_us,
    )
