"""EndTxn, versions 0 to 5: commits or aborts the open transaction of a producer.

Answered as soon as the outcome is in the coordinator's log; the markers follow. While they are written, each EndTxn of
the producer is answered with CONCURRENT_TRANSACTIONS; afterwards, the same request again is answered with NONE.
Version 5 (KIP-890) raises the producer's epoch and answers with the one to use from now on; it can abort though no
transaction is open. Another producer's epoch: PRODUCER_FENCED (before version 2 INVALID_PRODUCER_EPOCH); the other
outcome: INVALID_TXN_STATE.
"""

from __future__ import annotations

from ottla.broker.apis.port import BrokerPort
from ottla.broker.refused import Refused
from ottla.broker.request import Request
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse

_FENCED_FROM_VERSION = 2
_EPOCH_RAISED_FROM_VERSION = 5


def handle(broker: BrokerPort, request: Request, now_us: int) -> None:
    """Have the coordinator end the transaction."""
    message: EndTxnRequest = request.message

    def done(error_code: int, producer_id: int, epoch: int, later_us: int) -> None:
        if error_code == ErrorCode.PRODUCER_FENCED and request.version < _FENCED_FROM_VERSION:
            error_code = ErrorCode.INVALID_PRODUCER_EPOCH
        answer = EndTxnResponse(error_code=error_code, producer_id=producer_id, producer_epoch=epoch)
        broker.answer(request, answer, later_us)

    client_version = 2 if request.version >= _EPOCH_RAISED_FROM_VERSION else 0
    producer = (message.producer_id, message.producer_epoch)
    try:
        broker.transactions.end(message.transactional_id, producer, message.committed, client_version, done, now_us)
    except Refused as refusal:
        done(refusal.error_code, -1, -1, now_us)
