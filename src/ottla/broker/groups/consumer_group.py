"""A consumer group of the protocol of KIP-848, at its coordinator: the coordinator assigns, members follow.

Members send heartbeats, and none waits for another. Every change that may change the assignment (a member comes, goes,
or subscribes to something else; topics come, go, or grow) makes a new group epoch. The next heartbeat has an assignor
compute the target of that epoch, and from then on each member reconciles with its own heartbeats
(`consumer_member.py`). A member that must give up partitions and does not within its rebalance timeout is removed, as
is one that is silent for the session timeout. Static members (KIP-345) leave with epoch -2 and find their partitions
when they come back.

The group writes no records: it notes in `unsaved` which of its parts have changed, and the coordinator writes these to
its log before any member gets the change (`consumer_records.py`).

Invariants: a partition has at most one owner (`_owners`), which loses it by a heartbeat that says so or by leaving the
group; epochs only grow; the assignment's epoch is never ahead of the group's.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from zlib import crc32

from ottla.broker.events import ClusterImage
from ottla.broker.groups.assignors import ASSIGNORS, Assignor, Candidate, Partitions, TopicPartition
from ottla.broker.groups.consumer_member import (
    JOINING_EPOCH,
    LEAVING_STATIC_EPOCH,
    ConsumerMember,
    MemberState,
)
from ottla.broker.groups.deadlines import Deadlines
from ottla.broker.groups.heartbeat_checks import owned_in
from ottla.broker.patterns import matching
from ottla.broker.refused import Refused
from ottla.broker.settings import BrokerSettings
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    ResponseTopicPartitions,
)

_COMMITS_FROM_VERSION = 9


class ConsumerGroupState(Enum):
    """The states, under their names in ListGroups and ConsumerGroupDescribe."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"


class Part(Enum):
    """A part of a group that has a record of its own."""

    GROUP = "the group's epoch"
    MEMBER = "what a member says of itself"
    TARGET_EPOCH = "the epoch of the target assignment"
    TARGET = "what a member is to own"
    CURRENT = "what a member owns"


