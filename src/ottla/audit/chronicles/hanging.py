"""Hanging transaction: nothing will ever end it, and read_committed does not get past it.

Promise: a transaction is ended by its producer, by the next instance, or by its coordinator after
`transaction.timeout.ms`; so once the run has settled the last stable offset has reached the high watermark, and a
marker stands behind all transactional records (KIP-890).

Not observable: last stable offsets and markers, with foreign brokers, where their own report of hanging transactions
counts instead; and runs that did not settle.
"""

from __future__ import annotations

from ottla.audit.chronicles.case import Case
from ottla.audit.chronicles.durability import TRANSACTION_LOG
from ottla.audit.chronicles.markers import open_offsets
from ottla.audit.findings import EVIDENCE_MAX, HANGING, Finding, Findings


def check_hanging(case: Case, evidence_max: int = EVIDENCE_MAX) -> Finding:
    """Transactions reported as hanging, last stable offsets that stay behind, and records without a marker."""
    found = Findings(HANGING, evidence_max)
    if not case.durability.is_observable:
        for report in case.chronicle.hanging_transactions:
            found.add(report)
    if case.chronicle.replicas is None:
        found.not_seen("last stable offsets and markers")
    elif not case.is_settled:
        found.not_seen("the end: the run did not settle")
    else:
        if case.chronicle.hanging_transactions:
            found.tally("reported as open", len(case.chronicle.hanging_transactions))
        for place, logs in case.logs.items():
            if not logs:
                continue  # nothing was ever written there
            log = logs[0]
            if place in case.durability.breaks or case.durability.excuse_topic(TRANSACTION_LOG, 0) is not None:
                found.tally("partitions that may hang, since markers or transactions were lost")
                continue
            # Compaction takes markers away, too.
            opened = {} if case.cleans_up(place) else open_offsets(log)
            for producer_id, offsets in opened.items():
                found.add(
                    f"{len(offsets)} records of producer {producer_id} from offset {offsets[0]} on have no marker on "
                    f"broker {log.broker_id}; its last stable offset is {log.last_stable_offset}, its high watermark "
                    f"{log.high_watermark}",
                    place=place,
                    offsets=(offsets[0], log.last_stable_offset, log.high_watermark),
                    brokers=(log.broker_id,),
                    at_us=case.chronicle.ended_us,
                )
            if not opened and log.last_stable_offset < log.high_watermark:
                found.add(
                    f"no transaction is open on broker {log.broker_id}, and its last stable offset "
                    f"{log.last_stable_offset} stays behind its high watermark {log.high_watermark}",
                    place=place,
                    offsets=(log.last_stable_offset, log.high_watermark),
                    brokers=(log.broker_id,),
                    at_us=case.chronicle.ended_us,
                )
    return found.finding()
