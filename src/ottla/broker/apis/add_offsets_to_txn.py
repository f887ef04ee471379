"""AddOffsetsToTxn, versions 0 to 4: a transaction is to commit offsets of a group (transaction version 1).

Adds the group's partition of `__consumer_offsets` to the transaction, so that it gets the marker; TxnOffsetCommit
follows. Where that topic does not exist: COORDINATOR_NOT_AVAILABLE. Another producer's epoch: PRODUCER_FENCED (before
version 2 INVALID_PRODUCER_EPOCH).
"""

from __future__ import annotations

from ottla.broker.apis.port import BrokerPort
from ottla.broker.internal_topics import partition_of_key
from ottla.broker.refused import Refused
from ottla.broker.request import Request
from ottla.broker.topic_names import OFFSETS_TOPIC
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse

_FENCED_FROM_VERSION = 2


def handle(broker: BrokerPort, request: Request, now_us: int) -> None:
    """Add the group's partition."""
    message: AddOffsetsToTxnRequest = request.message

    def done(error_code: int, later_us: int) -> None:
        if error_code == ErrorCode.PRODUCER_FENCED and request.version < _FENCED_FROM_VERSION:
            error_code = ErrorCode.INVALID_PRODUCER_EPOCH
        broker.answer(request, AddOffsetsToTxnResponse(error_code=error_code), later_us)

    topic = broker.image.topics.get(OFFSETS_TOPIC)
    if topic is None:
        done(ErrorCode.COORDINATOR_NOT_AVAILABLE, now_us)
        return
    place = (OFFSETS_TOPIC, partition_of_key(message.group_id, len(topic.partitions)))
    producer = (message.producer_id, message.producer_epoch)
    try:
        broker.transactions.add(message.transactional_id, producer, [place], 0, done, now_us)
    except Refused as refusal:
        done(refusal.error_code, now_us)