class ConsumerGroup:
    """One group; `new_member_id()` gives an id that no member has."""

    group_type = "consumer"
    protocol_type = "consumer"

    def __init__(self, group_id: str, settings: BrokerSettings, new_member_id: Callable[[], str]) -> None:
        self.group_id = group_id
        # The first member begins epoch 2, as with Apache Kafka.
        self.epoch = 1
        self.assignment_epoch = 0
        # Of the topics that members subscribe to, as of the group's epoch.
        self.metadata_hash = 0
        self.members: dict[str, ConsumerMember] = {}
        self.unsaved: dict[tuple[Part, str], None] = {}
        self._settings = settings
        self._new_member_id = new_member_id
        self._static: dict[str, str] = {}
        self._owners: dict[TopicPartition, str] = {}
        # The image that `metadata_hash` and `_matches` were last made from.
        self._image_version = -1
        self._matches: dict[str, list[str]] = {}
        self._deadlines = Deadlines(self._deadline_of)

    @property
    def state(self) -> ConsumerGroupState:
        """How far the group has come."""
        if not self.members:
            return ConsumerGroupState.EMPTY
        if self.epoch > self.assignment_epoch:
            return ConsumerGroupState.ASSIGNING
        if all(member.is_reconciled_to(self.assignment_epoch) for member in self.members.values()):
            return ConsumerGroupState.STABLE
        return ConsumerGroupState.RECONCILING

    @property
    def is_empty(self) -> bool:
        """Whether it has no members."""
        return not self.members

    @property
    def assignor(self) -> str:
        """The assignor that most members ask for."""
        votes = [member.assignor for member in self.members.values() if member.assignor is not None]
        return max(ASSIGNORS, key=votes.count)

    # Requests.

    def heartbeat(
        self, message: ConsumerGroupHeartbeatRequest, client_id: str, image: ClusterImage, now_us: int
    ) -> ConsumerGroupHeartbeatResponse:
        """A checked ConsumerGroupHeartbeat (`heartbeat_checks.py`) and its answer; Refused changes nothing."""
        if message.member_epoch < JOINING_EPOCH:
            return self._leave(message)
        owned = owned_in(message)
        member, is_new = self._member_of(message, owned)
        told, subscribed = member.description, (member.topic_names, member.topic_regex)
        before, former = member.assigned, [*member.assigned, *member.revoking]
        member.update(message, client_id)
        if is_new or told != member.description:
            self._note(Part.MEMBER, member)
        self._follow(image, changed=is_new or subscribed != (member.topic_names, member.topic_regex))
        if self.epoch > self.assignment_epoch:
            self._assign(image)
        if member.reconcile(self.assignment_epoch, lambda place: self._is_taken(place, member), owned) or is_new:
            self._ownership_changed(member, former, now_us)
        member.session_deadline_us = now_us + self._settings.group_consumer_session_timeout_ms * 1000
        self._deadlines.note(member.member_id, self._deadline_of(member.member_id) or 0)
        full = (
            message.rebalance_timeout_ms != -1
            and owned is not None
            and (message.subscribed_topic_names is not None or message.subscribed_topic_regex is not None)
        )
        return ConsumerGroupHeartbeatResponse(
            member_id=member.member_id,
            member_epoch=member.epoch,
            heartbeat_interval_ms=self._settings.group_consumer_heartbeat_interval_ms,
            assignment=_assignment(member) if full or before.keys() != member.assigned.keys() else None,
        )

    def check_commit(self, member_id: str, epoch: int, places: list[TopicPartition], version: int) -> None:
        """Refused where these offsets may not be committed. Without an epoch: only while the group has no members."""
        if epoch < 0 and not self.members:
            return
        member = self._known(member_id)
        if version < _COMMITS_FROM_VERSION:
            raise Refused(ErrorCode.UNSUPPORTED_VERSION)
        member.check_commit(epoch, places)

    def check_transactional_commit(
        self, member_id: str, instance_id: str | None, epoch: int, places: list[TopicPartition]
    ) -> None:
        """Refused where a transaction may not commit offsets. A request without a member is not checked (KIP-447)."""
        says_nothing = epoch == -1 and not member_id and instance_id is None
        if not says_nothing and (epoch >= 0 or self.members):
            self._known(member_id).check_commit(epoch, places)

    def check_fetch(self, member_id: str | None, epoch: int) -> None:
        """Refused where these offsets may not be read. A request without a member is not checked."""
        if (member_id is not None or epoch >= 0) and self._known(member_id or "").epoch != epoch:
            raise Refused(ErrorCode.STALE_MEMBER_EPOCH)

    def subscriptions(self) -> Callable[[str], bool]:
        """Tells of a topic whether a member subscribes to it, as of now."""
        members = self.members.values()
        names = dict.fromkeys(name for member in members for name in member.topic_names)
        patterns = list(dict.fromkeys(member.topic_regex for member in members if member.topic_regex))
        return lambda topic: topic in names or any(matching(pattern, [topic]) for pattern in patterns)

    # Around the requests.

    def deadline_us(self) -> int | None:
        """When `time_passed` is due at the latest."""
        return self._deadlines.first_us()

    def time_passed(self, now_us: int) -> None:
        """Remove members whose session is over, or that did not give up in time what they must."""
        for member_id in self._deadlines.take_due(now_us):
            self._remove(self.members[member_id])

    def restore(self, now_us: int) -> None:
        """Go on with the members that an earlier coordinator stored; their sessions begin anew."""
        for member in self.members.values():
            if member.instance_id is not None:
                self._static[member.instance_id] = member.member_id
            for place in [*member.assigned, *member.revoking]:
                self._owners[place] = member.member_id
            member.session_deadline_us = now_us + self._settings.group_consumer_session_timeout_ms * 1000
            self._await_revocation(member, now_us)
            self._deadlines.note(member.member_id, self._deadline_of(member.member_id) or 0)

    def end(self) -> None:
        """The group is deleted, or coordinated elsewhere; no request waits for it."""
        self.members, self.unsaved = {}, {}

    # Members.

    def _member_of(
        self, message: ConsumerGroupHeartbeatRequest, owned: Partitions | None
    ) -> tuple[ConsumerMember, bool]:
        """The member that heartbeats, and whether it has just come into the group."""
        member_id, instance_id, epoch = message.member_id, message.instance_id, message.member_epoch
        if len(self.members) >= self._settings.group_consumer_max_size and member_id not in self.members:
            raise Refused(
                ErrorCode.GROUP_MAX_SIZE_REACHED, detail=f"the group has {len(self.members)} members, as many as it may"
            )
        if epoch > JOINING_EPOCH:
            member = self._known(member_id) if instance_id is None else self._holder(member_id, instance_id)
            member.check_epoch(epoch, owned)
            return member, False
        holder_id = self._static.get(instance_id) if instance_id is not None else None
        if holder_id is not None:
            return self._come_back(self.members[holder_id], member_id), False
        is_new = member_id not in self.members
        if is_new:
            member = ConsumerMember(member_id or self._new_member_id())
            self.members[member.member_id] = member
        else:
            member = self.members[member_id]
        if instance_id is not None:
            self._static.pop(member.instance_id or "", None)
            self._static[instance_id] = member.member_id
        return member, is_new

    def _come_back(self, former: ConsumerMember, member_id: str) -> ConsumerMember:
        """A static member joins that has been in the group before."""
        if former.epoch != LEAVING_STATIC_EPOCH:
            detail = f"member {former.member_id} has the instance id {former.instance_id} and has not left"
            raise Refused(ErrorCode.UNRELEASED_INSTANCE_ID, detail=detail)
        if member_id in self.members and member_id != former.member_id:
            raise Refused(ErrorCode.INVALID_REQUEST, detail=f"another member has the id {member_id}")
        member = former.come_back_as(member_id or self._new_member_id())
        del self.members[former.member_id]
        self._note_all(former)
        self.members[member.member_id] = member
        self._static[member.instance_id or ""] = member.member_id
        self._note_all(member)
        self._owned_by(former, None)
        self._owned_by(member, member.member_id)
        return member

    def _leave(self, message: ConsumerGroupHeartbeatRequest) -> ConsumerGroupHeartbeatResponse:
        member_id, instance_id = message.member_id, message.instance_id
        member = self._known(member_id) if instance_id is None else self._holder(member_id, instance_id)
        if message.member_epoch == LEAVING_STATIC_EPOCH:
            self._owned_by(member, None)
            member.leave_for_a_while()
            self._owned_by(member, member.member_id)
            member.rebalance_deadline_us = None
            self._note(Part.CURRENT, member)
        else:
            self._remove(member)
        return ConsumerGroupHeartbeatResponse(member_id=member_id, member_epoch=message.member_epoch)

    def _known(self, member_id: str) -> ConsumerMember:
        member = self.members.get(member_id)
        if member is None:
            raise Refused(ErrorCode.UNKNOWN_MEMBER_ID, detail=f"{member_id!r} is no member of {self.group_id!r}")
        return member

    def _holder(self, member_id: str, instance_id: str) -> ConsumerMember:
        """The member that has the instance id, if it is this one."""
        holder_id = self._static.get(instance_id)
        if holder_id is None:
            raise Refused(ErrorCode.UNKNOWN_MEMBER_ID, detail=f"the instance id {instance_id!r} is not known")
        if holder_id != member_id:
            raise Refused(ErrorCode.FENCED_INSTANCE_ID, detail=f"member {holder_id} has taken the instance id")
        return self.members[member_id]

    def _remove(self, member: ConsumerMember) -> None:
        del self.members[member.member_id]
        if member.instance_id is not None:
            self._static.pop(member.instance_id, None)
        self._owned_by(member, None)
        self._note_all(member)
        self._next_epoch()

    def _note(self, part: Part, member: ConsumerMember) -> None:
        self.unsaved[part, member.member_id] = None

    def _note_all(self, member: ConsumerMember) -> None:
        for part in (Part.CURRENT, Part.TARGET, Part.MEMBER):
            # The notes are written in their order: for a member that is gone, nothing may follow its removal.
            self.unsaved.pop((part, member.member_id), None)
            self._note(part, member)

    # Ownership.

    def _is_taken(self, place: TopicPartition, member: ConsumerMember) -> bool:
        return self._owners.get(place, member.member_id) != member.member_id

    def _owned_by(self, member: ConsumerMember, owner_id: str | None) -> None:
        for place in [*member.assigned, *member.revoking]:
            if owner_id is None:
                del self._owners[place]
            else:
                self._owners[place] = owner_id

    def _ownership_changed(self, member: ConsumerMember, former: list[TopicPartition], now_us: int) -> None:
        """The member owns something else than it formerly did."""
        self._note(Part.CURRENT, member)
        for place in former:
            del self._owners[place]
        self._owned_by(member, member.member_id)
        self._await_revocation(member, now_us)

    def _await_revocation(self, member: ConsumerMember, now_us: int) -> None:
        waits = member.state is MemberState.UNREVOKED_PARTITIONS
        member.rebalance_deadline_us = now_us + member.rebalance_timeout_ms * 1000 if waits else None

    def _deadline_of(self, member_id: str) -> int | None:
        member = self.members.get(member_id)
        if member is None:
            return None
        if member.rebalance_deadline_us is None:
            return member.session_deadline_us
        return min(member.session_deadline_us, member.rebalance_deadline_us)

    # Epochs.

    def _next_epoch(self) -> None:
        self.epoch += 1
        self.unsaved[Part.GROUP, ""] = None

    def _follow(self, image: ClusterImage, *, changed: bool) -> None:
        """Begin a new epoch where what members subscribe to has changed, or the topics themselves have."""
        if changed:
            self._next_epoch()
        if image.version != self._image_version:
            self._image_version = image.version
            self._matches.clear()
        elif self.epoch == self.assignment_epoch:
            return
        topics = sorted(
            dict.fromkeys(name for member in self.members.values() for name in self._topics_of(member, image))
        )
        described = "".join(
            f"{name} {image.topics[name].topic_id.hex()} {len(image.topics[name].partitions)}\n" for name in topics
        )
        metadata_hash = crc32(described.encode()) if topics else 0
        if metadata_hash != self.metadata_hash:
            self.metadata_hash = metadata_hash
            self.unsaved[Part.GROUP, ""] = None
            if self.epoch == self.assignment_epoch:
                self._next_epoch()

    def _topics_of(self, member: ConsumerMember, image: ClusterImage) -> list[str]:
        """The topics there are of those that a member subscribes to."""
        names = {name: None for name in member.topic_names if name in image.topics}
        pattern = member.topic_regex
        if pattern:
            if pattern not in self._matches:
                self._matches[pattern] = matching(pattern, image.topics)
            names.update(dict.fromkeys(self._matches[pattern]))
        return sorted(names)

    def _assign(self, image: ClusterImage) -> None:
        """Compute the target of the group's epoch."""
        candidates: list[Candidate] = []
        counts: dict[bytes, int] = {}
        for member in sorted(self.members.values(), key=_rank):
            topics = [image.topics[name] for name in self._topics_of(member, image)]
            counts.update({topic.topic_id: len(topic.partitions) for topic in topics})
            candidates.append(Candidate(member.member_id, [topic.topic_id for topic in topics], member.target))
        assign: Assignor = ASSIGNORS[self.assignor]
        for member_id, target in assign(candidates, counts).items():
            member = self.members[member_id]
            if target != member.target:
                member.target = target
                self._note(Part.TARGET, member)
        self.assignment_epoch = self.epoch
        self.unsaved[Part.TARGET_EPOCH, ""] = None


def _rank(member: ConsumerMember) -> tuple[bool, str]:
    """Static members come first, by instance id: one that comes back under a new member id keeps its place."""
    return member.instance_id is None, member.instance_id or member.member_id


def partitions_by_topic(places: list[TopicPartition]) -> dict[bytes, list[int]]:
    """Topic id -> its partitions, in order."""
    by_topic: dict[bytes, list[int]] = {}
    for topic_id, index in sorted(places):
        by_topic.setdefault(topic_id, []).append(index)
    return by_topic


def _assignment(member: ConsumerMember) -> Assignment:
    return Assignment(
        topic_partitions=[
            ResponseTopicPartitions(topic_id=topic_id, partitions=indexes)
            for topic_id, indexes in partitions_by_topic([*member.assigned]).items()
        ]
    )
