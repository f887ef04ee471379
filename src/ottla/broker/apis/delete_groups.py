"""DeleteGroups, versions 0 to 2: deletes groups without members, with their committed offsets.

NON_EMPTY_GROUP where there are members, GROUP_ID_NOT_FOUND where there is no such group, INVALID_GROUP_ID for an empty
id.
"""

from __future__ import annotations

from ottla.broker.apis.port import BrokerPort
from ottla.broker.refused import Refused
from ottla.broker.request import Request
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.delete_groups import DeletableGroupResult, DeleteGroupsResponse


def handle(broker: BrokerPort, request: Request, now_us: int) -> None:
    """Delete them one by one."""
    results = [
        DeletableGroupResult(group_id=group_id, error_code=_delete(broker, group_id, now_us))
        for group_id in dict.fromkeys(request.message.groups_names)
    ]
    broker.answer(request, DeleteGroupsResponse(results=results), now_us)


def _delete(broker: BrokerPort, group_id: str, now_us: int) -> int:
    try:
        if not group_id:
            raise Refused(ErrorCode.INVALID_GROUP_ID)
        group = broker.groups.find(group_id, now_us)
        if group is None:
            raise Refused(ErrorCode.GROUP_ID_NOT_FOUND)
        broker.groups.delete(group, now_us)
    except Refused as refusal:
        return refusal.error_code
    return 0
