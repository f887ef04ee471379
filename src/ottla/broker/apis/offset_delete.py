"""OffsetDelete, version 0: forgets committed offsets of a group, partition by partition (KIP-496).

A group without members loses what is asked for. While its members are consumers, topics they subscribe to keep their
offsets (GROUP_SUBSCRIBED_TO_TOPIC); with other members none may be deleted (NON_EMPTY_GROUP). Partitions that do not
exist are UNKNOWN_TOPIC_OR_PARTITION; offsets that were never committed are no error.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from ottla.broker.apis.port import BrokerPort
from ottla.broker.groups.consumer_group import ConsumerGroup
from ottla.broker.groups.coordinated_group import CoordinatedGroup
from ottla.broker.refused import Refused
from ottla.broker.request import Request
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.errors import MalformedMessage
from ottla.protocol.messages.offset_delete import (
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from ottla.protocol.primitives import Decoder

_CONSUMERS = "consumer"


def handle(broker: BrokerPort, request: Request, now_us: int) -> None:
    """Delete what may be deleted."""
    message = request.message
    try:
        group = broker.groups.find(message.group_id, now_us)
        if group is None:
            raise Refused(ErrorCode.GROUP_ID_NOT_FOUND)
        if not group.members.is_empty and group.members.protocol_type != _CONSUMERS:
            raise Refused(ErrorCode.NON_EMPTY_GROUP)
        is_subscribed = _subscriptions(group)
        topics = [
            OffsetDeleteResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetDeleteResponsePartition(
                        partition_index=each.partition_index,
                        error_code=_fault(broker, is_subscribed, topic.name, each.partition_index),
                    )
                    for each in topic.partitions
                ],
            )
            for topic in message.topics
        ]
        places = [(t.name, p.partition_index) for t in topics for p in t.partitions if not p.error_code]
        broker.groups.forget(group, places, now_us)
    except Refused as refusal:
        broker.answer(request, OffsetDeleteResponse(error_code=refusal.error_code), now_us)
        return
    broker.answer(request, OffsetDeleteResponse(topics=topics), now_us)


def _fault(broker: BrokerPort, is_subscribed: Callable[[str], bool], topic: str, index: int) -> int:
    image = broker.image.topics.get(topic)
    if image is None or not 0 <= index < len(image.partitions):
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if is_subscribed(topic) else 0


def _subscriptions(group: CoordinatedGroup) -> Callable[[str], bool]:
    """Whether a consumer subscribes to a topic; one whose metadata cannot be read counts as subscribed to all.

    What members say is read once, whatever the request names.
    """
    if isinstance(group.members, ConsumerGroup):
        return cache(group.members.subscriptions())
    names: dict[str, None] = {}
    for member in group.members.members.values():
        for metadata in member.protocols.values():
            try:
                decoder = Decoder(metadata)
                decoder.int16()
                for _ in range(decoder.count(2)):
                    names[decoder.string()] = None
            except MalformedMessage:
                return lambda topic: True
    return lambda topic: topic in names
