"""Written after it was fenced: in a log, a producer's older epoch stands behind its newer one.

Promise (KIP-98, KIP-890): once a newer epoch of a producer id, or a marker with one, is in a partition, the leader
refuses whatever comes with an older one; and once a newer instance with the same transactional id has begun, nothing of
an older instance is appended behind what the newer one wrote. Idempotent producers without a transactional id do not
fence each other. Where a power cut made coordinators forget which producer was fenced, `forgotten_producers` says what
else must be true before anything is excused.

Not observable with foreign brokers, but for the order of instances, which the final read shows as well.
"""

from __future__ import annotations

from ottla.audit.chronicles.case import UNCOMMITTED, Case, Place
from ottla.audit.chronicles.chronicle import RecordSeen, ReplicaSeen
from ottla.audit.chronicles.forgotten_producers import begun_anew, excuse_unfenced
from ottla.audit.findings import EVIDENCE_MAX, FENCED, Finding, Findings


def check_fencing(case: Case, evidence_max: int = EVIDENCE_MAX) -> Finding:
    """Batches and markers of an epoch that had been replaced, and records of an instance that had been."""
    found = Findings(FENCED, evidence_max)
    if case.chronicle.replicas is None:
        found.not_seen("epochs in the logs")
    for place, logs in case.logs.items():
        for log in logs:
            _check_epochs(case, found, place, log)
    transactional = {each.producer for each in case.chronicle.producers if each.transactional_id is not None}
    for place in case.places:
        read = case.final.get((UNCOMMITTED, place))
        if read is None:
            if transactional:
                found.not_seen(f"{place[0]}-{place[1]} was not read to its end")
            continue
        newest: dict[str, tuple[int, RecordSeen]] = {}
        for record in read.records:
            sent = case.sent.get(record.number)
            if sent is None or len(sent) > 1 or sent[0].producer not in transactional:
                continue
            instance, newer = newest.get(sent[0].producer, (-1, record))
            if sent[0].instance >= instance:
                newest[sent[0].producer] = sent[0].instance, record
                continue
            excuse = excuse_unfenced(case, place, record, newer)
            if excuse is not None:
                found.tally(f"excused: {excuse}")
                continue
            found.add(
                f"record {record.number} of {sent[0].producer}'s instance {sent[0].instance} stands at offset "
                f"{record.offset}, behind one of instance {instance} at offset {newer.offset}, which had replaced it",
                place=place,
                number=record.number,
                offsets=(newer.offset, record.offset),
            )
    return found.finding()


def _check_epochs(case: Case, found: Findings, place: Place, log: ReplicaSeen) -> None:
    newest: dict[int, tuple[int, int]] = {}
    anew = begun_anew(case, place, log)
    for batch in log.undeleted():
        if batch.producer_id < 0:
            continue
        epoch, offset = newest.get(batch.producer_id, (-1, -1))
        is_older = batch.producer_epoch < epoch
        if is_older and batch.base_offset in anew:
            found.tally(f"excused: {anew[batch.base_offset]}")
            is_older = False
        if is_older:
            what = "a marker" if batch.is_control else "a batch"
            found.add(
                f"{what} of producer {batch.producer_id} epoch {batch.producer_epoch} stands at offset "
                f"{batch.base_offset}, behind epoch {epoch} at offset {offset}",
                place=place,
                number=batch.records[0].number if batch.records else -1,
                offsets=(offset, batch.base_offset),
                brokers=(log.broker_id,),
            )
        else:
            newest[batch.producer_id] = batch.producer_epoch, batch.base_offset
