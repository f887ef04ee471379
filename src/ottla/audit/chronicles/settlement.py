"""Unsettled: a record was handed over and its producer never reported an outcome, or one that cannot be.

Promise: every delivery ends, exactly once, as acked, failed or unknown; `acks=0` is never acked, since no broker
answers; only what was acked has an offset. Of a producer whose process ended nothing more is expected.

Not observable without the lives of the producers (`instances`): a silent one may have been killed. Nor in a run that
was cut short: they might have told later.
"""

from __future__ import annotations

from ottla.audit.chronicles.case import Case
from ottla.audit.findings import EVIDENCE_MAX, UNSETTLED, Finding, Findings
from ottla.ledger.schema import ACKED, NO_OFFSET, OUTCOMES, UNKNOWN


def check_settlement(case: Case, evidence_max: int = EVIDENCE_MAX) -> Finding:
    """Records whose producer lived to the end and reported nothing, and outcomes that cannot be."""
    found = Findings(UNSETTLED, evidence_max)
    instances = case.chronicle.instances
    died = {(each.producer, each.instance): each.died_us for each in instances or ()}
    acks = {promise.producer: promise.acks for promise in case.chronicle.producers}
    if instances is None:
        found.not_seen("which producers died before they could tell")
    is_cut_short = case.chronicle.is_cut_short
    if is_cut_short:
        found.not_seen("what was still to be told when the run was cut short")
    for record in case.chronicle.sent:
        outcome, wrong = record.outcome, None
        if outcome not in OUTCOMES:
            wrong = f"its outcome is {outcome!r}, which is none"
        elif outcome == ACKED and acks.get(record.producer) == 0:
            wrong = "it was acknowledged with acks=0, and no broker answers then"
        elif outcome != ACKED and record.offset != NO_OFFSET:
            wrong = f"it is {outcome}, and yet an offset was told: {record.offset}"
        elif 0 <= record.told_us < record.sent_us:
            wrong = f"it was told of at {record.told_us} us, before it was sent at {record.sent_us} us"
        elif is_cut_short or outcome != UNKNOWN or record.told_us >= 0:
            continue
        elif died.get((record.producer, record.instance), 0) < 0:
            wrong = f"sent at {record.sent_us} us, and {record.producer} never told what became of it"
        if wrong is not None:
            place = record.topic, record.partition
            found.add(f"record {record.number}: {wrong}", place=place, number=record.number, at_us=record.sent_us)
    return found.finding()
