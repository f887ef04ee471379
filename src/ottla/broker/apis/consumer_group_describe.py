"""ConsumerGroupDescribe, versions 0 and 1: state, epochs and members of consumer groups (KIP-848).

GROUP_ID_NOT_FOUND for groups that do not exist and for those of the classic protocol, which DescribeGroups describes. A
group that is named twice is described once. A member's assignment includes the partitions that it has still to give up.
Members' hosts are not known to a broker core and are empty. With the broker setting `group.version=0`:
UNSUPPORTED_VERSION.
"""

from __future__ import annotations

from collections.abc import Iterable

from ottla.broker.apis.port import BrokerPort
from ottla.broker.authorized_operations import grant_all
from ottla.broker.groups.assignors import TopicPartition
from ottla.broker.groups.consumer_group import ConsumerGroup, partitions_by_topic
from ottla.broker.refused import Refused
from ottla.broker.request import Request
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.consumer_group_describe import (
    Assignment,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
    Member,
    TopicPartitions,
)

_CONSUMER_MEMBER = 1


def handle(broker: BrokerPort, request: Request, now_us: int) -> None:
    """Describe them one by one."""
    groups = [_describe(broker, group_id, now_us) for group_id in dict.fromkeys(request.message.group_ids)]
    if request.message.include_authorized_operations:
        grant_all(groups)
    broker.answer(request, ConsumerGroupDescribeResponse(groups=groups), now_us)


def _describe(broker: BrokerPort, group_id: str, now_us: int) -> DescribedGroup:
    try:
        if not broker.settings.group_version:
            raise Refused(ErrorCode.UNSUPPORTED_VERSION)
        if not group_id:
            raise Refused(ErrorCode.INVALID_GROUP_ID)
        group = broker.groups.find(group_id, now_us)
        if group is None:
            raise Refused(ErrorCode.GROUP_ID_NOT_FOUND, detail=f"there is no group {group_id!r}")
        return _told(broker, group.consumers)
    except Refused as refusal:
        return DescribedGroup(group_id=group_id, error_code=refusal.error_code, error_message=refusal.detail)


def _told(broker: BrokerPort, group: ConsumerGroup) -> DescribedGroup:
    return DescribedGroup(
        group_id=group.group_id,
        group_state=group.state.value,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=group.assignor,
        members=[
            Member(
                member_id=member.member_id,
                instance_id=member.instance_id,
                rack_id=member.rack_id,
                member_epoch=member.epoch,
                client_id=member.client_id,
                subscribed_topic_names=[*member.topic_names],
                subscribed_topic_regex=member.topic_regex,
                assignment=_assignment(broker, [*member.assigned, *member.revoking]),
                target_assignment=_assignment(broker, member.target),
                member_type=_CONSUMER_MEMBER,
            )
            for member in group.members.values()
        ],
    )


def _assignment(broker: BrokerPort, places: Iterable[TopicPartition]) -> Assignment:
    """Partitions of topics that there are."""
    named = [
        (topic_id, broker.topic_ids.name_of(topic_id), indexes)
        for topic_id, indexes in partitions_by_topic([*places]).items()
    ]
    return Assignment(
        topic_partitions=[
            TopicPartitions(topic_id=topic_id, topic_name=name, partitions=indexes)
            for topic_id, name, indexes in named
            if name is not None
        ]
    )
