"""Told too late: a record had no outcome when `delivery.timeout.ms` was over.

Promise (KIP-91): however long brokers, connections and retries take, a record has its outcome within that time of being
sent. `slack_us` is how late this may be: a producer looks at its deadlines when it wakes up.

Not observable: producers whose timeout is not known, records whose time of outcome is not.
"""

from __future__ import annotations

from ottla.audit.chronicles.case import Case
from ottla.audit.findings import EVIDENCE_MAX, OVERDUE, Finding, Findings

SLACK_US = 1_000_000


def check_deadlines(case: Case, evidence_max: int = EVIDENCE_MAX, slack_us: int = SLACK_US) -> Finding:
    """Records whose outcome came too late, and those of a living producer that were due and got none."""
    found = Findings(OVERDUE, evidence_max)
    limits = {
        promise.producer: promise.delivery_timeout_ms * 1000
        for promise in case.chronicle.producers
        if promise.delivery_timeout_ms >= 0
    }
    for promise in case.chronicle.producers:
        if promise.delivery_timeout_ms < 0:
            found.not_seen(f"the delivery timeout of {promise.producer}")
    for record in case.chronicle.sent:
        limit = limits.get(record.producer)
        if limit is None or record.told_us < 0:
            continue
        took = record.told_us - record.sent_us
        if took > limit + slack_us:
            found.add(
                f"record {record.number} of {record.producer} was told of ({record.outcome}) after {took} us, and its "
                f"delivery timeout is {limit} us",
                place=(record.topic, record.partition),
                number=record.number,
                at_us=record.told_us,
            )
    return found.finding()
