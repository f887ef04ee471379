"""The same group requests to the embedded cluster and to Apache Kafka: error codes, generations, assignments agree."""

from __future__ import annotations

import time
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from tests.wire import Wire

from ottla.cluster.cluster import Cluster
from ottla.protocol.messages.delete_groups import DeleteGroupsRequest
from ottla.protocol.messages.describe_groups import DescribeGroupsRequest
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.heartbeat import HeartbeatRequest
from ottla.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from ottla.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from ottla.protocol.messages.list_groups import ListGroupsRequest
from ottla.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics
from ottla.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

pytestmark = pytest.mark.kafka

_GROUP = "compared"
_TOPIC = "compared-topic"
_COORDINATOR_NOT_AVAILABLE, _NOT_COORDINATOR, _LOADING = 15, 16, 14
# Version 0, no topics, no user data: Apache Kafka looks into what consumers say, and never answers to nonsense.
_SUBSCRIPTION = b"\0\0" + b"\0\0\0\0" + b"\xff\xff\xff\xff"
_PATIENCE_S = 60


def coordinator_of(address: str) -> str:
    """Where the coordinator is, once it says that it is."""
    wire = Wire(address)
    give_up = time.monotonic() + _PATIENCE_S
    while True:
        assert time.monotonic() < give_up
        found = wire.ask(FindCoordinatorRequest(coordinator_keys=[_GROUP]), 6).coordinators[0]
        if found.error_code == 0:
            other = Wire(f"{found.host}:{found.port}")
            error_code = other.ask(HeartbeatRequest(group_id=_GROUP, member_id="nobody"), 4).error_code
            other.close()
            if error_code not in (_COORDINATOR_NOT_AVAILABLE, _NOT_COORDINATOR, _LOADING):
                wire.close()
                return f"{found.host}:{found.port}"
        time.sleep(0.05)


def joining(member_id: str = "", instance_id: str | None = None, *, names: tuple[str, ...] = ("range",)) -> Any:
    return JoinGroupRequest(
        group_id=_GROUP,
        member_id=member_id,
        group_instance_id=instance_id,
        session_timeout_ms=30_000,
        rebalance_timeout_ms=30_000,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name=name, metadata=_SUBSCRIPTION) for name in names],
    )


class Session:
    """Asks, and writes down what was answered."""

    def __init__(self, address: str) -> None:
        self.wire, self.second = Wire(address), Wire(address)
        self.seen: list[Any] = []

    def join(self, message: Any, version: int = 9) -> Any:
        answer = self.wire.ask(message, version)
        self.note_join(answer)
        return answer

    def note_join(self, answer: Any) -> None:
        self.seen.append(
            (
                "join",
                answer.error_code,
                answer.generation_id,
                answer.skip_assignment,
                bool(answer.member_id),
                answer.leader == answer.member_id,
                sorted(((m.group_instance_id or ""), bytes(m.metadata)) for m in answer.members),
            )
        )

    def sync(self, member_id: str, generation: int, assigned: bytes | None = None, **more: Any) -> None:
        given = [] if assigned is None else [SyncGroupRequestAssignment(member_id=member_id, assignment=assigned)]
        fields = {"protocol_type": "consumer", "protocol_name": "range", **more}
        message = SyncGroupRequest(
            group_id=_GROUP, member_id=member_id, generation_id=generation, assignments=given, **fields
        )
        answer = self.wire.ask(message, 5)
        self.seen.append(("sync", answer.error_code, bytes(answer.assignment)))

    def heartbeat(self, member_id: str, generation: int, **more: Any) -> None:
        message = HeartbeatRequest(group_id=_GROUP, member_id=member_id, generation_id=generation, **more)
        self.seen.append(("heartbeat", self.wire.ask(message, 4).error_code))

    def commit(self, member_id: str, generation: int, offset: int, *, version: int = 9, **more: Any) -> None:
        place = OffsetCommitRequestPartition(
            partition_index=more.pop("partition", 0), committed_offset=offset, committed_metadata=more.pop("note", "")
        )
        message = OffsetCommitRequest(
            group_id=more.pop("group_id", _GROUP),
            member_id=member_id,
            generation_id_or_member_epoch=generation,
            topics=[OffsetCommitRequestTopic(name=more.pop("topic", _TOPIC), partitions=[place])],
            **more,
        )
        answer = self.wire.ask(message, version)
        self.seen.append(("commit", answer.topics[0].partitions[0].error_code))

    def fetch(self, group_id: str = _GROUP) -> None:
        for topics in (None, [OffsetFetchRequestTopics(name=_TOPIC, partition_indexes=[0, 7])]):
            message = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group_id, topics=topics)])
            group = self.wire.ask(message, 9).groups[0]
            found = [
                (t.name, p.partition_index, p.committed_offset, p.metadata, p.error_code)
                for t in group.topics
                for p in t.partitions
            ]
            self.seen.append(("fetch", group.error_code, found))

    def leave(self, *members: MemberIdentity) -> None:
        answer = self.wire.ask(LeaveGroupRequest(group_id=_GROUP, members=list(members)), 5)
        self.seen.append(("leave", answer.error_code, [each.error_code for each in answer.members]))

    def describe(self, version: int = 6) -> None:
        asked = DescribeGroupsRequest(groups=[_GROUP, "nobody"], include_authorized_operations=True)
        answer = self.wire.ask(asked, version)
        self.seen.append(
            [
                (each.error_code, each.group_state, each.protocol_type, each.protocol_data, len(each.members))
                for each in answer.groups
            ]
        )
        self.seen.append([each.authorized_operations for each in answer.groups])

    def delete(self) -> None:
        answer = self.wire.ask(DeleteGroupsRequest(groups_names=[_GROUP, "nobody"]), 2)
        self.seen.append({each.group_id: each.error_code for each in answer.results})


