"""Durability: which events may lose a record although it was committed. Only they excuse its loss.

Kafka acknowledges what is in memory on the replicas in sync. Such a record survives as long as one of them does, with
two exceptions: an *unclean election* (only where the topic allows it) makes a leader of a replica that was not in sync;
and a *power cut* takes what was not synced from a replica that the controller still counts as in sync, the last one
included. A kill loses nothing: the page cache survives it. A leader that was cut off when such a replica replaced it
may go on in its own epoch until it hears of that. What it shows then is lost, too, and so is what it commits if the
election was unclean. It also goes on to commit, and to acknowledge, what the elected replica had told it to hold before
a power cut took it from there: a leader that was frozen does so when it wakes up.

Each such event is noted as a break: from its time on, what was committed in its partition from its offset on may be
lost. A power cut makes a break only if that broker then leads without having left the replicas in sync in between: a
replica that comes back is dropped from them first, and joins again when it has caught up. (A replica whose power is cut
while its leader asks for it to join does join, as long as the controller has not noticed.)

Where it is not known which brokers went down and which led (foreign brokers), nothing is excused and `is_observable` is
False.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ottla.audit.chronicles.chronicle import BrokerEnd, Committed, Leadership, SentRecord, TopicPromise, Watermark

Place = tuple[str, int]
TRANSACTION_LOG = "__transaction_state"
FOREVER = sys.maxsize


@dataclass(slots=True, frozen=True)
class Break:
    """What was committed before `at_us` from `offset` on may be gone, and why.

    Leaders of epochs before `leader_epoch` may show it until they hear of it. They may commit more where `is_unclean`;
    else up to `held_end` only, where the log ended of the replica whose power was cut.
    """

    at_us: int
    offset: int
    why: str
    leader_epoch: int
    is_unclean: bool = False
    held_end: int = 0


class Durability:
    """The breaks of one run; lists by partition are in the order of time."""

    def __init__(
        self,
        topics: Mapping[str, TopicPromise],
        roles: Mapping[Place, Sequence[Leadership]],
        marks: Mapping[Place, Sequence[Watermark]],
        commits: Mapping[Place, Sequence[Committed]],
        broker_ends: Sequence[BrokerEnd] | None,
    ) -> None:
        self.is_observable = broker_ends is not None and bool(roles)
        self.breaks: dict[Place, list[Break]] = {}
        self._roles = roles
        self._commits = commits
        self._marks = marks
        power_cuts = self._power_cuts = [each for each in broker_ends or () if each.kind != "kill"]
        starts = _starts(marks)
        for place, seen in roles.items():
            topic = topics.get(place[0])
            found: list[Break] = []
            for each in power_cuts:
                cut = _power_cut(each, place, seen, marks.get(place, ()), starts.get(each.broker_id, ()))
                found += [] if cut is None else [cut]
            if topic is None or topic.unclean_leader_election:
                found += _unclean_elections(place, seen, marks.get(place, ()), power_cuts, found)
            if found:
                self.breaks[place] = sorted(found, key=lambda each: each.at_us)

    def committed(self, place: Place, offset: int, since_us: int) -> Committed | None:
        """The first time since then that the high watermark passed this offset."""
        return next(self.commits(place, offset, since_us), None)

    def commits(self, place: Place, offset: int, since_us: int, until_us: int = -1) -> Iterator[Committed]:
        """Each time since then, and (-1: to the end) no later than that, at which the high watermark passed it."""
        for commit in self._commits.get(place, ()):
            is_between = commit.at_us >= since_us and (until_us < 0 or commit.at_us <= until_us)
            if is_between and commit.first_offset <= offset < commit.end_offset:
                yield commit

    def excuse(self, place: Place, offset: int, since_us: int) -> str | None:
        """What took away what was committed at an offset since then; None where nothing did that excuses it."""
        if place not in self.breaks:
            return None
        commit = self.committed(place, offset, since_us)
        why = self.excuse_read(place, offset, since_us if commit is None else commit.at_us)
        return why or self._excuse_unheard(place, offset, since_us)

    def excuse_read(self, place: Place, offset: int, since_us: int, until_us: int = FOREVER) -> str | None:
        """The same for what was known to be committed by then, because somebody read it; offset -1 is anywhere.

        `until_us`: when the loss was seen. What breaks later did not cause it.
        """
        for each in self.breaks.get(place, ()):
            if since_us <= each.at_us <= until_us and (offset < 0 or offset >= each.offset):
                return each.why
        return None

    def excuse_shown(self, place: Place, offset: int, shown_us: int, until_us: int = FOREVER) -> str | None:
        """What took away what a round that began then showed, though its leader may have been none any more."""
        why = self.excuse_read(place, offset, shown_us, until_us)
        return why or self._excuse_unheard(place, offset, shown_us=shown_us)

    def excuse_unreplicated(self, record: SentRecord, epoch_there: int | None) -> str | None:
        """Why a record that its leader acknowledged alone (acks=1) may be missing; None where nothing explains it.

        A leader that has been replaced, and does not know it yet, acknowledges, too: what counts is its epoch. A later
        leader that did not follow in that epoch does not have the record, whatever its log holds at that offset.
        `epoch_there` is the leader epoch of what stands there in the end.
        """
        place = record.topic, record.partition
        marks = self._marks.get(place, ())
        roles = self._roles.get(place, ())
        epochs = _appended_in(marks, record) or [role.leader_epoch for role in roles if role.at_us <= record.sent_us]
        epoch = min(epochs, default=-1)
        if epoch_there is not None and epoch_there < epoch:
            return "an older leader's record stands in its place, and acks=1 does not wait for followers"
        for role in roles:
            if role.leader < 0 or role.leader_epoch <= epoch:
                continue
            last = _last_mark(marks, role.leader, role.at_us)
            has_followed = last is not None and last.leader_epoch >= epoch
            end = 0 if last is None else _kept_end(place, last, role, self._power_cuts)
            if not has_followed or end <= record.offset:
                return f"broker {role.leader} led without it, and acks=1 does not wait for followers"
        return None

    def _excuse_unheard(self, place: Place, offset: int, since_us: int = 0, shown_us: int | None = None) -> str | None:
        """The break that the leader which committed this offset had not heard of, in words; None where it had.

        `shown_us`: when it showed that; None where it acknowledged it.
        """
        for commit in self._commits.get(place, ()):
            if commit.at_us < since_us or not commit.first_offset <= offset < commit.end_offset:
                continue
            for each in self.breaks.get(place, ()):
                is_older = commit.leader_epoch < each.leader_epoch and offset >= each.offset
                is_broken = each.is_unclean or commit.at_us <= each.at_us
                was_held = shown_us is None and offset < each.held_end
                if not is_older or not (is_broken or was_held):
                    continue
                if not self._has_heard(place, commit.leader, each, shown_us or 0):
                    return f"{each.why}, which broker {commit.leader} had not heard of"
        return None

    def _has_heard(self, place: Place, broker: int, cause: Break, at_us: int) -> bool:
        """Whether a broker was seen in the epoch of its replacement, or a later one, before that time."""
        return any(
            mark.broker_id == broker and mark.leader_epoch >= cause.leader_epoch and mark.at_us < at_us
            for mark in self._marks.get(place, ())
        )

    def excuse_topic(self, topic: str, since_us: int, until_us: int = FOREVER) -> str | None:
        """The same for anything in a topic, such as the one in which coordinators keep transactions."""
        whys = (self.excuse_read(place, -1, since_us, until_us) for place in self.breaks if place[0] == topic)
        return next((why for why in whys if why is not None), None)


def _unclean_elections(
    place: Place,
    roles: Sequence[Leadership],
    marks: Sequence[Watermark],
    power_cuts: Sequence[BrokerEnd],
    breaks: Sequence[Break],
) -> list[Break]:
    found: list[Break] = []
    for role in roles:
        if role.is_unclean:
            own = _known_to_be_committed(place, role, marks, power_cuts)
            for earlier in (*breaks, *found):
                since = [each for each in roles if earlier.at_us <= each.at_us < role.at_us]
                if earlier.at_us < role.at_us and not any(role.leader in each.isr for each in since):
                    # It has not followed who led then, and what it knew was committed before.
                    own = min(own, earlier.offset)
            why = f"unclean election of broker {role.leader} at {role.at_us} us"
            found.append(Break(role.at_us, own, why, role.leader_epoch, is_unclean=True))
    return found


def _known_to_be_committed(
    place: Place, role: Leadership, marks: Sequence[Watermark], power_cuts: Sequence[BrokerEnd]
) -> int:
    """Up to where an elected leader's log is what was committed: its own high watermark, or what was left below it.

    The controller may elect a broker whose power has just been cut, before it notices.
    """
    last = _last_mark(marks, role.leader, role.at_us)
    if last is None:
        return 0
    own = last.high_watermark
    for each in power_cuts:
        if each.broker_id == role.leader and last.at_us <= each.at_us <= role.at_us:
            own = min(own, each.cut.get(place, own))
    return own


def _appended_in(marks: Sequence[Watermark], record: SentRecord) -> list[int]:
    """The epochs of the leaders that were seen to append something at a record's offset while it was sent."""
    ends: dict[tuple[int, int, int], int] = {}
    found: list[int] = []
    for mark in marks:
        if mark.at_us > record.told_us >= 0:
            break
        if mark.is_leader:
            term = mark.broker_id, mark.broker_start, mark.leader_epoch
            if mark.at_us >= record.sent_us and ends.get(term, 0) <= record.offset < mark.log_end_offset:
                found.append(mark.leader_epoch)
            ends[term] = mark.log_end_offset
    return found


