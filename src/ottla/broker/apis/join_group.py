"""JoinGroup, versions 0 to 9: a member takes part in the next generation; answered when all members have joined.

The leader's answer lists all members. The decisions are in `ottla.broker.groups`. A session timeout outside
`group.min.session.timeout.ms` and `group.max.session.timeout.ms` is INVALID_SESSION_TIMEOUT, an empty group id
INVALID_GROUP_ID, no protocol that all members know INCONSISTENT_GROUP_PROTOCOL, and so is a group whose members use the
protocol of KIP-848; from version 4 on new members first get their id, with MEMBER_ID_REQUIRED. Members need not be
consumers (Kafka Connect): their metadata is passed on as it is.
"""

from __future__ import annotations

from ottla.broker.apis.port import BrokerPort
from ottla.broker.refused import Refused
from ottla.broker.request import Request
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.join_group import JoinGroupResponse


def handle(broker: BrokerPort, request: Request, now_us: int) -> None:
    """Let the group take the request."""
    message, settings = request.message, broker.settings
    least, most = settings.group_min_session_timeout_ms, settings.group_max_session_timeout_ms
    try:
        if not message.group_id:
            raise Refused(ErrorCode.INVALID_GROUP_ID)
        if not least <= message.session_timeout_ms <= most:
            raise Refused(ErrorCode.INVALID_SESSION_TIMEOUT)
        if message.member_id:
            broker.groups.known(message.group_id, now_us)
        elif not message.protocol_type or not message.protocols:
            raise Refused(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        group = broker.groups.classic_group(message.group_id, now_us)
        members = group.classic
    except Refused as refusal:
        _refuse(broker, request, refusal, now_us)
        return
    try:
        members.join(request, now_us)
    except Refused as refusal:
        _refuse(broker, request, refusal, now_us)
    broker.groups.settle(group, now_us)


def _refuse(broker: BrokerPort, request: Request, refusal: Refused, now_us: int) -> None:
    member_id = refusal.member_id or request.message.member_id
    broker.answer(request, JoinGroupResponse(error_code=refusal.error_code, member_id=member_id), now_us)
