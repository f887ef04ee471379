"""Duplicated by the application: a record that was handed over again, and is stored once for each time.

No broker can see that the second record is the same: idempotence ends with the producer's process. So this breaks no
promise; it is tallied, apart from what `duplicates` counts (one producer storing one record twice). Further copies come
from a producer, and are findings unless a producer of the record is not idempotent. What a reader returns twice is for
the checker `polls`.

The other questions about such records are answered here, too, since a record's number does not say to which time a copy
belongs: one more copy than times that did not fail is failed but stored, and an acknowledged offset at which another
record stands is wrong, if all producers of the record are idempotent.

Not observable: partitions whose final read did not reach the end.
"""

from __future__ import annotations

from ottla.audit.chronicles.case import UNCOMMITTED, Case, Place
from ottla.audit.chronicles.chronicle import ReadSeen, SentRecord
from ottla.audit.findings import EVIDENCE_MAX, FAILED_BUT_STORED, REPEATED, WRONG_OFFSET, Finding, Findings
from ottla.ledger.schema import ACKED, FAILED


def check_repetitions(case: Case, evidence_max: int = EVIDENCE_MAX) -> Finding:
    """Tallies of copies that the application made; copies beyond those are findings where a promise excludes them."""
    found = Findings(REPEATED, evidence_max)
    again = {number: sent for number, sent in case.sent.items() if len(sent) > 1}
    if not again:
        return found.finding()
    places: dict[int, list[tuple[str, int, int]]] = {}
    for place in case.places:
        read = case.final.get((UNCOMMITTED, place))
        if read is None:
            found.not_seen(f"{place[0]}-{place[1]} was not read to its end")
            continue
        for record in read.records:
            if record.number in again:
                places.setdefault(record.number, []).append((*place, record.offset))
    for number, stored in places.items():
        times = len(again[number])
        if len(stored) > 1:
            found.tally("copies the application made", min(len(stored), times) - 1)
        if len(stored) > times and not _may_repeat(case, number):
            topic, partition, offset = stored[-1]
            found.add(
                f"record {number} was handed over {times} times and is stored {len(stored)} times, at last at {topic}-"
                f"{partition} offset {offset}",
                place=(topic, partition),
                number=number,
                offsets=(offset,),
            )
    return found.finding()


def check_again(case: Case, evidence_max: int = EVIDENCE_MAX) -> tuple[Finding, Finding]:
    """Failed but stored, and wrong offsets, among records that were handed over more than once."""
    failed, misplaced = Findings(FAILED_BUT_STORED, evidence_max), Findings(WRONG_OFFSET, evidence_max)
    for number, sent in case.sent.items():
        if len(sent) == 1 or _may_repeat(case, number):
            continue
        places = dict.fromkeys((each.topic, each.partition) for each in sent)
        reads = {place: case.final.get((UNCOMMITTED, place)) for place in places}
        if any(read is None for read in reads.values()):
            continue  # `repetitions` says that it was not read
        standing = {place: {} if read is None else _numbers(read) for place, read in reads.items()}
        copies = [
            (place, offset) for place, there in standing.items() for offset, each in there.items() if each == number
        ]
        _check_failed(failed, number, sent, copies)
        for each in sent:
            place = each.topic, each.partition
            there = standing[place].get(each.offset, number)
            if each.outcome == ACKED and there != number and copies and case.excuse(each) is None:
                misplaced.add(
                    f"record {number} was acknowledged at offset {each.offset}, where record {there} stands",
                    place=place,
                    number=number,
                    offsets=(each.offset,),
                    at_us=each.told_us,
                )
    return failed.finding(), misplaced.finding()


def _check_failed(found: Findings, number: int, sent: list[SentRecord], copies: list[tuple[Place, int]]) -> None:
    failures = sum(each.outcome == FAILED for each in sent)
    if failures and len(copies) > len(sent) - failures:
        place, offset = copies[-1]
        found.add(
            f"record {number} was handed over {len(sent)} times, {failures} of which were reported failed, and is "
            f"stored {len(copies)} times",
            place=place,
            number=number,
            offsets=tuple(each for _, each in copies) if len(dict.fromkeys(p for p, _ in copies)) == 1 else (offset,),
        )


def _numbers(read: ReadSeen) -> dict[int, int]:
    return {record.offset: record.number for record in read.records}


def _may_repeat(case: Case, number: int) -> bool:
    """Whether a producer that was given this record may store it more than once."""
    promises = [case.producers.get(sent.producer) for sent in case.sent[number]]
    return any(promise is not None and not promise.idempotent for promise in promises)
