"""Changed after it was read: an offset showed one record to one reader and another, or none, to somebody else or later.

Promise: only what is committed is shown to readers, and what is committed has one value for good, on every replica. A
power cut or an unclean election may take it back, and another record may stand there afterwards; `durability` knows of
it. If only the marker was lost, the records of that transaction stay. Then read_committed leaves them out again, with
all behind them, until the next marker of that producer decides for them; it may be an abort.

All reads of the run are compared with each other, then with the final read, then with each replica's log below its high
watermark. Replicas are not observable with foreign brokers.
"""

from __future__ import annotations

from ottla.audit.chronicles.case import COMMITTED, UNCOMMITTED, Case, Place
from ottla.audit.chronicles.chronicle import ReadSeen, RecordSeen, ReplicaSeen
from ottla.audit.chronicles.markers import end_of_transaction
from ottla.audit.findings import CHANGED, EVIDENCE_MAX, Finding, Findings


def check_changes(case: Case, evidence_max: int = EVIDENCE_MAX) -> Finding:
    """Offsets that held two different records, and records that were read once and are gone."""
    found = Findings(CHANGED, evidence_max)
    for conflict in case.readings.conflicts:
        first, second = conflict.first_read, conflict.second_read
        # Rounds overlap: the one that ended later may have read the older value.
        since_us = min(first.began_us, second.began_us)
        until_us = max(first.ended_us, second.ended_us)
        if case.durability.excuse_shown(conflict.place, conflict.first.offset, since_us, until_us) is None:
            found.add(
                f"offset {conflict.first.offset} held {_name(conflict.first)} for {first.reader} until {first.ended_us}"
                f" us, and {_name(conflict.second)} for {second.reader} until {second.ended_us} us",
                place=conflict.place,
                number=conflict.first.number,
                offsets=(conflict.first.offset,),
                at_us=second.ended_us,
            )
    for place in case.places:
        _check_vanished(case, found, place)
        for log in case.logs.get(place, ()):
            _check_log(case, found, place, log)
    if case.chronicle.replicas is None:
        found.not_seen("what the replicas hold")
    return found.finding()


def _check_vanished(case: Case, found: Findings, place: Place) -> None:
    topic = case.topics[place[0]]
    for level in (UNCOMMITTED, COMMITTED):
        seen = case.readings.by_level.get((level, place))
        final = case.final.get((level, place))
        if not seen or topic.cleanup:
            continue
        if final is None:
            found.not_seen(f"{place[0]}-{place[1]} was not read to its end as {level}")
            continue
        stands = {record.offset for record in final.records}
        for offset, shown in seen.items():
            record, read = shown[-1].record, shown[-1].last
            if (
                offset in stands
                or offset < case.deleted_before(place)
                or case.durability.excuse_shown(place, offset, read.began_us) is not None
                or (level == COMMITTED and _lost_its_marker(case, place, record, read, final.end))
            ):
                continue
            found.add(
                f"{_name(record)} was read at offset {offset} by {read.reader} ({level}) until {read.ended_us} us, and "
                f"the final read from {final.start} to {final.end} does not have it",
                place=place,
                number=record.number,
                offsets=(offset,),
                at_us=read.ended_us,
            )


def _lost_its_marker(case: Case, place: Place, record: RecordSeen, read: ReadSeen, end: int) -> bool:
    """Whether a record is still in the log, and read_committed leaves it out only because a marker was lost.

    It is the marker of the record's own transaction, or that of the open transaction at which the final read ends. The
    lost marker was committed when the record was read, and lay before the marker that decides now (there may be none):
    a break must explain its loss.
    """
    stands = case.final.get((UNCOMMITTED, place))
    if place not in case.logs or stands is None or all(each != record for each in stands.records):
        return False
    opened = end_of_transaction(case.logs[place][0], min(record.offset, end))
    if opened is None or opened.commits:
        return False
    committed = max((each.end_offset for each in case.commits.get(place, ()) if each.at_us <= read.ended_us), default=0)
    lost = min(opened.offset, committed - 1)  # the highest offset that the lost marker can have had
    return lost >= 0 and case.durability.excuse_read(place, lost, read.began_us) is not None


def _check_log(case: Case, found: Findings, place: Place, log: ReplicaSeen) -> None:
    final = case.final.get((UNCOMMITTED, place))
    if final is None:
        return
    read = {record.offset: record for record in final.records}
    for batch in log.batches:
        if batch.is_control or batch.last_offset >= min(log.high_watermark, final.end):
            continue
        for record in batch.records:
            there = read.get(record.offset)
            if there is not None and there != record:
                found.add(
                    f"offset {record.offset} holds {_name(record)} on broker {log.broker_id}, and readers get "
                    f"{_name(there)}",
                    place=place,
                    number=record.number,
                    offsets=(record.offset,),
                    brokers=(log.broker_id,),
                    at_us=final.ended_us,
                )


def _name(record: RecordSeen) -> str:
    return f"record {record.number}" if record.number >= 0 else "a record without a number"
