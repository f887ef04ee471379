"""Skipped or repeated by a reader: a round that does not return each offset once, in order, from its start to its end.

Promise: a reader gets the records of a partition in the order of their offsets; with read_uncommitted all there are
between the offsets it was told, with read_committed all but those of aborted transactions. Holes are where control
batches and aborted records stand, so the log says which offsets a round must return, and which it must not. Of a round
that an error ended, nothing behind its last record is judged, nor are records whose deletion was asked for.

Not observable: holes, where the log was not seen and transactions were used; topics that clean up; partitions whose
log was replaced in part by a loss that is excused.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from itertools import pairwise
from operator import lt

from ottla.audit.chronicles.case import COMMITTED, Case, Place
from ottla.audit.chronicles.chronicle import ReadSeen
from ottla.audit.chronicles.markers import aborted_offsets
from ottla.audit.findings import EVIDENCE_MAX, MISPOLLED, Finding, Findings


def check_polls(case: Case, evidence_max: int = EVIDENCE_MAX) -> Finding:
    """Offsets that came twice, backwards, from outside the round's bounds, or not at all."""
    found = Findings(MISPOLLED, evidence_max)
    expected: dict[tuple[Place, bool], list[int] | None] = {}
    standing: dict[Place, dict[int, None]] = {}
    for read in case.chronicle.reads:
        place = read.topic, read.partition
        offsets = [record.offset for record in read.records]
        if not all(map(lt, offsets, offsets[1:])):
            _add_reversal(found, read, offsets)
            continue
        if offsets and not (read.start <= offsets[0] and (offsets[-1] < read.end or read.end < 0)):
            outside = offsets[0] if offsets[0] < read.start else offsets[-1]
            _add(found, read, outside, f"returned offset {outside}, which is not between {read.start} and {read.end}")
            continue
        key = place, read.isolation_level == COMMITTED
        if key not in expected:
            expected[key] = _expected(case, found, *key)
        due = expected[key]
        if due is None:
            continue
        if place in case.replicas:
            if place not in standing:
                standing[place] = dict.fromkeys(_data_offsets(case, place, {}))
            _check_standing(case, found, read, offsets, standing[place])
        end = read.end if read.error is None else (offsets[-1] + 1 if offsets else -1)
        if read.start < 0 or end < 0:
            continue
        start = max(read.start, case.deleted_before(place))
        if start > read.start:
            found.not_seen(f"skips in {place[0]}-{place[1]} in front of offset {start}, where records were deleted")
        offsets = offsets[bisect_left(offsets, start) :]
        first, last = bisect_left(due, start), bisect_left(due, end)
        if due[first:last] != offsets:
            came = dict.fromkeys(offsets)
            for offset in due[first:last]:
                if offset not in came:
                    _add(found, read, offset, f"did not return offset {offset}, between {read.start} and {end}")
    return found.finding()


def _expected(case: Case, found: Findings, place: Place, committed: bool) -> list[int] | None:
    """The offsets whose records such a reader must get; None where that is unknown."""
    topic, logs = case.topics.get(place[0]), case.logs.get(place)
    name = f"{place[0]}-{place[1]}"
    if topic is None or topic.cleanup or case.durability.breaks.get(place):
        found.not_seen(f"skips in {name}, where records may go")
        return None
    if place not in case.replicas:
        if any(promise.transactional_id is not None for promise in case.chronicle.producers):
            found.not_seen(f"skips in {name}, whose log was not seen")
            return None
        ends = [read for read in case.chronicle.reads if (read.topic, read.partition) == place and read.end >= 0]
        return list(range(min((r.start for r in ends), default=0), max((r.end for r in ends), default=0)))
    return _data_offsets(case, place, aborted_offsets(logs[0]) if logs and committed else {})


def _data_offsets(case: Case, place: Place, but: Mapping[int, None]) -> list[int]:
    return [
        record.offset
        for log in case.logs.get(place, ())[:1]
        for batch in log.batches
        if not batch.is_control
        for record in batch.records
        if record.offset not in but
    ]


def _check_standing(case: Case, found: Findings, read: ReadSeen, offsets: list[int], there: Mapping[int, None]) -> None:
    deleted = case.deleted_before((read.topic, read.partition))
    for offset in offsets:
        if offset not in there and offset >= deleted:
            _add(found, read, offset, f"returned offset {offset}, at which the log has no record")


def _add_reversal(found: Findings, read: ReadSeen, offsets: list[int]) -> None:
    for before, after in pairwise(offsets):
        if after <= before:
            how = "again" if after == before else "backwards"
            _add(found, read, after, f"returned offset {after} {how}, behind offset {before}")


def _add(found: Findings, read: ReadSeen, offset: int, what: str) -> None:
    found.add(
        f"{read.reader} ({read.isolation_level}) {what}, in the round of {read.began_us} to {read.ended_us} us",
        place=(read.topic, read.partition),
        offsets=(offset,),
        at_us=read.ended_us,
    )
