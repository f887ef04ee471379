"""What its coordinator keeps under a group's id: committed offsets, and who is in the group by one of two protocols.

The members are a `Group` (classic protocol) or a `ConsumerGroup` (KIP-848). While nobody is in the group it may become
the other kind; its offsets stay. While somebody is, it may not: groups are not migrated online, as in Apache Kafka with
`group.consumer.migration.policy=disabled`.
"""

from __future__ import annotations

from collections.abc import Callable

from ottla.broker.groups.assignors import TopicPartition
from ottla.broker.groups.consumer_group import ConsumerGroup
from ottla.broker.groups.consumer_records import deletion_pairs, unsaved_pairs
from ottla.broker.groups.group import Group
from ottla.broker.groups.offsets import CommittedOffset, group_key, group_value
from ottla.broker.internal_topics import Pair
from ottla.broker.partition import Partition
from ottla.broker.refused import Refused
from ottla.protocol.error_codes import ErrorCode

Place = tuple[str, int]


class CoordinatedGroup:
    """A group with its committed offsets; the purgatory wakes it when its own time has come.

    `settle(group, now)` carries out what it has decided by then. `end_offset`: where the log ends behind what was
    written of its members last.
    """

    def __init__(
        self,
        group_id: str,
        partition: Partition,
        members: Group | ConsumerGroup,
        settle: Callable[[CoordinatedGroup, int], None],
    ) -> None:
        self.group_id = group_id
        self.bucket = -1
        self.partition = partition
        self.members = members
        self.offsets: dict[Place, CommittedOffset] = {}
        # Producer id -> what its open transaction commits, and where in the log that stands.
        self.undecided: dict[int, dict[Place, tuple[CommittedOffset, int]]] = {}
        self.end_offset = 0
        # Where in the log each of `offsets` stands.
        self._positions: dict[Place, int] = {}
        # Records of the kind of group it was before, to be taken back with the next ones that are written.
        self._former: list[Pair] = []
        self._settle = settle

    # Members.

    @property
    def classic(self) -> Group:
        """Its members by the classic protocol; Refused where they speak the other one: none of them is known."""
        if isinstance(self.members, ConsumerGroup):
            raise Refused(ErrorCode.UNKNOWN_MEMBER_ID)
        return self.members

    @property
    def consumers(self) -> ConsumerGroup:
        """Its members by KIP-848; Refused where they speak the classic protocol."""
        if isinstance(self.members, Group):
            detail = f"group {self.group_id!r} is not a consumer group"
            raise Refused(ErrorCode.GROUP_ID_NOT_FOUND, detail=detail)
        return self.members

    def become(self, members: Group | ConsumerGroup) -> None:
        """Begin anew with members of the other protocol; nobody is in the group."""
        self._former = self.deletion_pairs()
        self.members = members

    def deletion_pairs(self) -> list[Pair]:
        """Records that take back what was said of its members, who are gone."""
        if isinstance(self.members, ConsumerGroup):
            return [*self._former, *unsaved_pairs(self.members), *deletion_pairs(self.members)]
        return [*self._former, (group_key(self.group_id), None)]

    def unsaved_pairs(self, now_ms: int) -> list[Pair]:
        """Records of what has changed about its members."""
        if isinstance(self.members, ConsumerGroup):
            pairs = unsaved_pairs(self.members)
        else:
            pairs = [(group_key(self.group_id), group_value(self.members, now_ms))] if self.members.changed else []
        return [*self._former, *pairs] if pairs else []

    def saved(self) -> None:
        """All that `unsaved_pairs` gave is in the log."""
        self._former = []
        if isinstance(self.members, ConsumerGroup):
            self.members.unsaved.clear()

    def check_commit(
        self,
        member: tuple[str, str | None, int],
        places: list[TopicPartition],
        version: int,
        now_us: int,
    ) -> None:
        """May a member (id, instance id, generation or epoch) commit offsets of these partitions? Refused."""
        member_id, instance_id, epoch = member
        if isinstance(self.members, ConsumerGroup):
            self.members.check_commit(member_id, epoch, places, version)
        else:
            self.members.check_commit(member_id, instance_id, epoch, now_us)

    def check_transactional_commit(self, member: tuple[str, str | None, int], places: list[TopicPartition]) -> None:
        """May a transaction commit offsets for a member (id, instance id, generation or epoch)? Refused."""
        if isinstance(self.members, ConsumerGroup):
            self.members.check_transactional_commit(*member, places)
        else:
            self.members.check_transactional_commit(*member)

    def check_fetch(self, member_id: str | None, epoch: int) -> None:
        """May a member read committed offsets? Refused. Classic members say nothing of themselves."""
        if isinstance(self.members, ConsumerGroup):
            self.members.check_fetch(member_id, epoch)

    def end(self, error_code: int) -> None:
        """The group is deleted, or coordinated elsewhere: whoever waits is told."""
        self._former = []
        if isinstance(self.members, ConsumerGroup):
            self.members.end()
        else:
            self.members.end(error_code)
            self.members.changed = False

    def restore(self, now_us: int) -> None:
        """Go on with members that were read from the log."""
        if isinstance(self.members, ConsumerGroup):
            self.members.restore(now_us)
        else:
            self.members.restore(list(self.members.members.values()), now_us)

    def expire(self, now_us: int) -> None:
        """Its deadline has come."""
        self.members.time_passed(now_us)
        self._settle(self, now_us)

    # Offsets.

    def take(self, place: Place, committed: CommittedOffset, position: int) -> None:
        """An offset counts from now on that stands at this position of the log, unless there is a newer one."""
        if place not in self.offsets or position >= self._positions[place]:
            self.offsets[place] = committed
            self._positions[place] = position

    def decide(self, producer_id: int, committed: bool) -> None:
        """A producer's transaction is over."""
        offsets = self.undecided.pop(producer_id, None)
        if offsets is not None and committed:
            for place, (offset, position) in offsets.items():
                self.take(place, offset, position)

    def is_unstable(self, place: Place) -> bool:
        """Whether an open transaction commits an offset of this partition."""
        return any(place in offsets for offsets in self.undecided.values())
