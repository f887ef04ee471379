"""DescribeTransactions, version 0: what the coordinator knows of transactional ids (KIP-664).

Ids that are not in use get TRANSACTIONAL_ID_NOT_FOUND, those coordinated elsewhere NOT_COORDINATOR. A transaction that
has not begun has the start time -1.
"""

from __future__ import annotations

from ottla.broker.apis.port import BrokerPort
from ottla.broker.refused import Refused
from ottla.broker.request import Request
from ottla.broker.transactions.transaction import TransactionState
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.describe_transactions import DescribeTransactionsResponse, TopicData
from ottla.protocol.messages.describe_transactions import TransactionState as Described


def handle(broker: BrokerPort, request: Request, now_us: int) -> None:
    """Look the ids up."""
    asked = dict.fromkeys(request.message.transactional_ids)
    states = [_described(broker, transactional_id, now_us) for transactional_id in asked]
    broker.answer(request, DescribeTransactionsResponse(transaction_states=states), now_us)


def _described(broker: BrokerPort, transactional_id: str, now_us: int) -> Described:
    if not transactional_id:
        return Described(transactional_id=transactional_id, error_code=ErrorCode.INVALID_REQUEST)
    try:
        found = broker.transactions.find(transactional_id, now_us)
    except Refused as refusal:
        return Described(transactional_id=transactional_id, error_code=refusal.error_code)
    if found is None or found.data.state is TransactionState.DEAD:
        return Described(transactional_id=transactional_id, error_code=ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)
    data = found.data
    topics: dict[str, list[int]] = {}
    for topic, index in data.partitions:
        topics.setdefault(topic, []).append(index)
    return Described(
        transactional_id=transactional_id,
        transaction_state=data.state.value,
        transaction_timeout_ms=data.timeout_ms,
        transaction_start_time_ms=data.started_ms,
        producer_id=data.producer_id,
        producer_epoch=data.epoch,
        topics=[TopicData(topic=topic, partitions=indexes) for topic, indexes in topics.items()],
    )
