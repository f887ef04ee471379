"""Producers that were forgotten: what excuses a wrong order of epochs, sequence numbers or instances in a log.

Outdated requests are refused from two states. A coordinator knows the producer id and the newest epoch of each
transactional id; a power cut may take part of what it wrote. A partition knows the newest epoch and the last sequence
number of each producer id; it forgets them when the producer has written nothing there for `producer.id.expiration.ms`
and has no transaction open there. Apache Kafka's brokers forget in the same way, and then three things can stand in a
log:

- An older epoch behind a newer one, with sequence number 0 once more (`begun_anew`). A power cut took the newer epoch
  from the coordinator, which gave the older one out again, and the partition had forgotten the producer by then. One of
  the two states is enough to refuse the batch, so both must be lost.
- A record of an instance that had been replaced, behind one of the newer instance (`excuse_unfenced`). A power cut took
  what the coordinator knew of the older instance, and the newer one was given the same epoch of the same producer id.
  Or it was given another producer id; then the older one can only go on with a transaction that it has open in the
  partition, since for all others the coordinator is asked.

- A record behind one that its producer sent later (`taken_with_a_gap`). A power cut took all that the partition knew of
  the producer, which had several requests in flight. The first one was refused (NOT_ENOUGH_REPLICAS), the second one
  was taken, since a partition that does not know a producer takes any first number. What was refused is stored behind
  it, under a new epoch.

How long a producer wrote nothing is measured by the time of the run. Clocks of brokers that jump are not considered.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ottla.audit.chronicles.chronicle import BatchSeen, RecordSeen, ReplicaSeen, TransactionSeen, Watermark
from ottla.audit.chronicles.markers import open_before
from ottla.audit.chronicles.reused_epochs import forgettings

if TYPE_CHECKING:
    from ottla.audit.chronicles.case import Case


def begun_anew(case: Case, place: tuple[str, int], log: ReplicaSeen) -> dict[int, str]:
    """Base offset -> why, for each batch that came when coordinator and partition had forgotten its producer."""
    cuts = forgettings(case)
    marks = case.marks.get(place, ())
    expiration_us = case.chronicle.producer_id_expiration_ms * 1000
    found: dict[int, str] = {}
    if not cuts or not marks or marks[-1].at_us - marks[0].at_us < expiration_us:
        return found
    last: dict[int, BatchSeen] = {}
    for batch in log.undeleted():
        before = last.get(batch.producer_id)
        last[batch.producer_id] = batch
        if before is None or not before.is_control:
            continue  # a partition forgets no producer that has a transaction open
        since_us, at_us = _appended_us(marks, before), _appended_us(marks, batch)
        if since_us is None or at_us is None or at_us - since_us < expiration_us:
            continue
        for cut in cuts:
            if since_us <= cut.at_us <= at_us:
                found[batch.base_offset] = f"its producer had expired, and its coordinator forgot it after {cut.why}"
                break
    return found


def taken_with_a_gap(case: Case, place: tuple[str, int]) -> dict[int, str]:
    """Offset -> why, for each record of a producer's epoch that begins in this log with another number than 0."""
    breaks = case.durability.breaks.get(place)
    if not breaks or place not in case.logs or case.logs[place][0].log_start_offset:
        return {}
    why = f"its partition forgot the producer after {breaks[-1].why}"
    found: dict[int, str] = {}
    begun: dict[tuple[int, int], bool] = {}
    for batch in case.logs[place][0].batches:
        if batch.is_control or batch.base_sequence < 0:
            continue
        if begun.setdefault((batch.producer_id, batch.producer_epoch), batch.base_sequence != 0):
            found.update((record.offset, why) for record in batch.records)
    return found


def excuse_unfenced(case: Case, place: tuple[str, int], late: RecordSeen, newer: RecordSeen) -> str | None:
    """Why a record may stand behind one of a newer instance of its producer; None where nothing excuses it."""
    own, newest = _batch_at(case, place, late.offset), _batch_at(case, place, newer.offset)
    transaction = case.transactions.get(case.sent[late.number][0].transaction)
    if own is None or newest is None or transaction is None:
        return None
    since_us = transaction.began_us
    if own.producer_id == newest.producer_id:
        if own.producer_epoch != newest.producer_epoch:
            return None  # the partition or its coordinator knew of the newer epoch, so this should have been refused
        since_us = _first_began_us(case, transaction)
    elif len(open_before(case.logs[place][0], own.base_offset)) == 1:
        return None  # for the first batch of a transaction the coordinator is asked, which refuses an id it forgot
    for cut in forgettings(case):
        if since_us <= cut.at_us <= case.sent[newer.number][0].sent_us:
            return f"its coordinator forgot it after {cut.why}"
    return None


def _appended_us(marks: Sequence[Watermark], batch: BatchSeen) -> int | None:
    """When the leader of a batch's epoch was first seen to have it; None where it never was."""
    for mark in marks:
        if mark.is_leader and mark.leader_epoch == batch.leader_epoch and mark.log_end_offset > batch.last_offset:
            return mark.at_us
    return None


def _batch_at(case: Case, place: tuple[str, int], offset: int) -> BatchSeen | None:
    batches = case.logs[place][0].batches if place in case.logs else ()
    return next((each for each in batches if each.base_offset <= offset <= each.last_offset), None)


def _first_began_us(case: Case, transaction: TransactionSeen) -> int:
    """When the first transaction of the same instance began: it had its producer id before."""
    of_instance = transaction.producer, transaction.instance
    return min(each.began_us for each in case.transactions.values() if (each.producer, each.instance) == of_instance)
