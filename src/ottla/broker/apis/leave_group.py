"""LeaveGroup, versions 0 to 5: members leave at once, and the others rebalance.

One member up to version 2, with the error of the whole answer; many from version 3 on, each with its own error; a
static member may be named by its instance id alone, as admin tools do.
"""

from __future__ import annotations

from ottla.broker.apis.port import BrokerPort
from ottla.broker.refused import Refused
from ottla.broker.request import Request
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.leave_group import LeaveGroupResponse, MemberIdentity, MemberResponse

_MANY_FROM_VERSION = 3


def handle(broker: BrokerPort, request: Request, now_us: int) -> None:
    """Let the members go."""
    message, many = request.message, request.version >= _MANY_FROM_VERSION
    leaving = message.members if many else [MemberIdentity(member_id=message.member_id)]
    try:
        if not message.group_id:
            raise Refused(ErrorCode.INVALID_GROUP_ID)
        group = broker.groups.find(message.group_id, now_us)
    except Refused as refusal:
        broker.answer(request, LeaveGroupResponse(error_code=refusal.error_code), now_us)
        return
    results = []
    for each in leaving:
        error_code = 0
        try:
            if group is None:
                raise Refused(ErrorCode.UNKNOWN_MEMBER_ID)
            group.classic.leave(each.member_id, each.group_instance_id, now_us)
        except Refused as refusal:
            error_code = refusal.error_code
        results.append(
            MemberResponse(member_id=each.member_id, group_instance_id=each.group_instance_id, error_code=error_code)
        )
    if many:
        broker.answer(request, LeaveGroupResponse(members=results), now_us)
    else:
        broker.answer(request, LeaveGroupResponse(error_code=results[0].error_code), now_us)
    if group is not None:
        broker.groups.settle(group, now_us)
