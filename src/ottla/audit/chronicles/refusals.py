"""Refused though stored: a broker did not recognise a batch that it had appended, and called it out of order.

Promise (KIP-98): a leader remembers the last five batches of each producer, as many as may be in flight, so that every
batch that comes again because its answer was lost is answered with the offset it has. A producer that is refused
instead must report the record as unknown, though only an answer was lost.

Judged is the first record of an instance in a partition that was not acknowledged (records after one that was given up
may rightly be out of order), and only where one start of a broker has led the partition from its beginning: snapshots
hold only each producer's last batch, as Kafka's do, so that restarts and power cuts forget the others. Not observable
where it is not known which broker led (foreign brokers).
"""

from __future__ import annotations

from ottla.audit.chronicles.case import UNCOMMITTED, Case, Place
from ottla.audit.chronicles.chronicle import SentRecord
from ottla.audit.findings import EVIDENCE_MAX, REFUSED, Finding, Findings
from ottla.ledger.schema import ACKED

_REFUSAL = ": OUT_OF_ORDER_SEQUENCE_NUMBER: "
# How such an error begins when it is told of a batch for another's sake.
_FOR_ANOTHER = "the transaction cannot be committed"


def check_refusals(case: Case, evidence_max: int = EVIDENCE_MAX) -> Finding:
    """Stored records that their only leader called out of order."""
    found = Findings(REFUSED, evidence_max)
    if case.chronicle.watermarks is None:
        found.not_seen("which broker had led a partition from its beginning")
        return found.finding()
    for place, sent in case.sent_to.items():
        read = case.final.get((UNCOMMITTED, place))
        stored = {} if read is None else {record.number: record.offset for record in read.records}
        for record in _first_not_acked(case, sent):
            error = record.error or ""
            if _REFUSAL not in error or _FOR_ANOTHER in error or record.number not in stored:
                continue
            if len(case.sent[record.number]) > 1:
                continue  # what is stored may have come of another time
            if _leaders(case, place, record.told_us) == 1:
                found.add(
                    f"record {record.number} of {record.producer} was called out of order by the only leader there "
                    f"had been, which has it at offset {stored[record.number]}",
                    place=place,
                    number=record.number,
                    offsets=(stored[record.number],),
                    at_us=record.told_us,
                )
            else:
                found.tally("refused after a restart or another leader")
    return found.finding()


def _first_not_acked(case: Case, sent: list[SentRecord]) -> list[SentRecord]:
    first: dict[tuple[str, int], SentRecord] = {}
    for record in sent:
        promise = case.producers.get(record.producer)
        if promise is not None and promise.idempotent and record.outcome != ACKED:
            first.setdefault((record.producer, record.instance), record)
    return list(first.values())


def _leaders(case: Case, place: Place, until_us: int) -> int:
    """How many starts of brokers have led the partition by then."""
    return len(
        {
            (mark.broker_id, mark.broker_start): None
            for mark in case.marks.get(place, ())
            if mark.is_leader and mark.at_us <= until_us
        }
    )