def _kept_end(place: Place, last: Watermark, role: Leadership, power_cuts: Sequence[BrokerEnd]) -> int:
    """Where an elected leader's log ended: as it was seen last, or where its power was cut since then."""
    end = last.log_end_offset
    for each in power_cuts:
        if each.broker_id == role.leader and last.at_us <= each.at_us <= role.at_us:
            end = min(end, each.cut.get(place, end))
    return end


def _last_mark(marks: Sequence[Watermark], broker: int, until_us: int) -> Watermark | None:
    last = None
    for mark in marks:
        if mark.at_us > until_us:
            break
        if mark.broker_id == broker:
            last = mark
    return last


def _power_cut(
    end: BrokerEnd, place: Place, roles: Sequence[Leadership], marks: Sequence[Watermark], starts: Sequence[int]
) -> Break | None:
    """The moment at which a broker that has lost its unsynced records leads although it should not be in sync.

    `starts`: when its later starts were first seen. Until then a leader that had seen it catch up may have it join.
    None where it lost nothing: all that it held was synced.
    """
    cut, broker = end.cut.get(place), end.broker_id
    before = [role for role in roles if role.at_us <= end.at_us]
    if cut is None or not before:
        return None
    held = _last_mark(marks, broker, end.at_us)
    if held is not None and cut >= held.log_end_offset:
        return None
    why = f"{end.kind.replace('_', ' ')} of broker {broker} at {end.at_us} us"
    held_end = 0 if held is None else held.log_end_offset
    if before[-1].isr == (broker,):
        why += ", the last replica in sync"
        return Break(end.at_us, cut, why, before[-1].leader_epoch, held_end=held_end)
    is_in_sync = broker in before[-1].isr
    for role in roles:
        if role.at_us <= end.at_us or (broker not in role.isr and not is_in_sync):
            continue
        if broker not in role.isr:
            return None
        if not is_in_sync and any(end.at_us < start_us <= role.at_us for start_us in starts):
            return None
        is_in_sync = True
        if role.leader == broker:
            return Break(role.at_us, cut, why, role.leader_epoch, held_end=held_end)
    return None


def _starts(marks: Mapping[Place, Sequence[Watermark]]) -> dict[int, list[int]]:
    """When each start of each broker was first seen to do something."""
    first: dict[tuple[int, int], int] = {}
    for seen in marks.values():
        for mark in seen:
            start = mark.broker_id, mark.broker_start
            first[start] = min(mark.at_us, first.get(start, mark.at_us))
    starts: dict[int, list[int]] = {}
    for (broker, _), at_us in first.items():
        starts.setdefault(broker, []).append(at_us)
    return starts
