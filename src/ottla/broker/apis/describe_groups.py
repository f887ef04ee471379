"""DescribeGroups, versions 0 to 6: state, protocol and members of groups.

A group that does not exist is Dead, from version 6 on with GROUP_ID_NOT_FOUND, and so are consumer groups (KIP-848),
which ConsumerGroupDescribe describes. A group that is named twice is described once. Members' metadata and assignments
are in the answer while the group is stable. Members' hosts are not known to a broker core and are empty.
"""

from __future__ import annotations

from ottla.broker.apis.port import BrokerPort
from ottla.broker.authorized_operations import grant_all
from ottla.broker.groups.consumer_group import ConsumerGroup
from ottla.broker.groups.group import Group
from ottla.broker.groups.members import GroupState
from ottla.broker.refused import Refused
from ottla.broker.request import Request
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.describe_groups import DescribedGroup, DescribedGroupMember, DescribeGroupsResponse

_NOT_FOUND_FROM_VERSION = 6


def handle(broker: BrokerPort, request: Request, now_us: int) -> None:
    """Describe them one by one."""
    described = [
        _describe(broker, group_id, request.version, now_us) for group_id in dict.fromkeys(request.message.groups)
    ]
    if request.message.include_authorized_operations:
        grant_all(described)
    broker.answer(request, DescribeGroupsResponse(groups=described), now_us)


def _describe(broker: BrokerPort, group_id: str, version: int, now_us: int) -> DescribedGroup:
    try:
        group = broker.groups.find(group_id, now_us)
    except Refused as refusal:
        return DescribedGroup(group_id=group_id, error_code=refusal.error_code)
    if group is not None and isinstance(group.members, Group):
        return _told(group.members)
    dead = DescribedGroup(group_id=group_id, group_state=GroupState.DEAD.value)
    if version >= _NOT_FOUND_FROM_VERSION:
        dead.error_code = ErrorCode.GROUP_ID_NOT_FOUND
        is_other = group is not None and isinstance(group.members, ConsumerGroup)
        dead.error_message = f"{group_id!r} is a consumer group" if is_other else f"there is no group {group_id!r}"
    return dead


def _told(group: Group) -> DescribedGroup:
    stable = group.state is GroupState.STABLE
    protocol = (group.protocol or "") if stable else ""
    return DescribedGroup(
        group_id=group.group_id,
        group_state=group.state.value,
        protocol_type=group.protocol_type or "",
        protocol_data=protocol,
        members=[
            DescribedGroupMember(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                client_id=member.client_id,
                member_metadata=member.protocols.get(protocol, b""),
                member_assignment=member.assignment if stable else b"",
            )
            for member in group.members.values()
        ],
    )
