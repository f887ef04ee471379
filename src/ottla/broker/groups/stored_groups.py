"""The groups of one partition of `__consumer_offsets`, read from its log record by record.

The last record of a key counts. A group is classic or a consumer group by the last records of its members; deletions of
such records leave its offsets as they are. Records of unknown kinds or versions are passed over, as Apache Kafka does.
"""

from __future__ import annotations

from collections.abc import Callable

from ottla.broker.groups.consumer_group import ConsumerGroup, Part
from ottla.broker.groups.consumer_records import part_of_key, take_record
from ottla.broker.groups.coordinated_group import CoordinatedGroup, Place
from ottla.broker.groups.group import Group
from ottla.broker.groups.offsets import CommittedOffset, StoredGroup, read_entry
from ottla.protocol.errors import MalformedMessage
from ottla.records.batch_header import BatchHeader

# What an open transaction commits in a group, as long as it is not decided.
Undecided = dict[Place, tuple[CommittedOffset, int]]


class StoredGroups:
    """`make` makes a group with its members.

    `undecided(group, producer id)` is what an open transaction commits in a group.
    """

    def __init__(
        self,
        make: Callable[[str, Group | ConsumerGroup], CoordinatedGroup],
        make_classic: Callable[[str], Group],
        make_consumers: Callable[[str], ConsumerGroup],
        undecided: Callable[[CoordinatedGroup, int], Undecided],
    ) -> None:
        self.groups: dict[str, CoordinatedGroup] = {}
        self._make = make
        self._make_classic = make_classic
        self._make_consumers = make_consumers
        self._undecided = undecided
        # Groups of whose members nothing is left.
        self._deleted: dict[str, None] = {}

    def take(self, header: BatchHeader, key: bytes, value: bytes | None) -> None:
        """The next record, of the batch with this header."""
        try:
            found = part_of_key(key)
            if found is not None:
                self._take_consumers(*found, value)
                return
            entry = read_entry(key, value)
        except MalformedMessage:
            return
        if entry is None:
            return
        group_id, place, told = entry
        if place is None:
            assert not isinstance(told, CommittedOffset)
            self._take_classic(group_id, told)
            return
        assert not isinstance(told, StoredGroup)
        group = self._group(group_id)
        if told is None:
            group.offsets.pop(place, None)
        elif header.is_transactional:
            self._undecided(group, header.producer_id)[place] = told, header.last_offset + 1
        else:
            group.take(place, told, header.last_offset + 1)

    def all_taken(self) -> dict[str, CoordinatedGroup]:
        """The groups there are."""
        for group_id in self._deleted:
            group = self.groups[group_id]
            if not group.offsets and not group.undecided:
                del self.groups[group_id]
        return self.groups

    def _group(self, group_id: str) -> CoordinatedGroup:
        group = self.groups.get(group_id)
        if group is None:
            group = self.groups[group_id] = self._make(group_id, self._make_classic(group_id))
        return group

    def _take_classic(self, group_id: str, told: StoredGroup | None) -> None:
        group = self._group(group_id)
        if told is None:
            # A consumer group may have followed already: its records are in the same batch.
            if isinstance(group.members, Group):
                group.members = self._make_classic(group_id)
                self._deleted[group_id] = None
            return
        self._deleted.pop(group_id, None)
        members = group.members = self._make_classic(group_id)
        members.protocol_type, members.generation = told.protocol_type or None, told.generation
        members.protocol, members.leader_id = told.protocol, told.leader_id
        members.members = {member.member_id: member for member in told.members}

    def _take_consumers(self, group_id: str, part: Part, member_id: str, value: bytes | None) -> None:
        is_new = group_id not in self.groups
        group = self._group(group_id)
        if is_new:
            self._deleted[group_id] = None
        if value is None and isinstance(group.members, Group):
            return
        if isinstance(group.members, Group):
            group.members = self._make_consumers(group_id)
        if value is None and part is Part.GROUP:
            group.members = self._make_classic(group_id)
            self._deleted[group_id] = None
            return
        take_record(group.members, part, member_id, value)
        if value is not None:
            self._deleted.pop(group_id, None)
