"""Truncated though committed: a replica in sync cut off what the high watermark had passed, or one led without it.

Promise: a follower cuts its log back only to where it and the leader part ways (KIP-101, KIP-279), and a leader in sync
has all that is committed; so what a replica in sync held when it was committed stays on it. A power cut takes what was
not synced, and what is excused (`durability`) may be cut everywhere. A kill takes nothing. A replica that is moved
away takes its log with it. Records below a
replica's log start are deleted there: it holds them no longer, and no cut takes them.

Not observable with foreign brokers.
"""

from __future__ import annotations

from bisect import bisect_right
from heapq import merge

from ottla.audit.chronicles.case import Case, Place
from ottla.audit.chronicles.chronicle import BrokerEnd, Committed, Leadership, Watermark
from ottla.audit.chronicles.durability import Break
from ottla.audit.findings import EVIDENCE_MAX, TRUNCATED, Finding, Findings

_Event = Break | BrokerEnd | Watermark | Committed | Leadership
# At the same moment: what a broker did before it went down comes first.
_RANK: dict[type, int] = {Watermark: 0, Committed: 1, BrokerEnd: 2, Break: 3, Leadership: 4}


def check_truncation(case: Case, evidence_max: int = EVIDENCE_MAX) -> Finding:
    """Committed records cut off by a replica that held them, and leaders elected without them."""
    found = Findings(TRUNCATED, evidence_max)
    chronicle = case.chronicle
    if chronicle.watermarks is None or chronicle.commits is None or chronicle.broker_ends is None:
        found.not_seen("where the logs ended, and what was committed")
        return found.finding()
    for place in case.marks:
        _Walk(case, found, place, chronicle.broker_ends).go()
    return found.finding()


class _Walk:
    """Through the time of one partition."""

    def __init__(self, case: Case, found: Findings, place: Place, broker_ends: list[BrokerEnd]) -> None:
        self.case = case
        self.found = found
        self.place = place
        self.roles = case.roles.get(place, [])
        self.committed = 0
        # broker -> up to where it held what was committed
        self.held: dict[int, int] = {}
        # broker -> where its log began
        self.starts: dict[int, int] = {}
        self.led: dict[tuple[int, int], None] = {}
        streams: list[list[_Event]] = [
            list(case.durability.breaks.get(place, ())),
            list(broker_ends),
            list(case.marks[place]),
            list(case.commits.get(place, ())),
            list(self.roles),
        ]
        self.events = merge(*streams, key=lambda event: (event.at_us, _RANK[type(event)]))

    def go(self) -> None:
        for event in self.events:
            if isinstance(event, Watermark):
                self.marked(event)
            elif isinstance(event, Committed):
                self.passed(event)
            elif isinstance(event, Break):
                self.committed = min(self.committed, event.offset)
                self.held = {broker: min(end, event.offset) for broker, end in self.held.items()}
            elif isinstance(event, Leadership):
                if event.replicas:
                    # Who does not hold the partition any more removes its log.
                    self.held = {broker: end for broker, end in self.held.items() if broker in event.replicas}
            elif event.kind != "kill" and event.broker_id in self.held:
                cut = event.cut.get(self.place, 0)
                self.held[event.broker_id] = min(self.held[event.broker_id], cut)

    def passed(self, commit: Committed) -> None:
        at = bisect_right(self.roles, commit.at_us, key=lambda role: role.at_us) - 1
        if at >= 0 and commit.leader_epoch < self.roles[at].leader_epoch:
            return  # the leader had been replaced, and did not know yet
        in_sync = self.roles[at].isr if at >= 0 else commit.held_by
        self.committed = max(self.committed, commit.end_offset)
        for broker in commit.held_by:
            if broker in in_sync:
                self.held[broker] = max(commit.end_offset, self.held.get(broker, 0))

    def marked(self, mark: Watermark) -> None:
        held, end = self.held.get(mark.broker_id, 0), mark.log_end_offset
        if end < held:
            self.held[mark.broker_id] = end
            if self.starts.get(mark.broker_id, 0) < held:
                self.add(mark, end, f"cut its log to {end}, and offsets up to {held} were committed and held by it")
        self.starts[mark.broker_id] = mark.log_start_offset
        term = mark.broker_id, mark.leader_epoch
        if mark.is_leader and term not in self.led:
            self.led[term] = None
            at = bisect_right(self.roles, mark.at_us, key=lambda role: role.at_us) - 1
            is_current = at >= 0 and self.roles[at].leader_epoch == mark.leader_epoch
            if is_current and end < self.committed:
                self.add(
                    mark, end, f"leads epoch {mark.leader_epoch} from {end} on; up to {self.committed} was committed"
                )

    def add(self, mark: Watermark, offset: int, what: str) -> None:
        self.found.add(
            f"broker {mark.broker_id} {what}",
            place=self.place,
            offsets=(offset,),
            brokers=(mark.broker_id,),
            at_us=mark.at_us,
        )
