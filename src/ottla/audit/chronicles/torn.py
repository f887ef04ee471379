"""Torn transaction: a reader with read_committed has some of its records and not the others.

Promise: a transaction is visible whole or not at all: in the end over all its partitions, at any moment within each
partition. (A reader's end there, the last stable offset, lies inside a committed transaction only where that of another
producer began between its records and is still open: KIP-98 promises no more.) What its producer
was told holds: committed is all of it, with every record acknowledged; where nobody knows, it is all or nothing. A
record whose loss is excused (`durability`) is left out, and so are one that was taken for another or joined an earlier
transaction (`reused_epochs`), and a transaction whose coordinator lost its log.

Not observable: partitions whose final read with read_committed did not reach the end, or was held up by a hanging
transaction (`hanging`); topics that clean up.
"""

from __future__ import annotations

from ottla.audit.chronicles.case import COMMITTED, Case, Place
from ottla.audit.chronicles.chronicle import SentRecord, TransactionSeen
from ottla.audit.chronicles.late_ends import UNSEEN, excuse_late_end, may_be_unseen
from ottla.audit.chronicles.reused_epochs import excuse_joining
from ottla.audit.findings import EVIDENCE_MAX, TORN, Finding, Findings
from ottla.ledger.schema import ACKED, FAILED


def check_torn(case: Case, evidence_max: int = EVIDENCE_MAX) -> Finding:
    """Transactions of which a part can be read, or of which a part is missing though they were committed."""
    found = Findings(TORN, evidence_max)
    if may_be_unseen(case):
        found.not_seen(UNSEEN)
    shown: dict[Place, dict[int, int]] = {}
    for (level, place), read in case.final.items():
        if level == COMMITTED:
            shown[place] = {record.number: record.offset for record in read.records}
    for transaction in case.chronicle.transactions:
        found.tally(transaction.outcome)
        records = case.of_transaction.get(transaction.number, [])
        unread = [each for each in records if not _could_be_shown(case, each)]
        if unread:
            found.not_seen(f"{unread[0].topic}-{unread[0].partition} was not read to its end as read_committed")
        elif transaction.outcome != "aborted":
            excuse = case.excuse_transaction(transaction) or excuse_late_end(case, transaction)
            if excuse is not None:
                found.tally(f"excused: {excuse}")
                continue
            _check_end(case, found, transaction, records, shown)
    for place in shown:
        _check_rounds(case, found, place)
    return found.finding()


def _could_be_shown(case: Case, record: SentRecord) -> bool:
    if record.partition < 0:
        return True
    end = case.shown_end((record.topic, record.partition))
    return end is not None and record.offset < end


def _check_end(
    case: Case,
    found: Findings,
    transaction: TransactionSeen,
    records: list[SentRecord],
    shown: dict[Place, dict[int, int]],
) -> None:
    name = f"transaction {transaction.number} of {transaction.producer} ({transaction.outcome})"
    there = [each for each in records if each.number in shown.get((each.topic, each.partition), ())]
    if transaction.outcome == "unknown" and not there:
        return
    for record in records:
        if record.number in shown.get((record.topic, record.partition), ()):
            continue
        if record.outcome == FAILED and transaction.outcome == "unknown":
            continue
        if 0 <= record.offset < case.deleted_before((record.topic, record.partition)):
            found.tally("excused: its deletion was asked for")
            continue
        excuse = _excuse(case, transaction, record) if record.outcome == ACKED else None
        if excuse is not None:
            found.tally(f"excused: {excuse}")
            continue
        what = "cannot be read" if record.outcome == ACKED else f"is {record.outcome}: {record.error}"
        beside = f", and record {there[0].number} can" if there else ""
        found.add(
            f"{name}: record {record.number} at offset {record.offset} {what}{beside}",
            place=(record.topic, record.partition),
            number=record.number,
            offsets=(record.offset,) if record.offset >= 0 else (),
            at_us=transaction.ended_us,
        )


def _excuse(case: Case, transaction: TransactionSeen, record: SentRecord) -> str | None:
    """Why an acknowledged record is not in its transaction; None if nothing excuses it."""
    place = record.topic, record.partition
    return case.excuse(record) or excuse_joining(case, place, record.offset, transaction.began_us)


def _check_rounds(case: Case, found: Findings, place: Place) -> None:
    """No round may end inside a transaction of which it shows the beginning, unless another one is open there."""
    if case.durability.breaks.get(place):
        return
    spans: list[tuple[int, int, TransactionSeen]] = []
    for transaction in case.chronicle.transactions:
        offsets = [
            each.offset
            for each in case.of_transaction.get(transaction.number, ())
            if (each.topic, each.partition) == place and each.outcome == ACKED and each.offset >= 0
        ]
        if len(offsets) > 1 and min(offsets) < max(offsets) and excuse_late_end(case, transaction) is None:
            spans.append((min(offsets), max(offsets), transaction))
    for read in case.chronicle.reads:
        if (read.topic, read.partition) != place or read.isolation_level != COMMITTED or read.error is not None:
            continue
        for first, last, transaction in spans:
            is_torn = read.start <= first < read.end <= last and any(each.offset == first for each in read.records)
            if not is_torn or case.excuse_transaction(transaction, read.ended_us) is not None:
                continue
            held_up = _is_held_up(case, place, transaction, read.end)
            if held_up is None:
                found.not_seen(f"what stands at offset {read.end} of {place[0]}-{place[1]}, where {read.reader} ended")
            elif not held_up:
                found.add(
                    f"{read.reader} read to {read.end} until {read.ended_us} us, and transaction {transaction.number} "
                    f"of {transaction.producer} reaches from {first} to {last}",
                    place=place,
                    offsets=(first, last),
                    at_us=read.ended_us,
                )


def _is_held_up(case: Case, place: Place, transaction: TransactionSeen, end: int) -> bool | None:
    """Whether a record of another transaction stands where a round ended; None where nobody knows what stands there."""
    number = _number_at(case, place, end)
    if number is None:
        return None
    others = case.transactions_of(number)
    return others is not None and transaction not in others


def _number_at(case: Case, place: Place, offset: int) -> int | None:
    """The number of the record at an offset, -1 where none stands; None where nobody has looked there."""
    shown = case.readings.values.get(place, {}).get(offset)
    if shown is not None:
        return shown[-1].record.number
    if place not in case.logs or case.cleans_up(place) or offset < case.deleted_before(place):
        return None
    return next((number for number, offsets in case.standing(place).items() if offset in offsets), -1)
