"""Aborted and read: a reader with read_committed was given a record of an aborted transaction.

Promise (KIP-98): such a reader never gets one. What is aborted is known from two sources: what the producer was told
(or that it never asked for a commit), and the markers in the log.

Not observable: which records the markers abort, with foreign brokers; transactions of which nobody knows how they
ended are judged by the markers alone.
"""

from __future__ import annotations

from collections.abc import Mapping

from ottla.audit.chronicles.case import COMMITTED, Case, Place
from ottla.audit.chronicles.markers import aborted_offsets
from ottla.audit.chronicles.readings import Shown
from ottla.audit.findings import ABORTED_READ, EVIDENCE_MAX, Finding, Findings


def check_aborted_reads(case: Case, evidence_max: int = EVIDENCE_MAX) -> Finding:
    """Records given to read_committed though their transaction was aborted."""
    found = Findings(ABORTED_READ, evidence_max)
    if case.chronicle.replicas is None:
        found.not_seen("the markers in the logs")
    for (level, place), seen in case.readings.by_level.items():
        if level != COMMITTED:
            continue
        logs = case.logs.get(place)
        marked = {} if not logs or case.durability.breaks.get(place) else aborted_offsets(logs[0])
        for values in seen.values():
            for shown in values:
                _check(case, found, place, shown, marked)
    return found.finding()


def _check(case: Case, found: Findings, place: Place, shown: Shown, marked: Mapping[int, None]) -> None:
    record, read = shown.record, shown.first
    transactions = case.transactions_of(record.number) or []
    told = bool(transactions) and all(each.outcome == "aborted" for each in transactions)
    if told and any(case.excuse_shown(each, place, record.offset, read.ended_us) is not None for each in transactions):
        return  # its marker was lost, which is excused: the producer's next marker decides for it
    if not told and record.offset not in marked:
        return
    name = f"transaction {transactions[0].number} of {transactions[0].producer}" if transactions else "its own"
    why = "its producer was told so" if told else "its marker says so"
    found.add(
        f"record {record.number} of {name}, which was aborted ({why}), was given to {read.reader} at offset "
        f"{record.offset} until {read.ended_us} us",
        place=place,
        number=record.number,
        offsets=(record.offset,),
        at_us=read.ended_us,
    )
