"""A member of a consumer group, for trials: alone in its group, or the one that follows another.

ottla has no consumer of its own that joins groups, so a trial sends the requests of one. It has no thread: a member
that is not called sends no heartbeat, like a process that is paused. It has both protocols: the classic one (JoinGroup,
SyncGroup, Heartbeat) and that of KIP-848 (ConsumerGroupHeartbeat).
"""

from __future__ import annotations

from random import Random
from struct import Struct
from time import monotonic, sleep
from typing import Any
from uuid import uuid4

from ottla.client.admin_driver import AdminDriver
from ottla.client.channel import SocketBuffers
from ottla.client.group_coordinator import find_group_coordinator
from ottla.connection.request import ANY_NODE
from ottla.errors import OttlaError, Unreachable
from ottla.protocol.error_codes import ErrorCode, kafka_error
from ottla.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, RequestTopicPartitions
from ottla.protocol.messages.heartbeat import HeartbeatRequest
from ottla.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
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
from ottla.reader.settings import ReaderSettings
from ottla.trial.scenario import CLASSIC, CONSUMER

SESSION_MS = 3_000
"""After so long without a heartbeat a member is no longer one."""
BROKER_SETTINGS = {
    "group.min.session.timeout.ms": SESSION_MS,
    "group.consumer.session.timeout.ms": SESSION_MS,
    "group.consumer.heartbeat.interval.ms": SESSION_MS // 6,
}
_HEARTBEAT_S = SESSION_MS / 6_000
_REBALANCE_MS = 30_000
_PATIENCE_S = 45.0
_PAUSE_S = 0.05
_ASSIGNOR = "range"
_INT16, _INT32 = Struct(">h"), Struct(">i")


