"""Committed offsets: where they are kept, who may commit, and what is left after a restart."""

from __future__ import annotations

import errno
from typing import Any

import pytest

from ottla.broker.groups.members import GroupState
from ottla.broker.groups.offsets import CommittedOffset, group_key, offset_key, read_entry
from ottla.broker.internal_topics import partition_of_key
from ottla.broker.topic_names import OFFSETS_TOPIC
from ottla.broker.topic_settings import TopicSettings
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.errors import MalformedMessage
from ottla.protocol.messages.delete_groups import DeleteGroupsRequest
from ottla.protocol.messages.delete_topics import DeleteTopicsRequest
from ottla.protocol.messages.describe_groups import DescribeGroupsRequest
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.list_groups import ListGroupsRequest
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from ottla.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)

from .group_world import (
    GROUP,
    Client,
    asked_for,
    commit,
    committed,
    find_coordinator,
    offsets_partition,
    stable_pair,
)
from .transaction_world import Producer
from .world import TOPIC, WALL_OFFSET_US, World, batch_of


def restarted(world: World) -> World:
    world.close()
    return World(len(world.brokers), world.storages)


@pytest.mark.parametrize(
    ("group_id", "code"),
    [
        ("", 0),
        ("a", 97),
        ("readers", 1080410128),
        ("flights-by-day", 1091065808),
        ("polygenelubricants", 0),
        ("grüße", 98768023),
        ("𝄞", 1772394),
    ],
)
def test_a_groups_partition_is_that_of_javas_hash(group_id: str, code: int) -> None:
    """Hashes as Java gives them, without their sign; the fifth is Integer.MIN_VALUE, which Kafka takes as 0."""
    assert [partition_of_key(group_id, count) for count in (3, 50, 1 << 31)] == [code % 3, code % 50, code]


def test_the_first_to_look_for_a_coordinator_has_the_topic_made(replicated: World) -> None:
    answer = replicated.ask(2, FindCoordinatorRequest(key=GROUP), version=1)
    topic = replicated.controller.image.topics[OFFSETS_TOPIC]
    assert [len(each.replicas) for each in topic.partitions] == [3, 3, 3]
    leader = topic.partitions[partition_of_key(GROUP, 3)].leader
    assert (answer.error_code, answer.node_id, answer.port) == (0, leader, 9090 + leader)
    wanted = MetadataRequest(topics=[MetadataRequestTopic(name=OFFSETS_TOPIC)])
    assert replicated.ask(1, wanted).topics[0].is_internal


def test_without_a_controller_there_is_no_coordinator_yet(world: World) -> None:
    world.without_controller = True
    answer = world.ask(1, FindCoordinatorRequest(coordinator_keys=[GROUP, "other"]), version=4)
    assert [each.error_code for each in answer.coordinators] == [ErrorCode.COORDINATOR_NOT_AVAILABLE] * 2


def test_share_groups_have_no_coordinator(world: World) -> None:
    answer = world.ask(1, FindCoordinatorRequest(key="g:t:0", key_type=2), version=3)
    assert answer.error_code == ErrorCode.INVALID_REQUEST


def test_offsets_are_committed_and_fetched(world: World) -> None:
    first, _ = stable_pair(world)
    assert committed(world) == {}
    assert first.commit(41) == first.commit(42, metadata="halfway") == 0
    assert committed(world) == {(TOPIC, 0): (42, 3, "halfway")}
    group = OffsetFetchRequestGroup(group_id=GROUP, topics=[asked_for(TOPIC, 0, 1), asked_for("other", 0)])
    found = world.ask(first.node, OffsetFetchRequest(groups=[group]), version=8).groups[0].topics
    assert [(t.name, [(p.committed_offset, p.error_code) for p in t.partitions]) for t in found] == [
        (TOPIC, [(42, 0), (-1, 0)]),
        ("other", [(-1, 0)]),
    ]


@pytest.mark.parametrize("version", [1, 2, 5, 7])
def test_older_clients_fetch_one_groups_offsets(world: World, version: int) -> None:
    assert commit(world, 7) == 0
    topics = [OffsetFetchRequestTopic(name=TOPIC, partition_indexes=[0])]
    answer = world.ask(1, OffsetFetchRequest(group_id=GROUP, topics=topics), version=version)
    assert answer.topics[0].partitions[0].committed_offset == 7


