"""The requests of a transaction as messages, and the error codes of answers about many partitions."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ottla.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from ottla.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest
from ottla.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)

if TYPE_CHECKING:
    from ottla.producer.events import CommitOffsets
    from ottla.producer.transaction_states import TransactionIdentity

Place = tuple[str, int]


def initialize(transactional_id: str, timeout_ms: int, known: tuple[int, int]) -> InitProducerIdRequest:
    """Ask for an identity; `known` is the (producer id, epoch) to go on from, -1 each for none (KIP-360)."""
    return InitProducerIdRequest(
        transactional_id=transactional_id,
        transaction_timeout_ms=timeout_ms,
        producer_id=known[0],
        producer_epoch=known[1],
    )


def add_partitions(identity: TransactionIdentity, places: Iterable[Place]) -> AddPartitionsToTxnRequest:
    """Add partitions to the transaction, which version 1 needs."""
    topics: dict[str, list[int]] = {}
    for topic, partition in places:
        topics.setdefault(topic, []).append(partition)
    return AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=identity.transactional_id,
        v3_and_below_producer_id=identity.producer_id,
        v3_and_below_producer_epoch=identity.producer_epoch,
        v3_and_below_topics=[AddPartitionsToTxnTopic(name=name, partitions=found) for name, found in topics.items()],
    )


def added_places(message: AddPartitionsToTxnRequest) -> list[Place]:
    """Return the partitions in a request of `add_partitions`."""
    return [(topic.name, index) for topic in message.v3_and_below_topics for index in topic.partitions]


def partition_codes(response: Any) -> dict[Place, int]:
    """Return the error codes of an answer to `add_partitions`."""
    return {
        (topic.name, each.partition_index): each.partition_error_code
        for topic in response.results_by_topic_v3_and_below
        for each in topic.results_by_partition
    }


def add_offsets(identity: TransactionIdentity, group_id: str) -> AddOffsetsToTxnRequest:
    """Add a group to the transaction before its offsets, which version 1 needs."""
    return AddOffsetsToTxnRequest(
        transactional_id=identity.transactional_id,
        producer_id=identity.producer_id,
        producer_epoch=identity.producer_epoch,
        group_id=group_id,
    )


def commit_offsets(identity: TransactionIdentity, wanted: CommitOffsets) -> TxnOffsetCommitRequest:
    """Commit offsets with the transaction, at the group's coordinator."""
    topics: dict[str, list[TxnOffsetCommitRequestPartition]] = {}
    for topic, partition, offset, leader_epoch, metadata in wanted.offsets:
        row = TxnOffsetCommitRequestPartition(
            partition_index=partition,
            committed_offset=offset,
            committed_leader_epoch=leader_epoch,
            committed_metadata=metadata,
        )
        topics.setdefault(topic, []).append(row)
    return TxnOffsetCommitRequest(
        transactional_id=identity.transactional_id,
        group_id=wanted.group_id,
        producer_id=identity.producer_id,
        producer_epoch=identity.producer_epoch,
        generation_id=wanted.generation_id,
        member_id=wanted.member_id,
        group_instance_id=wanted.group_instance_id,
        topics=[TxnOffsetCommitRequestTopic(name=name, partitions=rows) for name, rows in topics.items()],
    )


def offset_codes(response: Any) -> dict[Place, int]:
    """Return the error codes of an answer to `commit_offsets`."""
    return {
        (topic.name, each.partition_index): each.error_code for topic in response.topics for each in topic.partitions
    }