class GroupMember:
    """A member that reads partition 0 of one topic; raises KafkaError and Unreachable.

    `generation` and `member_id` are what `send_offsets_to_transaction` takes; with KIP-848 it is the member's epoch.
    """

    def __init__(self, bootstrap_servers: str, group_id: str, topic: str, protocol: str) -> None:
        self.generation, self.member_id = -1, ""
        self._group_id, self._topic, self._protocol = group_id, topic, protocol
        settings = ReaderSettings({"bootstrap_servers": bootstrap_servers})
        self._driver = AdminDriver(settings, Random(), SocketBuffers.of(settings.connection, {}))
        self._driver.start()
        self._coordinator = ANY_NODE
        self._alive_s = 0.0

    def join(self) -> None:
        """Join the group, and wait until the partition is this member's: a silent member before it has the session's
        time."""
        self._driver.until_well(self._find_coordinator)
        if self._protocol == CLASSIC:
            self._driver.until_well(self._join_classic)
        else:
            self._join_consumer()
        self._alive_s = monotonic()

    def committed(self) -> int:
        """The offset from which the group goes on; 0 where it has committed none. Waits for open transactions."""
        found = 0

        def attempt() -> OttlaError | None:
            nonlocal found
            topics = [OffsetFetchRequestTopics(name=self._topic, partition_indexes=[0])]
            asked = OffsetFetchRequestGroup(group_id=self._group_id, topics=topics)
            if self._protocol == CONSUMER:
                asked.member_id, asked.member_epoch = self.member_id, self.generation
            group = self._ask(OffsetFetchRequest(groups=[asked], require_stable=True)).groups[0]
            place = group.topics[0].partitions[0] if group.topics else None
            code = group.error_code or (0 if place is None else place.error_code)
            if code:
                return kafka_error(code, f"the offsets of group {self._group_id!r}")
            found = 0 if place is None else max(0, place.committed_offset)
            return None

        self._driver.until_well(attempt)
        return found

    def commit(self, offset: int) -> None:
        """Commit where the group goes on, once: a commit without an answer is not sent again."""
        place = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset, committed_metadata="")
        request = OffsetCommitRequest(
            group_id=self._group_id,
            generation_id_or_member_epoch=self.generation,
            member_id=self.member_id,
            topics=[OffsetCommitRequestTopic(name=self._topic, partitions=[place])],
        )
        code = self._ask(request).topics[0].partitions[0].error_code
        if code:
            raise kafka_error(code, f"the commit of group {self._group_id!r}")
        self._alive_s = monotonic()

    def stay(self) -> None:
        """Send a heartbeat if one is due. What the answer says shows with the next commit."""
        if monotonic() - self._alive_s < _HEARTBEAT_S:
            return
        self._alive_s = monotonic()
        if self._protocol == CLASSIC:
            self._ask(
                HeartbeatRequest(group_id=self._group_id, generation_id=self.generation, member_id=self.member_id)
            )
        else:
            answer = self._beat()
            if not answer.error_code:
                self.generation = answer.member_epoch

    def close(self) -> None:
        """Send nothing more, as a process that has ended."""
        self._driver.close()

    # ---- requests ---------------------------------------------------------------------------------------------------

    def _ask(self, request: Any) -> Any:
        answer = self._driver.ask(request, self._coordinator, timeout_ms=_REBALANCE_MS).message
        if answer is None:
            raise Unreachable(f"group {self._group_id!r}: no answer", broker_id=self._coordinator)
        return answer

    def _find_coordinator(self) -> OttlaError | None:
        node_id, error = find_group_coordinator(self._driver, self._group_id)
        if error is None:
            self._coordinator = node_id
        return error

    def _join_classic(self) -> OttlaError | None:
        """Join as the only member that answers, which therefore leads, and take the partition."""
        protocols = [JoinGroupRequestProtocol(name=_ASSIGNOR, metadata=_subscription(self._topic))]
        joined = None
        while joined is None or joined.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            request = JoinGroupRequest(
                group_id=self._group_id,
                session_timeout_ms=SESSION_MS,
                rebalance_timeout_ms=_REBALANCE_MS,
                member_id=self.member_id,
                protocol_type="consumer",
                protocols=protocols,
            )
            joined = self._ask(request)
            self.member_id = joined.member_id
        if joined.error_code:
            return kafka_error(joined.error_code, f"joining group {self._group_id!r}")
        self.generation = joined.generation_id
        mine = SyncGroupRequestAssignment(member_id=self.member_id, assignment=_assignment(self._topic))
        sync = SyncGroupRequest(
            group_id=self._group_id,
            generation_id=self.generation,
            member_id=self.member_id,
            protocol_type="consumer",
            protocol_name=_ASSIGNOR,
            assignments=[mine],
        )
        code = self._ask(sync).error_code
        return kafka_error(code, f"joining group {self._group_id!r}") if code else None

    def _join_consumer(self) -> None:
        """Join with heartbeats until the coordinator gives the partition to this member."""
        self.member_id, self.generation = str(uuid4()), 0
        until = monotonic() + _PATIENCE_S
        answer = self._first_beat()
        while answer.assignment is None or not answer.assignment.topic_partitions:
            if monotonic() > until:
                raise Unreachable(f"group {self._group_id!r} gave its new member no partition within {_PATIENCE_S:g} s")
            sleep(_PAUSE_S)
            answer = self._checked(self._beat())
        owned = [
            RequestTopicPartitions(topic_id=each.topic_id, partitions=each.partitions)
            for each in answer.assignment.topic_partitions
        ]
        self._checked(self._beat(topic_partitions=owned))

    def _first_beat(self) -> Any:
        found: Any = None

        def attempt() -> OttlaError | None:
            nonlocal found
            found = self._beat(
                rebalance_timeout_ms=_REBALANCE_MS, subscribed_topic_names=[self._topic], topic_partitions=[]
            )
            return kafka_error(found.error_code, "joining a group") if found.error_code else None

        self._driver.until_well(attempt)
        return self._checked(found)

    def _checked(self, answer: Any) -> Any:
        if answer.error_code:
            raise kafka_error(answer.error_code, f"a heartbeat of group {self._group_id!r}")
        self.generation = answer.member_epoch
        return answer

    def _beat(self, **fields: Any) -> Any:
        """A heartbeat by KIP-848, with these fields beside the member's identity."""
        return self._ask(
            ConsumerGroupHeartbeatRequest(
                group_id=self._group_id, member_id=self.member_id, member_epoch=self.generation, **fields
            )
        )


def _subscription(topic: str) -> bytes:
    """What a consumer says of itself when it joins: version 0, its topics, nothing else."""
    return _INT16.pack(0) + _INT32.pack(1) + _text(topic) + _INT32.pack(-1)


def _assignment(topic: str) -> bytes:
    """Partition 0 of the topic, as a leader gives it: version 0."""
    return _INT16.pack(0) + _INT32.pack(1) + _text(topic) + _INT32.pack(1) + _INT32.pack(0) + _INT32.pack(-1)


def _text(content: str) -> bytes:
    return _INT16.pack(len(content)) + content.encode()
