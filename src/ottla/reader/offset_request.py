"""ListOffsets to one leader, and its answer: where partitions begin or end, or which record is the first since a time.

A reader sends it for its positions (`core.py`), an admin client for any partition (`client/partition_offsets.py`). Each
of them waits for the answers in its own way.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from ottla.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)

# Values of `replica_id` for senders that are no followers. For -2 (tools) the end is the log end offset; for -1 it is
# the high watermark or the last stable offset.
CLIENT = -1
OF_LOG = -2


class AskedOffset(NamedTuple):
    """`timestamp` is ms since 1970, -1 for the end or -2 for the beginning; `leader_epoch` -1 where it is not known."""

    topic: str
    partition: int
    leader_epoch: int
    timestamp: int


def list_offsets_request(
    asked: Iterable[AskedOffset], isolation_level: int, replica_id: int = CLIENT
) -> ListOffsetsRequest:
    """The request for these; with isolation level 1 (read_committed) the end is the last stable offset."""
    topics: dict[str, ListOffsetsTopic] = {}
    for each in asked:
        topic = topics.get(each.topic)
        if topic is None:
            topic = topics[each.topic] = ListOffsetsTopic(name=each.topic)
        topic.partitions.append(
            ListOffsetsPartition(
                partition_index=each.partition, current_leader_epoch=each.leader_epoch, timestamp=each.timestamp
            )
        )
    return ListOffsetsRequest(replica_id=replica_id, isolation_level=isolation_level, topics=list(topics.values()))


def told_offsets(response: ListOffsetsResponse) -> dict[tuple[str, int], ListOffsetsPartitionResponse]:
    """What the leader says of each partition, by topic and index; a partition that was asked for may be missing."""
    return {(topic.name, part.partition_index): part for topic in response.topics for part in topic.partitions}
