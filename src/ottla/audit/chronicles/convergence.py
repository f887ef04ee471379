"""Diverged replicas: after everything had healed and settled, replicas in sync are not the same.

Promise: replicas in sync hold the same bytes up to the same end once nothing moves any more, and the leader's high
watermark has reached that end. A follower may know an older high watermark (it is told with the next records), never a
newer one. Where their logs begin at different offsets (retention), what they have in common is compared.

Not observable while a run has not settled, nor with foreign brokers; nor what a log holds where each broker compacts it
by itself.
"""

from __future__ import annotations

from ottla.audit.chronicles.case import Case, Place
from ottla.audit.chronicles.chronicle import ReplicaSeen
from ottla.audit.findings import DIVERGED, EVIDENCE_MAX, Finding, Findings


def check_convergence(case: Case, evidence_max: int = EVIDENCE_MAX) -> Finding:
    """Replicas in sync whose end, high watermark or content differs from the leader's."""
    found = Findings(DIVERGED, evidence_max)
    if case.chronicle.replicas is None:
        found.not_seen("the replicas' logs")
    elif not case.is_settled:
        found.not_seen("the end: the run did not settle")
    else:
        for place, replicas in case.replicas.items():
            _check_place(case, found, place, {replica.broker_id: replica for replica in replicas})
    return found.finding()


def _check_place(case: Case, found: Findings, place: Place, replicas: dict[int, ReplicaSeen]) -> None:
    roles = case.roles.get(place)
    leader = replicas.get(roles[-1].leader) if roles else None
    if roles is None or leader is None:
        found.not_seen(f"{place[0]}-{place[1]}, which had no leader in the end")
        return
    if leader.high_watermark != _end(leader):
        found.add(
            f"the high watermark of broker {leader.broker_id} stays at {leader.high_watermark}, its log ends at "
            f"{_end(leader)}",
            place=place,
            offsets=(leader.high_watermark, _end(leader)),
            brokers=(leader.broker_id,),
            at_us=case.chronicle.ended_us,
        )
    for broker_id in roles[-1].isr:
        replica = replicas.get(broker_id)
        if replica is leader:
            continue
        if replica is None:
            found.not_seen(f"the log of {place[0]}-{place[1]} on broker {broker_id}, which was in sync in the end")
            continue
        if replica.high_watermark < leader.high_watermark:
            found.tally("followers with an older high watermark")
        what = _difference(leader, replica, case.cleans_up(place))
        if what is not None:
            found.add(
                f"broker {broker_id} {what} than its leader, broker {leader.broker_id}",
                place=place,
                offsets=(replica.high_watermark, leader.high_watermark),
                brokers=(leader.broker_id, broker_id),
                at_us=case.chronicle.ended_us,
            )


def _difference(leader: ReplicaSeen, replica: ReplicaSeen, cleans_up: bool) -> str | None:
    if replica.high_watermark > leader.high_watermark:
        return f"has high watermark {replica.high_watermark} and not {leader.high_watermark}: a newer one"
    if _end(replica) != _end(leader):
        return f"ends at {_end(replica)} and not at {_end(leader)}: elsewhere"
    if cleans_up or replica.bytes_crc == leader.bytes_crc:
        return None
    if replica.log_start_offset == leader.log_start_offset == 0:
        return "holds other bytes"
    begin = max(replica.log_start_offset, leader.log_start_offset)
    mine = [batch for batch in replica.batches if batch.base_offset >= begin]
    return None if mine == [batch for batch in leader.batches if batch.base_offset >= begin] else "holds other batches"


def _end(replica: ReplicaSeen) -> int:
    return replica.batches[-1].last_offset + 1 if replica.batches else replica.log_start_offset
