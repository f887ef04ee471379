"""SyncGroup, versions 0 to 5: the leader sends the assignment, and then each member gets its own.

UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, ILLEGAL_GENERATION, INCONSISTENT_GROUP_PROTOCOL (another protocol than the group
chose; from version 5 on, none) and REBALANCE_IN_PROGRESS as in Kafka. Members that do not sync within the longest
rebalance timeout are out of the group.
"""

from __future__ import annotations

from ottla.broker.apis.port import BrokerPort
from ottla.broker.refused import Refused
from ottla.broker.request import Request
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.sync_group import SyncGroupResponse

# From this version on the protocol and its type must be named (KIP-559).
_NAMES_PROTOCOL_FROM = 5


def handle(broker: BrokerPort, request: Request, now_us: int) -> None:
    """Let the group take the request."""
    message = request.message
    if request.version >= _NAMES_PROTOCOL_FROM and (message.protocol_type is None or message.protocol_name is None):
        broker.answer(request, SyncGroupResponse(error_code=ErrorCode.INCONSISTENT_GROUP_PROTOCOL), now_us)
        return
    try:
        group = broker.groups.known(message.group_id, now_us)
        group.classic.sync(request, now_us)
    except Refused as refusal:
        broker.answer(request, SyncGroupResponse(error_code=refusal.error_code), now_us)
        return
    broker.groups.settle(group, now_us)
