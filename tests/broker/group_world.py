"""Members of a group, played by hand."""

from __future__ import annotations

from typing import Any

from ottla.broker.internal_topics import partition_of_key
from ottla.broker.topic_names import OFFSETS_TOPIC
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.heartbeat import HeartbeatRequest
from ottla.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from ottla.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from ottla.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from ottla.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

from .world import TOPIC, World

GROUP = "readers"


def find_coordinator(world: World, group_id: str = GROUP) -> int:
    """The broker that coordinates the group; its topic is made where it is missing."""
    answer = world.ask(1, FindCoordinatorRequest(coordinator_keys=[group_id]), version=6).coordinators[0]
    assert answer.error_code == 0
    return answer.node_id


def offsets_partition(world: World, group_id: str = GROUP) -> int:
    return partition_of_key(group_id, len(world.controller.image.topics[OFFSETS_TOPIC].partitions))


class Client:
    """One member: `joined` and `synced` are the last answers, "waiting" while there is none."""

    def __init__(self, world: World, *, instance_id: str | None = None, group_id: str = GROUP, **more: Any) -> None:
        self.world, self.instance_id, self.group_id = world, instance_id, group_id
        self.node = find_coordinator(world, group_id)
        self.member_id = ""
        self.protocols: dict[str, bytes] = more.pop("protocols", {"range": b"about me"})
        self.timeouts = {"session_timeout_ms": 10_000, "rebalance_timeout_ms": 60_000, **more}
        self.connections: dict[str, int] = {}
        self.generation = -1
        # What the group speaks, as the last join has said; anything before that.
        self.protocol_type: str | None = "consumer"
        self.protocol_name: str | None = "range"

    def join(self, *, version: int = 9) -> Any:
        """Join, with the id that the coordinator asks for."""
        answer = self.join_once(version=version)
        if not isinstance(answer, str) and answer.error_code == 79:
            self.member_id = answer.member_id
            answer = self.join_once(version=version)
        return answer

    def join_once(self, *, version: int = 9, protocol_type: str = "consumer") -> Any:
        message = JoinGroupRequest(
            group_id=self.group_id,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            protocol_type=protocol_type,
            protocols=[JoinGroupRequestProtocol(name=name, metadata=data) for name, data in self.protocols.items()],
            **self.timeouts,
        )
        self.connections["join"] = self.world.send(self.node, message, version=version)
        return self.joined

    @property
    def joined(self) -> Any:
        answer = self._answer("join")
        self._take(answer)
        return answer

    def _take(self, answer: Any) -> None:
        if not isinstance(answer, str) and answer.error_code == 0:
            self.member_id, self.generation = answer.member_id, answer.generation_id
            self.protocol_type, self.protocol_name = answer.protocol_type, answer.protocol_name

    def sync(self, assignment: dict[Client, bytes] | None = None, **more: Any) -> Any:
        """Sync, in the generation that the last join gave; the leader with an assignment."""
        self._take(self._answer("join"))
        given = [
            SyncGroupRequestAssignment(member_id=client.member_id, assignment=data)
            for client, data in (assignment or {}).items()
        ]
        fields = {
            "group_id": self.group_id,
            "generation_id": self.generation,
            "member_id": self.member_id,
            "group_instance_id": self.instance_id,
            "protocol_type": self.protocol_type,
            "protocol_name": self.protocol_name,
            **more,
        }
        self.connections["sync"] = self.world.send(self.node, SyncGroupRequest(assignments=given, **fields))
        return self.synced

    @property
    def synced(self) -> Any:
        return self._answer("sync")

    def _answer(self, kind: str) -> Any:
        return self.world.answers.get(self.connections.get(kind, 0), ["waiting"])[0]

    def heartbeat(self) -> int:
        message = HeartbeatRequest(
            group_id=self.group_id,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
        )
        return int(self.world.ask(self.node, message, version=4).error_code)

    def leave(self) -> int:
        leaving = MemberIdentity(member_id=self.member_id, group_instance_id=self.instance_id)
        answer = self.world.ask(self.node, LeaveGroupRequest(group_id=self.group_id, members=[leaving]))
        assert answer.error_code == 0
        return int(answer.members[0].error_code)

    def commit(self, offset: int, **more: Any) -> Any:
        """Commit an offset of TOPIC-0; the error code, or "waiting"."""
        fields = {
            "generation_id_or_member_epoch": self.generation,
            "member_id": self.member_id,
            "group_instance_id": self.instance_id,
        }
        return commit(self.world, offset, group_id=self.group_id, node=self.node, **{**fields, **more})


def commit(world: World, offset: int, *, group_id: str = GROUP, node: int | None = None, **more: Any) -> Any:
    """Commit an offset of one partition, by no member where none is named; the error code, or "waiting"."""
    of_partition = {"committed_metadata": more.pop("metadata", "")}
    place = OffsetCommitRequestPartition(
        partition_index=more.pop("partition", 0), committed_offset=offset, committed_leader_epoch=3, **of_partition
    )
    topic = OffsetCommitRequestTopic(name=more.pop("topic", TOPIC), partitions=[place])
    message = OffsetCommitRequest(group_id=group_id, topics=[topic], **more)
    answer = world.ask(node or find_coordinator(world, group_id), message, version=9)
    return answer if isinstance(answer, str) else answer.topics[0].partitions[0].error_code


def committed(world: World, *, group_id: str = GROUP) -> dict[tuple[str, int], tuple[int, int, str]]:
    """All that the group has committed: offset, leader epoch and metadata."""
    asked = OffsetFetchRequestGroup(group_id=group_id, topics=None)
    answer = world.ask(find_coordinator(world, group_id), OffsetFetchRequest(groups=[asked]), version=9).groups[0]
    assert answer.error_code == 0
    return {
        (topic.name, each.partition_index): (each.committed_offset, each.committed_leader_epoch, each.metadata)
        for topic in answer.topics
        for each in topic.partitions
    }


def asked_for(topic: str, *partitions: int) -> OffsetFetchRequestTopics:
    return OffsetFetchRequestTopics(name=topic, partition_indexes=list(partitions))


def stable_pair(world: World, **more: Any) -> tuple[Client, Client]:
    """Two members of a stable group, the leader first."""
    first, second = Client(world, **more), Client(world, **more)
    first.join()
    first.sync({first: b"everything"})
    second.join()
    first.join()
    assert first.joined.error_code == second.joined.error_code == 0
    second.sync()
    first.sync({first: b"first half", second: b"second half"})
    assert second.synced.assignment == b"second half"
    return first, second
