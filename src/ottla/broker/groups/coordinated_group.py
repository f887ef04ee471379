"""What a coordinator keeps under a group's id: committed offsets, and members of one of two protocols.

The members are a `Group` (classic protocol) or a `ConsumerGroup` (KIP-848). While the group has no members it may
become the other kind; its offsets stay. With members it may not: groups are not migrated online, as in Apache Kafka
with `group.consumer.migration.policy=disabled`.
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
    """A group with its committed offsets; the purgatory wakes it at its deadline.

    `settle(group, now)` carries out what it has decided by then. `end_offset`: the log's end behind the last record of
    its members.
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
        # Producer id -> what its open transaction commits, and the position of that in the log.
        self.undecided: dict[int, dict[Place, tuple[CommittedOffset, int]]] = {}
        self.end_offset = 0
        # The position in the log of each of `offsets`.
        self._positions: dict[Place, int] = {}
        # Deletions of the records of the kind of group it was before, to be written with the next records.
        self._former: list[Pair] = []
        self._settle = settle

    # Members.

    @property
    def classic(self) -> Group:
        """Its members by the classic protocol; Refused (UNKNOWN_MEMBER_ID) where they use the other one."""
        if isinstance(self.members, ConsumerGroup):
            raise Refused(ErrorCode.UNKNOWN_MEMBER_ID)
        return self.members

    @property
    def consumers(self) -> ConsumerGroup:
        """Its members by KIP-848; Refused where they use the classic protocol."""
        if isinstance(self.members, Group):
            detail = f"group {self.group_id!r} is not a consumer group"
            raise Refused(ErrorCode.GROUP_ID_NOT_FOUND, detail=detail)
        return self.members

    def become(self, members: Group | ConsumerGroup) -> None:
        """Begin anew with members of the other protocol; the group has none now."""
        self._former = self.deletion_pairs()
        self.members = members

    def deletion_pairs(self) -> list[Pair]:
        """Records that delete those of its members, who are gone."""
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
        """Refused where a member (id, instance id, generation or epoch) may not commit offsets of these partitions."""
        member_id, instance_id, epoch = member
        if isinstance(self.members, ConsumerGroup):
            self.members.check_commit(member_id, epoch, places, version)
        else:
            self.members.check_commit(member_id, instance_id, epoch, now_us)

    def check_transactional_commit(self, member: tuple[str, str | None, int], places: list[TopicPartition]) -> None:
        """Refused where a transaction may not commit offsets for a member (id, instance id, generation or epoch)."""
        if isinstance(self.members, ConsumerGroup):
            self.members.check_transactional_commit(*member, places)
        else:
            self.members.check_transactional_commit(*member)

    def check_fetch(self, member_id: str | None, epoch: int) -> None:
        """Refused where a member may not read committed offsets. Classic members are not checked."""
        if isinstance(self.members, ConsumerGroup):
            self.members.check_fetch(member_id, epoch)

    def end(self, error_code: int) -> None:
        """The group is deleted, or coordinated elsewhere: requests that wait get this error."""
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
        """The offset that is stored at this position of the log counts from now on, unless there is a newer one."""
        if place not in self.offsets or position >= self._positions[place]:
            self.offsets[place] = committed
            self._positions[place] = position

    def decide(self, producer_id: int, committed: bool) -> None:
        """A producer's transaction is over."""
        offsets = self.undecided.pop(producer_id, None)
        if offsets is not None and committed:
            for place, (offset, position) in offsets.items():
                self.take(place, offset, position)

    def unstable_places(self) -> dict[Place, None]:
        """The partitions of which an open transaction commits an offset."""
        return dict.fromkeys(place for offsets in self.undecided.values() for place in offsets)
