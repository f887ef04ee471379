"""Acknowledged in another record's stead: a producer epoch was given out twice, since coordinators had forgotten it.

A power cut may take what coordinators wrote of a transactional id, the newest epochs of its producer with it, while the
partitions keep batches of those epochs. The next instance is given such an epoch once more, begins with sequence
number 0, and a partition that has a batch of the same producer, epoch and sequence numbers takes the new one for its
repetition: it answers with the offset of the old one and appends nothing. Apache Kafka's brokers know a repetition by
the same three things, and lose the record in the same way.

So who was acknowledged at the offset of a record that the same producer had sent there in an earlier transaction was
lost by that power cut, if one took part of the coordinators' topic in between.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ottla.audit.chronicle import SentRecord
from ottla.audit.durability import TRANSACTION_LOG
from ottla.ledger.schema import ACKED

if TYPE_CHECKING:
    from ottla.audit.case import Case


def excuse_reused_epoch(case: Case, record: SentRecord) -> str | None:
    """What made a partition take an acknowledged record for another one; None where it did not, or nothing may."""
    cuts = [each for place, cuts in case.ledger.breaks.items() if place[0] == TRANSACTION_LOG for each in cuts]
    for earlier in _held_before(case, record) if cuts else ():
        if earlier.producer == record.producer and 0 <= earlier.transaction < record.transaction:
            for cut in cuts:
                if earlier.sent_us <= cut.at_us <= record.told_us:
                    return f"taken for record {earlier.number}, whose epoch was given out again after {cut.why}"
    return None


def _held_before(case: Case, record: SentRecord) -> Iterator[SentRecord]:
    """Other records that were acknowledged at its offset, or read there."""
    place = record.topic, record.partition
    for other in case.sent_to.get(place, ()):
        if other.offset == record.offset and other.outcome == ACKED and other is not record:
            yield other
    read = case.readings.first.get(place, {}).get(record.offset)
    if read is not None and read[0].number != record.number:
        yield from case.sent.get(read[0].number, ())
