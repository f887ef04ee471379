"""Which events make a broker append to its logs: what a slow disk delays.

A request counts by what it asks for: it may be refused, or change nothing. Not known here are appends without a request
that asks for them, such as a record that a transaction is complete.
"""

from __future__ import annotations

from typing import Any

from ottla.broker.events import PeerAnswered, RequestReceived
from ottla.protocol.messages import (
    ADD_OFFSETS_TO_TXN,
    ADD_PARTITIONS_TO_TXN,
    CONSUMER_GROUP_HEARTBEAT,
    DELETE_GROUPS,
    END_TXN,
    INIT_PRODUCER_ID,
    JOIN_GROUP,
    LEAVE_GROUP,
    OFFSET_COMMIT,
    OFFSET_DELETE,
    PRODUCE,
    SYNC_GROUP,
    TXN_OFFSET_COMMIT,
    WRITE_TXN_MARKERS,
)
from ottla.protocol.messages.fetch import FetchResponse

_ALWAYS = {
    PRODUCE,
    OFFSET_COMMIT,
    OFFSET_DELETE,
    DELETE_GROUPS,
    LEAVE_GROUP,
    TXN_OFFSET_COMMIT,
    ADD_OFFSETS_TO_TXN,
    END_TXN,
    WRITE_TXN_MARKERS,
}


def makes_write(event: Any) -> bool:
    """Whether a broker appends to a log when it handles this event: a request, or what a follower has fetched."""
    if type(event) is RequestReceived:
        return _asks_for_write(event.message)
    return type(event) is PeerAnswered and type(event.message) is FetchResponse and _has_records(event.message)


def _asks_for_write(message: Any) -> bool:
    api_key = message.API_KEY
    if api_key in _ALWAYS:
        return True
    if api_key == ADD_PARTITIONS_TO_TXN:
        # Leaders of partitions only ask whether a transaction has them (`verify_only`).
        return not message.transactions or not all(each.verify_only for each in message.transactions)
    if api_key == INIT_PRODUCER_ID:
        # Without a transactional id only the controller has to know it.
        return message.transactional_id is not None
    if api_key == JOIN_GROUP:
        # Others who join are stored when the leader of the group sends the assignment; this one may come back.
        return message.group_instance_id is not None and not message.member_id
    if api_key == SYNC_GROUP:
        return bool(message.assignments)
    if api_key == CONSUMER_GROUP_HEARTBEAT:
        # A member that joins or leaves, or that says something new.
        is_news = message.subscribed_topic_names is not None or message.topic_partitions is not None
        return message.member_epoch <= 0 or is_news
    return False


def _has_records(response: FetchResponse) -> bool:
    return any(part.records for topic in response.responses for part in topic.partitions)