def test_an_unknown_member_commits_only_while_the_group_is_empty(world: World) -> None:
    assert commit(world, 7) == 0
    client = Client(world)
    client.join()
    assert client.commit(8) == ErrorCode.REBALANCE_IN_PROGRESS
    assert commit(world, 8) == ErrorCode.UNKNOWN_MEMBER_ID
    client.sync({client: b"all"})
    assert client.commit(8, generation_id_or_member_epoch=7) == ErrorCode.ILLEGAL_GENERATION
    assert client.commit(8, member_id="nobody") == ErrorCode.UNKNOWN_MEMBER_ID
    assert commit(world, 8, group_id="unheard of", generation_id_or_member_epoch=1) == ErrorCode.GROUP_ID_NOT_FOUND
    assert committed(world) == {(TOPIC, 0): (7, 3, "")}


def test_only_partitions_there_are_and_short_metadata_are_committed(world: World) -> None:
    assert commit(world, 1, topic="no such topic") == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert commit(world, 1, partition=1) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert commit(world, 1, metadata="m" * 4097) == ErrorCode.OFFSET_METADATA_TOO_LARGE
    assert commit(world, 1, metadata="m" * 4096) == 0


def test_offsets_count_when_they_are_replicated(replicated: World) -> None:
    node = find_coordinator(replicated)
    replicated.unreachable.add(node % 3 + 1)
    message = commit(replicated, 5)
    assert message == "waiting"
    assert committed(replicated) == {}
    replicated.unreachable.clear()
    replicated.pass_time(1_000)
    assert committed(replicated) == {(TOPIC, 0): (5, 3, "")}


def test_who_waits_too_long_for_replicas_is_told_to_ask_again(replicated: World) -> None:
    client = Client(replicated)
    client.join()
    client.sync({client: b"all"})
    replicated.unreachable.add(client.node % 3 + 1)
    before = replicated.last_connection
    assert client.commit(5) == "waiting"
    replicated.pass_time(5_100)
    (answer,) = replicated.answers[before + 1]
    assert answer.topics[0].partitions[0].error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_a_full_disk_commits_nothing(world: World) -> None:
    client = Client(world)
    client.join()
    client.sync({client: b"all"})
    world.storages[1].failure, world.storages[1].failing = errno.ENOSPC, OFFSETS_TOPIC
    assert client.commit(5) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    world.storages[1].failure = None
    assert committed(world) == {}
    assert client.commit(6) == 0


def test_offsets_survive_a_restart(world: World) -> None:
    for number in range(20):
        assert commit(world, number, group_id=f"group-{number % 7}") == 0
    again = restarted(world)
    assert {n: committed(again, group_id=f"group-{n}")[TOPIC, 0][0] for n in range(7)} == {
        n: max(k for k in range(20) if k % 7 == n) for n in range(7)
    }


def test_members_survive_a_restart_of_their_coordinator(world: World) -> None:
    client, other = Client(world, instance_id="one"), Client(world)
    client.join()
    other.join()
    client.join()
    other.sync()
    client.sync({client: b"mine", other: b"yours"})
    again = restarted(world)
    client.world = other.world = again
    assert (client.heartbeat(), other.heartbeat()) == (0, 0)
    assert other.sync().assignment == b"yours"
    assert other.commit(3) == 0
    again.pass_time(10_100)
    assert client.heartbeat() == ErrorCode.UNKNOWN_MEMBER_ID


def test_records_are_laid_out_as_kafkas(world: World) -> None:
    """Keys and values written out byte by byte from Kafka's descriptors."""
    assert commit(world, 258, metadata="m") == 0
    (record,) = world.stored(OFFSETS_TOPIC, offsets_partition(world))
    assert record.key == b"\0\1" + b"\0\7readers" + b"\0\7flights" + b"\0\0\0\0"
    assert record.value is not None
    assert record.value[:-8] == b"\0\3" + b"\0\0\0\0\0\0\1\2" + b"\0\0\0\3" + b"\0\1m"
    assert offset_key(GROUP, TOPIC, 0) == record.key
    assert group_key(GROUP) == b"\0\2\0\7readers"


