"""SyncGroup, versions 0 to 5: the leader gives the assignment, everybody gets theirs when it has.

UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, ILLEGAL_GENERATION, INCONSISTENT_GROUP_PROTOCOL (another protocol than the
group chose) and REBALANCE_IN_PROGRESS as in Kafka. Members that do not sync within the longest rebalance timeout are
out of the group.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.groups.members import GroupRefusal
from ottla.broker.request import Request
from ottla.protocol.messages.sync_group import SyncGroupResponse

if TYPE_CHECKING:
    from ottla.broker.core import BrokerCore


def handle(core: BrokerCore, request: Request, now_us: int) -> None:
    """Let the group take the request."""
    try:
        group = core.groups.known(request.message.group_id, now_us)
        group.sync(request, now_us)
    except GroupRefusal as refusal:
        core.answer(request, SyncGroupResponse(error_code=refusal.error_code), now_us)
        return
    core.groups.settle(group, now_us)
