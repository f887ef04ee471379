"""ListTransactions, versions 0 to 2: the transactional ids coordinated here (KIP-664).

Filters narrow the list: states, producer ids, from version 1 on those open for longer than so many milliseconds
(KIP-994), from version 2 on a pattern for transactional ids (KIP-1152; else INVALID_REGULAR_EXPRESSION).
States that do not exist are named in the answer. Patterns are those that consumer groups may subscribe by
(`broker/patterns.py`); the time they take is bounded for ids of up to 249 characters, and longer ones match none.
"""

from __future__ import annotations

from collections.abc import Container
from typing import TYPE_CHECKING, NamedTuple

from ottla.broker.apis.port import BrokerPort
from ottla.broker.patterns import PatternError, compile_pattern, matches
from ottla.broker.refused import Refused
from ottla.broker.request import Request
from ottla.broker.transactions.transaction import TransactionState
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from ottla.protocol.messages.list_transactions import TransactionState as Listed

if TYPE_CHECKING:
    import re

    from ottla.broker.transactions.transaction import Transaction


class _Filters(NamedTuple):
    """What a request asks for; what is empty, negative or None is not asked for."""

    states: Container[str]
    producer_ids: Container[int]
    duration_ms: int
    pattern: re.Pattern[str] | None


def handle(broker: BrokerPort, request: Request, now_us: int) -> None:
    """List what passes the filters."""
    message: ListTransactionsRequest = request.message
    names = [state.value for state in TransactionState]
    unknown = [name for name in message.state_filters if name not in names]
    try:
        pattern = compile_pattern(message.transactional_id_pattern) if message.transactional_id_pattern else None
    except PatternError:
        broker.answer(request, ListTransactionsResponse(error_code=ErrorCode.INVALID_REGULAR_EXPRESSION), now_us)
        return
    states, producer_ids = dict.fromkeys(message.state_filters), dict.fromkeys(message.producer_id_filters)
    filters = _Filters(states, producer_ids, message.duration_filter, pattern)
    try:
        listed = [
            Listed(
                transactional_id=each.transactional_id,
                producer_id=each.data.producer_id,
                transaction_state=each.data.state.value,
            )
            for each in broker.transactions.all_transactions(now_us)
            if _passes(filters, each, broker.wall_ms(now_us))
        ]
        answer = ListTransactionsResponse(unknown_state_filters=unknown, transaction_states=listed)
    except Refused as refusal:
        answer = ListTransactionsResponse(error_code=refusal.error_code)
    broker.answer(request, answer, now_us)


def _passes(filters: _Filters, transaction: Transaction, wall_ms: int) -> bool:
    data, transactional_id = transaction.data, transaction.transactional_id
    if data.state is TransactionState.DEAD:
        return False
    if filters.producer_ids and data.producer_id not in filters.producer_ids:
        return False
    if filters.states and data.state.value not in filters.states:
        return False
    if filters.duration_ms >= 0 and (data.started_ms < 0 or wall_ms - data.started_ms <= filters.duration_ms):
        return False
    if filters.pattern is None:
        return True
    return matches(filters.pattern, transactional_id)
