"""The same heartbeats of consumer groups (KIP-848) to the embedded cluster and to Apache Kafka: the answers agree.

Apache Kafka computes assignments in another thread and once a second at most, unless it is told otherwise.
"""

from __future__ import annotations

import time
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from tests.wire import Wire
from tools.apache_kafka import ApacheKafka
from tools.kafka_jars import JarsUnavailable

from ottla.cluster.cluster import Cluster
from ottla.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from ottla.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, RequestTopicPartitions
from ottla.protocol.messages.delete_groups import DeleteGroupsRequest
from ottla.protocol.messages.describe_groups import DescribeGroupsRequest
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.heartbeat import HeartbeatRequest
from ottla.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from ottla.protocol.messages.list_groups import ListGroupsRequest
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics
from ottla.protocol.messages.sync_group import SyncGroupRequest

from ..needs import lacking

pytestmark = pytest.mark.kafka

_GROUP, _CLASSIC = "compared", "classic"
_TOPIC = "compared-topic"
_PATIENCE_S = 60
# What a coordinator answers that is being set up.
_NOT_YET = {14, 15, 16}


class Session:
    """Asks as members, and writes down what was answered."""

    def __init__(self, address: str) -> None:
        self.wire = Wire(address)
        self.wire.ask_until_ready(FindCoordinatorRequest(coordinator_keys=[_GROUP, _CLASSIC]), 6)
        self.wire.ask_until_ready(HeartbeatRequest(group_id=_GROUP, member_id="nobody"), 4)
        self.wire.ask_until_ready(HeartbeatRequest(group_id=_CLASSIC, member_id="nobody"), 4)
        asked = MetadataRequest(topics=[MetadataRequestTopic(name=_TOPIC)])
        self.topic_id = self.wire.ask(asked, 12).topics[0].topic_id
        self.owned: dict[str, list[int]] = {}
        self.epochs: dict[str, int] = {}
        self.seen: list[Any] = []

    def beat(self, member_id: str, /, *, version: int = 1, keeps: bool = False, **fields: Any) -> Any:
        """A heartbeat; the member gives up at once what it is told to, unless it `keeps` it."""
        owned = self.owned.get(member_id, [])
        places = [RequestTopicPartitions(topic_id=self.topic_id, partitions=owned)] if owned else []
        given = {
            "group_id": _GROUP,
            "member_id": member_id,
            "member_epoch": self.epochs.get(member_id, 0),
            "topic_partitions": places,
            **fields,
        }
        answer = self.wire.ask(ConsumerGroupHeartbeatRequest(**given), version)
        told = None
        if answer.assignment is not None:
            told = sorted(index for each in answer.assignment.topic_partitions for index in each.partitions)
        if not answer.error_code and answer.member_epoch >= 0:
            self.epochs[member_id] = answer.member_epoch
            if told is not None and not keeps:
                self.owned[member_id] = told
        self.seen.append(("beat", member_id, answer.error_code, answer.member_id, answer.member_epoch, told))
        return answer

    def join(self, member_id: str, /, **fields: Any) -> Any:
        self.owned[member_id], self.epochs[member_id] = [], 0
        joining = {"rebalance_timeout_ms": 60_000, "subscribed_topic_names": [_TOPIC], **fields}
        return self.beat(member_id, **joining)

    def describe(self, group_id: str = _GROUP) -> None:
        asked = ConsumerGroupDescribeRequest(group_ids=[group_id], include_authorized_operations=True)
        group = self.wire.ask(asked, 1).groups[0]
        members = sorted(
            (
                member.member_id,
                member.instance_id,
                member.member_epoch,
                sorted(member.subscribed_topic_names),
                member.subscribed_topic_regex,
                [(each.topic_name, sorted(each.partitions)) for each in member.assignment.topic_partitions],
                [(each.topic_name, sorted(each.partitions)) for each in member.target_assignment.topic_partitions],
                member.member_type,
            )
            for member in group.members
        )
        told = group.group_state, group.group_epoch, group.assignment_epoch, group.assignor_name
        self.seen.append(("describe", group.error_code, told, members, group.authorized_operations))

    def groups(self) -> None:
        listed = self.wire.ask(ListGroupsRequest(), 5).groups
        self.seen.append(sorted((each.group_id, each.group_type, each.group_state) for each in listed))
        told = self.wire.ask(DescribeGroupsRequest(groups=[_GROUP]), 6).groups[0]
        self.seen.append(("classic describe", told.error_code, told.group_state, len(told.members)))

    def commit(self, member_id: str, epoch: int, partition: int = 0, *, version: int = 9) -> None:
        place = OffsetCommitRequestPartition(partition_index=partition, committed_offset=5, committed_metadata="")
        message = OffsetCommitRequest(
            group_id=_GROUP,
            member_id=member_id,
            generation_id_or_member_epoch=epoch,
            topics=[OffsetCommitRequestTopic(name=_TOPIC, partitions=[place])],
        )
        self.seen.append(("commit", self.wire.ask(message, version).topics[0].partitions[0].error_code))

    def fetch(self, member_id: str | None, epoch: int) -> None:
        asked = OffsetFetchRequestGroup(
            group_id=_GROUP,
            member_id=member_id,
            member_epoch=epoch,
            topics=[OffsetFetchRequestTopics(name=_TOPIC, partition_indexes=[0])],
        )
        group = self.wire.ask(OffsetFetchRequest(groups=[asked]), 9).groups[0]
        offsets = [each.committed_offset for topic in group.topics for each in topic.partitions]
        self.seen.append(("fetch", group.error_code, offsets))

    def join_classic(self, group_id: str, member_id: str = "") -> str:
        """Join by the classic protocol, and lead; the member's id."""
        subscription = b"\0\0" + b"\0\0\0\0" + b"\xff\xff\xff\xff"
        message = JoinGroupRequest(
            group_id=group_id,
            member_id=member_id,
            session_timeout_ms=30_000,
            rebalance_timeout_ms=30_000,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=subscription)],
        )
        answer = self.wire.ask(message, 9)
        self.seen.append(("join", answer.error_code))
        return str(answer.member_id)

    def delete(self) -> None:
        answer = self.wire.ask(DeleteGroupsRequest(groups_names=[_GROUP]), 2)
        self.seen.append(("delete", answer.results[0].error_code))


