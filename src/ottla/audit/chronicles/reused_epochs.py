"""Acknowledged in another record's stead: a producer epoch was given out twice, since coordinators had forgotten it.

A power cut may take what coordinators wrote of a transactional id, the newest epochs of its producer with it, while the
partitions keep batches of those epochs. The next instance is given such an epoch once more, begins with sequence
number 0, and a partition that has a batch of the same producer, epoch and sequence numbers takes the new one for its
repetition: it answers with the offset of the old one and appends nothing. Apache Kafka's brokers know a repetition by
the same three things, and lose the record in the same way.

An instance that was to be replaced may be alive and have the same epoch, and then its batch is taken for the newer
one's.

What is not taken for a repetition joins what that epoch left open in the partition: its leader takes it for more of the
same transaction, asks no coordinator, and the coordinator writes no marker there, so that a later transaction's marker
decides for both. And an instance that was to be replaced may ask for the end of its own transaction with that epoch:
the coordinator takes it for the end of the newer one's.

So a record was lost by that power cut if it was acknowledged at the offset of a record that the same producer had sent
there in an earlier transaction, or a newer instance of it in a later one, and if a power cut took part of the
coordinators' topic after the transaction of the first of the two had begun: that one had its epoch by then, and goes on
with it. A record that lies in the log behind one of an earlier transaction, with no marker of their producer between,
was shown by the next marker of that transaction. And a transaction was committed against its producer's will if an
older instance asked for a commit after it had begun.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ottla.audit.chronicles.chronicle import ReplicaSeen, SentRecord, TransactionSeen
from ottla.audit.chronicles.durability import TRANSACTION_LOG, Break
from ottla.audit.chronicles.markers import open_before
from ottla.ledger.schema import ACKED

if TYPE_CHECKING:
    from ottla.audit.chronicles.case import Case


def excuse_reused_epoch(case: Case, record: SentRecord) -> str | None:
    """What made a partition take an acknowledged record for another one; None where it did not, or nothing may."""
    cuts = forgettings(case)
    for other in _held_before(case, record) if cuts else ():
        if other.producer == record.producer and _may_share_epoch(other, record):
            since_us = min(_epoch_since_us(case, other), _epoch_since_us(case, record))
            for cut in cuts:
                if since_us <= cut.at_us <= record.told_us:
                    return f"taken for record {other.number}, whose epoch was given out again after {cut.why}"
    return None


def excuse_joining(case: Case, place: tuple[str, int], offset: int, began_us: int) -> str | None:
    """What let the record at an offset, of a transaction that began then, join an earlier one; None for nothing."""
    cuts = forgettings(case)
    logs = case.logs.get(place)
    for number in _numbers_before(case, place, logs[0], offset) if cuts and logs else ():
        for other in case.sent.get(number, ()):
            earlier = case.transactions.get(other.transaction)
            if earlier is None or earlier.began_us >= began_us:
                continue
            for cut in cuts:
                if earlier.began_us <= cut.at_us <= began_us:
                    return f"joined record {number}, whose epoch was given out again after {cut.why}"
    return None


def excuse_commit_of_another(case: Case, transaction: TransactionSeen) -> str | None:
    """Why another instance's commit, in the same epoch, was taken for that of this transaction; None for no reason."""
    for other in case.chronicle.transactions:
        is_alike = other.producer == transaction.producer and other.instance < transaction.instance
        if not is_alike or not other.commit_asked or 0 <= other.ended_us < transaction.began_us:
            continue
        for cut in forgettings(case):
            if other.began_us <= cut.at_us <= transaction.began_us:
                return f"the commit of transaction {other.number}, whose epoch was given out again after {cut.why}"
    return None


def forgettings(case: Case) -> list[Break]:
    """What took part of the coordinators' topic away."""
    return [each for place, cuts in case.durability.breaks.items() if place[0] == TRANSACTION_LOG for each in cuts]


def _numbers_before(case: Case, place: tuple[str, int], log: ReplicaSeen, offset: int) -> Iterator[int]:
    """The records in front of an offset for which the same marker decides."""
    for batch in open_before(log, offset):
        standing = {record.offset: record.number for record in batch.records}
        yield from (number for at, number in standing.items() if at < offset)
        # Compaction takes records and may leave their batch.
        for record in case.sent_to.get(place, ()):
            is_in_it = batch.base_offset <= record.offset <= min(batch.last_offset, offset - 1)
            if is_in_it and record.outcome == ACKED and record.offset not in standing:
                yield record.number


def _epoch_since_us(case: Case, record: SentRecord) -> int:
    """By when the producer of a record had the epoch in which it was sent."""
    transaction = case.transactions.get(record.transaction)
    return record.sent_us if transaction is None else transaction.began_us


def _may_share_epoch(other: SentRecord, record: SentRecord) -> bool:
    if 0 <= other.transaction < record.transaction:
        return True
    return 0 <= record.transaction < other.transaction and record.instance < other.instance


def _held_before(case: Case, record: SentRecord) -> Iterator[SentRecord]:
    """Other records that were acknowledged at its offset, or read there."""
    place = record.topic, record.partition
    for other in case.sent_to.get(place, ()):
        if other.offset == record.offset and other.outcome == ACKED and other is not record:
            yield other
    for shown in case.readings.values.get(place, {}).get(record.offset, ()):
        if shown.record.number != record.number:
            yield from case.sent.get(shown.record.number, ())
