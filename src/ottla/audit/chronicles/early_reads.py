"""Read before its commit: a reader with read_committed had a record before anybody asked for its commit.

Promise: a record of a transaction is shown to read_committed once the transaction is committed. So no round that ended
before its producer asked for the commit has the record, and none has it if the producer never asked.

Not observable where the time of that request is not known.
"""

from __future__ import annotations

from ottla.audit.chronicles.case import COMMITTED, Case, Place
from ottla.audit.chronicles.late_ends import UNSEEN, may_be_unseen
from ottla.audit.chronicles.readings import Shown
from ottla.audit.findings import EARLY_READ, EVIDENCE_MAX, Finding, Findings


def check_early_reads(case: Case, evidence_max: int = EVIDENCE_MAX) -> Finding:
    """Records given to read_committed while their transaction was open."""
    found = Findings(EARLY_READ, evidence_max)
    if may_be_unseen(case):
        found.not_seen(UNSEEN)
    for (level, place), seen in case.readings.by_level.items():
        if level != COMMITTED:
            continue
        for values in seen.values():
            for shown in values:
                _check(case, found, place, shown)
    return found.finding()


def _check(case: Case, found: Findings, place: Place, shown: Shown) -> None:
    record, read = shown.record, shown.first
    transactions = case.transactions_of(record.number)
    if transactions is None:
        return
    if any(each.commit_asked and each.commit_asked_us < 0 for each in transactions):
        found.not_seen("when commits were asked for")
        return
    if any(each.commit_asked and each.commit_asked_us <= read.ended_us for each in transactions):
        return
    first = transactions[0]
    if case.excuse_shown(first, place, record.offset, read.ended_us) is not None:
        return  # its marker was lost, which is excused: the producer's next marker decides for it
    asked = f"asked for at {first.commit_asked_us} us" if first.commit_asked else "never asked for"
    found.add(
        f"record {record.number} at offset {record.offset} was given to {read.reader} until {read.ended_us} us, and "
        f"the commit of transaction {first.number} of {first.producer} was {asked}",
        place=place,
        number=record.number,
        offsets=(record.offset,),
        at_us=read.ended_us,
    )
