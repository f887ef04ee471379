"""Every version of the group APIs that is advertised is answered in a way that can be put on the wire."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.broker.apis import VERSIONS
from ottla.protocol.apis import REQUESTS
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.frames import decode_response, encode_response
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
from ottla.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
)
from ottla.protocol.messages.sync_group import SyncGroupRequest

from .group_world import GROUP, Client, asked_for
from .world import TOPIC, World

PROTOCOLS = [JoinGroupRequestProtocol(name="range", metadata=b"about me")]
TIMEOUTS = {"session_timeout_ms": 10_000, "rebalance_timeout_ms": 10_000}
GROUP_APIS = [8, 9, 10, 11, 12, 13, 14, 15, 16, 42]


def questions(client: Client) -> list[Any]:
    """Requests of all kinds, as a member, as an unknown member, and about groups that are not there."""
    by = {"group_id": GROUP, "member_id": client.member_id, "group_instance_id": client.instance_id}
    unknown = {"group_id": GROUP, "member_id": "nobody"}
    place = OffsetCommitRequestTopic(name=TOPIC, partitions=[OffsetCommitRequestPartition(committed_offset=3)])
    older = [OffsetFetchRequestTopic(name=TOPIC, partition_indexes=[0, 1])]
    newer = [OffsetFetchRequestGroup(group_id=name, topics=[asked_for(TOPIC, 0, 1)]) for name in (GROUP, "nobody")]
    joining = {"protocol_type": "consumer", "protocols": PROTOCOLS, **TIMEOUTS}
    leaving = [MemberIdentity(member_id="nobody"), MemberIdentity(group_instance_id=client.instance_id)]
    return [
        FindCoordinatorRequest(key=GROUP, coordinator_keys=[GROUP, "other"]),
        FindCoordinatorRequest(key=GROUP, key_type=1, coordinator_keys=[GROUP]),
        OffsetCommitRequest(topics=[place], generation_id_or_member_epoch=client.generation, **by),
        OffsetCommitRequest(topics=[place], generation_id_or_member_epoch=1, **unknown),
        OffsetFetchRequest(group_id=GROUP, topics=older, groups=newer),
        HeartbeatRequest(generation_id=client.generation, **by),
        HeartbeatRequest(generation_id=1, **unknown),
        SyncGroupRequest(generation_id=client.generation, **by),
        SyncGroupRequest(generation_id=1, **unknown),
        DescribeGroupsRequest(groups=[GROUP, "nobody"]),
        ListGroupsRequest(),
        JoinGroupRequest(**joining, **unknown),
        JoinGroupRequest(**joining, **by),
        JoinGroupRequest(**joining, **{**by, "member_id": ""}),
        JoinGroupRequest(**joining, group_id="new"),
        DeleteGroupsRequest(groups_names=[GROUP, "nobody"]),
        LeaveGroupRequest(group_id=GROUP, members=leaving, member_id="nobody"),
        LeaveGroupRequest(group_id="nobody", members=leaving, member_id="nobody"),
    ]


@pytest.mark.parametrize("absent", ["protocol_type", "protocol_name"])
def test_from_version_5_on_who_syncs_says_which_protocol_it_speaks(absent: str) -> None:
    world = World(1)
    client = Client(world)
    client.join()
    asked = {
        "group_id": GROUP,
        "member_id": client.member_id,
        "generation_id": client.generation,
        "protocol_type": "consumer",
        "protocol_name": "range",
    }
    message = SyncGroupRequest(**asked | {absent: None})
    assert world.ask(client.node, message, version=5).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert world.ask(client.node, message, version=4).error_code == 0


@pytest.mark.parametrize("api_key", GROUP_APIS)
def test_every_version_is_answered_on_the_wire(api_key: int) -> None:
    lowest, highest = VERSIONS[api_key]
    for version in range(lowest, highest + 1):
        world = World(1)
        world.create_topic()
        client = Client(world, instance_id="one")
        client.join()
        client.sync({client: b"all"})
        asked = [question for question in questions(client) if REQUESTS[api_key] is type(question)]
        assert asked
        for question in asked:
            answer = world.ask(client.node, question, version=version)
            assert not isinstance(answer, str), (version, question, answer)
            frame = b"".join(bytes(chunk) for chunk in encode_response(1, answer, version))
            _, read = decode_response(memoryview(frame)[4:], REQUESTS[api_key], version)
            assert b"".join(bytes(chunk) for chunk in encode_response(1, read, version)) == frame
            assert content_of(read, question, version), (version, question, read)


def content_of(answer: Any, question: Any, version: int) -> bool:
    """Whether the answer has a part for what the question names."""
    match question:
        case OffsetCommitRequest():
            return [[each.partition_index for each in topic.partitions] for topic in answer.topics] == [[0]]
        case OffsetFetchRequest():
            if version < 8:
                return [len(topic.partitions) for topic in answer.topics] == [2]
            return [[len(topic.partitions) for topic in group.topics] for group in answer.groups] == [[2], [2]]
        case FindCoordinatorRequest():
            return bool(answer.host) if version < 4 else len(answer.coordinators) == len(question.coordinator_keys)
        case DescribeGroupsRequest():
            return [each.group_id for each in answer.groups] == question.groups
        case ListGroupsRequest():
            return [each.group_id for each in answer.groups] == [GROUP]
        case DeleteGroupsRequest():
            return [each.group_id for each in answer.results] == question.groups_names
        case LeaveGroupRequest():
            return version < 3 or bool(answer.error_code) or len(answer.members) == len(question.members)
        case JoinGroupRequest():
            return bool(answer.error_code or answer.member_id)
    return True