def test_what_is_not_understood_in_the_topic_is_passed_over(world: World) -> None:
    assert commit(world, 1) == 0
    record = world.stored(OFFSETS_TOPIC, offsets_partition(world))[0]
    assert record.key is not None
    assert record.value is not None
    cut = [(record.key[:size], record.value) for size in range(len(record.key))]
    cut += [(record.key, record.value[:size]) for size in range(len(record.value))]
    newer = [(b"\0\7" + record.key[2:], record.value), (record.key, b"\0\4" + record.value[2:])]
    for key, value in cut + newer:
        assert understood(key, value) is None


def test_clients_cannot_write_the_topic(world: World) -> None:
    find_coordinator(world)
    answer = world.produce(batch_of(b"forged"), topic=OFFSETS_TOPIC)
    assert answer.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


def test_offsets_of_a_deleted_topic_go_with_it(world: World) -> None:
    world.create_topic("kept")
    assert commit(world, 5) == commit(world, 6, topic="kept") == 0
    world.ask(1, DeleteTopicsRequest(topic_names=[TOPIC]))
    world.create_topic()
    assert committed(world) == committed(restarted(world)) == {("kept", 0): (6, 3, "")}


def test_groups_are_listed_and_described(world: World) -> None:
    first, second = stable_pair(world)
    commit(world, 1, group_id="idle")
    listed = world.ask(first.node, ListGroupsRequest()).groups
    assert sorted((g.group_id, g.protocol_type, g.group_state, g.group_type) for g in listed) == [
        ("idle", "", "Empty", "classic"),
        (GROUP, "consumer", "Stable", "classic"),
    ]
    (stable,) = world.ask(first.node, ListGroupsRequest(states_filter=["stable"])).groups
    assert stable.group_id == GROUP
    assert world.ask(first.node, ListGroupsRequest(types_filter=["consumer"])).groups == []
    told = world.ask(first.node, DescribeGroupsRequest(groups=[GROUP, "nobody"]), version=6).groups
    assert (told[0].group_state, told[0].protocol_data) == (GroupState.STABLE.value, "range")
    assert [(m.member_id, m.client_id, m.member_assignment) for m in told[0].members] == [
        (first.member_id, "test", b"first half"),
        (second.member_id, "test", b"second half"),
    ]
    assert (told[1].group_state, told[1].error_code) == ("Dead", ErrorCode.GROUP_ID_NOT_FOUND)
    assert world.ask(1, DescribeGroupsRequest(groups=["nobody"]), version=5).groups[0].error_code == 0


def test_only_groups_without_members_are_deleted(world: World) -> None:
    client = Client(world)
    client.join()
    client.sync({client: b"all"})
    client.commit(5)

    def delete() -> list[int]:
        answer = world.ask(client.node, DeleteGroupsRequest(groups_names=[GROUP, "nobody", ""]), version=2)
        return [each.error_code for each in answer.results]

    wrong = [ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.INVALID_GROUP_ID]
    assert delete() == [ErrorCode.NON_EMPTY_GROUP, *wrong]
    client.leave()
    assert delete() == [0, *wrong]
    assert committed(world) == committed(restarted(world)) == {}


def delete_offsets(world: World, node: int, *partitions: int, topic: str = TOPIC, group_id: str = GROUP) -> Any:
    asked = OffsetDeleteRequestTopic(
        name=topic, partitions=[OffsetDeleteRequestPartition(partition_index=index) for index in partitions]
    )
    answer = world.ask(node, OffsetDeleteRequest(group_id=group_id, topics=[asked]), version=0)
    return answer.error_code or [each.error_code for topic in answer.topics for each in topic.partitions]


