"""FindCoordinator, versions 0 to 6: the broker that leads the key's partition of an internal topic.

Groups (key type 0) are coordinated by the leader of their partition of `__consumer_offsets`, transactional ids (1) by
the leader of theirs of `__transaction_state`. At the first such request the controller makes that topic before the
answer (Apache Kafka answers "ask again" meanwhile). Where it cannot be made, or its partition has no leader, the answer
is COORDINATOR_NOT_AVAILABLE. There are no share groups: other kinds of keys get INVALID_REQUEST.
"""

from __future__ import annotations

from typing import Any

from ottla.broker.apis.port import BrokerPort
from ottla.broker.internal_topics import creation_of, partition_of_key
from ottla.broker.request import Request
from ottla.broker.topic_names import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.find_coordinator import Coordinator, FindCoordinatorResponse

_MANY_FROM_VERSION = 4
# Key type -> the topic whose partitions' leaders coordinate such keys.
_TOPICS = {0: OFFSETS_TOPIC, 1: TRANSACTIONS_TOPIC}


def handle(broker: BrokerPort, request: Request, now_us: int) -> None:
    """Answer at once, or when the topic has been made."""
    topic = _TOPICS.get(request.message.key_type)
    if topic is None or topic in broker.image.topics:
        broker.answer(request, _found(broker, request), now_us)
        return

    def made(answer: Any, later_us: int) -> None:
        broker.answer(request, _found(broker, request), later_us)

    broker.ask_controller(creation_of(topic, broker.settings, len(broker.image.brokers)), made)


def _found(broker: BrokerPort, request: Request) -> FindCoordinatorResponse:
    message = request.message
    if request.version >= _MANY_FROM_VERSION:
        return FindCoordinatorResponse(
            coordinators=[_coordinator(broker, request, key) for key in message.coordinator_keys]
        )
    one = _coordinator(broker, request, message.key)
    return FindCoordinatorResponse(
        error_code=one.error_code, error_message=one.error_message, node_id=one.node_id, host=one.host, port=one.port
    )


def _coordinator(broker: BrokerPort, request: Request, key: str) -> Coordinator:
    name = _TOPICS.get(request.message.key_type)
    if name is None:
        return _nobody(key, ErrorCode.INVALID_REQUEST, "this broker coordinates consumer groups and transactions only")
    topic = broker.image.topics.get(name)
    if topic is None:
        return _nobody(key, ErrorCode.COORDINATOR_NOT_AVAILABLE, f"{name} cannot be made")
    index = partition_of_key(key, len(topic.partitions))
    leader, _, address = broker.leader_of(name, index)
    if address is None:
        return _nobody(key, ErrorCode.COORDINATOR_NOT_AVAILABLE, f"{name}-{index} has no leader")
    host, port = address.on(request.listener)
    return Coordinator(key=key, node_id=leader, host=host, port=port, error_message=None)


def _nobody(key: str, error_code: int, detail: str) -> Coordinator:
    return Coordinator(key=key, node_id=-1, host="", port=-1, error_code=error_code, error_message=detail)
