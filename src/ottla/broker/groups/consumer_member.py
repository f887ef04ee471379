"""One member of a consumer group (KIP-848), and how it gets from what it owns to what it is to own.

A member's heartbeats have what it subscribes to and what it owns; the answer has what it may own. Its epoch is that of
the group's assignment that it has reached. Reconciling goes in steps, one with each heartbeat:

- what the target does not give it any more must go first: it stays at its epoch (UNREVOKED_PARTITIONS) and is given
  only the rest, until a heartbeat says that it does not own those partitions any more;
- then it is given, in the target's epoch, what no other member owns;
- as long as others still own some of it, it is UNRELEASED_PARTITIONS, and gets those with later heartbeats;
- then it is STABLE.

With each partition the epoch is kept in which the member got it: a commit with an older epoch is not of this ownership
(KIP-1251).
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum

from ottla.broker.groups.assignors import Partitions, TopicPartition
from ottla.broker.refused import Refused
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest

JOINING_EPOCH = 0
LEAVING_EPOCH = -1
# A static member leaves and will come back: its partitions are kept for it until its session ends.
LEAVING_STATIC_EPOCH = -2


class MemberState(IntEnum):
    """How far a member has come, under the numbers that Kafka's records use."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    UNRELEASED_PARTITIONS = 2


class ConsumerMember:
    """A member. It owns `assigned` and `revoking`, each partition with the epoch in which it got it; none is in both.

    `target` is what it is to own. `topic_regex` is "" where it has none.
    """

    __slots__ = (
        "assigned",
        "assignor",
        "client_id",
        "epoch",
        "instance_id",
        "member_id",
        "previous_epoch",
        "rack_id",
        "rebalance_deadline_us",
        "rebalance_timeout_ms",
        "revoking",
        "session_deadline_us",
        "state",
        "target",
        "topic_names",
        "topic_regex",
    )

    def __init__(self, member_id: str) -> None:
        self.member_id = member_id
        self.instance_id: str | None = None
        self.rack_id: str | None = None
        self.client_id = ""
        self.topic_names: tuple[str, ...] = ()
        self.topic_regex = ""
        self.rebalance_timeout_ms = -1
        self.assignor: str | None = None
        self.epoch = JOINING_EPOCH
        self.previous_epoch = JOINING_EPOCH
        self.state = MemberState.STABLE
        self.assigned: dict[TopicPartition, int] = {}
        self.revoking: dict[TopicPartition, int] = {}
        self.target: Partitions = {}
        self.session_deadline_us = 0
        self.rebalance_deadline_us: int | None = None

    @property
    def description(self) -> tuple[object, ...]:
        """What its heartbeats have said of it."""
        said = self.instance_id, self.rack_id, self.client_id, self.rebalance_timeout_ms, self.assignor
        return *said, self.topic_names, self.topic_regex

    def update(self, message: ConsumerGroupHeartbeatRequest, client_id: str) -> None:
        """Take what a heartbeat says of the member; what it leaves out stays as it was."""
        self.client_id = client_id
        if message.instance_id is not None:
            self.instance_id = message.instance_id
        if message.rack_id is not None:
            self.rack_id = message.rack_id
        if message.rebalance_timeout_ms != -1:
            self.rebalance_timeout_ms = message.rebalance_timeout_ms
        if message.server_assignor is not None:
            self.assignor = message.server_assignor
        if message.subscribed_topic_names is not None:
            self.topic_names = tuple(sorted(dict.fromkeys(message.subscribed_topic_names)))
        if message.subscribed_topic_regex is not None:
            self.topic_regex = message.subscribed_topic_regex

    def is_reconciled_to(self, epoch: int) -> bool:
        """Whether it owns exactly what the assignment of this epoch gives it."""
        return self.state is MemberState.STABLE and self.epoch == epoch

    def check_epoch(self, epoch: int, owned: Partitions | None) -> None:
        """Refused where a heartbeat may not have this epoch.

        The previous epoch is accepted if the member owns nothing beyond what it was given: the answer with the new one
        may be lost. JOINING_EPOCH is accepted: a member that joins again gives up all that it owned.
        """
        if epoch in (JOINING_EPOCH, self.epoch):
            return
        if epoch > self.epoch:
            raise _fenced(f"its epoch {epoch} is greater than the one known here, {self.epoch}")
        if epoch != self.previous_epoch or owned is None or any(place not in self.assigned for place in owned):
            raise _fenced(f"its epoch {epoch} is smaller than the one known here, {self.epoch}")

    def check_commit(self, epoch: int, places: list[TopicPartition]) -> None:
        """Refused where offsets of these partitions may not be committed with this epoch."""
        if epoch == self.epoch:
            return
        if epoch > self.epoch:
            raise Refused(ErrorCode.STALE_MEMBER_EPOCH)
        for place in places:
            since = self.assigned.get(place, self.revoking.get(place))
            if since is None or epoch < since:
                raise Refused(ErrorCode.STALE_MEMBER_EPOCH)

    def reconcile(
        self, target_epoch: int, is_taken: Callable[[TopicPartition], bool], owned: Partitions | None
    ) -> bool:
        """Go a step towards the target; True where something has changed.

        `is_taken`: whether another member owns a partition. `owned`: what this one says it owns, None where it does not
        say.
        """
        if self.is_reconciled_to(target_epoch):
            return False
        if self.state is MemberState.UNREVOKED_PARTITIONS and _owns_any(owned, self.revoking):
            return False
        before = self.epoch, self.state, self.assigned, self.revoking
        kept = {place: epoch for place, epoch in self.assigned.items() if place in self.target}
        lost = {place: epoch for place, epoch in self.assigned.items() if place not in self.target}
        if lost and _owns_any(owned, lost):
            self._become(self.epoch, MemberState.UNREVOKED_PARTITIONS, kept, lost)
        else:
            missing = [place for place in self.target if place not in kept]
            given = [place for place in missing if not is_taken(place)]
            state = MemberState.STABLE if len(given) == len(missing) else MemberState.UNRELEASED_PARTITIONS
            self._become(target_epoch, state, {**kept, **dict.fromkeys(given, target_epoch)}, {})
        return before != (self.epoch, self.state, self.assigned, self.revoking)

    def leave_for_a_while(self) -> None:
        """Keep what it owns for when it comes back; what it was to give up it has given up by leaving."""
        self.epoch = LEAVING_STATIC_EPOCH
        self.revoking = {}

    def come_back_as(self, member_id: str) -> ConsumerMember:
        """A static member was started again: the same under a new id, from the beginning."""
        member = ConsumerMember(member_id)
        for name in self.__slots__:
            if name not in ("member_id", "epoch", "previous_epoch"):
                setattr(member, name, getattr(self, name))
        return member

    def _become(
        self,
        epoch: int,
        state: MemberState,
        assigned: dict[TopicPartition, int],
        revoking: dict[TopicPartition, int],
    ) -> None:
        if (epoch, state, assigned, revoking) != (self.epoch, self.state, self.assigned, self.revoking):
            self.previous_epoch, self.epoch = self.epoch, epoch
            self.state, self.assigned, self.revoking = state, assigned, revoking


def _owns_any(owned: Partitions | None, partitions: dict[TopicPartition, int]) -> bool:
    """A member that does not say what it owns owns what it did before."""
    return owned is None or any(place in partitions for place in owned)


def _fenced(why: str) -> Refused:
    return Refused(
        ErrorCode.FENCED_MEMBER_EPOCH, detail=f"{why}; the member must give up its partitions and join again"
    )
