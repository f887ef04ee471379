"""The groups this broker coordinates, by either protocol: those whose partition of `__consumer_offsets` it leads.

A group belongs to the partition that `partition_of_key` names, and is stored in that partition's log. A broker that
begins to lead it reads the log at the first request. When it leads no more it forgets what it read, and requests that
wait get NOT_COORDINATOR. Offsets count as committed (and are answered) when the high watermark has passed them, like
acks=all; after `offsets.commit.timeout.ms` the client gets COORDINATOR_NOT_AVAILABLE. Groups of the classic protocol
are stored when they become stable or empty, or a static member comes back, without waiting for followers: if that is
lost, members join again. Of consumer groups (KIP-848) every change is stored and replicated before a member gets it, so
no later coordinator has an older state than a member. What cannot be written is written with the next change.

Offsets of a transaction (TxnOffsetCommit) wait for its marker: committed, they count as any others, unless a newer one
of the same partition is behind them in the log; aborted, they are forgotten. Until then a request for stable offsets
gets UNSTABLE_OFFSET_COMMIT (KIP-447).

Committed offsets of a topic go when the topic goes. They and empty groups do not expire.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import Any

from ottla.broker.events import ClusterImage
from ottla.broker.groups.consumer_group import ConsumerGroup
from ottla.broker.groups.consumer_member import JOINING_EPOCH
from ottla.broker.groups.coordinated_group import CoordinatedGroup, Place
from ottla.broker.groups.group import Group
from ottla.broker.groups.offsets import CommittedOffset, offset_key, offset_value
from ottla.broker.groups.stored_groups import StoredGroups, Undecided
from ottla.broker.internal_topics import InternalTopic, Pair, replicated_batches
from ottla.broker.log.end_markers import read_marker_record
from ottla.broker.partition import Partition
from ottla.broker.purgatory import Purgatory
from ottla.broker.refused import Refused
from ottla.broker.request import Request
from ottla.broker.settings import BrokerSettings
from ottla.broker.wall_clock import WallClock
from ottla.protocol.error_codes import ErrorCode
from ottla.records.batch_header import CorruptBatch

_MEMBER_ID_PREFIX_MAX = 1000


class GroupCoordinator:
    """The groups of one broker; `topic` is `__consumer_offsets`.

    `rng` draws the ids of members, `answer(request, message, now)` answers one, `image()` is the cluster as of now.
    """

    def __init__(
        self,
        topic: InternalTopic,
        purgatory: Purgatory,
        settings: BrokerSettings,
        clock: WallClock,
        rng: Random,
        answer: Callable[[Request, Any, int], None],
        image: Callable[[], ClusterImage],
    ) -> None:
        self.settings = settings
        self._topic = topic
        self._purgatory = purgatory
        self._clock = clock
        self._rng = rng
        self._answer = answer
        self._image = image
        # Partition index -> (leader epoch it was loaded in, its groups)
        self._loaded: dict[int, tuple[int, dict[str, CoordinatedGroup]]] = {}
        # Partition index -> producer id -> the groups in which its open transaction commits offsets.
        self._awaiting: dict[int, dict[int, dict[str, CoordinatedGroup]]] = {}

    def home_of(self, group_id: str) -> Partition | None:
        """The partition that coordinates this group, where this broker leads it; None where it does not."""
        return self._topic.partition_of(group_id)

    def groups_beside(self, group_id: str, now_us: int) -> tuple[Partition, dict[str, CoordinatedGroup]]:
        """The partition that coordinates this group, and all groups there; Refused where that is not here."""
        partition = self.home_of(group_id)
        if partition is None:
            raise Refused(ErrorCode.NOT_COORDINATOR)
        return partition, self._groups_of(partition, now_us)

    def find(self, group_id: str, now_us: int) -> CoordinatedGroup | None:
        """The group, or None where there is no such; Refused."""
        return self.groups_beside(group_id, now_us)[1].get(group_id)

    def known(self, group_id: str, now_us: int) -> CoordinatedGroup:
        """The group that a member's request names; Refused."""
        if not group_id:
            raise Refused(ErrorCode.INVALID_GROUP_ID)
        group = self.find(group_id, now_us)
        if group is None:
            raise Refused(ErrorCode.UNKNOWN_MEMBER_ID)
        return group

    def find_or_make(self, group_id: str, now_us: int) -> CoordinatedGroup:
        """The group, which may be new; Refused."""
        partition, groups = self.groups_beside(group_id, now_us)
        group = groups.get(group_id)
        if group is None:
            group = groups[group_id] = self._make(partition, group_id, self._classic(group_id))
        return group

    def classic_group(self, group_id: str, now_us: int) -> CoordinatedGroup:
        """The group for a member that joins by the classic protocol, which may be new; Refused."""
        group = self.find_or_make(group_id, now_us)
        if isinstance(group.members, ConsumerGroup):
            if not group.members.is_empty:
                raise Refused(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
            group.become(self._classic(group_id))
        return group

    def consumer_group(self, group_id: str, now_us: int, *, joins: bool) -> CoordinatedGroup:
        """The group for a member of KIP-848; for one that `joins` it may be new. Refused."""
        partition, groups = self.groups_beside(group_id, now_us)
        group = groups.get(group_id)
        if group is None:
            if not joins:
                raise Refused(ErrorCode.GROUP_ID_NOT_FOUND, detail=f"there is no group {group_id!r}")
            group = groups[group_id] = self._make(partition, group_id, self._consumers(group_id))
        elif joins and isinstance(group.members, Group) and group.members.is_empty:
            group.become(self._consumers(group_id))
        return group

    def heartbeat(self, request: Request, answer: Callable[[Any, int, int], None], now_us: int) -> None:
        """A checked ConsumerGroupHeartbeat: call `answer(answer or None, error code, now)` once; Refused."""
        message = request.message
        group = self.consumer_group(message.group_id, now_us, joins=message.member_epoch == JOINING_EPOCH)
        told = group.consumers.heartbeat(message, request.client_id or "", self._image(), now_us)
        error_code = self._write_members(group, now_us)
        self.settle(group, now_us)
        if error_code:
            answer(None, error_code, now_us)
            return

        def replicated(late_error: int, later_us: int) -> None:
            answer(None if late_error else told, late_error, later_us)

        self._await(group.partition, group.end_offset, _nothing, replicated, now_us)

    def all_groups(self, now_us: int) -> Iterator[CoordinatedGroup]:
        """Every group coordinated here; Refused."""
        for partition in list(self._topic.partitions.values()):
            if partition.is_leader:
                yield from list(self._groups_of(partition, now_us).values())

    def settle(self, group: CoordinatedGroup, now_us: int) -> None:
        """Carry out what a group has decided: store it, answer, and set its deadline."""
        # Where it fails, classic members get the group's decision all the same; a later coordinator makes them join
        # again.
        self._write_members(group, now_us)
        if isinstance(group.members, Group):
            for request, answer in group.members.take_answers():
                self._answer(request, answer, now_us)
        self._purgatory.remove(group)
        deadline_us = group.members.deadline_us()
        if deadline_us is not None:
            self._purgatory.add(group, deadline_us)

    def _write_members(self, group: CoordinatedGroup, now_us: int) -> int:
        """Store what has changed about the members of a group; the error code where that cannot be, else 0."""
        pairs = group.unsaved_pairs(self._clock.ms(now_us))
        if isinstance(group.members, Group):
            group.members.changed = False
        if pairs:
            try:
                group.end_offset = self._topic.append(group.partition, pairs, now_us)
            except Refused as refusal:
                return refusal.error_code
            group.saved()
        return 0

    def commit(
        self,
        group: CoordinatedGroup,
        offsets: dict[Place, CommittedOffset],
        answer: Callable[[int, int], None],
        now_us: int,
    ) -> None:
        """Store offsets, then call `answer(error code, now)`; Refused where nothing was stored."""

        end_offset = self._topic.append(group.partition, _offset_pairs(group, offsets), now_us)

        def apply(later_us: int) -> None:
            for place, committed in offsets.items():
                group.take(place, committed, end_offset)

        self._await(group.partition, end_offset, apply, answer, now_us)

    def commit_in_transaction(
        self,
        group: CoordinatedGroup,
        offsets: dict[Place, CommittedOffset],
        producer: tuple[int, int],
        answer: Callable[[int, int], None],
        now_us: int,
    ) -> None:
        """Store offsets that count when the transaction of this (producer id, epoch) is committed; else as `commit`."""
        pairs = _offset_pairs(group, offsets)
        end_offset = self._topic.append(group.partition, pairs, now_us, producer=producer)
        undecided = self._await_decision(group, producer[0])
        undecided.update((place, (committed, end_offset)) for place, committed in offsets.items())
        self._await(group.partition, end_offset, _nothing, answer, now_us)

    def transaction_ended(self, partition: Partition, producer_id: int, committed: bool) -> None:
        """A marker is in this partition of `__consumer_offsets`, and replicated."""
        found = self._loaded.get(partition.index)
        if found is not None and found[0] == partition.leader_epoch:
            self._decide(partition, producer_id, committed)

    def _await_decision(self, group: CoordinatedGroup, producer_id: int) -> Undecided:
        """What a producer's open transaction commits in this group."""
        self._awaiting.setdefault(group.partition.index, {}).setdefault(producer_id, {})[group.group_id] = group
        return group.undecided.setdefault(producer_id, {})

    def _decide(self, partition: Partition, producer_id: int, committed: bool) -> None:
        for group in self._awaiting.get(partition.index, {}).pop(producer_id, {}).values():
            group.decide(producer_id, committed)

    def _await(
        self,
        partition: Partition,
        end_offset: int,
        apply: Callable[[int], None],
        answer: Callable[[int, int], None],
        now_us: int,
    ) -> None:
        timeout_ms = self.settings.offsets_commit_timeout_ms
        self._topic.await_replication(partition, end_offset, timeout_ms, apply, answer, now_us)

    def delete(self, group: CoordinatedGroup, now_us: int) -> None:
        """Delete a group without members, and its offsets; Refused."""
        if not group.members.is_empty:
            raise Refused(ErrorCode.NON_EMPTY_GROUP)
        pairs: list[Pair] = [(offset_key(group.group_id, *place), None) for place in group.offsets]
        self._topic.append(group.partition, [*pairs, *group.deletion_pairs()], now_us)
        group.end(ErrorCode.UNKNOWN_MEMBER_ID)
        del self.groups_beside(group.group_id, now_us)[1][group.group_id]
        self.settle(group, now_us)

    def forget(self, group: CoordinatedGroup, places: list[Place], now_us: int) -> None:
        """Delete committed offsets; Refused where that cannot be stored."""
        present = [place for place in dict.fromkeys(places) if place in group.offsets]
        if present:
            pairs: list[Pair] = [(offset_key(group.group_id, *place), None) for place in present]
            self._topic.append(group.partition, pairs, now_us)
            for place in present:
                del group.offsets[place]

    def image_changed(self, gone: Sequence[str], now_us: int) -> None:
        """Let go of what is coordinated elsewhere now, and of the offsets of deleted topics."""
        partitions = self._topic.partitions
        for index, (epoch, groups) in list(self._loaded.items()):
            partition = partitions.get(index)
            if partition is None or not partition.is_leader or partition.leader_epoch != epoch:
                del self._loaded[index]
                self._awaiting.pop(index, None)
                for group in groups.values():
                    group.end(ErrorCode.NOT_COORDINATOR)
                    self.settle(group, now_us)
        if gone and partitions:
            self._forget_topics(dict.fromkeys(gone), now_us)

    def new_member_id(self, prefix: str) -> str:
        """An id that no member has: the client's id or instance id, and a random (version 4) uuid."""
        return f"{prefix[:_MEMBER_ID_PREFIX_MAX]}-{self._new_uuid()}"

    def _new_uuid(self) -> str:
        bits = self._rng.getrandbits(128) & ~(0xF << 76 | 0x3 << 62) | 0x4 << 76 | 0x2 << 62
        digits = f"{bits:032x}"
        return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))

    def _forget_topics(self, gone: dict[str, None], now_us: int) -> None:
        try:
            for group in self.all_groups(now_us):
                for undecided in group.undecided.values():
                    for place in [place for place in undecided if place[0] in gone]:
                        del undecided[place]
                places = [place for place in group.offsets if place[0] in gone]
                for place in places:
                    del group.offsets[place]
                if places:
                    self._topic.append(
                        group.partition, [(offset_key(group.group_id, *place), None) for place in places], now_us
                    )
        except Refused:
            # The storage fails: these offsets stay, but only a request that names the deleted topic would get them.
            pass

    # The log.

    def _groups_of(self, partition: Partition, now_us: int) -> dict[str, CoordinatedGroup]:
        found = self._loaded.get(partition.index)
        if found is not None and found[0] == partition.leader_epoch:
            return found[1]
        if not partition.open_log():
            raise Refused(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        self._awaiting.pop(partition.index, None)
        try:
            groups = self._load(partition, now_us)
        except (OSError, CorruptBatch) as error:
            raise Refused(ErrorCode.COORDINATOR_NOT_AVAILABLE) from error
        self._loaded[partition.index] = (partition.leader_epoch, groups)
        for group in groups.values():
            group.restore(now_us)
            self.settle(group, now_us)
        return groups

    def _load(self, partition: Partition, now_us: int) -> dict[str, CoordinatedGroup]:
        def make(group_id: str, members: Group | ConsumerGroup) -> CoordinatedGroup:
            return self._make(partition, group_id, members)

        stored = StoredGroups(make, self._classic, self._consumers, self._await_decision)
        for header, records in replicated_batches(partition, now_us):
            for record in records:
                if header.is_control:
                    marker = read_marker_record(record)
                    if marker is not None:
                        self._decide(partition, header.producer_id, marker.committed)
                elif record.key is not None:
                    stored.take(header, record.key, record.value)
        return stored.all_taken()

    def _make(self, partition: Partition, group_id: str, members: Group | ConsumerGroup) -> CoordinatedGroup:
        return CoordinatedGroup(group_id, partition, members, self.settle)

    def _classic(self, group_id: str) -> Group:
        return Group(group_id, self.settings.group_initial_rebalance_delay_ms * 1000, self.new_member_id)

    def _consumers(self, group_id: str) -> ConsumerGroup:
        return ConsumerGroup(group_id, self.settings, self._new_uuid)


def _offset_pairs(group: CoordinatedGroup, offsets: dict[Place, CommittedOffset]) -> list[Pair]:
    return [
        (offset_key(group.group_id, topic, index), offset_value(committed))
        for (topic, index), committed in offsets.items()
    ]


def _nothing(now_us: int) -> None:
    """Nothing changes when these records are replicated: their marker decides."""
