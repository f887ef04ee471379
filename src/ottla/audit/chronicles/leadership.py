"""Broken leader epoch: an epoch went back, had two leaders, or began with a leader who must not lead.

Promise: each time a partition gets another leader its epoch grows by the controller's word; one epoch has one leader
for good, and a log's batches carry epochs in ascending order. Only a replica in sync becomes leader, unless the topic
allows unclean elections; the coordinators' own topics do not allow them.

Not observable with foreign brokers.
"""

from __future__ import annotations

from ottla.audit.chronicles.case import Case, Place
from ottla.audit.findings import EPOCH, EVIDENCE_MAX, Finding, Findings


def check_leadership(case: Case, evidence_max: int = EVIDENCE_MAX) -> Finding:
    """Epochs that fell or were shared, in the controller's decisions, in what brokers took themselves for, in logs."""
    found = Findings(EPOCH, evidence_max)
    if case.chronicle.leaderships is None or case.chronicle.replicas is None or case.chronicle.watermarks is None:
        found.not_seen("who led when, and the epochs in the logs")
    for place in case.roles:
        _check_roles(case, found, place)
    for place in case.marks:
        _check_marks(case, found, place)
    for place, logs in case.logs.items():
        for log in logs:
            epoch = -1
            for batch in log.batches:
                if batch.leader_epoch < epoch:
                    found.add(
                        f"the batch at offset {batch.base_offset} on broker {log.broker_id} carries leader epoch "
                        f"{batch.leader_epoch}, behind one of epoch {epoch}",
                        place=place,
                        offsets=(batch.base_offset,),
                        brokers=(log.broker_id,),
                    )
                epoch = max(epoch, batch.leader_epoch)
    return found.finding()


def _check_roles(case: Case, found: Findings, place: Place) -> None:
    topic = case.topics.get(place[0])
    epoch, leader = -1, -1
    for role in case.roles[place]:
        what = None
        if role.leader_epoch < epoch:
            what = f"epoch {role.leader_epoch} follows upon epoch {epoch}"
        elif role.leader_epoch == epoch and role.leader != leader:
            what = f"epoch {epoch} was broker {leader}'s and is broker {role.leader}'s now"
        elif role.leader >= 0 and role.leader not in role.isr:
            what = f"broker {role.leader} leads epoch {role.leader_epoch} and is not in sync"
        elif role.is_unclean and (topic is None or not topic.unclean_leader_election):
            what = f"broker {role.leader} was elected for epoch {role.leader_epoch} though it was not in sync"
        if what is not None:
            found.add(what, place=place, brokers=(leader, role.leader), at_us=role.at_us)
        epoch, leader = role.leader_epoch, role.leader


def _check_marks(case: Case, found: Findings, place: Place) -> None:
    leaders: dict[int, int] = {}
    taken: dict[tuple[int, int], int] = {}
    for mark in case.marks[place]:
        if mark.is_leader:
            leader = leaders.setdefault(mark.leader_epoch, mark.broker_id)
            if leader != mark.broker_id:
                found.add(
                    f"brokers {leader} and {mark.broker_id} both took themselves for the leader of epoch "
                    f"{mark.leader_epoch}",
                    place=place,
                    brokers=(leader, mark.broker_id),
                    at_us=mark.at_us,
                )
        start = mark.broker_id, mark.broker_start
        if mark.leader_epoch < taken.get(start, -1):
            found.add(
                f"broker {mark.broker_id} went back from leader epoch {taken[start]} to {mark.leader_epoch}",
                place=place,
                brokers=(mark.broker_id,),
                at_us=mark.at_us,
            )
        taken[start] = max(mark.leader_epoch, taken.get(start, -1))
