"""Heartbeat, versions 0 to 4: a member is alive, and learns with REBALANCE_IN_PROGRESS that it should join again.

UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, ILLEGAL_GENERATION and NOT_COORDINATOR as in Kafka.
"""

from __future__ import annotations

from ottla.broker.apis.port import BrokerPort
from ottla.broker.refused import Refused
from ottla.broker.request import Request
from ottla.protocol.messages.heartbeat import HeartbeatResponse


def handle(broker: BrokerPort, request: Request, now_us: int) -> None:
    """Note that the member is alive."""
    message, error_code, group = request.message, 0, None
    try:
        group = broker.groups.known(message.group_id, now_us)
        group.classic.heartbeat(message.member_id, message.group_instance_id, message.generation_id, now_us)
    except Refused as refusal:
        error_code = refusal.error_code
    broker.answer(request, HeartbeatResponse(error_code=error_code), now_us)
    if group is not None:
        broker.groups.settle(group, now_us)
