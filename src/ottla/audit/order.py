"""Reordered: within a partition, a first copy that stands behind the first copy of a record sent later.

Only first copies count: a reader that drops the copies it has seen would meet the records in this order. A batch that
was stored again later is duplicated, not reordered.

Without idempotence a broker cannot recognise a late request: one that a producer has given up (its connection is
closed, and its bytes are still on their way, or wait for a slow disk) is stored behind what was sent on a new
connection. So without idempotence, and with one request in flight, order is promised only for records whose offset the
producer was told; not for unknown ones, nor for those whose copy was lost again, which a late copy may outlive. The
same holds for transactions that coordinators have forgotten: their producer gets another identity, and late requests
under the old one are not fenced.

Nor is order seen of a producer without idempotence in a topic that cleans up: where it stored a record twice, the first
copy may be gone and the second one be left, which then looks like the first.
"""

from __future__ import annotations

from collections.abc import Mapping

from ottla.audit.findings import EVIDENCE_MAX, REORDERED, Anomaly, Finding
from ottla.audit.history import PartitionHistory
from ottla.ledger.schema import ACKED, NO_OFFSET


def check_order(
    history: PartitionHistory,
    evidence_max: int = EVIDENCE_MAX,
    *,
    only_where_told: bool = False,
    may_lack_copies: bool = False,
    excused_behind: Mapping[int, str] | None = None,
) -> Finding:
    """First copies out of input order, against the highest record number seen before each.

    `only_where_told`: where late requests are not told; the others that stand behind a later one are tallied.
    `may_lack_copies`: where what is left of a record need not be its first copy; what stands late there is tallied.
    `excused_behind`: offset -> why what was sent earlier may stand behind the record there; tallied, too.
    """
    count = late = left = 0
    excuses: dict[str, int] = {}
    evidence: list[Anomaly] = []
    sent_row = history.sent_row
    highest = highest_at = -1
    later = history.later
    for sequence, row in history.first_copy.items():
        offset = history.stored.offset[row]
        if later is not None and offset > later[0]:
            # From here on all numbers of this slice stand behind one of a later slice.
            highest_at, highest = later
            later = None
        if sequence > highest:
            if sequence in sent_row:  # a number that nobody sent must not make the records behind it look late
                highest, highest_at = sequence, offset
            continue
        if sequence not in sent_row:
            continue
        sent = sent_row[sequence]
        if only_where_told and (history.sent.outcome[sent] != ACKED or history.sent.offset[sent] == NO_OFFSET):
            late += 1
            continue
        if may_lack_copies:
            left += 1
            continue
        why = excused_behind.get(highest_at) if excused_behind else None
        if why is not None:
            excuses[why] = excuses.get(why, 0) + 1
            continue
        count += 1
        if len(evidence) < evidence_max:
            evidence.append(_anomaly(history, sequence, (highest_at, offset), highest))
    tallies = [("in doubt, and stored late", late)] if late else []
    tallies += [("late, and an earlier copy may have been cleaned up", left)] if left else []
    tallies += [(f"excused: {why}", times) for why, times in excuses.items()]
    return Finding(REORDERED, count, tuple(evidence), (), tuple(tallies))


def _anomaly(history: PartitionHistory, sequence: int, offsets: tuple[int, int], earlier: int) -> Anomaly:
    detail = (
        f"record {sequence} is stored at offset {offsets[1]}, "
        f"behind record {earlier} at offset {offsets[0]}, which was sent after it"
    )
    return Anomaly(REORDERED, history.topic, history.partition, sequence, offsets, detail)