def refusals(session: Session) -> None:
    """Heartbeats that are refused before there is a group."""
    session.describe()
    for fields in (
        {"group_id": ""},
        {"member_id": ""},
        {"instance_id": ""},
        {"rack_id": " "},
        {"rebalance_timeout_ms": -1},
        {"subscribed_topic_names": None},
        {"topic_partitions": None},
        {"member_epoch": -2},
        {"member_epoch": -3},
        {"server_assignor": "sticky"},
        {"subscribed_topic_regex": "("},
        {"member_epoch": 1},
        {"member_epoch": -1},
    ):
        session.join("one", **fields)
    session.describe()


def dynamic_members(session: Session) -> None:
    """Two members share, one gives up late, commits, mistakes, and one leaves."""
    session.join("one")
    session.beat("one")
    session.join("two")
    session.describe()
    session.beat("one", keeps=True)
    session.describe()
    session.beat("one", keeps=True)
    session.beat("two")
    session.commit("one", 2, 0)
    session.commit("one", 2, 3)
    session.owned["one"] = session.owned["one"][:2]
    session.beat("one")
    session.beat("two")
    session.describe()
    for member_id, epoch in (("one", 3), ("one", 2), ("one", 1), ("one", 4), ("nobody", 3), ("", -1)):
        session.commit(member_id, epoch)
        session.fetch(member_id or None, epoch)
    session.commit("one", 2, 3)
    session.commit("two", 2, 2)
    session.commit("one", 3, version=8)
    session.groups()
    session.delete()
    session.beat("one", member_epoch=4)
    session.beat("one", member_epoch=1)
    session.beat("one", member_epoch=2, topic_partitions=None)
    session.beat("one", member_epoch=2)
    session.beat("nobody", member_epoch=3)
    session.join("one")
    session.beat("two", server_assignor="range")
    session.beat("two", subscribed_topic_names=[_TOPIC, "not-there"])
    for _ in range(2):
        session.beat("one")
        session.beat("two")
    session.describe()
    session.beat("two", member_epoch=-1)
    session.beat("two", member_epoch=-1)
    session.describe()
    session.beat("one")
    session.describe()


