"""ListPartitionReassignments, version 0: the partitions whose replicas are being moved (KIP-455).

All of them, or those that the request names; one that is named and does not move, or does not exist, is left out, as in
Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Iterable

from ottla.broker.apis.port import BrokerPort
from ottla.broker.events import TopicImage
from ottla.broker.request import Request
from ottla.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)


def handle(broker: BrokerPort, request: Request, now_us: int) -> None:
    """List them."""
    topics = broker.image.topics
    asked = request.message.topics
    wanted: Iterable[tuple[TopicImage | None, Iterable[int]]]
    if asked is None:
        wanted = [(topic, range(len(topic.partitions))) for topic in topics.values()]
    else:
        wanted = [(topics.get(each.name), each.partition_indexes) for each in asked]
    told = []
    for topic, indexes in wanted:
        partitions = [] if topic is None else _moving(topic, indexes)
        if topic is not None and partitions:
            told.append(OngoingTopicReassignment(name=topic.name, partitions=partitions))
    broker.answer(request, ListPartitionReassignmentsResponse(error_message=None, topics=told), now_us)


def _moving(topic: TopicImage, indexes: Iterable[int]) -> list[OngoingPartitionReassignment]:
    found = []
    for index in indexes:
        if 0 <= index < len(topic.partitions) and topic.partitions[index].is_moving:
            partition = topic.partitions[index]
            found.append(
                OngoingPartitionReassignment(
                    partition_index=index,
                    replicas=list(partition.replicas),
                    adding_replicas=list(partition.adding),
                    removing_replicas=list(partition.removing),
                )
            )
    return found
