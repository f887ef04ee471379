"""Metadata, versions 0 to 13: the brokers, and the leader and replicas of each partition.

All topics, or those named (from version 10 on also by topic id), each once. Unknown topics get
UNKNOWN_TOPIC_OR_PARTITION or UNKNOWN_TOPIC_ID; where `auto.create.topics.enable` is set and the client allows it, they
are made first, with the broker's number of partitions and replicas (Apache Kafka answers "unknown" while it makes
them). Internal topics are not made here. Authorized operations, where asked for, are all, as with a broker without an
authorizer. The controller's id is that of a broker that passes administrative requests on; every broker does.
"""

from __future__ import annotations

from collections.abc import Sequence

from ottla.broker.apis.port import BrokerPort
from ottla.broker.authorized_operations import CLUSTER_OPERATIONS, TOPIC_OPERATIONS
from ottla.broker.events import BrokerAddress, ClusterImage, TopicImage
from ottla.broker.request import Request
from ottla.broker.topic_names import INTERNAL_TOPICS, topic_name_fault
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.message import ZERO_UUID
from ottla.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.protocol.messages.metadata import (
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

_NULL_MEANS_ALL_FROM_VERSION = 1
_NULL_NAMES_FROM_VERSION = 12


def handle(broker: BrokerPort, request: Request, now_us: int) -> None:
    """Answer from the image the controller published last, or when it has made what is missing."""
    message = request.message
    missing = _missing(broker.image, message.topics or ()) if message.allow_auto_topic_creation else []
    if not missing or not broker.settings.auto_create_topics_enable:
        _answer(broker, request, now_us)
        return
    broker.ask_controller(_creation(missing), lambda _, later_us: _answer(broker, request, later_us))


def _missing(image: ClusterImage, asked: Sequence[MetadataRequestTopic]) -> list[str]:
    """The topics asked for that do not exist and may be made."""
    names = [topic.name for topic in asked if topic.name is not None and topic.topic_id == ZERO_UUID]
    unknown = [name for name in dict.fromkeys(names) if name not in image.topics and name not in INTERNAL_TOPICS]
    return [name for name in unknown if topic_name_fault(name) is None]


def _creation(names: list[str]) -> CreateTopicsRequest:
    return CreateTopicsRequest(
        topics=[CreatableTopic(name=name, num_partitions=-1, replication_factor=-1) for name in names]
    )


def _answer(broker: BrokerPort, request: Request, now_us: int) -> None:
    image, message = broker.image, request.message
    asked = message.topics
    if asked is None or (not asked and request.version < _NULL_MEANS_ALL_FROM_VERSION):
        topics = [_known(topic) for topic in image.topics.values()]
    else:
        # Once each, as in Apache Kafka: a topic may have ten thousand partitions.
        once = {(topic.name, topic.topic_id): topic for topic in asked}
        topics = [_find(broker, topic, request.version) for topic in once.values()]
    response = MetadataResponse(
        brokers=[_broker(address, request.listener) for address in image.brokers],
        cluster_id=image.cluster_id,
        controller_id=image.controller_id,
        topics=topics,
    )
    if message.include_cluster_authorized_operations:
        response.cluster_authorized_operations = CLUSTER_OPERATIONS
    if message.include_topic_authorized_operations:
        for topic in topics:
            topic.topic_authorized_operations = TOPIC_OPERATIONS
    broker.answer(request, response, now_us)


def _broker(address: BrokerAddress, listener: str) -> MetadataResponseBroker:
    host, port = address.on(listener)
    return MetadataResponseBroker(node_id=address.broker_id, host=host, port=port, rack=address.rack)


def _find(broker: BrokerPort, asked: MetadataRequestTopic, version: int) -> MetadataResponseTopic:
    topics = broker.image.topics
    if asked.name is None or asked.topic_id != ZERO_UUID:
        known = broker.topic_ids.name_of(asked.topic_id)
        if known is not None:
            return _known(topics[known])
        name = asked.name if version >= _NULL_NAMES_FROM_VERSION else asked.name or ""
        return MetadataResponseTopic(error_code=ErrorCode.UNKNOWN_TOPIC_ID, name=name, topic_id=asked.topic_id)
    found = topics.get(asked.name)
    if found is not None:
        return _known(found)
    wrong = topic_name_fault(asked.name) is not None
    code = ErrorCode.INVALID_TOPIC_EXCEPTION if wrong else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return MetadataResponseTopic(error_code=code, name=asked.name, is_internal=asked.name in INTERNAL_TOPICS)


def _known(topic: TopicImage) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.name in INTERNAL_TOPICS,
        partitions=[
            MetadataResponsePartition(
                error_code=0 if partition.leader >= 0 else ErrorCode.LEADER_NOT_AVAILABLE,
                partition_index=index,
                leader_id=partition.leader,
                leader_epoch=partition.leader_epoch,
                replica_nodes=list(partition.replicas),
                isr_nodes=list(partition.isr),
            )
            for index, partition in enumerate(topic.partitions)
        ],
    )
