"""Broken sequence: the batches of an idempotent producer do not follow one upon the other in a log.

Promise (KIP-98, KIP-360): for each producer id, epoch and partition the leader appends a batch only if its first
sequence number follows upon the last one, from 0 on, and takes one it has already for a duplicate; the state it decides
by comes from the log itself, so that it outlives failovers. A gap is a batch that was passed over; a number that comes
back is a duplicate that the broker should have known (it remembers five batches).

A loss that is excused (`durability`) may leave a gap: a broker that knows nothing of a producer takes any first
number. An epoch begins with 0 once more where it was given out again and the partition had forgotten its producer
(`forgotten_producers`). Logs that begin later than at 0 do not show first numbers. Not observable with foreign brokers.
"""

from __future__ import annotations

from ottla.audit.chronicles.case import Case, Place
from ottla.audit.chronicles.chronicle import BatchSeen, ReplicaSeen
from ottla.audit.chronicles.forgotten_producers import begun_anew
from ottla.audit.findings import EVIDENCE_MAX, SEQUENCE, Finding, Findings

_WRAP = 1 << 31


def check_sequences(case: Case, evidence_max: int = EVIDENCE_MAX) -> Finding:
    """Sequence numbers that are missing, come again or come backwards."""
    found = Findings(SEQUENCE, evidence_max)
    if case.chronicle.replicas is None:
        found.not_seen("sequence numbers in the logs")
    for place, logs in case.logs.items():
        topic = case.topics.get(place[0])
        if topic is not None and topic.cleanup:
            found.not_seen(f"{place[0]}-{place[1]}, which cleans up")
            continue
        for log in logs:
            _check_log(case, found, place, log)
    return found.finding()


def _check_log(case: Case, found: Findings, place: Place, log: ReplicaSeen) -> None:
    last: dict[tuple[int, int], BatchSeen] = {}
    anew = begun_anew(case, place, log)
    begins: dict[int, str] = {}
    for batch in log.undeleted():
        if batch.base_offset in anew:
            # Its own epoch may go on or begin with 0 once more; of the others nobody knows any more.
            begins[batch.producer_id] = anew[batch.base_offset]
            known = batch.producer_id, batch.producer_epoch
            last = {key: each for key, each in last.items() if key[0] != batch.producer_id or key == known}
        if batch.is_control or batch.producer_id < 0 or batch.base_sequence < 0:
            continue
        key = batch.producer_id, batch.producer_epoch
        before = last.get(key)
        last[key] = batch
        excuse = begins.pop(batch.producer_id, None)
        if before is None:
            due = 0 if log.log_start_offset == 0 else batch.base_sequence
        else:
            due = (before.base_sequence + before.last_offset - before.base_offset + 1) % _WRAP
        if batch.base_sequence == due:
            continue
        if excuse is not None and batch.base_sequence == 0:
            found.tally(f"excused: {excuse}")
            continue
        again = before is not None and batch.base_sequence < due
        if not again and case.durability.breaks.get(place):
            found.tally("gaps where a loss is excused")
            continue
        what = "again or backwards" if again else "with a gap"
        follows = (
            ""
            if before is None
            else f" (the batch before it stands at {before.base_offset}, epoch {before.leader_epoch})"
        )
        found.add(
            f"producer {batch.producer_id} epoch {batch.producer_epoch} goes on {what} at offset {batch.base_offset}: "
            f"sequence {batch.base_sequence} where {due} was due{follows}",
            place=place,
            number=batch.records[0].number if batch.records else -1,
            offsets=(batch.base_offset,) if before is None else (before.base_offset, batch.base_offset),
            brokers=(log.broker_id,),
        )
