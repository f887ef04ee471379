"""Corrupt: a batch lies in a replica's log whose CRC does not fit its bytes, or a log whose offsets do not ascend.

Promise: the leader checks a batch's CRC before it appends it and followers copy it byte for byte, so what lies in a log
at the end is whole. Recovery cuts off batches that a power cut tore, or that were corrupted on purpose while the broker
was down (only bytes that a CRC covers), and the replica fetches them from the leader again.

Not observable with foreign brokers.
"""

from __future__ import annotations

from ottla.audit.chronicles.case import Case
from ottla.audit.findings import CORRUPT, EVIDENCE_MAX, Finding, Findings


def check_corruption(case: Case, evidence_max: int = EVIDENCE_MAX) -> Finding:
    """Batches with a wrong CRC, or in front of the end of the batch before them."""
    found = Findings(CORRUPT, evidence_max)
    if case.chronicle.replicas is None:
        found.not_seen("the replicas' logs")
    for place, replicas in case.replicas.items():
        for replica in replicas:
            end = -1
            for batch in replica.batches:
                what = None
                if not batch.crc_is_right:
                    what = "has a CRC that does not fit its bytes"
                elif batch.base_offset < end or batch.last_offset < batch.base_offset:
                    what = f"reaches to offset {batch.last_offset}, and the one before it to {end - 1}"
                if what is not None:
                    found.add(
                        f"the batch at offset {batch.base_offset} on broker {replica.broker_id} {what}",
                        place=place,
                        offsets=(batch.base_offset,),
                        brokers=(replica.broker_id,),
                    )
                end = max(end, batch.last_offset + 1)
    return found.finding()
