"""Acknowledged too early: with acks=all an answer came before all replicas in sync had the record.

Promise: the leader answers when its high watermark has passed the record, which it does when every replica in sync has
it, and while these are at least `min.insync.replicas`. So at the time of the answer somebody must have seen the high
watermark pass, and at that moment the replicas that the controller counted as in sync must have held the record; a
broker that went down since the record was sent may have had it. While a record waits, another one may be committed at
the offset that it gets in the end, once power cuts have taken that one away: so it is enough if one of the times at
which the high watermark passed that offset was as it should be. What was taken for another record (`reused_epochs`) had
been committed before it was sent.

The tallies say how many replicas held each acknowledged record, and how many had synced it. Not observable where the
high watermarks were not seen (foreign brokers).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import pairwise

from ottla.audit.chronicles.case import Case, Place
from ottla.audit.chronicles.chronicle import Committed, Leadership, SentRecord, TopicPromise
from ottla.audit.chronicles.reused_epochs import excuse_reused_epoch
from ottla.audit.findings import EVIDENCE_MAX, UNDER_REPLICATED, Finding, Findings
from ottla.ledger.schema import ACKED


def check_under_replication(case: Case, evidence_max: int = EVIDENCE_MAX) -> Finding:
    """Records acknowledged with acks=all before all replicas in sync, or enough of them, held them."""
    found = Findings(UNDER_REPLICATED, evidence_max)
    if case.chronicle.commits is None:
        found.not_seen("when the high watermark passed a record, and who held it then")
        return found.finding()
    for place, sent in case.sent_to.items():
        for record in sent:
            promise = case.producers.get(record.producer)
            if record.outcome != ACKED or record.offset < 0 or promise is None or promise.acks != -1:
                continue
            commit = case.durability.committed(place, record.offset, record.sent_us)
            if commit is None or commit.at_us > record.told_us >= 0:
                excuse = excuse_reused_epoch(case, record)
                if excuse is not None:
                    found.tally(f"excused: {excuse}")
                    continue
                when = "it never did" if commit is None else f"it did at {commit.at_us} us"
                _add(found, record, commit, f"before the high watermark passed it: {when}")
                continue
            for commit in case.durability.commits(place, record.offset, record.sent_us, record.told_us):
                missing = _missing(case, place, record, commit)
                if missing is None:
                    break
            found.tally(f"held by {len(commit.held_by)}")
            found.tally(f"synced by {len(commit.synced_by)}")
            if missing is not None:
                _add(found, record, commit, missing)
    return found.finding()


def _missing(case: Case, place: Place, record: SentRecord, commit: Committed) -> str | None:
    # In the epoch of that leader: it may not have heard of the next one.
    roles = [role for role in case.roles.get(place, []) if role.leader_epoch <= commit.leader_epoch]
    at = bisect_right(roles, commit.at_us, key=lambda role: role.at_us) - 1
    fallen = {
        each.broker_id: None
        for each in case.chronicle.broker_ends or ()
        if record.sent_us <= each.at_us <= commit.at_us and each.kind != "kill"
    }
    held = dict.fromkeys(commit.held_by) | fallen
    held |= dict.fromkeys(_moved_away(case, place, record, commit))
    absent = [each for each in roles[at].isr if each not in held] if at >= 0 else []
    if absent:
        return f"though broker {absent[0]}, which was in sync, did not hold it when the high watermark passed it"
    topic = case.topics.get(place[0])
    least = 1 if topic is None else min(topic.min_insync_replicas, _fewest_replicas(topic, roles[: at + 1]))
    if len(held) < least:
        return f"though only {len(held)} replicas held it, and min.insync.replicas is {least}"
    return None


def _moved_away(case: Case, place: Place, record: SentRecord, commit: Committed) -> Iterator[int]:
    """The brokers that held the record and had removed it when it was committed, as their replica was moved away.

    A replica that was in sync then had it, though the leader had not heard of the move yet.
    """
    known = [role for role in case.roles.get(place, ()) if role.at_us <= commit.at_us and role.replicas]
    gone: dict[int, None] = {}
    for before, after in pairwise(known):
        if after.at_us >= record.sent_us:
            gone |= dict.fromkeys(each for each in before.replicas if each not in after.replicas)
    for mark in case.marks.get(place, ()) if gone else ():
        if mark.broker_id in gone and mark.at_us <= commit.at_us and mark.log_end_offset > record.offset:
            yield mark.broker_id


def _fewest_replicas(topic: TopicPromise, roles: Sequence[Leadership]) -> int:
    """How many replicas the leader may have taken the partition to have: it need not have heard of the newest ones."""
    known = [len(each.replicas) for each in roles if each.leader_epoch == roles[-1].leader_epoch and each.replicas]
    return min(known, default=topic.replication_factor)


def _add(found: Findings, record: SentRecord, commit: Committed | None, why: str) -> None:
    found.add(
        f"record {record.number} at offset {record.offset} was acknowledged at {record.told_us} us {why}",
        place=(record.topic, record.partition),
        number=record.number,
        offsets=(record.offset,),
        brokers=() if commit is None else (commit.leader, *commit.held_by),
        at_us=record.told_us,
    )
