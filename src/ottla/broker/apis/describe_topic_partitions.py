"""DescribeTopicPartitions, version 0: topics with their partitions, page by page (KIP-966).

Topics come sorted by name, all of them where none is named. A page ends after as many partitions as the client
wants, at most 2000; its cursor says where the next one begins. There are no eligible leader replicas. Authorized
operations: all.
"""

from __future__ import annotations

from ottla.broker.apis.port import BrokerPort
from ottla.broker.authorized_operations import TOPIC_OPERATIONS
from ottla.broker.events import TopicImage
from ottla.broker.request import Request
from ottla.broker.topic_names import INTERNAL_TOPICS, topic_name_fault
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
    ResponseCursor,
)

_PAGE_MAX = 2000  # Kafka's max.request.partition.size.limit


def handle(broker: BrokerPort, request: Request, now_us: int) -> None:
    """Answer from the image the controller published last."""
    message, image = request.message, broker.image
    everything = not message.topics
    names = sorted(dict.fromkeys([topic.name for topic in message.topics]) if message.topics else image.topics)
    begin = 0
    if message.cursor is not None:
        names = [name for name in names if name >= message.cursor.topic_name]
        if names and names[0] == message.cursor.topic_name:
            begin = message.cursor.partition_index
        if message.cursor.partition_index < 0:
            wrong = [_unknown(name, ErrorCode.INVALID_REQUEST) for name in names]
            broker.answer(request, DescribeTopicPartitionsResponse(topics=wrong), now_us)
            return
    left = max(1, min(message.response_partition_limit, _PAGE_MAX))
    response = DescribeTopicPartitionsResponse(next_cursor=None)
    for name in names:
        if left == 0:
            response.next_cursor = ResponseCursor(topic_name=name, partition_index=0)
            break
        topic = image.topics.get(name)
        if topic is None:
            if not everything:
                fault = topic_name_fault(name) is not None
                code = ErrorCode.INVALID_TOPIC_EXCEPTION if fault else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                response.topics.append(_unknown(name, code))
            continue
        told = _told(topic, begin, left)
        response.topics.append(told)
        left -= len(told.partitions)
        if begin + len(told.partitions) < len(topic.partitions):
            response.next_cursor = ResponseCursor(topic_name=name, partition_index=begin + len(told.partitions))
            break
        begin = 0
    broker.answer(request, response, now_us)


def _unknown(name: str, error_code: int) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(
        error_code=error_code,
        name=name,
        is_internal=name in INTERNAL_TOPICS,
        topic_authorized_operations=TOPIC_OPERATIONS,
    )


def _told(topic: TopicImage, begin: int, count: int) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.name in INTERNAL_TOPICS,
        topic_authorized_operations=TOPIC_OPERATIONS,
        partitions=[
            DescribeTopicPartitionsResponsePartition(
                error_code=0 if partition.leader >= 0 else ErrorCode.LEADER_NOT_AVAILABLE,
                partition_index=index,
                leader_id=partition.leader,
                leader_epoch=partition.leader_epoch,
                replica_nodes=list(partition.replicas),
                isr_nodes=list(partition.isr),
                eligible_leader_replicas=[],
                last_known_elr=[],
            )
            for index, partition in enumerate(topic.partitions[begin : begin + count], start=begin)
        ],
    )
