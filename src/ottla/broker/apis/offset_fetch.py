"""OffsetFetch, versions 1 to 10: what a group has committed; -1 for partitions it has committed nothing for.

One group up to version 7, many from version 8 on; no topics (null, from version 2 on) means all that are committed.
Unknown groups have committed nothing. Errors (NOT_COORDINATOR, COORDINATOR_NOT_AVAILABLE) concern a whole group; in
version 1 every partition has them. From version 9 on a member of a consumer group (KIP-848) gives its id and epoch: an
unknown id is UNKNOWN_MEMBER_ID, another epoch than the member's STALE_MEMBER_EPOCH. Classic members are not checked.
With `require_stable` (version 7 on, KIP-447) a partition whose offset an open transaction commits gets
UNSTABLE_OFFSET_COMMIT: ask again when it is decided. Version 10 names topics by id; one that no topic has is
UNKNOWN_TOPIC_ID.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ottla.broker.apis.port import BrokerPort
from ottla.broker.groups.offsets import CommittedOffset
from ottla.broker.refused import Refused
from ottla.broker.request import Request
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.offset_fetch import (
    OffsetFetchRequestGroup,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)

_MANY_FROM_VERSION = 8
_ERROR_AT_TOP_FROM_VERSION = 2
_TOPIC_IDS_FROM_VERSION = 10
_NOTHING = CommittedOffset(-1, -1, "", -1)
Asked = list[tuple[str, list[int]]]


def handle(broker: BrokerPort, request: Request, now_us: int) -> None:
    """Look the offsets up."""
    message = request.message
    if request.version >= _MANY_FROM_VERSION:
        by_id = request.version >= _TOPIC_IDS_FROM_VERSION
        groups = []
        for each in message.groups:
            if by_id:
                broker.topic_ids.name_all(each.topics or [], "name")
            group = _group(broker, each, message.require_stable, now_us)
            if by_id:
                _put_ids(broker, group, each.topics)
            groups.append(group)
        broker.answer(request, OffsetFetchResponse(groups=groups), now_us)
        return
    alone = OffsetFetchRequestGroup(group_id=message.group_id, topics=message.topics)
    found = _group(broker, alone, message.require_stable, now_us)
    topics = [OffsetFetchResponseTopic(name=topic.name, partitions=_older(topic)) for topic in found.topics]
    if request.version < _ERROR_AT_TOP_FROM_VERSION:
        if found.error_code:
            topics = [_failed(name, indexes, found.error_code) for name, indexes in _asked(message.topics) or ()]
        broker.answer(request, OffsetFetchResponse(topics=topics), now_us)
        return
    broker.answer(request, OffsetFetchResponse(topics=topics, error_code=found.error_code), now_us)


def _put_ids(broker: BrokerPort, group: OffsetFetchResponseGroup, asked: Sequence[Any] | None) -> None:
    """Fill in topic ids: those asked for, or, where all were asked for, those of the topics that exist."""
    if asked is None:
        known = broker.image.topics
        group.topics = [topic for topic in group.topics if topic.name in known]
        for topic in group.topics:
            topic.topic_id = known[topic.name].topic_id
        return
    for topic, wanted in zip(group.topics, asked, strict=False):
        topic.topic_id = wanted.topic_id
        if wanted.name is None:
            for each in topic.partitions:
                each.error_code = ErrorCode.UNKNOWN_TOPIC_ID


def _asked(topics: Iterable[object] | None) -> Asked | None:
    if topics is None:
        return None
    return [(topic.name, list(topic.partition_indexes)) for topic in topics]  # type: ignore[attr-defined]


def _group(
    broker: BrokerPort, wanted: OffsetFetchRequestGroup, require_stable: bool, now_us: int
) -> OffsetFetchResponseGroup:
    group_id, asked = wanted.group_id, _asked(wanted.topics)
    try:
        group = broker.groups.find(group_id, now_us)
        if group is not None:
            group.check_fetch(wanted.member_id, wanted.member_epoch)
    except Refused as refusal:
        return OffsetFetchResponseGroup(group_id=group_id, error_code=refusal.error_code)
    offsets = group.offsets if group is not None else {}
    unstable = group.unstable_places() if require_stable and group is not None else {}
    if asked is None:
        places: dict[str, list[int]] = {}
        for name, index in offsets:
            places.setdefault(name, []).append(index)
        asked = list(places.items())
    topics = [
        OffsetFetchResponseTopics(
            name=name,
            partitions=[
                _unstable(index)
                if (name, index) in unstable
                else _partition(index, offsets.get((name, index), _NOTHING))
                for index in indexes
            ],
        )
        for name, indexes in asked
    ]
    return OffsetFetchResponseGroup(group_id=group_id, topics=topics)


def _partition(index: int, committed: CommittedOffset) -> OffsetFetchResponsePartitions:
    return OffsetFetchResponsePartitions(
        partition_index=index,
        committed_offset=committed.offset,
        committed_leader_epoch=committed.leader_epoch,
        metadata=committed.metadata,
    )


def _unstable(index: int) -> OffsetFetchResponsePartitions:
    return OffsetFetchResponsePartitions(
        partition_index=index, committed_offset=-1, error_code=ErrorCode.UNSTABLE_OFFSET_COMMIT
    )


def _older(topic: OffsetFetchResponseTopics) -> list[OffsetFetchResponsePartition]:
    return [
        OffsetFetchResponsePartition(
            partition_index=each.partition_index,
            committed_offset=each.committed_offset,
            committed_leader_epoch=each.committed_leader_epoch,
            metadata=each.metadata,
            error_code=each.error_code,
        )
        for each in topic.partitions
    ]


def _failed(name: str, indexes: list[int], error_code: int) -> OffsetFetchResponseTopic:
    return OffsetFetchResponseTopic(
        name=name,
        partitions=[
            OffsetFetchResponsePartition(partition_index=index, committed_offset=-1, error_code=error_code)
            for index in indexes
        ],
    )
