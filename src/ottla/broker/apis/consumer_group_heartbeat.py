"""ConsumerGroupHeartbeat, versions 0 and 1: a consumer group's member joins, stays, gets its partitions, and leaves.

The decisions are in `ottla.broker.groups` (KIP-848): `consumer_group.py`, and the checks of a request in
`heartbeat_checks.py`. Answered when all that the answer rests on is replicated. UNKNOWN_MEMBER_ID, FENCED_MEMBER_EPOCH,
UNRELEASED_INSTANCE_ID, FENCED_INSTANCE_ID, GROUP_MAX_SIZE_REACHED, UNSUPPORTED_ASSIGNOR, INVALID_REGULAR_EXPRESSION and
INVALID_REQUEST as in Kafka. A group that has members of the classic protocol is not taken over: GROUP_ID_NOT_FOUND, as
for a group that does not exist. With the broker setting `group.version=0`: UNSUPPORTED_VERSION.
"""

from __future__ import annotations

from ottla.broker.apis.port import BrokerPort
from ottla.broker.groups.heartbeat_checks import check_heartbeat
from ottla.broker.refused import Refused
from ottla.broker.request import Request
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse


def handle(broker: BrokerPort, request: Request, now_us: int) -> None:
    """Let the group take the request."""

    def answer(told: ConsumerGroupHeartbeatResponse | None, error_code: int, later_us: int) -> None:
        broker.answer(request, told or ConsumerGroupHeartbeatResponse(error_code=error_code), later_us)

    try:
        if not broker.settings.group_version:
            raise Refused(ErrorCode.UNSUPPORTED_VERSION)
        check_heartbeat(request.message, request.version)
        broker.groups.heartbeat(request, answer, now_us)
    except Refused as refusal:
        message = ConsumerGroupHeartbeatResponse(error_code=refusal.error_code, error_message=refusal.detail)
        broker.answer(request, message, now_us)
