"""Offset without its data: a group's committed offset is not that of the transactions that are visible.

Promise: offsets sent to a transaction are committed with its records or not at all. So in the end a group stands where
the last committed transaction that took an offset for it put it; a later transaction of which nobody knows how it ended
moves it exactly if its records can be read.

Not observable: what groups have committed, where it was not asked for (`group_offsets` None). A coordinator that lost
its log to a power cut is excused (`durability`).
"""

from __future__ import annotations

from ottla.audit.chronicles.case import COMMITTED, Case
from ottla.audit.chronicles.chronicle import TransactionSeen
from ottla.audit.chronicles.late_ends import may_have_ended_late
from ottla.audit.findings import EVIDENCE_MAX, GROUP_OFFSET, Finding, Findings

OFFSETS_LOG = "__consumer_offsets"
_Key = tuple[str, str, int]


def check_group_offsets(case: Case, evidence_max: int = EVIDENCE_MAX) -> Finding:
    """Groups whose committed offset is not the one of their transactions."""
    found = Findings(GROUP_OFFSET, evidence_max)
    moves: dict[_Key, list[TransactionSeen]] = {}
    for each in case.chronicle.transactions:
        if each.offsets is not None:
            moves.setdefault(each.offsets[:3], []).append(each)
    stand = case.chronicle.group_offsets
    if moves and stand is None:
        found.not_seen("what the groups have committed")
        return found.finding()
    for key, transactions in moves.items():
        lost = case.durability.excuse_topic(OFFSETS_LOG, transactions[0].began_us)
        if lost is not None or any(_may_be_elsewhere(case, each) for each in transactions):
            found.tally("groups whose coordinator lost its log")
            continue
        _check_group(case, found, key, transactions, -1 if stand is None else stand.get(key, -1))
    return found.finding()


def _may_be_elsewhere(case: Case, transaction: TransactionSeen) -> bool:
    # The marker that decides for an offset lies in a topic whose markers nobody looks at.
    return may_have_ended_late(case, transaction) or case.excuse_transaction(transaction) is not None


def _check_group(case: Case, found: Findings, key: _Key, transactions: list[TransactionSeen], stands: int) -> None:
    due, allowed = -1, [-1]
    for each in transactions:
        assert each.offsets is not None
        offset = each.offsets[3]
        happened = (
            True if each.outcome == "committed" else False if each.outcome == "aborted" else _is_shown(case, each)
        )
        if happened and each.offsets_taken:
            due, allowed = offset, [offset]
        elif happened is not False:
            allowed.append(offset)
    if stands in allowed:
        return
    mine = next((each for each in transactions if each.offsets is not None and each.offsets[3] == stands), None)
    whose = "" if mine is None else f", which transaction {mine.number} put it to ({mine.outcome})"
    should = "nowhere" if due < 0 else f"at {due}"
    found.add(
        f"group {key[0]} stands at offset {stands} of {key[1]}-{key[2]}{whose}; by its transactions it should stand "
        f"{should}",
        place=(key[1], key[2]),
        offsets=(stands, due),
        at_us=case.chronicle.ended_us,
    )


def _is_shown(case: Case, transaction: TransactionSeen) -> bool | None:
    """Whether its records can be read; None where it has none, or nobody could look."""
    records = case.of_transaction.get(transaction.number, ())
    answers = []
    for record in records:
        place = record.topic, record.partition
        end = case.shown_end(place)
        if end is None or record.offset >= end:
            return None
        answers.append(any(each.number == record.number for each in case.final[COMMITTED, place].records))
    return None if not answers or any(answers) != all(answers) else answers[0]