def seen_by(address: str) -> list[Any]:
    """What is answered to a group's whole life, mistakes included."""
    session = Session(coordinator_of(address))
    session.fetch()
    session.commit("", -1, 5)
    session.commit("", -1, 5, topic="no-such-topic")
    session.commit("", -1, 5, note="x" * 5000)
    session.commit("", 3, 5)
    session.commit("nobody", 3, 5, group_id="unheard-of")
    session.commit("nobody", 3, 5, group_id="unheard-of", version=8)
    session.describe()
    short = joining()
    short.session_timeout_ms = 5
    session.join(short)
    session.join(joining("nobody"))
    session.join(joining(names=()))
    told = session.join(joining())
    one = session.join(joining(told.member_id)).member_id
    session.commit(one, 1, 6)
    session.describe()
    session.heartbeat(one, 1)
    session.sync(one, 1, protocol_name="sticky")
    session.sync(one, 1, protocol_type=None)
    session.sync(one, 1, protocol_name=None)
    session.sync(one, 2)
    session.sync("nobody", 1)
    session.sync(one, 1, b"all")
    session.sync(one, 1)
    session.join(joining(names=("sticky",)))
    session.commit(one, 1, 7)
    session.commit(one, 2, 8)
    session.commit("", -1, 8)
    session.commit("nobody", 1, 8)
    session.heartbeat(one, 0)
    session.heartbeat(one, 1, group_instance_id="static")
    session.describe()
    session.delete()
    session.second.send(joining(instance_id="static"), 9)
    give_up = time.monotonic() + _PATIENCE_S
    asking = HeartbeatRequest(group_id=_GROUP, member_id=one, generation_id=1)
    while session.wire.ask(asking, 4).error_code == 0:
        assert time.monotonic() < give_up
    session.heartbeat(one, 1)
    session.sync(one, 1)
    session.commit(one, 1, 9)
    session.describe()
    session.join(joining(one))
    static = session.second.answer(joining(), 9)
    session.note_join(static)
    session.sync(one, 2, b"mine")
    session.sync(static.member_id, 2, group_instance_id="static")
    back = session.join(joining(instance_id="static"))
    session.heartbeat(static.member_id, 2, group_instance_id="static")
    session.sync(back.member_id, 2, group_instance_id="static")
    session.leave(MemberIdentity(member_id="nobody"), MemberIdentity(group_instance_id="static"))
    session.heartbeat(one, 2)
    session.join(joining(one))
    session.leave(MemberIdentity(member_id=one))
    session.heartbeat(one, 3)
    session.describe(5)
    states = {each.group_id: each.group_state for each in session.wire.ask(ListGroupsRequest(), 5).groups}
    session.seen.append(states.get(_GROUP))
    session.commit("", -1, 10)
    session.fetch()
    session.delete()
    session.fetch()
    session.leave(MemberIdentity(member_id=one))
    session.wire.close()
    session.second.close()
    return session.seen


def test_a_groups_life_is_answered_as_by_apache_kafka(apache_kafka: str) -> None:
    admin = AdminClient({"bootstrap.servers": apache_kafka, "log_level": 0})
    admin.create_topics([NewTopic(_TOPIC, 1, 1)])[_TOPIC].result(_PATIENCE_S)
    # The controller has made it; the broker may hear of it a little later, and refuses commits for it until then.
    give_up = time.monotonic() + _PATIENCE_S
    while _TOPIC not in admin.list_topics(timeout=_PATIENCE_S).topics:
        assert time.monotonic() < give_up
    theirs = seen_by(apache_kafka)
    with Cluster(brokers=1) as cluster:
        cluster.create_topic(_TOPIC)
        ours = seen_by(cluster.bootstrap_servers)
    assert ours == theirs
