"""OffsetCommit, versions 2 to 10: offsets of a group, stored in `__consumer_offsets` before the answer.

A member of the current generation may commit, or anybody without a generation while the group has no members. Members
of consumer groups (KIP-848) commit from version 9 on, in their own epoch or an older one in which they owned the
partitions already, else STALE_MEMBER_EPOCH. Partitions that do not exist get UNKNOWN_TOPIC_OR_PARTITION, metadata of
more than `offset.metadata.max.bytes` OFFSET_METADATA_TOO_LARGE; the others are stored together. A generation of a group
that does not exist is GROUP_ID_NOT_FOUND, before version 9 ILLEGAL_GENERATION. `retention_time_ms` is ignored, as in
Kafka since 2.1. Version 10 names topics by id; one that no topic has is UNKNOWN_TOPIC_ID.
"""

from __future__ import annotations

from collections.abc import Iterable

from ottla.broker.apis.port import BrokerPort
from ottla.broker.groups.offsets import CommittedOffset
from ottla.broker.refused import Refused
from ottla.broker.request import Request
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

_GROUP_MAY_BE_UNKNOWN_FROM_VERSION = 9
_TOPIC_IDS_FROM_VERSION = 10


def handle(broker: BrokerPort, request: Request, now_us: int) -> None:
    """Check the offsets, then the member, and store them."""
    message: OffsetCommitRequest = request.message
    offsets: dict[tuple[str, int], CommittedOffset] = {}
    errors: dict[tuple[str, int], int] = {}
    if request.version >= _TOPIC_IDS_FROM_VERSION:
        broker.topic_ids.name_all(message.topics, "name")
    for topic in message.topics:
        for asked in topic.partitions:
            place = (topic.name, asked.partition_index)
            metadata = asked.committed_metadata or ""
            error_code = offset_fault(broker, place, metadata)
            if error_code:
                errors[place] = error_code
            else:
                offset, epoch = asked.committed_offset, asked.committed_leader_epoch
                offsets[place] = CommittedOffset(offset, epoch, metadata, broker.wall_ms(now_us))

    def answer(error_code: int, later_us: int) -> None:
        broker.answer(request, _response(message, errors, error_code), later_us)

    group = None
    try:
        group = broker.groups.find(message.group_id, now_us)
        generation = message.generation_id_or_member_epoch
        if group is None:
            if generation >= 0:
                named = request.version >= _GROUP_MAY_BE_UNKNOWN_FROM_VERSION
                raise Refused(ErrorCode.GROUP_ID_NOT_FOUND if named else ErrorCode.ILLEGAL_GENERATION)
            group = broker.groups.find_or_make(message.group_id, now_us)
        member = message.member_id, message.group_instance_id, generation
        group.check_commit(member, topic_partitions(broker, offsets), request.version, now_us)
        if offsets:
            broker.groups.commit(group, offsets, answer, now_us)
        else:
            answer(0, now_us)
    except Refused as refusal:
        answer(refusal.error_code, now_us)
    if group is not None:
        broker.groups.settle(group, now_us)


def topic_partitions(broker: BrokerPort, places: Iterable[tuple[str, int]]) -> list[tuple[bytes, int]]:
    """Partitions of topics that there are, with the topics' ids in place of their names."""
    topics = broker.image.topics
    return [(topics[name].topic_id, index) for name, index in places]


def offset_fault(broker: BrokerPort, place: tuple[str | None, int], metadata: str) -> int:
    """The error code that keeps an offset of this partition from being committed; 0 for none. No name: unknown id."""
    name, index = place
    if name is None:
        return ErrorCode.UNKNOWN_TOPIC_ID
    topic = broker.image.topics.get(name)
    if topic is None or not 0 <= index < len(topic.partitions):
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    too_long = len(metadata.encode()) > broker.settings.offset_metadata_max_bytes
    return ErrorCode.OFFSET_METADATA_TOO_LARGE if too_long else 0


def _response(
    message: OffsetCommitRequest, errors: dict[tuple[str, int], int], error_code: int
) -> OffsetCommitResponse:
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=[
                    OffsetCommitResponsePartition(
                        partition_index=asked.partition_index,
                        error_code=errors.get((topic.name, asked.partition_index), error_code),
                    )
                    for asked in topic.partitions
                ],
            )
            for topic in message.topics
        ]
    )