def test_single_offsets_of_a_group_nobody_is_in_are_deleted(world: World) -> None:
    commit(world, 5)
    node = find_coordinator(world)
    assert list(committed(world)) == [(TOPIC, 0)]
    assert delete_offsets(world, node, 0, 99) == [0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert delete_offsets(world, node, 0, topic="nope") == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert delete_offsets(world, node, 0, group_id="nobody") == ErrorCode.GROUP_ID_NOT_FOUND
    assert committed(world) == committed(restarted(world)) == {}


def test_offsets_of_topics_somebody_subscribes_to_stay(world: World) -> None:
    def subscription(*topics: str) -> bytes:
        names = b"".join(len(name).to_bytes(2, "big") + name.encode() for name in topics)
        return b"\0\0" + len(topics).to_bytes(4, "big") + names + b"\xff\xff\xff\xff"

    world.create_topic("weather")
    client = Client(world, protocols={"range": subscription("weather")})
    client.join()
    client.sync({client: b"all"})
    client.commit(5)
    assert delete_offsets(world, client.node, 0) == [0]
    assert delete_offsets(world, client.node, 0, topic="weather") == [ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC]
    assert committed(world) == {}


def test_offsets_stay_while_others_than_consumers_are_in_the_group(world: World) -> None:
    client = Client(world)
    client.member_id = client.join_once(protocol_type="connect").member_id
    client.join_once(protocol_type="connect")
    assert delete_offsets(world, client.node, 0) == ErrorCode.NON_EMPTY_GROUP


def test_a_full_disk_deletes_no_offsets(world: World) -> None:
    commit(world, 5)
    node = find_coordinator(world)
    world.storages[node].failure = 28
    assert delete_offsets(world, node, 0) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert list(committed(world)) == [(TOPIC, 0)]


def test_offsets_are_committed_and_fetched_by_topic_id(world: World) -> None:
    node = find_coordinator(world)
    topic_id, strange = world.controller.image.topics[TOPIC].topic_id, bytes(range(16))
    asked = [OffsetCommitRequestPartition(partition_index=0, committed_offset=5)]
    topics = [OffsetCommitRequestTopic(topic_id=each, partitions=list(asked)) for each in (topic_id, strange)]
    answer = world.ask(node, OffsetCommitRequest(group_id=GROUP, topics=topics), version=10)
    told = [(topic.topic_id, topic.partitions[0].error_code) for topic in answer.topics]
    assert told == [(topic_id, 0), (strange, ErrorCode.UNKNOWN_TOPIC_ID)]
    assert committed(world) == {(TOPIC, 0): (5, -1, "")}

    def fetched(*topic_ids: bytes) -> list[tuple[bytes, int, int]]:
        wanted = [OffsetFetchRequestTopics(topic_id=each, partition_indexes=[0]) for each in topic_ids]
        group = OffsetFetchRequestGroup(group_id=GROUP, topics=wanted or None)
        (found,) = world.ask(node, OffsetFetchRequest(groups=[group]), version=10).groups
        return [(t.topic_id, p.committed_offset, p.error_code) for t in found.topics for p in t.partitions]

    assert fetched(strange, topic_id) == [(strange, -1, ErrorCode.UNKNOWN_TOPIC_ID), (topic_id, 5, 0)]
    assert fetched() == [(topic_id, 5, 0)]


def test_a_group_s_old_commits_and_deleted_groups_leave_the_log() -> None:
    world = World(1, log_cleaner_backoff_ms=1000, offsets_topic_num_partitions=1)
    world.create_topic()
    find_coordinator(world)
    partition = world.brokers[1].topics[OFFSETS_TOPIC][0]
    settings = TopicSettings(
        [
            ("cleanup.policy", "compact"),
            ("segment.bytes", "1024"),
            ("min.cleanable.dirty.ratio", "0"),
            ("delete.retention.ms", "1000"),
        ],
        world.settings,
    )
    partition.configure(settings)
    commit(world, 7, group_id="given-up")
    assert world.ask(1, DeleteGroupsRequest(groups_names=["given-up"]), version=2).results[0].error_code == 0
    for _ in range(3):
        for offset in range(50):
            commit(world, offset)
        world.pass_time(3_000)
    stored = world.stored(OFFSETS_TOPIC)
    assert len(stored) < 40
    assert not any(b"given-up" in (record.key or b"") for record in stored)
    assert committed(restarted(world))[TOPIC, 0][0] == 49


def understood(key: bytes, value: bytes | None) -> Any:
    """What a record of the topic says, None where it is not understood."""
    try:
        return read_entry(key, value)
    except MalformedMessage:
        return None


@pytest.mark.parametrize("in_transaction", [False, True])
def test_the_time_of_a_commit_is_that_of_the_wall_clock(world: World, in_transaction: bool) -> None:
    if in_transaction:
        producer = Producer(world)
        producer.init()
        assert producer.commit_offset(GROUP, 5) == 0
    else:
        commit(world, 5)
    records = world.stored(OFFSETS_TOPIC, offsets_partition(world))
    entries = [
        understood(record.key, record.value)
        for record in records
        if record.key is not None and record.value is not None
    ]
    [told] = [entry[2] for entry in entries if entry is not None and isinstance(entry[2], CommittedOffset)]
    assert 0 <= (WALL_OFFSET_US + world.now_us) // 1000 - told.committed_ms < 60_000
