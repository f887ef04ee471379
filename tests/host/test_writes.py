"""What a slow disk delays: each event that makes a broker append to its logs, and no other."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.broker.apis import VERSIONS
from ottla.broker.events import ConnectionLost, PeerAnswered, RequestReceived
from ottla.host.writes import makes_write
from ottla.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from ottla.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTransaction,
)
from ottla.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from ottla.protocol.messages.delete_groups import DeleteGroupsRequest
from ottla.protocol.messages.end_txn import EndTxnRequest
from ottla.protocol.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from ottla.protocol.messages.heartbeat import HeartbeatRequest
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest
from ottla.protocol.messages.join_group import JoinGroupRequest
from ottla.protocol.messages.leave_group import LeaveGroupRequest
from ottla.protocol.messages.metadata import MetadataRequest
from ottla.protocol.messages.offset_commit import OffsetCommitRequest
from ottla.protocol.messages.offset_delete import OffsetDeleteRequest
from ottla.protocol.messages.offset_fetch import OffsetFetchRequest
from ottla.protocol.messages.produce import ProduceRequest
from ottla.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from ottla.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from ottla.protocol.messages.write_txn_markers import WriteTxnMarkersRequest

VERIFIES = AddPartitionsToTxnTransaction(verify_only=True)
ADDS = AddPartitionsToTxnTransaction(verify_only=False)


def heartbeat(**fields: Any) -> ConsumerGroupHeartbeatRequest:
    unchanged = {"member_epoch": 3, "subscribed_topic_names": None, "topic_partitions": None}
    return ConsumerGroupHeartbeatRequest(**{**unchanged, **fields})


@pytest.mark.parametrize(
    "message",
    [
        ProduceRequest(),
        OffsetCommitRequest(),
        OffsetDeleteRequest(),
        DeleteGroupsRequest(),
        TxnOffsetCommitRequest(),
        AddOffsetsToTxnRequest(),
        AddPartitionsToTxnRequest(),
        AddPartitionsToTxnRequest(transactions=[VERIFIES, ADDS]),
        EndTxnRequest(),
        WriteTxnMarkersRequest(),
        InitProducerIdRequest(transactional_id="t"),
        SyncGroupRequest(assignments=[SyncGroupRequestAssignment(member_id="m", assignment=b"a")]),
        JoinGroupRequest(group_instance_id="i", member_id=""),
        LeaveGroupRequest(),
        heartbeat(member_epoch=0),
        heartbeat(member_epoch=-1),
        heartbeat(topic_partitions=[]),
        heartbeat(subscribed_topic_names=["t"]),
    ],
    ids=lambda each: type(each).__name__,
)
def test_requests_that_are_stored(message: Any) -> None:
    assert makes_write(RequestReceived(1, 1, VERSIONS[message.API_KEY][1], None, message))


@pytest.mark.parametrize(
    "message",
    [
        FetchRequest(),
        MetadataRequest(),
        OffsetFetchRequest(),
        HeartbeatRequest(),
        AddPartitionsToTxnRequest(transactions=[VERIFIES]),
        InitProducerIdRequest(transactional_id=None),
        SyncGroupRequest(),
        JoinGroupRequest(),
        heartbeat(),
    ],
    ids=lambda each: type(each).__name__,
)
def test_requests_that_store_nothing(message: Any) -> None:
    assert not makes_write(RequestReceived(1, 1, VERSIONS[message.API_KEY][1], None, message))


def test_a_follower_writes_what_it_has_fetched() -> None:
    def fetched(records: Any) -> PeerAnswered:
        topic = FetchableTopicResponse(topic="t", partitions=[PartitionData(partition_index=0, records=records)])
        return PeerAnswered(1, 1, FetchResponse(responses=[topic]))

    assert makes_write(fetched([b"batch"]))
    assert not any(map(makes_write, (fetched(None), fetched([]), PeerAnswered(1, 1, FetchResponse()))))
    assert not makes_write(PeerAnswered(1, 1, None))


def test_the_end_of_a_connection_is_no_write() -> None:
    assert not makes_write(ConnectionLost(1))
