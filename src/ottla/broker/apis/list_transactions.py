"""ListTransactions, versions 0 to 2: the transactional ids coordinated here (KIP-664).

Filters narrow the list: states, producer ids, from version 1 on those open for longer than so many milliseconds
(KIP-994), from version 2 on a pattern for transactional ids (KIP-1152; else INVALID_REGULAR_EXPRESSION).
States that do not exist are named in the answer. Patterns have Python's syntax, Kafka's have RE2's: simple ones mean
the same.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ottla.broker.apis.port import BrokerPort
from ottla.broker.refused import Refused
from ottla.broker.request import Request
from ottla.broker.transactions.transaction import TransactionState
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from ottla.protocol.messages.list_transactions import TransactionState as Listed

if TYPE_CHECKING:
    from ottla.broker.transactions.transaction import Transaction


def handle(broker: BrokerPort, request: Request, now_us: int) -> None:
    """List what passes the filters."""
    message: ListTransactionsRequest = request.message
    names = [state.value for state in TransactionState]
    unknown = [name for name in message.state_filters if name not in names]
    try:
        pattern = re.compile(message.transactional_id_pattern) if message.transactional_id_pattern else None
    except re.error:
        broker.answer(request, ListTransactionsResponse(error_code=ErrorCode.INVALID_REGULAR_EXPRESSION), now_us)
        return
    try:
        listed = [
            Listed(
                transactional_id=each.transactional_id,
                producer_id=each.data.producer_id,
                transaction_state=each.data.state.value,
            )
            for each in broker.transactions.all_transactions(now_us)
            if _passes(message, pattern, each, broker.wall_ms(now_us))
        ]
        answer = ListTransactionsResponse(unknown_state_filters=unknown, transaction_states=listed)
    except Refused as refusal:
        answer = ListTransactionsResponse(error_code=refusal.error_code)
    broker.answer(request, answer, now_us)


def _passes(
    message: ListTransactionsRequest, pattern: re.Pattern[str] | None, transaction: Transaction, wall_ms: int
) -> bool:
    data = transaction.data
    if data.state is TransactionState.DEAD:
        return False
    if message.producer_id_filters and data.producer_id not in message.producer_id_filters:
        return False
    if message.state_filters and data.state.value not in message.state_filters:
        return False
    if message.duration_filter >= 0 and (data.started_ms < 0 or wall_ms - data.started_ms <= message.duration_filter):
        return False
    return pattern is None or pattern.fullmatch(transaction.transactional_id) is not None
