"""DescribeProducers, version 0: the producers a partition remembers, and which have a transaction open (KIP-664).

Any replica answers: tools that look for hanging transactions ask each broker about all that it holds. Other brokers
answer NOT_LEADER_OR_FOLLOWER.
"""

from __future__ import annotations

from ottla.broker.apis.port import BrokerPort
from ottla.broker.request import Request
from ottla.protocol.messages.describe_producers import (
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)


def handle(broker: BrokerPort, request: Request, now_us: int) -> None:
    """Describe the producers of each partition named."""
    topics = [
        TopicResponse(
            name=topic.name, partitions=[_described(broker, topic.name, index) for index in topic.partition_indexes]
        )
        for topic in request.message.topics
    ]
    broker.answer(request, DescribeProducersResponse(topics=topics), now_us)


def _described(broker: BrokerPort, topic: str, index: int) -> PartitionResponse:
    partition = broker.topics.get(topic, {}).get(index)
    if partition is None or partition.log is None:
        refused = broker.why_not_here(topic, index)
        return PartitionResponse(partition_index=index, error_code=refused.error_code, error_message=refused.detail)
    producers = [
        ProducerState(
            producer_id=entry.producer_id,
            producer_epoch=entry.producer_epoch,
            last_sequence=entry.last_sequence,
            last_timestamp=entry.timestamp_ms,
            coordinator_epoch=entry.coordinator_epoch,
            current_txn_start_offset=entry.current_txn_first_offset,
        )
        for entry in partition.log.producers.entries()
    ]
    return PartitionResponse(partition_index=index, active_producers=producers)
