"""The ListOffsets request to one leader: where its partitions begin or end, or which record is the first since a time.

A reader asks so for its positions (`core.py`), and an admin for any partition (`client/partition_offsets.py`). Each of
them waits for the answers in its own way.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from ottla.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic

# Who asks, in the place of a follower's id. A tool that looks at replicas is told the end of the log, and not where
# clients may read up to.
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
    """Ask one leader about these; with the isolation level 1 (read_committed) the end is the last stable offset."""
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
