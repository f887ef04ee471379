"""Committed by a zombie: an instance that had been replaced got its transaction committed.

Promise (KIP-98): when a newer instance with the same transactional id has begun a transaction, its `initTransactions`
has been answered, and from then on whatever the older one asks for is refused. So a transaction whose commit was asked
for after that is never committed, nor are its records shown. (Asked for before, it may have won; that is no zombie.)

A power cut or an unclean election may take that away again. Without the marker that aborted them, records lie open in
the log until the next marker of that producer, which decides for them too; and coordinators that have lost what they
wrote know of no newer instance. In transaction version 1 a late marker of the transaction before may have shown them.

Not observable where the time of that request is not known.
"""

from __future__ import annotations

from ottla.audit.chronicles.case import COMMITTED, Case
from ottla.audit.chronicles.chronicle import SentRecord, TransactionSeen
from ottla.audit.chronicles.durability import FOREVER, TRANSACTION_LOG
from ottla.audit.chronicles.late_ends import UNSEEN, excuse_late_commit, may_be_unseen
from ottla.audit.findings import EVIDENCE_MAX, ZOMBIE, Finding, Findings


def check_zombies(case: Case, evidence_max: int = EVIDENCE_MAX) -> Finding:
    """Transactions committed after their instance had been replaced."""
    found = Findings(ZOMBIE, evidence_max)
    if may_be_unseen(case):
        found.not_seen(UNSEEN)
    begun: dict[str, list[TransactionSeen]] = {}
    for transaction in case.chronicle.transactions:
        begun.setdefault(transaction.producer, []).append(transaction)
    for old in case.chronicle.transactions:
        if not old.commit_asked or (old.number not in case.of_transaction and old.offsets is None):
            continue  # no commit was asked for: without records and offsets it needs no request
        successors = [each for each in begun[old.producer] if each.instance > old.instance]
        if not successors:
            continue
        if old.commit_asked_us < 0:
            found.not_seen("when commits were asked for")
            continue
        since_us = min(each.began_us for each in successors)
        if since_us >= old.commit_asked_us:
            continue
        found.tally("commits asked for by zombies")
        shown = [
            record
            for record in case.of_transaction.get(old.number, ())
            if record.number in _committed(case, (record.topic, record.partition))
        ]
        if old.outcome != "committed" and not shown:
            continue
        excuse = _excuse(case, old, shown)
        if excuse is not None:
            found.tally(f"excused: {excuse}")
            continue
        what = "its producer was told that it is committed" if not shown else f"record {shown[0].number} can be read"
        found.add(
            f"transaction {old.number} of {old.producer}'s instance {old.instance}: the commit was asked for at "
            f"{old.commit_asked_us} us, a newer instance had begun by {since_us} us, and {what}",
            place=(shown[0].topic, shown[0].partition) if shown else ("", -1),
            number=shown[0].number if shown else -1,
            offsets=(shown[0].offset,) if shown else (),
            at_us=old.commit_asked_us,
        )
    return found.finding()


def _excuse(case: Case, old: TransactionSeen, shown: list[SentRecord]) -> str | None:
    """What took the abort marker away in each partition that shows records of it, or what coordinators knew."""
    told_us = old.ended_us if old.outcome == "committed" and old.ended_us >= 0 else FOREVER
    why = case.durability.excuse_topic(TRANSACTION_LOG, old.began_us, told_us)
    if why is not None or old.outcome == "committed":
        return why
    why = excuse_late_commit(case, old)
    if why is not None:
        return why
    for record in shown:
        why = case.durability.excuse_read((record.topic, record.partition), -1, old.began_us)
        if why is None:
            return None
    return why


def _committed(case: Case, place: tuple[str, int]) -> dict[int, None]:
    read = case.final.get((COMMITTED, place))
    return {} if read is None else dict.fromkeys(record.number for record in read.records)
