"""Duplicated by the application: a record that was handed over again, and is stored once for each time.

No broker can see that the second one is the same: idempotence ends with the producer's process. So this is nobody's
breach; it is tallied, beside what `duplicates` counts (one producer storing one record twice), so that the two are told
apart. More copies than that are a producer's, and found unless one that handed the record over is not idempotent. What
a reader returns twice is `polls`' business.

Not observable: partitions whose final read did not reach the end.
"""

from __future__ import annotations

from ottla.audit.chronicles.case import UNCOMMITTED, Case
from ottla.audit.findings import EVIDENCE_MAX, REPEATED, Finding, Findings


def check_repetitions(case: Case, evidence_max: int = EVIDENCE_MAX) -> Finding:
    """Tallies of copies that the application made; copies beyond those are found where they were promised against."""
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


def _may_repeat(case: Case, number: int) -> bool:
    """Whether a producer that was given this record may store it more than once."""
    promises = [case.producers.get(sent.producer) for sent in case.sent[number]]
    return any(promise is not None and not promise.idempotent for promise in promises)
