"""The checks of a ConsumerGroupHeartbeat that do not depend on its group (KIP-848)."""

from __future__ import annotations

from ottla.broker.groups.assignors import ASSIGNORS, Partitions
from ottla.broker.groups.consumer_member import JOINING_EPOCH, LEAVING_EPOCH, LEAVING_STATIC_EPOCH
from ottla.broker.patterns import PatternError, compile_pattern
from ottla.broker.refused import Refused
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest

# From here on members choose their ids themselves (KIP-1082).
_OWN_IDS_FROM_VERSION = 1


def check_heartbeat(message: ConsumerGroupHeartbeatRequest, version: int) -> None:
    """Refused with what is wrong: INVALID_REQUEST, UNSUPPORTED_ASSIGNOR or INVALID_REGULAR_EXPRESSION."""
    wrong = _mistake(message, version)
    if wrong is not None:
        raise Refused(ErrorCode.INVALID_REQUEST, detail=wrong)
    if message.server_assignor is not None and message.server_assignor not in ASSIGNORS:
        known = ", ".join(ASSIGNORS)
        raise Refused(
            ErrorCode.UNSUPPORTED_ASSIGNOR, detail=f"there is no assignor {message.server_assignor!r}, but {known}"
        )
    if message.subscribed_topic_regex:
        try:
            compile_pattern(message.subscribed_topic_regex)
        except PatternError as error:
            detail = f"the pattern {message.subscribed_topic_regex!r} cannot be used: {error}"
            raise Refused(ErrorCode.INVALID_REGULAR_EXPRESSION, detail=detail) from None


def owned_in(message: ConsumerGroupHeartbeatRequest) -> Partitions | None:
    """What the member says it owns; None where it does not say."""
    if message.topic_partitions is None:
        return None
    return {(topic.topic_id, index): None for topic in message.topic_partitions for index in topic.partitions}


def _mistake(message: ConsumerGroupHeartbeatRequest, version: int) -> str | None:
    epoch = message.member_epoch
    names_itself = version >= _OWN_IDS_FROM_VERSION or epoch > JOINING_EPOCH or epoch == LEAVING_EPOCH
    if names_itself and not message.member_id.strip():
        return "MemberId can't be empty."
    if not message.group_id.strip():
        return "GroupId can't be empty."
    for name, value in (("InstanceId", message.instance_id), ("RackId", message.rack_id)):
        if value is not None and not value.strip():
            return f"{name} can't be empty."
    if epoch == LEAVING_STATIC_EPOCH and message.instance_id is None:
        return "InstanceId can't be null."
    if epoch < LEAVING_STATIC_EPOCH:
        return "MemberEpoch is invalid."
    return _missing_in_a_join(message) if epoch == JOINING_EPOCH else None


def _missing_in_a_join(message: ConsumerGroupHeartbeatRequest) -> str | None:
    if message.rebalance_timeout_ms == -1:
        return "RebalanceTimeoutMs must be provided in first request."
    if message.topic_partitions is None or message.topic_partitions:
        return "TopicPartitions must be empty when (re-)joining."
    if message.subscribed_topic_names is None and message.subscribed_topic_regex is None:
        return "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining."
    return None