def static_members(session: Session) -> None:
    """A member of the group comes back, and is mistaken for others."""
    session.join("static", instance_id="s")
    for _ in range(2):
        session.beat("one")
        session.beat("static", instance_id="s")
    session.join("early", instance_id="s")
    session.beat("other", instance_id="s", member_epoch=5)
    session.beat("other", instance_id="unheard-of", member_epoch=5)
    session.beat("static", instance_id="s", member_epoch=-2)
    session.beat("one")
    session.describe()
    session.join("back", instance_id="s")
    session.beat("static", instance_id="s", member_epoch=5)
    session.describe()
    session.beat("back", instance_id="s", member_epoch=-2)
    session.join("again", instance_id="s", subscribed_topic_names=["other"])
    session.beat("one")
    session.describe()
    session.beat("again", instance_id="s", member_epoch=-1)
    session.beat("one", member_epoch=-1)
    session.describe()


def other_protocol(session: Session) -> None:
    """Groups that are, or were, of the other protocol."""
    session.groups()
    newcomer = session.join_classic(_CLASSIC)
    newcomer = session.join_classic(_CLASSIC, newcomer)
    session.describe(_CLASSIC)
    session.join("one", group_id=_CLASSIC)
    session.fetch(None, -1)
    session.join("one")
    session.join_classic(_GROUP)
    session.join_classic(_GROUP, "nobody")
    heartbeat = HeartbeatRequest(group_id=_GROUP, member_id="one", generation_id=session.epochs["one"])
    session.seen.append(session.wire.ask(heartbeat, 4).error_code)
    session.beat("one", member_epoch=-1)
    session.join_classic(_GROUP, "nobody")
    told = session.join_classic(_GROUP)
    session.join_classic(_GROUP, told)
    sync = SyncGroupRequest(
        group_id=_GROUP, member_id=told, generation_id=1, protocol_type="consumer", protocol_name="range"
    )
    session.seen.append(session.wire.ask(sync, 5).error_code)
    session.join("one")
    session.fetch(None, -1)


def seen_by(address: str) -> list[Any]:
    session = Session(address)
    for part in (refusals, dynamic_members, static_members, other_protocol):
        part(session)
    session.wire.close()
    return session.seen


def test_a_consumer_groups_life_is_answered_as_by_apache_kafka() -> None:
    settings = {
        "group.consumer.assignment.interval.ms": 0,
        "group.consumer.assignor.offload.enable": "false",
        "group.consumer.migration.policy": "disabled",
        "group.coordinator.append.linger.ms": 0,
    }
    try:
        kafka = ApacheKafka(settings=settings)
    except JarsUnavailable as missing:
        lacking("kafka", missing)
    with kafka:
        admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers, "log_level": 0})
        admin.create_topics([NewTopic(_TOPIC, 4, 1)])[_TOPIC].result(_PATIENCE_S)
        give_up = time.monotonic() + _PATIENCE_S
        while _TOPIC not in admin.list_topics(timeout=_PATIENCE_S).topics:
            assert time.monotonic() < give_up
        theirs = seen_by(kafka.bootstrap_servers)
    with Cluster(brokers=1) as cluster:
        cluster.create_topic(_TOPIC, partitions=4)
        ours = seen_by(cluster.bootstrap_servers)
    assert ours == theirs
